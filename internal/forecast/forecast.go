// Package forecast estimates when the jobs of a snapshot start and complete. It simulates the cluster
// from the snapshot on.
package forecast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/parallel"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/report"
)

// Decider decides valid snapshots, as *chain.Chain does.
type Decider interface {
	Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error)
}

// Jobs forecasts the jobs of a valid snapshot, in order, until ctx is done. budget is the time budget
// of decisions whose options set none; 0 means no budget.
func Jobs(
	ctx context.Context, decider Decider, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions, budget time.Duration,
) (solver.Forecast, error) {
	if !f.EveryEvent {
		o = o.WithCadence(f.Cadence)
	}
	backend := o.Backend
	s = withDefaultErrors(s, &f, &o).WithReferenceETAs()
	o.Backend = "" // A policy uses only its backend. A forecast falls back to other backends, as a decision does.
	policy := sim.Request{Options: o}
	futures, complete, err := simulate(ctx, o.AcquireWorker, len(s.Jobs),
		f.Samples, func(ctx context.Context, sample int) (sim.Future, error) {
			decider := &forecastDecider{decider: decider, backend: backend, budget: budget}
			return sim.Forecast(ctx, s, sampleInput(s, &f, sample), policy, f.Cadence, f.Until, decider)
		})
	if err != nil {
		return solver.Forecast{}, err
	}
	forecast := solver.Forecast{Jobs: make([]solver.JobForecast, len(s.Jobs))}
	for _, future := range futures {
		forecast.Decisions += int64(future.Decisions)
		forecast.Stalled = forecast.Stalled || future.Stalled
	}
	forecast.Complete = complete && !forecast.Stalled
	total, queue := mean{}, mean{}
	for i := range s.Jobs {
		forecast.Jobs[i].JobID = s.Jobs[i].ID
		summarize(&forecast.Jobs[i], futures, i, &total, &queue)
	}
	forecast.MeanTotal, forecast.MeanQueue = total.value(), queue.value()
	return forecast, nil
}

// errIncomplete means that ctx was done before the end of a sample.
var errIncomplete = errors.New("the simulation is incomplete")

// simulate simulates samples, in parallel as far as acquire grants workers. It returns the complete
// samples, in order, or the partial first sample if none is complete.
func simulate(
	ctx context.Context, acquire solver.AcquireWorker, jobs, samples int, sample func(context.Context, int) (sim.Future, error),
) (futures []sim.Future, complete bool, err error) {
	all := make([]sim.Future, samples)
	for i := range all {
		all[i] = sim.Future{Cut: true, Jobs: make([]sim.JobFuture, jobs)}
	}
	err = parallel.Do(ctx, acquire, samples, func(ctx context.Context, i int) error {
		future, err := sample(ctx, i)
		if err != nil {
			return err
		}
		if all[i] = future; future.Cut {
			return errIncomplete
		}
		return nil
	})
	for _, future := range all {
		if !future.Cut {
			futures = append(futures, future)
		}
	}
	if complete = len(futures) == samples; complete {
		return futures, true, nil
	}
	if len(futures) == 0 {
		futures = all[:1]
	}
	if ctx.Err() != nil || errors.Is(err, errIncomplete) {
		err = nil
	}
	return futures, false, err
}

// summarize sets the percentiles of job n over all samples, and adds its times to the means.
func summarize(job *solver.JobForecast, futures []sim.Future, n int, total, queue *mean) {
	var starts, ends, resizes []time.Duration
	for i := range futures {
		future := &futures[i].Jobs[n]
		starts, ends = append(starts, *cmp.Or(future.Start, new(never))), append(ends, *cmp.Or(future.End, new(never)))
		resizes = append(resizes, time.Duration(future.Resizes))
		queue.add(future.Start)
		total.add(future.End)
	}
	job.Start, job.StartLow, job.StartHigh = percentiles(starts)
	job.End, job.EndLow, job.EndHigh = percentiles(ends)
	median, _, _ := percentiles(resizes)
	job.Resizes = int(*median)
}

// never stands for a start or a completion after the end of the simulation.
const never = time.Duration(1<<63 - 1)

// percentiles returns the median and the 10th and 90th percentiles of at least one time, by nearest
// rank, or nil instead of never.
func percentiles(times []time.Duration) (median, low, high *time.Duration) {
	slices.Sort(times)
	at := func(percent int) *time.Duration {
		rank := (percent*len(times) + 99) / 100
		if t := times[max(1, rank)-1]; t != never {
			return &t
		}
		return nil
	}
	return at(50), at(10), at(90)
}

// mean is the mean of the times that are not nil.
type mean struct {
	sum   float64
	count int
}

func (m *mean) add(t *time.Duration) {
	if t != nil {
		m.sum, m.count = m.sum+t.Seconds(), m.count+1
	}
}

func (m *mean) value() time.Duration {
	if m.count == 0 {
		return 0
	}
	return time.Duration(m.sum / float64(m.count) * float64(time.Second))
}

// forecastDecider makes the decisions of a forecast.
type forecastDecider struct {
	decider Decider
	backend solver.BackendName
	budget  time.Duration
}

// Allocate decides a snapshot. If the end of the forecast limited the decision, it returns an error,
// because the simulation would otherwise depend on the time limit.
func (d *forecastDecider) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	o.Backend = d.backend
	deadline, limited := ctx.Deadline()
	shortened := limited && (d.budget == 0 || time.Until(deadline) < d.budget)
	// Snapshots of a simulation that starts from a valid snapshot are valid.
	decision, err := d.decider.Allocate(ctx, s, o)
	if err == nil && (shortened || ctx.Err() != nil) && decision.Report.Limit == solver.LimitTime {
		return decision, context.DeadlineExceeded
	}
	return decision, err
}

// FillIdle allocates idle nodes to queued jobs.
func (d *forecastDecider) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return report.DecideNow(s, greedy.FillIdle(s)), nil
}

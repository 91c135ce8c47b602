// Package forecast says when the jobs of a snapshot will start and end. It simulates the cluster
// from there on.
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
)

// Decider decides on valid snapshots, as *chain.Chain does.
type Decider interface {
	Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error)
}

// Jobs forecasts the jobs of a valid snapshot in its order, until ctx ends. Decisions whose
// options set no time budget have the given one, if it is not 0.
func Jobs(
	ctx context.Context, decider Decider, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions, budget time.Duration,
) (solver.Forecast, error) {
	if !f.EveryEvent {
		o = o.WithCadence(f.Cadence)
	}
	backend := o.Backend
	s = withErrors(s, &f, &o).WithReferenceETAs()
	o.Backend = "" // A policy is of its backend only; a forecast falls back as a decision does.
	policy := sim.Policy{Name: "forecast", Options: o, EveryEvent: f.EveryEvent}
	futures, complete, err := simulate(ctx, o.AcquireWorker, len(s.Jobs), f.Samples, func(ctx context.Context, sample int) (sim.Future, error) {
		asked := &steady{decider: decider, backend: backend, budget: budget}
		return sim.Forecast(ctx, s, draw(s, &f, sample), policy, f.Cadence, f.Until, asked)
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

// errCut says that time was up in the middle of a sample.
var errCut = errors.New("the simulation was cut")

// simulate makes samples of the future of jobs, side by side where that is granted. It
// returns those that were not cut, in order, or else the first one as far as it came.
func simulate(
	ctx context.Context, lend solver.AcquireWorker, jobs, samples int, sample func(context.Context, int) (sim.Future, error),
) (futures []sim.Future, complete bool, err error) {
	all := make([]sim.Future, samples)
	for i := range all {
		all[i] = sim.Future{Cut: true, Jobs: make([]sim.JobFuture, jobs)}
	}
	err = parallel.Do(ctx, lend, samples, func(ctx context.Context, i int) error {
		future, err := sample(ctx, i)
		if err != nil {
			return err
		}
		if all[i] = future; future.Cut {
			return errCut
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
	if ctx.Err() != nil || errors.Is(err, errCut) {
		err = nil
	}
	return futures, false, err
}

func summarize(job *solver.JobForecast, futures []sim.Future, n int, total, queue *mean) {
	var starts, ends, rescales []time.Duration
	for i := range futures {
		future := &futures[i].Jobs[n]
		starts, ends = append(starts, orNever(future.Start)), append(ends, orNever(future.End))
		rescales = append(rescales, time.Duration(future.Resizes))
		queue.add(future.Start)
		total.add(future.End)
	}
	job.Start, job.StartLow, job.StartHigh = percentiles(starts)
	job.End, job.EndLow, job.EndHigh = percentiles(ends)
	median, _, _ := percentiles(rescales)
	job.Rescales = int(*median)
}

// never is later than all that is simulated.
const never = time.Duration(1<<63 - 1)

// orNever returns what a points to, never for nil.
func orNever(t *time.Duration) time.Duration { return *cmp.Or(t, new(never)) }

// percentiles returns the median, the 10th and the 90th percentile of at least one time, by
// nearest rank; nil for one that never comes.
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

// mean is that of the times that come.
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

// steady decides for a forecast.
type steady struct {
	decider Decider
	backend solver.BackendName
	budget  time.Duration
}

// Allocate decides. A decision that the end of the forecast cuts short is an error, since more
// time would change the future.
func (a *steady) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	o.Backend = a.backend
	deadline, limited := ctx.Deadline()
	hasty := limited && (a.budget == 0 || time.Until(deadline) < a.budget)
	// The snapshots of a simulation that goes on from a valid one are valid.
	decision, err := a.decider.Allocate(ctx, s, o)
	if err == nil && (hasty || ctx.Err() != nil) && decision.Report.Limit == solver.LimitTime {
		return decision, context.DeadlineExceeded
	}
	return decision, err
}

// FillIdle gives the idle nodes to the queue.
func (a *steady) FillIdle(_ context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return solver.DecideNow(s, greedy.FillIdle(s)), nil
}

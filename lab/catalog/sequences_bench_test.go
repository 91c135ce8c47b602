package catalog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/parallel"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// sweep is a hyperparameter sweep: nearly identical jobs.
type sweep struct {
	jobs, pool int
	elastic    bool
	length     time.Duration // of a job on one node, or on rigidNodes if it is rigid
	spread     float64       // jobs take up to this share longer than length
	staggered  bool          // submitted one per decision interval, not all at once
	frequency  time.Duration // between decisions, in addition to those at every completion
	restart    time.Duration
}

// rigidNodes is the size of a job that is not elastic, in pools that have as many nodes.
const rigidNodes = 4

// workload returns the jobs of the sweep.
func (s *sweep) workload() sim.Workload {
	workload := sim.Workload{Name: fmt.Sprintf("%+v", *s)}
	for i := range s.jobs {
		// The golden ratio distributes lengths evenly and without order.
		_, place := math.Modf(float64(i) * math.Phi)
		length := time.Duration(s.length.Seconds()*(1+s.spread*place)) * time.Second
		job := sim.WorkloadJob{ID: fmt.Sprint(i), Demand: length, RequestedNodes: 1, Fate: sim.OutcomeCompleted}
		if s.staggered {
			job.Submit = time.Duration(i) * s.frequency
		}
		if !s.elastic {
			job.RequestedNodes = min(s.pool, rigidNodes)
			job.MinNodes, job.MaxNodes = job.RequestedNodes, job.RequestedNodes
			shape := solver.NewJob("", length)
			job.Demand = time.Duration(length.Seconds()*shape.Speed(job.RequestedNodes)) * time.Second
		}
		job.UserEstimate, job.Work = job.Demand, job.Demand
		workload.Jobs = append(workload.Jobs, job)
	}
	return workload
}

// grid contains lists of parameters, whose combinations are sweeps.
type grid struct {
	jobs, pools []int
	elastic     []bool
	lengths     []time.Duration
	spreads     []float64
	staggered   []bool
	frequency   time.Duration
	restarts    []float64 // in decision intervals
}

func (g *grid) sweeps() []sweep {
	all := []sweep{{frequency: g.frequency}}
	all = product(all, g.jobs, func(s *sweep, n int) { s.jobs = n })
	all = product(all, g.pools, func(s *sweep, n int) { s.pool = n })
	all = product(all, g.elastic, func(s *sweep, e bool) { s.elastic = e })
	all = product(all, g.lengths, func(s *sweep, l time.Duration) { s.length = l })
	all = product(all, g.spreads, func(s *sweep, x float64) { s.spread = x })
	all = product(all, g.staggered, func(s *sweep, x bool) { s.staggered = x })
	return product(all, g.restarts, func(s *sweep, x float64) {
		s.restart = time.Duration(x * float64(g.frequency)).Round(time.Second)
	})
}

// product returns a copy of each sweep for each of the values.
func product[T any](sweeps []sweep, values []T, set func(*sweep, T)) []sweep {
	var all []sweep
	for _, s := range sweeps {
		for _, value := range values {
			set(&s, value)
			all = append(all, s)
		}
	}
	return all
}

// withoutLoading is an allocator that excludes loading from the training time of jobs. It derives the
// loading time from its decisions: every resize takes a restart.
type withoutLoading struct {
	sim.Allocator
	restart time.Duration
	loaded  map[string]time.Duration // before the last resize
	since   map[string]time.Duration // training time including loading at the last resize
}

func (a *withoutLoading) exclude(s *solver.Snapshot) *solver.Snapshot {
	result := *s
	result.Jobs = slices.Clone(s.Jobs)
	for i := range result.Jobs {
		job := &result.Jobs[i]
		job.TrainingTime -= a.loaded[job.ID] + min(a.restart, job.TrainingTime-a.since[job.ID])
	}
	return &result
}

// note records the resizes of a decision on a snapshot.
func (a *withoutLoading) note(s *solver.Snapshot, d *solver.Decision) {
	for i := range d.Allocations {
		if job := &s.Jobs[i]; d.Allocations[i].Nodes != job.CurrentNodes {
			a.loaded[job.ID] += min(a.restart, job.TrainingTime-a.since[job.ID])
			a.since[job.ID] = job.TrainingTime
		}
	}
}

func (a *withoutLoading) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	d, err := a.Allocator.Allocate(ctx, a.exclude(s), o)
	a.note(s, &d)
	return d, err
}

func (a *withoutLoading) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	d, err := a.Allocator.FillIdle(ctx, a.exclude(s))
	a.note(s, &d)
	return d, err
}

// BenchmarkSequences simulates hyperparameter sweeps until all jobs complete and compares
// their mean completion time with the better of fixed sizes in order and max-min fair shares. It
// reports the number of settings, those in which no job makes progress, those more than 5%
// slower, the largest and the mean ratio, and the most resizes per job. Lower is better.
// docs/evaluation/sequences.md has the table.
func BenchmarkSequences(b *testing.B) {
	const minute, hour = time.Minute, time.Hour
	both := []bool{false, true}
	hours := grid{
		[]int{2, 3, 5, 8, 12, 20, 40},
		[]int{1, 8, 16}, both, []time.Duration{hour}, []float64{0, 0.2}, both, 5 * minute, []float64{0.2, 0.5, 0.9, 1, 1.01, 1.5, 2, 5},
	}
	half := hours
	half.spreads = []float64{0.05}
	often := grid{
		[]int{2, 4, 10, 20}, []int{1, 8, 16}, both, []time.Duration{hour}, []float64{0, 0.01, 0.2}, []bool{true}, minute / 2, []float64{1, 2, 10},
	}
	lengths := grid{
		[]int{2, 4, 10, 20},
		[]int{1, 8}, []bool{true}, []time.Duration{6 * minute, 10 * hour, 100 * hour},
		[]float64{0, 0.05}, []bool{true}, 5 * minute, []float64{0.2, 1, 2, 5},
	}
	for _, row := range []struct {
		name      string
		admission solver.Admission
		loading   bool // whether loading counts as training
		sweeps    []sweep
	}{
		{"START_FIRST", solver.AdmissionStartFirst, true, hours.sweeps()},
		{"PREEMPTIVE", solver.AdmissionPreemptive, true, hours.sweeps()},
		{"START_FIRST-loading-not-counted", solver.AdmissionStartFirst, false, half.sweeps()},
		{"START_FIRST-every-30s", solver.AdmissionStartFirst, true, often.sweeps()},
		{"START_FIRST-6min-10h-100h", solver.AdmissionStartFirst, true, lengths.sweeps()},
	} {
		b.Run(row.name, func(b *testing.B) {
			for range b.N {
				ratios, resizes := make([]float64, len(row.sweeps)), make([]float64, len(row.sweeps))
				err := parallel.Do(b.Context(), nil, len(row.sweeps), func(ctx context.Context, n int) error {
					var err error
					ratios[n], resizes[n], err = row.sweeps[n].compare(ctx, row.admission, row.loading)
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
				stalled, slower, worst, sum := 0.0, 0.0, 0.0, 0.0
				for _, ratio := range ratios {
					if math.IsInf(ratio, 1) {
						stalled++
						continue
					}
					if ratio > 1.05 {
						slower++
					}
					worst, sum = max(worst, ratio), sum+math.Log(ratio)
				}
				b.ReportMetric(float64(len(ratios)), "settings")
				b.ReportMetric(stalled, "stalled")
				b.ReportMetric(slower, "slower")
				b.ReportMetric(worst, "max-ratio")
				b.ReportMetric(math.Exp(sum/(float64(len(ratios))-stalled)), "mean-ratio")
				b.ReportMetric(slices.Max(resizes), "max-resizes")
			}
		})
	}
}

// compare returns the mean completion time of the jobs as a ratio to the better of fixed sizes
// in order and max-min fair shares, +Inf if they make no progress, and the resizes per job.
func (s *sweep) compare(ctx context.Context, admission solver.Admission, loading bool) (ratio, resizes float64, err error) {
	config := sim.DefaultConfig(s.pool)
	config.Frequency, config.RestartTime = s.frequency, s.restart
	mean := func(name string) (float64, float64, error) {
		policy, err := Find(name)
		if err != nil {
			return 0, 0, err
		}
		decisions, err := elastalloc.New(elastalloc.Options{})
		if err != nil {
			return 0, 0, err
		}
		allocator := sim.Allocator(decisions)
		if name == "total-time" {
			policy.Options.Admission = admission
			if !loading {
				allocator = &withoutLoading{decisions, s.restart, map[string]time.Duration{}, map[string]time.Duration{}}
			}
		}
		result, err := policy.Run(ctx, s.workload(), config, allocator)
		if errors.Is(err, sim.ErrStalled) {
			return math.Inf(1), 0, nil
		}
		if err != nil {
			return 0, 0, err
		}
		resizes := 0
		for i := range result.Jobs {
			resizes += result.Jobs[i].Resizes
		}
		return meanOf(result, (*sim.JobResult).TotalTime).Seconds(), float64(resizes) / float64(s.jobs), nil
	}
	own, resizes, err := mean("total-time")
	if err != nil {
		return 0, 0, err
	}
	better := math.Inf(1)
	for _, name := range []string{"fifo", MaxMin} {
		other, _, err := mean(name)
		if err != nil {
			return 0, 0, err
		}
		better = min(better, other)
	}
	return own / better, resizes, nil
}

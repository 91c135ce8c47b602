package forecast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/forecast"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// newAllocator returns an allocator without a default time budget.
func newAllocator(tb testing.TB, options elastalloc.Options) *elastalloc.Allocator {
	tb.Helper()
	if options.DefaultBudget == 0 {
		options.DefaultBudget = elastalloc.NoBudget
	}
	a, err := elastalloc.New(options)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// optionsOf returns the options of a policy of elastalloc-lab.
func optionsOf(policy string) solver.Options {
	progress := solver.Options{Backend: solver.BackendExact, Objective: solver.ObjectiveProgress, Admission: solver.AdmissionFIFO}
	totalTime := solver.Options{Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
	switch policy {
	case "total-time":
		return totalTime
	case "total-time-steady":
		totalTime.Admission, totalTime.TotalTime.ResizePrice = solver.AdmissionFIFO, new(15*time.Second)
		return totalTime
	default:
		return progress
	}
}

// variedWorkload returns random jobs that differ in their durations, sizes, efficiencies and weights.
func variedWorkload(jobs int, seed uint64) sim.Workload {
	random := rand.New(rand.NewPCG(seed, 0))
	trace, at := make(sim.Trace, jobs), 0.0
	for i := range trace {
		shape := sim.Shape{DoublingEfficiency: 0.6 + 0.35*random.Float64(), Weight: float64(int(1) << random.IntN(4))}
		switch size := 1 << random.IntN(4); random.IntN(5) {
		case 0:
			shape.MinNodes, shape.MaxNodes = size, size
		case 1, 2:
			shape.MinNodes = max(2, size)
		}
		trace[i] = sim.TraceJob{
			ID: fmt.Sprint("job ", i), GPUs: 32, Submit: time.Duration(at) * time.Second, Shape: shape,
			Duration: time.Duration(300+1200*math.Exp(1.5*random.NormFloat64())) * time.Second,
		}
		at += 140 * random.ExpFloat64()
	}
	return sim.NewWorkload("varied", trace, sim.WorkloadOptions{GPUsPerNode: 8})
}

// simulation is a workload under a policy of elastalloc-lab.
type simulation struct {
	policy   string
	restart  time.Duration
	workload sim.Workload
	groups   []solver.Group
}

// compare runs the simulation and compares forecasts from every 25th quiet decision with it.
func (s simulation) compare(t *testing.T) {
	t.Parallel()
	options := optionsOf(s.policy)
	policy, everyEvent := sim.Request{Options: options}, s.policy == "optimal-event" || s.policy == "total-time"
	a := newAllocator(t, elastalloc.Options{})
	var snapshots []*solver.Snapshot
	config := sim.DefaultConfig(30)
	config.RestartTime, config.Groups = s.restart, s.groups
	config.EveryEvent, config.GroupLimits = everyEvent, true
	config.Observe = func(snapshot *solver.Snapshot, _ solver.Decision) { snapshots = append(snapshots, snapshot) }
	result, err := sim.Run(t.Context(), s.workload, policy, config, a)
	if err != nil {
		t.Fatal(err)
	}
	last := s.workload.Jobs[len(s.workload.Jobs)-1].Submit
	compared := 0
	for n, at := range quietDecisions(result, last, s.restart, config.Frequency) {
		if n%25 != 0 {
			continue
		}
		snapshot := snapshots[slices.IndexFunc(result.Decisions, func(d sim.Decision) bool { return d.At == at })]
		work, known := workLeft(&s.workload, snapshot)
		if !known {
			continue
		}
		got, err := sim.Forecast(t.Context(), snapshot.WithDefaults(),
			sim.ForecastInput{Work: work, EveryEvent: everyEvent}, policy, config.Frequency, solver.DefaultUntil, a)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(work, remainingETAs(snapshot)) {
			checkForecast(t, a, snapshot, options, everyEvent, got)
		}
		checkTimes(t, got, snapshot, result, at)
		compared += len(got.Jobs)
	}
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// checkTimes checks that the jobs of a forecast from a time on start and complete as in the simulation.
func checkTimes(t *testing.T, got sim.Future, snapshot *solver.Snapshot, result *sim.Result, from time.Duration) {
	t.Helper()
	for n, job := range got.Jobs {
		want := result.Jobs[slices.IndexFunc(result.Jobs, func(j sim.JobResult) bool { return j.ID == snapshot.Jobs[n].ID })]
		if job.End == nil || *job.End != want.End-from {
			t.Fatalf("from %v on job %s ends after %v; in the simulation after %v", from, want.ID, job.End, want.End-from)
		}
		if want.Start >= from && *job.Start != want.Start-from {
			t.Fatalf("from %v on job %s starts after %v; in the simulation after %v", from, want.ID, job.Start, want.Start-from)
		}
	}
}

// TestForecastIsTheSimulation checks that a forecast from decision times of a simulation, after all
// jobs have been submitted, has the same start and completion times as the simulation: with restarts,
// with teams that share the pool and, if the true work is given, with wrong ETAs.
func TestForecastIsTheSimulation(t *testing.T) {
	t.Parallel()
	plain := variedWorkload(40, 5)
	shared := plain
	shared.Jobs = slices.Clone(plain.Jobs)
	for i := range shared.Jobs {
		shared.Jobs[i].Group = []string{"vision", "language"}[i%2]
	}
	teams := []solver.Group{{ID: "vision", Limit: new(18), Quota: 12}, {ID: "language", Quota: 18}}
	for _, test := range []simulation{
		{"optimal", 0, plain, nil},
		{"optimal", 17 * time.Second, plain, nil},
		{"optimal", 0, plain.Disturb(sim.Disturbance{ETAError: 0.3}, 4), nil},
		{"optimal-event", 17 * time.Second, plain, nil},
		{"total-time", 0, plain, nil},
		{"total-time", 17 * time.Second, plain, nil},
		{"total-time", 17 * time.Second, plain.Disturb(sim.Disturbance{ETAError: 0.3}, 4), nil},
		{"total-time", 17 * time.Second, shared, teams},
		{"total-time-steady", 0, shared, teams},
		{"total-time-steady", 17 * time.Second, plain, nil},
	} {
		t.Run(fmt.Sprintf("%s/restart=%v/groups=%d", test.policy, test.restart, len(test.groups)), test.compare)
	}
}

// remainingETAs returns the remaining ETA of each job of a snapshot of a simulation.
func remainingETAs(s *solver.Snapshot) []time.Duration {
	etas := make([]time.Duration, len(s.Jobs))
	for i := range s.Jobs {
		etas[i] = s.Jobs[i].RemainingETA
	}
	return etas
}

// workLeft returns the actual remaining work of each job of a snapshot of a simulation. It returns false
// if a job has exceeded its ETA, which then no longer determines its work done.
func workLeft(w *sim.Workload, s *solver.Snapshot) ([]time.Duration, bool) {
	left := remainingETAs(s)
	for i := range left {
		job := &w.Jobs[slices.IndexFunc(w.Jobs, func(j sim.WorkloadJob) bool { return j.ID == s.Jobs[i].ID })]
		if left[i] <= time.Second {
			return nil, false
		}
		left[i] += job.Work - job.UserEstimate
	}
	return left, true
}

// checkForecast compares a forecast without errors with a simulation of its one sample.
func checkForecast(t *testing.T, a *elastalloc.Allocator, s *solver.Snapshot, options solver.Options, everyEvent bool, want sim.Future) {
	t.Helper()
	got, err := a.Forecast(t.Context(), s, options, solver.ForecastOptions{EveryEvent: everyEvent})
	if err != nil {
		t.Fatal(err)
	}
	future := sim.Future{Decisions: int(got.Decisions)}
	for _, job := range got.Jobs {
		future.Jobs = append(future.Jobs, sim.JobFuture{Start: job.Start, End: job.End, Resizes: job.Resizes})
	}
	if diff := cmp.Diff(want, future); diff != "" {
		t.Errorf("forecast (-simulated +got):\n%s", diff)
	}
}

// quietDecisions returns the times of the decisions of a simulation after the last submission at which no job
// is in the middle of a restart, because a snapshot does not contain it: no decision was made and no job completed
// within the time of a restart before.
func quietDecisions(r *sim.Result, last, restart, frequency time.Duration) []time.Duration {
	quiet := func(at time.Duration) bool {
		for i := range r.Decisions {
			if d := at - r.Decisions[i].At; d > 0 && d < restart+2*time.Second {
				return false
			}
		}
		for i := range r.Jobs {
			if d := at - r.Jobs[i].End; d >= 0 && d < restart+2*time.Second {
				return false
			}
		}
		return true
	}
	var list []time.Duration
	for i := range r.Decisions {
		if at := r.Decisions[i].At; at > last && at%frequency == 0 && quiet(at) {
			list = append(list, at)
		}
	}
	return list
}

// TestForecast compares forecasts of few jobs with results computed by hand.
func TestForecast(t *testing.T) {
	t.Parallel()
	pinned := func(id string, eta time.Duration, nodes, current int) solver.Job {
		return solver.Job{ID: id, RemainingETA: eta, ETANodes: nodes, MinNodes: nodes, MaxNodes: nodes, CurrentNodes: current}
	}
	held := pinned("held", time.Hour, 2, 2)
	held.Weight = new(-1.0)
	restarting := pinned("restarting", 10*time.Minute, 4, 0)
	restarting.RestartTime = time.Minute
	at := func(minutes, seconds int) *time.Duration {
		return new(time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second)
	}
	same := func(id string, start, end *time.Duration) solver.JobForecast {
		return solver.JobForecast{JobID: id, Start: start, StartLow: start, StartHigh: start, End: end, EndLow: end, EndHigh: end}
	}
	const half = 500 * time.Millisecond
	paused := same("a", at(7, 1), at(127, 1))
	paused.Resizes = 2
	for name, test := range map[string]struct {
		snapshot solver.Snapshot
		options  solver.Options
		forecast solver.ForecastOptions
		want     solver.Forecast
	}{
		"the queue waits for the end of the first, and a second": {
			snapshot: solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{pinned("a", 7*time.Minute, 4, 4), pinned("b", 10*time.Minute, 4, 0)}},
			want: solver.Forecast{
				Jobs:      []solver.JobForecast{same("a", at(0, 0), at(7, 0)), same("b", at(7, 1), at(17, 1))},
				MeanTotal: *at(12, 0) + half, MeanQueue: *at(3, 30) + half, Decisions: 4, Complete: true,
			},
		},
		"a restart delays": {
			snapshot: solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{restarting}},
			want: solver.Forecast{
				Jobs: []solver.JobForecast{same("restarting", at(0, 0), at(11, 0))}, MeanTotal: *at(11, 0), Decisions: 3, Complete: true,
			},
		},
		"until": {
			snapshot: solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{pinned("a", 7*time.Minute, 4, 4), pinned("b", 10*time.Minute, 4, 0)}},
			forecast: solver.ForecastOptions{Until: 10 * time.Minute, Cadence: time.Hour},
			want: solver.Forecast{
				Jobs:      []solver.JobForecast{same("a", at(0, 0), at(7, 0)), same("b", at(7, 1), nil)},
				MeanTotal: *at(7, 0), MeanQueue: *at(3, 30) + half, Decisions: 1, Complete: true,
			},
		},
		"a job that never fits, and a frozen job": {
			snapshot: solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{pinned("large", time.Hour, 8, 0), held, pinned("b", time.Minute, 2, 0)}},
			options:  solver.Options{BadJobs: solver.BadJobsHold},
			want: solver.Forecast{
				Jobs:      []solver.JobForecast{same("large", nil, nil), same("held", at(0, 0), nil), same("b", at(0, 0), at(1, 0))},
				MeanTotal: *at(1, 0), Decisions: 1, Complete: true,
			},
		},
		"a running job has started, whatever its training time": {
			snapshot: solver.Snapshot{TotalNodes: 2, Jobs: []solver.Job{pinned("a", 2*time.Hour, 2, 2), pinned("b", 7*time.Minute, 2, 0)}},
			options:  solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst},
			forecast: solver.ForecastOptions{EveryEvent: true, Cadence: 5 * time.Minute},
			want: solver.Forecast{
				Jobs:      []solver.JobForecast{paused, same("b", at(0, 0), at(7, 0))},
				MeanTotal: *at(67, 0) + half, MeanQueue: *at(3, 30) + half, Decisions: 27, Complete: true,
			},
		},
		"no nodes": {
			snapshot: solver.Snapshot{Jobs: []solver.Job{pinned("a", time.Hour, 2, 2)}},
			want:     solver.Forecast{Jobs: []solver.JobForecast{{JobID: "a", Resizes: 1}}, Decisions: 1, Complete: true},
		},
		"no jobs": {
			snapshot: solver.Snapshot{TotalNodes: 4}, want: solver.Forecast{Jobs: []solver.JobForecast{}, Complete: true},
		},
		"times beyond all reason": {
			snapshot: solver.Snapshot{TotalNodes: 1 << 30, Jobs: []solver.Job{{
				ID: "a", RemainingETA: 1<<63 - 1, TrainingTime: 1<<63 - 1, WaitingTime: 1<<63 - 1, RestartTime: 1<<63 - 1,
			}}},
			forecast: solver.ForecastOptions{Cadence: solver.MaxForecastSpan, Until: solver.MaxForecastSpan},
			want:     solver.Forecast{Jobs: []solver.JobForecast{same("a", at(0, 0), nil)}, Decisions: 2, Complete: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newAllocator(t, elastalloc.Options{}).Forecast(t.Context(), &test.snapshot, test.options, test.forecast)
			if err != nil {
				t.Fatal(err)
			}
			if name == "times beyond all reason" { // Only that it ends, and in good order, counts.
				got.Jobs[0].Resizes, test.want.Jobs[0].Resizes = 0, 0
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("forecast (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForecastStalls checks that a forecast in which no job makes progress anymore is reported as
// stalled, with one sample and with several. Under PREEMPTIVE, a job of weight 0 gets no nodes, and no
// idle nodes are filled if each event has its decision.
func TestForecastStalls(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{
		{ID: "runs", RemainingETA: 10 * time.Minute, MaxNodes: 1}, {ID: "worthless", RemainingETA: time.Hour, Weight: new(0.0)},
	}}
	a := newAllocator(t, elastalloc.Options{})
	options := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive}
	for _, f := range []solver.ForecastOptions{{EveryEvent: true}, {EveryEvent: true, ETAError: 0.2, Samples: 3}} {
		got, err := a.Forecast(t.Context(), s, options, f)
		if err != nil || !got.Stalled || got.Complete || got.Jobs[0].End == nil || got.Jobs[1].Start != nil {
			t.Errorf("%d samples: forecast %+v, %v; want one that stalls after the end of the first job", f.Samples, got, err)
		}
	}
	// 1,000 times 150 days exceeds the range of a time.Duration.
	long, err := a.Forecast(t.Context(), s, solver.Options{}, solver.ForecastOptions{
		Cadence: 150 * 24 * time.Hour, Until: solver.MaxForecastSpan,
	})
	if err != nil || long.Stalled || !long.Complete {
		t.Errorf("with a decision every 150 days: forecast %+v, %v; want a complete one", long, err)
	}
	// Up to then there is nothing to complain about.
	got, err := a.Forecast(t.Context(), s, options, solver.ForecastOptions{EveryEvent: true, Until: 24 * time.Hour})
	if err != nil || got.Stalled || !got.Complete {
		t.Errorf("a day's forecast %+v, %v; want a complete one", got, err)
	}
}

// TestForecastWithErrors checks that ETA errors widen the forecast around the same median, and that
// samples depend only on the seed.
func TestForecastWithErrors(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: 6}
	for _, id := range []string{"a", "b", "c", "d"} {
		s.Jobs = append(s.Jobs, solver.Job{ID: id, RemainingETA: 3 * time.Hour, MaxNodes: 2})
	}
	a := newAllocator(t, elastalloc.Options{})
	ask := func(f solver.ForecastOptions) solver.Forecast {
		got, err := a.Forecast(t.Context(), s, solver.Options{}, f)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	exact, wide := ask(solver.ForecastOptions{}), ask(solver.ForecastOptions{ETAError: 0.5, Seed: 7})
	if diff := cmp.Diff(wide, ask(solver.ForecastOptions{ETAError: 0.5, Seed: 7, Samples: 20})); diff != "" {
		t.Errorf("the same seed and the default of 20 samples (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(wide, ask(solver.ForecastOptions{ETAError: 0.5, Seed: 8})); diff == "" {
		t.Error("another seed has the same forecast")
	}
	if diff := cmp.Diff(exact, ask(solver.ForecastOptions{Samples: 50})); diff != "" {
		t.Errorf("without an error samples are alike (-one +fifty):\n%s", diff)
	}
	for i, job := range wide.Jobs {
		if *job.EndLow >= *job.End || *job.End >= *job.EndHigh {
			t.Errorf("job %s ends after %v, %v to %v; want a range", job.JobID, job.End, job.EndLow, job.EndHigh)
		}
		if end := *exact.Jobs[i].End; *job.EndLow > end || *job.EndHigh < end {
			t.Errorf("job %s ends after %v to %v; want a range around %v", job.JobID, job.EndLow, job.EndHigh, end)
		}
	}
}

// TestForecastOfElapsedETA checks a job that has done four hours of work and has a remaining ETA of a
// second: it takes another hour, or what its ETA error implies.
func TestForecastOfElapsedETA(t *testing.T) {
	t.Parallel()
	job := solver.Job{ID: "a", RemainingETA: time.Second, WorkDone: 4 * time.Hour, TrainingTime: 4 * time.Hour, CurrentNodes: 1, MaxNodes: 1}
	sure := job
	sure.ID, sure.RemainingETA, sure.ETAError = "b", 2*time.Hour, new(0.0)
	a := newAllocator(t, elastalloc.Options{})
	f, err := a.Forecast(t.Context(), &solver.Snapshot{TotalNodes: 2, Jobs: []solver.Job{job, sure}},
		solver.Options{}, solver.ForecastOptions{})
	if err != nil || *f.Jobs[0].End != time.Hour || *f.Jobs[1].End != 2*time.Hour {
		t.Errorf("they end after %v and %v, %v; want 1h and 2h", f.Jobs[0].End, f.Jobs[1].End, err)
	}
}

// TestForecastInParallel checks that samples do not depend on the number of workers.
func TestForecastInParallel(t *testing.T) {
	t.Parallel()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor; want two that work side by side")
	}
	s := solvertest.BusySnapshot(8, 13)
	a := newAllocator(t, elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	ask := func(lend solver.AcquireWorker) solver.Forecast {
		options := solver.Options{TimeBudget: time.Hour, AcquireWorker: lend}
		got, err := a.Forecast(t.Context(), s, options, solver.ForecastOptions{ETAError: 0.4, Samples: 4})
		if err != nil || !got.Complete {
			t.Fatal(err)
		}
		return got
	}
	lent := 0 // incremented by one goroutine
	alone := ask(func(context.Context) (context.Context, func(), bool) { return nil, nil, false })
	for name, callOff := range map[string]func(context.CancelFunc){
		"for all of it": func(context.CancelFunc) {},
		"for no time":   func(cancel context.CancelFunc) { cancel() },
		"for a while":   func(cancel context.CancelFunc) { time.AfterFunc(time.Duration(lent)*5*time.Millisecond, cancel) },
	} {
		lent = 0
		got := ask(func(ctx context.Context) (context.Context, func(), bool) {
			lent++
			own, cancel := context.WithCancel(ctx)
			callOff(cancel)
			return own, cancel, true
		})
		if diff := cmp.Diff(alone, got); diff != "" || lent == 0 {
			t.Errorf("help %s, %d times (-alone +helped):\n%s", name, lent, diff)
		}
	}
	if diff := cmp.Diff(alone, ask(nil)); diff != "" {
		t.Errorf("with all processors (-alone +helped):\n%s", diff)
	}
}

// interrupting is a backend that interrupts its searches at their start.
type interrupting struct {
	problem.Backend
	hurry func()
}

// Solve returns the incumbent.
func (b interrupting) Solve(ctx context.Context, _ *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	b.hurry()
	<-ctx.Done()
	return problem.Result{Plan: o.Incumbent, Bound: math.Inf(1), Limit: solver.LimitTime}, nil
}

// TestInterruptedDecision checks that a forecast stops if a decision is interrupted, and does not use
// its plan.
func TestInterruptedDecision(t *testing.T) {
	t.Parallel()
	hurried, hurry := context.WithCancel(t.Context())
	a := newAllocator(t, elastalloc.Options{DefaultBudget: time.Minute, Middleware: func(b problem.Backend) problem.Backend {
		if b.Name() == solver.BackendExact {
			b = interrupting{b, hurry}
		}
		return b
	}})
	s := &solver.Snapshot{TotalNodes: 2, Jobs: []solver.Job{{ID: "only", RemainingETA: time.Second}}}
	got, err := a.Forecast(t.Context(), s, solver.Options{TimeBudget: time.Hour, Interrupt: hurried}, solver.ForecastOptions{})
	if err != nil || got.Complete || got.Jobs[0].End != nil {
		t.Errorf("forecast %+v, %v; want one that is cut", got, err)
	}
}

// TestPartialForecast checks a forecast without time.
func TestPartialForecast(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{
		TotalNodes: 6, Jobs: []solver.Job{{ID: "short", RemainingETA: time.Minute, MaxNodes: 1}, {ID: "long", RemainingETA: 1e6 * time.Hour}},
	}
	a := newAllocator(t, elastalloc.Options{})
	got, err := a.Forecast(t.Context(), s, solver.Options{TimeBudget: 200 * time.Millisecond},
		solver.ForecastOptions{Cadence: time.Second, Until: solver.MaxForecastSpan})
	if err != nil {
		t.Fatal(err)
	}
	if got.Complete || len(got.Jobs) != 2 || got.Jobs[1].End != nil {
		t.Errorf("forecast %+v; want one that is cut", got)
	}
	got, err = a.Forecast(t.Context(), s, solver.Options{TimeBudget: 1}, solver.ForecastOptions{})
	if err != nil || got.Complete || len(got.Jobs) != 2 {
		t.Errorf("without time %+v, %v; want that nothing is known of two jobs", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Forecast(ctx, s, solver.Options{}, solver.ForecastOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want that the caller left", err)
	}
}

// TestForecastViolations checks that the error names all invalid fields.
func TestForecastViolations(t *testing.T) {
	t.Parallel()
	s := &solver.Snapshot{TotalNodes: -1, Jobs: []solver.Job{{ID: "a", RemainingETA: time.Hour}}}
	_, err := newAllocator(t, elastalloc.Options{}).Forecast(t.Context(), s, solver.Options{}, solver.ForecastOptions{
		Cadence: 1500 * time.Millisecond, ETAError: 2, Samples: 101, Until: -1,
	})
	want := "invalid request: snapshot.total_nodes: is -1; must be at least 0; cadence: is 1.5s; must be whole seconds, 1s to 87600h0m0s; " +
		"eta_error: is 2; must be 0 to 1; samples: is 101; must be 1 to 100; until: is -1ns; must be greater than 0s and at most 87600h0m0s"
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v; want\n%s", err, want)
	}
}

// BenchmarkForecast simulates 100 jobs on 70 nodes until all are complete.
func BenchmarkForecast(b *testing.B) {
	a := newAllocator(b, elastalloc.Options{})
	for _, objective := range []solver.Objective{solver.ObjectiveTotalTime, solver.ObjectiveProgress} {
		for _, samples := range []int{1, 20} {
			b.Run(fmt.Sprintf("%s/%d-samples", objective, samples), func(b *testing.B) {
				s := solvertest.BusySnapshot(100, 70)
				solvertest.ReportCPU(b)
				f := solver.ForecastOptions{}
				if samples > 1 {
					f.ETAError = 0.2
				}
				for b.Loop() {
					forecast, err := a.Forecast(b.Context(), s, solver.Options{Objective: objective}, f)
					if err != nil || !forecast.Complete {
						b.Fatal(err)
					}
					b.ReportMetric(float64(forecast.Decisions), "decisions")
				}
			})
		}
	}
}

// TestForecastFallsBack checks that a forecast with a missing backend uses the other backends.
func TestForecastFallsBack(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{Backends: []solver.BackendName{solver.BackendExact}})
	s := &solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{solver.NewJob("a", 10*time.Minute)}}
	for _, f := range []solver.ForecastOptions{{}, {ETAError: 0.2}} {
		got, err := a.Forecast(t.Context(), s, solver.Options{Backend: solver.BackendCBC}, f)
		if err != nil || !got.Complete || got.Decisions == 0 || got.Jobs[0].End == nil {
			t.Errorf("forecast %+v, %v; want a complete one in which the job completes", got, err)
		}
	}
}

// broken is a backend that fails.
type broken struct{}

func (broken) Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error) {
	return solver.Decision{}, errors.New("broken")
}

// TestForecastError checks that an error of a decision fails the forecast, with one sample and with several.
func TestForecastError(t *testing.T) {
	t.Parallel()
	s := (&solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{solver.NewJob("a", 10*time.Minute)}}).WithDefaults()
	for samples := range 3 {
		f := solver.ForecastOptions{Samples: samples, ETAError: 0.1}.WithDefaults(s, &solver.Options{})
		if got, err := forecast.Jobs(t.Context(), broken{}, s, solver.Options{}.WithDefaults(), f, 0); err == nil {
			t.Errorf("forecast %+v of %d samples; want an error", got, f.Samples)
		}
	}
}

// failing decides until its last decision, which fails or times out.
type failing struct {
	forecast.Decider
	left *atomic.Int64
	err  error
}

func (f failing) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	if f.left.Add(-1) < 0 {
		return solver.Decision{}, f.err
	}
	return f.Decider.Allocate(ctx, s, o)
}

// TestCompleteForecast checks that a complete forecast has decisions in every sample, and that a
// forecast whose decisions fail is incomplete.
func TestCompleteForecast(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{DefaultBudget: time.Second})
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot").WithDefaults()
		o := solver.Options{Backend: rapid.SampledFrom([]solver.BackendName{"exact", "greedy", ""}).Draw(t, "backend")}.WithDefaults()
		f := solver.ForecastOptions{
			Samples: rapid.IntRange(1, 3).Draw(t, "samples"), ETAError: 0.3, EveryEvent: rapid.Bool().Draw(t, "every event"), Until: 2 * time.Hour,
		}.WithDefaults(s, &o)
		decider := failing{a, new(atomic.Int64), nil}
		decisions := rapid.Int64Range(0, 50).Draw(t, "decisions")
		decider.left.Store(decisions)
		decider.err = rapid.SampledFrom([]error{solver.ErrTimedOut, context.DeadlineExceeded, errors.New("broken")}).Draw(t, "error")
		got, err := forecast.Jobs(t.Context(), decider, s, o, f, 0)
		ended := decider.left.Load() < 0
		if err == nil && got.Complete && (ended || len(s.Jobs) > 0 && got.Decisions < int64(f.Samples)) {
			t.Errorf("forecast %+v; want none that is complete: %d decisions of %d samples", got, got.Decisions, f.Samples)
		}
		if !ended && (err != nil || !got.Complete) {
			t.Errorf("forecast %+v, %v; want a complete one", got, err)
		}
	})
}

// TestCompletionBeyondMaxDuration checks a job whose completion time exceeds a time.Duration.
func TestCompletionBeyondMaxDuration(t *testing.T) {
	t.Parallel()
	slow := solver.NewJob("slow", 10*365*24*time.Hour)
	slow.Scaling.DoublingEfficiency, slow.MinNodes, slow.MaxNodes, slow.CurrentNodes = 0.16, 8, 8, 8
	s := (&solver.Snapshot{TotalNodes: 20, Jobs: []solver.Job{slow, solver.NewJob("short", 10*time.Minute)}}).WithDefaults()
	o := solver.Options{}.WithDefaults()
	f := solver.ForecastOptions{EveryEvent: true}.WithDefaults(s, &o)
	got, err := forecast.Jobs(t.Context(), newAllocator(t, elastalloc.Options{DefaultBudget: time.Second}), s, o, f, 0)
	if err != nil || !got.Complete || got.Jobs[0].End != nil || got.Jobs[1].End == nil {
		t.Errorf("%+v, %v; want that the short job completes, and not the slow one", got, err)
	}
}

// TestMaxDecisions checks that the number of decisions of a forecast is limited.
func TestMaxDecisions(t *testing.T) {
	t.Parallel()
	s := (&solver.Snapshot{TotalNodes: 1, Jobs: []solver.Job{solver.NewJob("a", 3650*24*time.Hour)}}).WithDefaults()
	idle := sim.Rule(func(s *solver.Snapshot) []solver.Option { return solver.Nodes(1) })
	work := []time.Duration{sim.DemandOf(&s.Jobs[0])}
	got, err := sim.Forecast(t.Context(), s, sim.ForecastInput{Work: work}, idle, time.Second, solver.MaxForecastSpan, nil)
	if err != nil || !got.Cut || got.Decisions != sim.MaxDecisions {
		t.Errorf("%d decisions, cut %t, %v; want it cut after %d", got.Decisions, got.Cut, err, sim.MaxDecisions)
	}
}

// TestMemoryOfSamples checks that a sample keeps only the times of its jobs.
func TestMemoryOfSamples(t *testing.T) {
	const jobs, samples = 2000, 20
	s := &solver.Snapshot{TotalNodes: jobs}
	var work []time.Duration
	for i := range jobs {
		s.Jobs = append(s.Jobs, solver.NewJob(fmt.Sprint(i), time.Minute))
		work = append(work, time.Minute)
	}
	s = s.WithDefaults()
	one := sim.Rule(func(s *solver.Snapshot) []solver.Option { return slices.Repeat(solver.Nodes(1), len(s.Jobs)) })
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var futures []sim.Future
	for range samples {
		future, err := sim.Forecast(t.Context(), s, sim.ForecastInput{Work: work}, one, 5*time.Minute, time.Hour, nil)
		if err != nil || future.Jobs[0].End == nil {
			t.Fatal(err)
		}
		futures = append(futures, future)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (int(after.HeapAlloc) - int(before.HeapAlloc)) / jobs / samples; each > 64 {
		t.Errorf("a job of a sample takes %d bytes; want at most 64", each)
	}
	runtime.KeepAlive(futures)
}

// TestForecastWithoutNodeTypes checks that speeds on node types are ignored without node types.
func TestForecastWithoutNodeTypes(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	futures := make([]solver.Forecast, 2)
	for n, speeds := range [][]solver.TypeSpeed{nil, {{NodeType: "a100", Factor: 4}}} {
		var err error
		s := &solver.Snapshot{TotalNodes: 4, Jobs: []solver.Job{{ID: "a", RemainingETA: time.Hour, Speeds: speeds}}}
		if futures[n], err = a.Forecast(t.Context(), s, solver.Options{}, solver.ForecastOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(futures[0], futures[1]); diff != "" || futures[0].Jobs[0].End == nil {
		t.Errorf("(-without speeds +with):\n%s", diff)
	}
}

// TestForecastOnNodeTypes checks forecasts of one job with 3,600 s of work on a reference node. A fast
// node does two per second.
func TestForecastOnNodeTypes(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	one := solver.Job{ID: "a", RemainingETA: time.Hour, MaxNodes: 1}
	for name, test := range map[string]struct {
		change func(*solver.Job)
		want   time.Duration
	}{
		"starts":               {func(*solver.Job) {}, 30 * time.Minute},
		"starts where it runs": {func(j *solver.Job) { j.Speeds = []solver.TypeSpeed{{NodeType: "slow"}} }, time.Hour},
		"its ETA is on a type": {func(j *solver.Job) { j.ETANodeType = "fast" }, time.Hour},
		"moves": {
			func(j *solver.Job) { j.CurrentNodes, j.CurrentNodeType, j.MoveTime = 1, "slow", new(time.Minute) }, 31 * time.Minute,
		},
		"moves as it restarts": {
			func(j *solver.Job) { j.CurrentNodes, j.CurrentNodeType, j.RestartTime = 1, "slow", 2*time.Minute }, 32 * time.Minute,
		},
		"some sizes of a table": {func(j *solver.Job) {
			j.MaxNodes, j.AllowedNodes, j.Scaling.Speeds = 4, []int{1, 2, 4}, []float64{1, 1.5, 2}
			j.Speeds = []solver.TypeSpeed{{NodeType: "fast", AllowedNodes: []int{2}}}
		}, 20 * time.Minute},
		"resumes on other type": {func(j *solver.Job) {
			j.TrainingTime, j.RestartTime, j.MoveTime = time.Hour, time.Minute, new(time.Hour)
		}, 31 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := one
			test.change(&job)
			s := solver.Snapshot{
				NodeTypes: []solver.NodeType{{ID: "fast", Nodes: 2, Speed: 2}, {ID: "slow", Nodes: 4}}, Jobs: []solver.Job{job},
			}
			f, err := a.Forecast(t.Context(), &s, solver.Options{Objective: solver.ObjectiveTotalTime}, solver.ForecastOptions{EveryEvent: true})
			if err != nil {
				t.Fatal(err)
			}
			if end := f.Jobs[0].End; !f.Complete || end == nil || *end != test.want {
				t.Errorf("ends after %v; want %v", end, test.want)
			}
		})
	}
}

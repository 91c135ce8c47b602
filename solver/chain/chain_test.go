package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elastalloc/elastalloc/solver"
)

// fake is a backend that answers as a test wants it to.
type fake struct {
	name  solver.BackendName
	solve func(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error)
}

func (f fake) Name() solver.BackendName { return f.name }

func (f fake) Solve(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
	return f.solve(ctx, p, o)
}

// gives returns a backend with a given result. The chain may change a plan, so
// each call has its own.
func gives(name solver.BackendName, result solver.Result) fake {
	return fake{name, func(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
		own := result
		own.Plan = result.Plan.Clone()
		return own, nil
	}}
}

func fails(name solver.BackendName, err error) fake {
	return fake{name, func(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
		return solver.Result{}, err
	}}
}

func panics(name solver.BackendName) fake {
	return fake{name, func(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
		panic("a step of -1")
	}}
}

// hangs returns a backend that has no plan until its context ends.
func hangs(name solver.BackendName) fake {
	return fake{name, func(ctx context.Context, _ *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
		<-ctx.Done()
		return solver.Result{}, fmt.Errorf("%w: no solution file", solver.ErrTimedOut)
	}}
}

// The snapshot of these tests has three nodes, two steps of 100 s and linear
// speed: a job that holds 2 nodes and finishes within the first step, and a queued
// one of 1000 s. The best plan is {2, 1}, {1, 2}: 1 + 1 and 0.1 + 0.3.
func twoJobs() *solver.Snapshot {
	short, long := solver.NewJob("short", 150*time.Second), solver.NewJob("long", 1000*time.Second)
	for _, job := range []*solver.Job{&short, &long} {
		job.MaxNodes = 2
		job.Scaling.DoublingEfficiency = 1
	}
	short.CurrentNodes = 2
	return &solver.Snapshot{
		TotalNodes: 3,
		Horizon:    solver.Horizon{Step: 100 * time.Second, Steps: 2},
		Jobs:       []solver.Job{short, long},
	}
}

func bestPlan() solver.Plan   { return solver.Plan{solver.Nodes(2, 1), solver.Nodes(1, 2)} }
func greedyPlan() solver.Plan { return solver.Plan{solver.Nodes(2, 2), solver.Nodes(1, 1)} }
func worsePlan() solver.Plan  { return solver.Plan{solver.Nodes(1, 1), solver.Nodes(1, 1)} }

const (
	bestObjective   = 2.4
	greedyObjective = 2.3
	// 100/150 + 1 + 0.1 + 0.2.
	worseObjective = 100.0/150 + 1.3
	ownBound       = 2.5 // of the prover
)

func greedy() fake {
	return gives(solver.BackendGreedy, solver.Result{
		Plan: greedyPlan(), Bound: math.Inf(1), Limit: solver.LimitNone, Heuristic: true,
	})
}

func exact() fake {
	return gives(solver.BackendExact, solver.Result{
		Plan: bestPlan(), Bound: bestObjective, Limit: solver.LimitNone, Detail: "1 node",
	})
}

func newChain(greedy solver.Backend, backends ...solver.Backend) *Chain {
	return New(Config{
		Backends: backends,
		Greedy:   greedy,
		Prover:   proves(fails("prover", solver.ErrUnavailable)),
	})
}

// prover is a backend with a bound beside it.
type prover struct {
	solver.Backend
	bound         func(context.Context, *solver.Problem) float64
	contradiction string // of the bound
}

func (p prover) Bound(ctx context.Context, problem *solver.Problem) (float64, []float64, string) {
	return p.bound(ctx, problem), nil, p.contradiction
}

// proves returns a prover that solves as the backend does and proves ownBound.
func proves(backend solver.Backend) prover {
	return prover{Backend: backend, bound: func(context.Context, *solver.Problem) float64 { return ownBound }}
}

// bounds returns a prover that proves the given bound and nothing else.
func bounds(bound func(context.Context, *solver.Problem) float64) prover {
	return prover{Backend: fails(solver.BackendExact, solver.ErrUnavailable), bound: bound}
}

func options(change func(*solver.Options)) solver.Options {
	o := solver.DefaultOptions()
	if change != nil {
		change(&o)
	}
	return o
}

// equal compares decisions apart from the times they took.
func equal() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreFields(solver.Report{}, "SolveTime", "Warnings"),
		cmpopts.IgnoreFields(solver.Attempt{}, "Duration"),
		cmpopts.EquateApprox(0, 1e-12),
		cmpopts.EquateEmpty(),
	}
}

func TestAllocations(t *testing.T) {
	// The backend keeps both nodes on the finished job; the chain releases one.
	lazy := gives(solver.BackendExact, solver.Result{Plan: greedyPlan(), Bound: bestObjective})
	d, err := newChain(greedy(), lazy).Allocate(t.Context(), twoJobs(), solver.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	want := []solver.Allocation{
		{JobID: "short", Current: 2, Nodes: 2, Change: solver.ChangeKeep,
			PlannedNodes: []int{2, 1}, PlannedProgress: []float64{1, 1}},
		{JobID: "long", Current: 0, Nodes: 1, Change: solver.ChangeStart,
			PlannedNodes: []int{1, 1}, PlannedProgress: []float64{0.1, 0.2}},
	}
	if diff := cmp.Diff(want, d.Allocations, equal()); diff != "" {
		t.Errorf("allocations (-want +got):\n%s", diff)
	}
}

func TestCallerLeaves(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	leaves := fake{solver.BackendExact,
		func(ctx context.Context, _ *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
			cancel()
			return solver.Result{}, ctx.Err()
		}}
	c := newChain(panics(solver.BackendGreedy), leaves, panics(solver.BackendCBC))
	for _, when := range []string{"while a backend is asked", "before"} {
		if d, err := c.Allocate(ctx, twoJobs(), solver.DefaultOptions()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Allocate() = %+v, %v; want context.Canceled", when, d, err)
		}
	}
}

func TestCallersDeadlineHasPassed(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()

	d, err := newChain(greedy(), panics(solver.BackendExact)).Allocate(ctx, twoJobs(), solver.DefaultOptions())
	if err != nil {
		t.Fatalf("greedy can answer, but: %v", err)
	}
	want := []solver.Attempt{
		{Backend: solver.BackendExact, Outcome: solver.OutcomeTimedOut, Detail: "the time budget left it no time"},
		{Backend: solver.BackendGreedy, Outcome: solver.OutcomeAnswered},
	}
	if diff := cmp.Diff(want, d.Report.Attempts, equal()); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}

	c := newChain(fails(solver.BackendGreedy, solver.ErrTimedOut))
	if d, err := c.Allocate(ctx, twoJobs(), solver.DefaultOptions()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Allocate() = %+v, %v; want context.DeadlineExceeded", d, err)
	}
}

// TestBackendsThatHang runs on a fake clock, so the durations are exact.
func TestBackendsThatHang(t *testing.T) {
	tests := []struct {
		name     string
		budget   time.Duration // of the options
		fallback time.Duration // of the chain
		deadline time.Duration // of the context
		want     []time.Duration
	}{
		{
			// 100 ms are kept for greedy; of the rest each backend leaves a quarter
			// of what it finds, apart from the last.
			name: "the budget asked for", budget: time.Second, fallback: time.Hour,
			want: []time.Duration{675 * time.Millisecond, 168750 * time.Microsecond, 56250 * time.Microsecond, 0},
		},
		{
			name: "the default budget", fallback: time.Second,
			want: []time.Duration{675 * time.Millisecond, 168750 * time.Microsecond, 56250 * time.Microsecond, 0},
		},
		{
			// Less 100 ms for the answer to travel: 900 ms.
			name: "the caller's deadline", budget: time.Hour, fallback: time.Hour, deadline: time.Second,
			want: []time.Duration{607500 * time.Microsecond, 151875000, 50625000, 0},
		},
		{
			name: "only the caller's deadline", deadline: time.Second,
			want: []time.Duration{607500 * time.Microsecond, 151875000, 50625000, 0},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				c := newChain(greedy(), hangs(solver.BackendExact), hangs(solver.BackendCBC), hangs(solver.BackendHiGHS))
				c.config.DefaultBudget = test.fallback
				c.config.Prover = proves(hangs(solver.BackendHiGHS)) // Or time is kept for verifying HiGHS.
				d, err := c.Allocate(ctx, twoJobs(), options(func(o *solver.Options) { o.TimeBudget = test.budget }))
				if err != nil {
					t.Fatal(err)
				}
				var got []time.Duration
				for _, a := range d.Report.Attempts {
					got = append(got, a.Duration)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("durations (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestNoBudgetAtAll(t *testing.T) {
	unlimited := func(what string, ctx context.Context) {
		if _, limited := ctx.Deadline(); limited {
			t.Errorf("the context of the %s has a deadline", what)
		}
	}
	spy := fake{solver.BackendExact,
		func(ctx context.Context, _ *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
			unlimited("backend", ctx)
			return solver.Result{Plan: bestPlan(), Bound: math.Inf(1)}, nil
		}}
	c := newChain(greedy(), spy)
	c.config.Prover = bounds(func(ctx context.Context, _ *solver.Problem) float64 {
		unlimited("bound", ctx)
		return ownBound
	})
	if _, err := c.Allocate(t.Context(), twoJobs(), solver.DefaultOptions()); err != nil {
		t.Fatal(err)
	}
}

func TestBoundEndsWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newChain(greedy(), hangs(solver.BackendExact))
		c.config.DefaultBudget = time.Second
		c.config.Prover = bounds(func(ctx context.Context, _ *solver.Problem) float64 {
			<-ctx.Done()
			return ownBound
		})
		d, err := c.Allocate(t.Context(), twoJobs(), solver.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Second || d.Report.Attempts[0].Duration != 900*time.Millisecond {
			t.Errorf("took %v with attempts %+v; want 1s, of which 900ms searching", took, d.Report.Attempts)
		}
	})
}

func TestSolveOptionsReachTheBackend(t *testing.T) {
	var got solver.SolveOptions
	spy := fake{solver.BackendCBC,
		func(_ context.Context, _ *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
			got = o
			return solver.Result{Plan: bestPlan(), Bound: bestObjective}, nil
		}}
	o := options(func(o *solver.Options) {
		o.Backend, o.Formulation, o.RelativeGap = solver.BackendCBC, solver.FormulationPaper, 0.01
		o.Certificate = true
	})
	if _, err := newChain(greedy(), spy).Allocate(t.Context(), twoJobs(), o); err != nil {
		t.Fatal(err)
	}
	want := solver.SolveOptions{
		RelativeGap: 0.01, Formulation: solver.FormulationPaper, Certificate: true,
		Incumbent: solver.Plan{solver.Nodes(2, 1), solver.Nodes(1, 1)}, // That of greedy, whose finished job releases a node.
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// TestCertificate checks that a certificate comes with the answer whose bound it is of, and
// that its jobs are then those of the snapshot.
func TestCertificate(t *testing.T) {
	s := twoJobs()
	never := solver.NewJob("never", time.Hour)
	never.MinNodes = 16
	s.Jobs = append([]solver.Job{never}, s.Jobs...)
	of := func(job int) solver.Certificate { return solver.Certificate{{Job: job, Prices: []float64{3, 4, 5, 6}}} }
	proof := solver.Result{Plan: bestPlan(), Bound: bestObjective, Certificate: of(1)}
	none := solver.Result{Plan: bestPlan(), Bound: math.Inf(1), Claim: &solver.Claim{Optimal: true, Objective: bestObjective}}
	for name, test := range map[string]struct {
		backend solver.Backend
		want    solver.Certificate
	}{
		"of the backend":      {gives(solver.BackendExact, proof), of(2)},
		"of the verification": {gives(solver.BackendCBC, none), of(2)},
		"of greedy":           {fails(solver.BackendCBC, solver.ErrUnavailable), nil},
	} {
		c := New(Config{
			Backends: []solver.Backend{test.backend}, Greedy: greedy(),
			Prover: proves(gives(solver.BackendExact, proof)),
		})
		o := options(func(o *solver.Options) { o.Backend = test.backend.Name() })
		d, err := c.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, d.Report.Certificate); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEmptyProblems(t *testing.T) {
	empty := solver.Result{Plan: solver.Plan{}, Limit: solver.LimitNone}
	noNodes := twoJobs()
	noNodes.TotalNodes = 0
	noJobs := twoJobs()
	noJobs.Jobs = nil
	tests := []struct {
		name     string
		snapshot *solver.Snapshot
		want     []solver.Change
		idle     int
	}{
		{name: "no jobs", snapshot: noJobs, idle: 3},
		{name: "zero nodes", snapshot: noNodes, want: []solver.Change{solver.ChangePreempt, solver.ChangeWait}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(gives(solver.BackendGreedy, empty), gives(solver.BackendExact, empty))
			d, err := c.Allocate(t.Context(), test.snapshot, solver.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			want := solver.Report{
				Backend: solver.BackendExact, Reason: solver.ReasonOptimal, Limit: solver.LimitNone, IdleNodes: test.idle,
				Attempts: []solver.Attempt{{Backend: solver.BackendExact, Outcome: solver.OutcomeAnswered}},
			}
			if diff := cmp.Diff(want, d.Report, equal()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			var changes []solver.Change
			for _, a := range d.Allocations {
				changes = append(changes, a.Change)
			}
			if diff := cmp.Diff(test.want, changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

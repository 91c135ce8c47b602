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
	"github.com/elastalloc/elastalloc/solver/problem"
)

// fake is a backend with the given function Solve.
type fake struct {
	name  solver.BackendName
	solve func(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error)
}

// paperOptions returns the defaults with the objective of the paper, for whose horizon the plans of the
// tests are written.
func paperOptions() solver.Options {
	return solver.Options{Objective: solver.ObjectiveProgress}.WithDefaults()
}

func (f fake) Name() solver.BackendName { return f.name }

func (f fake) Solve(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	return f.solve(ctx, p, o)
}

// returning returns a backend that returns a copy of a result, because the chain may modify the plan.
func returning(name solver.BackendName, result problem.Result) fake {
	return fake{name, func(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
		copied := result
		copied.Plan = result.Plan.Clone()
		return copied, nil
	}}
}

func failing(name solver.BackendName, err error) fake {
	return fake{name, func(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
		return problem.Result{}, err
	}}
}

func panicking(name solver.BackendName) fake {
	return fake{name, func(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
		panic("a step of -1")
	}}
}

// hanging returns a backend that returns an error when its context is done.
func hanging(name solver.BackendName) fake {
	return fake{name, func(ctx context.Context, _ *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
		<-ctx.Done()
		return problem.Result{}, fmt.Errorf("%w: no solution file", solver.ErrTimedOut)
	}}
}

// twoJobs returns a snapshot with three nodes, two steps of 100 s and linear speed. One job has 2 nodes and
// completes within the first step. The other is queued and needs 1000 s on one node. The best plan is
// {2, 1}, {1, 2}, with the objective (1 + 1) + (0.1 + 0.3).
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

func bestPlan() problem.Plan   { return problem.Plan{solver.Nodes(2, 1), solver.Nodes(1, 2)} }
func greedyPlan() problem.Plan { return problem.Plan{solver.Nodes(2, 2), solver.Nodes(1, 1)} }
func worsePlan() problem.Plan  { return problem.Plan{solver.Nodes(1, 1), solver.Nodes(1, 1)} }

const (
	bestObjective   = 2.4
	greedyObjective = 2.3
	// 100/150 + 1 + 0.1 + 0.2.
	worseObjective = 100.0/150 + 1.3
	proverBound    = 2.5 // of the prover
)

func greedy() fake {
	return returning(solver.BackendGreedy, problem.Result{
		Plan: greedyPlan(), Bound: math.Inf(1), Limit: solver.LimitNone, Heuristic: true,
	})
}

func exact() fake {
	return returning(solver.BackendExact, problem.Result{
		Plan: bestPlan(), Bound: bestObjective, Limit: solver.LimitNone, Detail: "1 node",
	})
}

func newChain(greedy problem.Backend, backends ...problem.Backend) *Chain {
	return New(Config{
		Backends: backends,
		Greedy:   greedy,
		Prover:   proverOf(failing("prover", solver.ErrUnavailable)),
	})
}

// prover adds a bound to a backend.
type prover struct {
	problem.Backend
	bound         func(context.Context, *problem.Problem) float64
	contradiction string // of the bound
}

func (p prover) Bound(ctx context.Context, problem *problem.Problem) (float64, []float64, string) {
	return p.bound(ctx, problem), nil, p.contradiction
}

// proverOf returns a prover that solves as the backend does and proves proverBound.
func proverOf(backend problem.Backend) prover {
	return prover{Backend: backend, bound: func(context.Context, *problem.Problem) float64 { return proverBound }}
}

// boundProver returns a prover that only proves the given bound.
func boundProver(bound func(context.Context, *problem.Problem) float64) prover {
	return prover{Backend: failing(solver.BackendExact, solver.ErrUnavailable), bound: bound}
}

func options(change func(*solver.Options)) solver.Options {
	o := paperOptions()
	if change != nil {
		change(&o)
	}
	return o
}

// equal compares decisions without durations and warnings.
func equal() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreFields(solver.Report{}, "SolveTime", "Warnings"),
		cmpopts.IgnoreFields(solver.Attempt{}, "Duration"),
		cmpopts.EquateApprox(0, 1e-12),
		cmpopts.EquateEmpty(),
	}
}

func TestAllocations(t *testing.T) {
	// The backend keeps both nodes on the completed job, and the chain releases one.
	backend := returning(solver.BackendExact, problem.Result{Plan: greedyPlan(), Bound: bestObjective})
	d, err := newChain(greedy(), backend).Allocate(t.Context(), twoJobs(), paperOptions())
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

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	canceling := fake{solver.BackendExact,
		func(ctx context.Context, _ *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
			cancel()
			return problem.Result{}, ctx.Err()
		}}
	c := newChain(panicking(solver.BackendGreedy), canceling, panicking(solver.BackendCBC))
	for _, when := range []string{"during the call of a backend", "before the decision"} {
		if d, err := c.Allocate(ctx, twoJobs(), paperOptions()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: Allocate() = %+v, %v; want context.Canceled", when, d, err)
		}
	}
}

func TestExpiredDeadline(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()

	d, err := newChain(greedy(), panicking(solver.BackendExact)).Allocate(ctx, twoJobs(), paperOptions())
	if err != nil {
		t.Fatalf("error %v; must be greedy's plan", err)
	}
	want := []solver.Attempt{
		{Backend: solver.BackendExact, Outcome: solver.OutcomeTimedOut, Detail: "the time budget expired before the call"},
		{Backend: solver.BackendGreedy, Outcome: solver.OutcomeAnswered},
	}
	if diff := cmp.Diff(want, d.Report.Attempts, equal()); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}

	c := newChain(failing(solver.BackendGreedy, solver.ErrTimedOut))
	if d, err := c.Allocate(ctx, twoJobs(), paperOptions()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Allocate() = %+v, %v; want context.DeadlineExceeded", d, err)
	}
}

// TestHangingBackends checks the times that backends get. It runs on a fake clock, so the durations are
// exact.
func TestHangingBackends(t *testing.T) {
	tests := []struct {
		name     string
		budget   time.Duration // of the options
		fallback time.Duration // of the chain
		deadline time.Duration // of the context
		want     []time.Duration
	}{
		{
			// 100 ms are reserved for greedy. Each backend except the last leaves a quarter of the
			// remaining time.
			name: "the requested budget", budget: time.Second, fallback: time.Hour,
			want: []time.Duration{675 * time.Millisecond, 168750 * time.Microsecond, 56250 * time.Microsecond, 0},
		},
		{
			name: "the default budget", fallback: time.Second,
			want: []time.Duration{675 * time.Millisecond, 168750 * time.Microsecond, 56250 * time.Microsecond, 0},
		},
		{
			// 900 ms remain after the margin of 100 ms.
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
				c := newChain(greedy(), hanging(solver.BackendExact), hanging(solver.BackendCBC), hanging(solver.BackendHiGHS))
				c.config.DefaultBudget = test.fallback
				c.config.Prover = proverOf(hanging(solver.BackendHiGHS)) // Otherwise time is reserved for verifying HiGHS.
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

func TestNoBudget(t *testing.T) {
	unlimited := func(what string, ctx context.Context) {
		if _, limited := ctx.Deadline(); limited {
			t.Errorf("the context of the %s has a deadline", what)
		}
	}
	spy := fake{solver.BackendExact,
		func(ctx context.Context, _ *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
			unlimited("backend", ctx)
			return problem.Result{Plan: bestPlan(), Bound: math.Inf(1)}, nil
		}}
	c := newChain(greedy(), spy)
	c.config.Prover = boundProver(func(ctx context.Context, _ *problem.Problem) float64 {
		unlimited("bound", ctx)
		return proverBound
	})
	if _, err := c.Allocate(t.Context(), twoJobs(), paperOptions()); err != nil {
		t.Fatal(err)
	}
}

func TestBoundStopsWithTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := newChain(greedy(), hanging(solver.BackendExact))
		c.config.DefaultBudget = time.Second
		c.config.Prover = boundProver(func(ctx context.Context, _ *problem.Problem) float64 {
			<-ctx.Done()
			return proverBound
		})
		d, err := c.Allocate(t.Context(), twoJobs(), paperOptions())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Second || d.Report.Attempts[0].Duration != 900*time.Millisecond {
			t.Errorf("took %v with attempts %+v; want 1s, of which 900ms searching", took, d.Report.Attempts)
		}
	})
}

func TestSolveOptionsReachTheBackend(t *testing.T) {
	var got problem.SolveOptions
	spy := fake{solver.BackendCBC,
		func(_ context.Context, _ *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
			got = o
			return problem.Result{Plan: bestPlan(), Bound: bestObjective}, nil
		}}
	o := options(func(o *solver.Options) {
		o.Backend, o.Formulation, o.RelativeGap = solver.BackendCBC, solver.FormulationPaper, 0.01
		o.Certificate = true
	})
	if _, err := newChain(greedy(), spy).Allocate(t.Context(), twoJobs(), o); err != nil {
		t.Fatal(err)
	}
	want := problem.SolveOptions{
		RelativeGap: 0.01, Formulation: solver.FormulationPaper, Certificate: true,
		Incumbent: problem.Plan{solver.Nodes(2, 1), solver.Nodes(1, 1)}, // Greedy's plan, in which the completed job has released a node.
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

// TestCertificate checks that the report has the certificate of its bound, with the job indices of the
// snapshot.
func TestCertificate(t *testing.T) {
	s := twoJobs()
	never := solver.NewJob("never", time.Hour)
	never.MinNodes = 16
	s.Jobs = append([]solver.Job{never}, s.Jobs...)
	of := func(job int) solver.Certificate { return solver.Certificate{{Job: job, Prices: []float64{3, 4, 5, 6}}} }
	proof := problem.Result{Plan: bestPlan(), Bound: bestObjective, Certificate: of(1)}
	none := problem.Result{Plan: bestPlan(), Bound: math.Inf(1), Claim: &problem.Claim{Optimal: true, Objective: bestObjective}}
	for name, test := range map[string]struct {
		backend problem.Backend
		want    solver.Certificate
	}{
		"of the backend":      {returning(solver.BackendExact, proof), of(2)},
		"of the verification": {returning(solver.BackendCBC, none), of(2)},
		"of greedy":           {failing(solver.BackendCBC, solver.ErrUnavailable), nil},
	} {
		c := New(Config{
			Backends: []problem.Backend{test.backend}, Greedy: greedy(),
			Prover: proverOf(returning(solver.BackendExact, proof)),
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
	empty := problem.Result{Plan: problem.Plan{}, Limit: solver.LimitNone}
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
			c := newChain(returning(solver.BackendGreedy, empty), returning(solver.BackendExact, empty))
			d, err := c.Allocate(t.Context(), test.snapshot, paperOptions())
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

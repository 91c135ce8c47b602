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

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestReport(t *testing.T) {
	const first, cbc, highs, last = solver.BackendExact, solver.BackendCBC, solver.BackendHiGHS, solver.BackendGreedy
	answered := func(name solver.BackendName, detail string) solver.Attempt {
		return solver.Attempt{Backend: name, Outcome: solver.OutcomeAnswered, Detail: detail}
	}
	// Reports of the exact backend and of greedy, which the tests modify.
	optimum := solver.Report{
		Backend: first, Reason: solver.ReasonOptimal, Limit: solver.LimitNone,
		Objective: bestObjective, Bound: bestObjective, GreedyObjective: greedyObjective,
		Attempts: []solver.Attempt{answered(first, "1 node")},
	}
	heuristic := solver.Report{
		Backend: last, Reason: solver.ReasonHeuristic, Limit: solver.LimitNone,
		Objective: greedyObjective, Bound: proverBound, RelativeGap: (proverBound - greedyObjective) / proverBound,
		GreedyObjective: greedyObjective, Attempts: []solver.Attempt{answered(last, "")},
	}
	with := func(r solver.Report, change func(*solver.Report)) solver.Report {
		change(&r)
		return r
	}
	// The report of greedy after a backend has timed out.
	late := with(heuristic, func(r *solver.Report) { r.Limit = solver.LimitTime })
	after := func(r solver.Report, attempts ...solver.Attempt) solver.Report {
		return with(r, func(r *solver.Report) { r.Attempts = append(attempts, r.Attempts...) })
	}
	feasible := func(objective, bound float64, limit solver.Limit) solver.Report {
		return with(optimum, func(r *solver.Report) {
			r.Reason, r.Limit, r.Objective, r.Bound = solver.ReasonFeasible, limit, objective, bound
			r.RelativeGap = (bound - objective) / bound
			r.Attempts = []solver.Attempt{answered(first, "")}
		})
	}

	tests := []struct {
		name     string
		backends []problem.Backend
		greedy   problem.Backend // greedy() if nil
		options  func(*solver.Options)
		want     solver.Report
	}{
		{
			name:     "if the first backend has a plan, no other is called",
			backends: []problem.Backend{exact(), panicking(cbc)},
			want:     optimum,
		},
		{
			name:     "the requested backend is called first",
			backends: []problem.Backend{panicking(cbc), panicking(highs), exact()},
			want:     optimum,
		},
		{
			name: "then the configured backends in order, then greedy",
			backends: []problem.Backend{
				failing(cbc, fmt.Errorf("%w: no such file", solver.ErrUnavailable)),
				hanging(first),
				failing(highs, fmt.Errorf("%w: no solution file", solver.ErrTimedOut)),
			},
			options: func(o *solver.Options) {
				o.Backend = highs
				o.TimeBudget = time.Millisecond
			},
			want: after(late,
				solver.Attempt{Backend: highs, Outcome: solver.OutcomeTimedOut,
					Detail: "backend has no plan in time: no solution file"},
				solver.Attempt{Backend: cbc, Outcome: solver.OutcomeUnavailable,
					Detail: "backend is unavailable: no such file"},
				solver.Attempt{Backend: first, Outcome: solver.OutcomeTimedOut,
					Detail: "backend has no plan in time: no solution file"},
			),
		},
		{
			name:     "a backend that is not configured is unavailable",
			backends: []problem.Backend{exact()},
			options:  func(o *solver.Options) { o.Backend = cbc },
			want: after(optimum, solver.Attempt{
				Backend: cbc, Outcome: solver.OutcomeUnavailable,
				Detail: `backend is unavailable: "cbc" is not configured`,
			}),
		},
		{
			name:     "context.DeadlineExceeded is a timeout",
			backends: []problem.Backend{failing(first, context.DeadlineExceeded)},
			want: after(late, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeTimedOut, Detail: "context deadline exceeded",
			}),
		},
		{
			name:     "any other error is a crash",
			backends: []problem.Backend{failing(first, errors.New("exit status 255"))},
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeCrashed, Detail: "exit status 255",
			}),
		},
		{
			name:     "a panic is a crash",
			backends: []problem.Backend{panicking(first)},
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeCrashed, Detail: "panic: a step of -1",
			}),
		},
		{
			name: "an illegal plan is rejected",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: problem.Plan{solver.Nodes(2, 2), solver.Nodes(2, 1)}, Bound: 100}),
			},
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeInvalidPlan,
				Detail: "plan uses 4 nodes in step 1; the pool has 3",
			}),
		},
		{
			name: "only a heuristic may leave an admitted job waiting",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: problem.Plan{solver.Nodes(2, 1), solver.Nodes(0, 2)}, Bound: 100}),
			},
			greedy: returning(last, problem.Result{
				Plan: problem.Plan{solver.Nodes(2, 2), solver.Nodes(0, 0)}, Bound: math.Inf(1), Limit: solver.LimitNone, Heuristic: true,
			}),
			want: after(with(heuristic, func(r *solver.Report) {
				r.Objective, r.GreedyObjective, r.RelativeGap, r.IdleNodes = 2, 2, (proverBound-2)/proverBound, 1
			}), solver.Attempt{
				Backend: first, Outcome: solver.OutcomeInvalidPlan,
				Detail: "plan gives job 1 0 nodes in step 1; its legal sizes are [1 2]",
			}),
		},
		{
			name:     "if greedy is requested, no other backend is called",
			backends: []problem.Backend{panicking(first)},
			options:  func(o *solver.Options) { o.Backend = last },
			want:     heuristic,
		},
		{
			name: "no backends but greedy",
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeUnavailable,
				Detail: `backend is unavailable: "exact" is not configured`,
			}),
		},
		{
			name:     "greedy fails, but another backend has a plan",
			backends: []problem.Backend{exact()},
			greedy:   panicking(last),
			want: with(optimum, func(r *solver.Report) {
				r.GreedyObjective = 0
				r.Attempts = append(r.Attempts, solver.Attempt{
					Backend: last, Outcome: solver.OutcomeCrashed, Detail: "panic: a step of -1",
				})
			}),
		},

		{
			name: "an incomplete search",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: worsePlan(), Bound: 3, Limit: solver.LimitTime}),
			},
			want: with(feasible(worseObjective, 3, solver.LimitTime), func(r *solver.Report) { r.IdleNodes = 1 }),
		},
		{
			name: "an incomplete search that has proven the optimum",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: bestPlan(), Bound: bestObjective, Limit: solver.LimitTime}),
			},
			// A complete search might have found another optimum.
			want: with(optimum, func(r *solver.Report) {
				r.Limit, r.Attempts = solver.LimitTime, []solver.Attempt{answered(first, "")}
			}),
		},
		{
			name: "an incomplete search within the requested gap",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: bestPlan(), Bound: proverBound, Limit: solver.LimitTime}),
			},
			options: func(o *solver.Options) { o.RelativeGap = 0.05 },
			want:    feasible(bestObjective, proverBound, solver.LimitTime),
		},
		{
			name: "the requested gap is reached",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: bestPlan(), Bound: proverBound, Limit: solver.LimitNone}),
			},
			options: func(o *solver.Options) { o.RelativeGap = 0.05 },
			want:    feasible(bestObjective, proverBound, solver.LimitGap),
		},
		{
			name: "without a bound of the backend, the prover's is used",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: bestPlan(), Bound: math.Inf(1), Limit: solver.LimitNone}),
			},
			want: feasible(bestObjective, proverBound, solver.LimitNone),
		},
		{
			name: "a bound below the objective by rounding is raised to it",
			backends: []problem.Backend{
				returning(first, problem.Result{Plan: bestPlan(), Bound: bestObjective * (1 - 1e-13), Detail: "1 node"}),
			},
			want: optimum,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.greedy == nil {
				test.greedy = greedy()
			}
			synctest.Test(t, func(t *testing.T) { // For the backends that hang.
				c := newChain(test.greedy, test.backends...)
				d, err := c.Allocate(t.Context(), twoJobs(), options(test.options))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, d.Report, equal()); diff != "" {
					t.Errorf("report (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestHeuristicPlanMayExceedTheBound checks a plan that leaves an admitted job waiting.
func TestHeuristicPlanMayExceedTheBound(t *testing.T) {
	c := newChain(returning(solver.BackendGreedy, problem.Result{Plan: problem.Plan{solver.Nodes(2, 2), solver.Nodes(0, 0)}, Heuristic: true}))
	c.config.Prover = boundProver(func(context.Context, *problem.Problem) float64 { return 1 })
	d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) { o.Backend = solver.BackendGreedy }))
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Report; r.Bound != r.Objective || r.RelativeGap != 0 || r.Reason != solver.ReasonHeuristic {
		t.Errorf("report = %+v; want the bound raised to the objective", r)
	}
}

func TestNoBound(t *testing.T) {
	c := newChain(greedy(), exact())
	c.config.Prover = boundProver(func(context.Context, *problem.Problem) float64 {
		t.Error("the prover is called")
		return proverBound
	})
	o := solver.Options{Backend: solver.BackendGreedy, Objective: solver.ObjectiveProgress, NoBound: true}.WithDefaults()
	d, err := c.Allocate(t.Context(), twoJobs(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Report; !math.IsInf(r.Bound, 1) || !math.IsInf(r.RelativeGap, 1) || r.Reason != solver.ReasonHeuristic {
		t.Errorf("report = %+v; want no bound", r)
	}
	o.Backend = solver.BackendExact
	d, err = c.Allocate(t.Context(), twoJobs(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Report; r.Bound != bestObjective || r.Reason != solver.ReasonOptimal {
		t.Errorf("report = %+v; want the bound of the exact backend", r)
	}
}

// TestContradiction checks that a legal plan above the bound of any backend is reported as a contradiction,
// and that the bound is then one that needs no search.
func TestContradiction(t *testing.T) {
	const first = solver.BackendExact
	tests := []struct {
		name    string
		backend problem.Backend
		bound   float64 // of the prover
		prover  string  // contradiction of the prover
		want    string
	}{
		{
			name:    "a backend's bound is wrong",
			backend: returning(first, problem.Result{Plan: bestPlan(), Bound: 2.39}),
			want:    "the bound 2.39 is wrong: a legal plan of exact has objective 2.4",
		},
		{
			name:    "the bound of the prover is wrong",
			backend: returning(first, problem.Result{Plan: bestPlan(), Bound: math.Inf(1)}), bound: 2.39,
			want: "the bound 2.39 is wrong: a legal plan of exact has objective 2.4",
		},
		{
			name:    "the prover reports a contradiction",
			backend: returning(first, problem.Result{Plan: bestPlan(), Bound: math.Inf(1)}), bound: 2.5, prover: "lemma 1 bounds 3 by 2",
			want: "lemma 1 bounds 3 by 2",
		},
		{
			name:    "a backend reports a contradiction",
			backend: returning(first, problem.Result{Plan: bestPlan(), Bound: bestObjective, Contradiction: "lemma 1 bounds 3 by 2"}),
			want:    "lemma 1 bounds 3 by 2",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(greedy(), test.backend)
			p := boundProver(func(context.Context, *problem.Problem) float64 { return test.bound })
			p.contradiction = test.prover
			c.config.Prover = p
			d, err := c.Allocate(t.Context(), twoJobs(), paperOptions())
			if err != nil {
				t.Fatal(err)
			}
			trivial := problem.NewProblem(twoJobs(), solver.AdmissionFIFO).TrivialBound()
			if r := d.Report; r.Contradiction != test.want || r.Objective != bestObjective || r.Bound != trivial ||
				r.Reason != solver.ReasonFeasible || r.Limit != solver.LimitWork {
				t.Errorf("report = %+v; want contradiction %q and the bound %v that needs no search", r, test.want, trivial)
			}
		})
	}
}

// TestTinyObjective checks that the rounding of an objective near 0 is not reported as a contradiction.
func TestTinyObjective(t *testing.T) {
	s := twoJobs()
	for i := range s.Jobs {
		s.Jobs[i].Weight = new(math.SmallestNonzeroFloat64)
	}
	c := newChain(greedy(), returning(solver.BackendExact, problem.Result{Plan: bestPlan(), Bound: 0}))
	d, err := c.Allocate(t.Context(), s, paperOptions())
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Report; !(r.Objective > 0) || r.Contradiction != "" || r.Reason != solver.ReasonOptimal {
		t.Errorf("report = %+v; want an optimum above 0", r)
	}
}

// TestContradictionWithoutPlan checks that a contradiction is reported even if the plan of its backend is
// rejected or the decision fails.
func TestContradictionWithoutPlan(t *testing.T) {
	const first, next, found = solver.BackendExact, solver.BackendHiGHS, "lemma 1 bounds 3 by 2"
	illegal := returning(first, problem.Result{Plan: problem.Plan{solver.Nodes(9, 9), solver.Nodes(9, 9)}, Bound: 3, Contradiction: found})
	broken := fake{first, func(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
		return problem.Result{Contradiction: found}, errors.New("broken")
	}}
	other := returning(next, problem.Result{Plan: bestPlan(), Bound: bestObjective})
	tests := []struct {
		name     string
		backends []problem.Backend
		prover   problem.Backend
		noBound  bool
		want     solver.BackendName
	}{
		{name: "the plan is illegal, greedy decides", backends: []problem.Backend{illegal}, prover: exact(), want: solver.BackendGreedy},
		{name: "the backend fails, greedy decides", backends: []problem.Backend{broken}, prover: exact(), want: solver.BackendGreedy},
		{name: "without a bound", backends: []problem.Backend{broken}, prover: exact(), noBound: true, want: solver.BackendGreedy},
		{name: "another backend decides", backends: []problem.Backend{illegal, other}, prover: exact(), want: next},
		{name: "the verification fails", backends: []problem.Backend{claiming(next, bestPlan(), true)}, prover: broken, want: next},
		{name: "the plan of the verification is illegal",
			backends: []problem.Backend{claiming(next, bestPlan(), true)}, prover: illegal, want: next},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(greedy(), test.backends...)
			c.config.Prover = proverOf(test.prover)
			d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) { o.NoBound = test.noBound }))
			if err != nil {
				t.Fatal(err)
			}
			bound := problem.NewProblem(twoJobs(), solver.AdmissionFIFO).TrivialBound()
			if test.noBound {
				bound = math.Inf(1)
			}
			if r := d.Report; r.Contradiction != found || r.Backend != test.want || r.Bound != bound || r.Reason == solver.ReasonOptimal {
				t.Errorf("report = %+v; want the contradiction, a plan of %s and the bound %v that needs no search", r, test.want, bound)
			}
		})
	}
	c := newChain(greedy())
	c.config.Prover = proverOf(illegal)
	result, err := c.Solve(t.Context(), problem.NewProblem(twoJobs(), solver.AdmissionFIFO), problem.SolveOptions{})
	if err == nil || result.Contradiction != found {
		t.Errorf("Solve() = %+v, %v; want an error and the contradiction", result, err)
	}
	failingChain := newChain(fake{solver.BackendGreedy, broken.solve}, broken)
	if d, err := failingChain.Allocate(t.Context(), twoJobs(), paperOptions()); err == nil || d.Report.Contradiction != found {
		t.Errorf("Allocate() = %+v, %v; want an error and the contradiction", d, err)
	}
}

func TestErrors(t *testing.T) {
	const first, last = solver.BackendExact, solver.BackendGreedy
	broken := errors.New("broken")
	tests := []struct {
		name    string
		greedy  problem.Backend
		backend problem.Backend
		bound   float64 // of the prover, a panic if negative
		want    string
	}{
		{
			name: "greedy fails too", greedy: failing(last, broken), backend: panicking(first),
			want: "no backend returned a legal plan: exact crashed: panic: a step of -1; greedy crashed: broken",
		},
		{
			name:    "greedy has an illegal plan",
			greedy:  returning(last, problem.Result{Plan: problem.Plan{solver.Nodes(2, 2)}, Heuristic: true}),
			backend: failing(first, broken),
			want:    "no backend returned a legal plan: exact crashed: broken; greedy invalid-plan: plan has 1 jobs; the problem has 2",
		},
		{
			name: "a bound is NaN", greedy: greedy(),
			backend: returning(first, problem.Result{Plan: bestPlan(), Bound: math.NaN()}),
			want:    "the bound for the plan of exact is NaN; must be finite",
		},
		{
			name: "the prover panics", greedy: greedy(), backend: failing(first, broken), bound: -1,
			want: "bound of exact: panic: a bound below 0",
		},
		{
			name: "the bound of the prover is infinite", greedy: greedy(), backend: failing(first, broken), bound: math.Inf(1),
			want: "the bound for the plan of greedy is +Inf; must be finite",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(test.greedy, test.backend)
			c.config.Prover = boundProver(func(context.Context, *problem.Problem) float64 {
				if test.bound < 0 {
					panic("a bound below 0")
				}
				return test.bound
			})
			d, err := c.Allocate(t.Context(), twoJobs(), paperOptions())
			if err == nil {
				t.Fatalf("Allocate() = %+v; want an error", d)
			}
			if err.Error() != test.want {
				t.Errorf("error %q; want %q", err, test.want)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %q wraps an error of the caller's context", err)
			}
		})
	}
}

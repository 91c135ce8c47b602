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
)

func TestReport(t *testing.T) {
	const first, cbc, highs, last = solver.BackendExact, solver.BackendCBC, solver.BackendHiGHS, solver.BackendGreedy
	answered := func(name solver.BackendName, detail string) solver.Attempt {
		return solver.Attempt{Backend: name, Outcome: solver.OutcomeAnswered, Detail: detail}
	}
	// What most reports of the optimal backend and of greedy have in common.
	optimum := solver.Report{
		Backend: first, Reason: solver.ReasonOptimal, Limit: solver.LimitNone,
		Objective: bestObjective, Bound: bestObjective, GreedyObjective: greedyObjective,
		Attempts: []solver.Attempt{answered(first, "1 node")},
	}
	heuristic := solver.Report{
		Backend: last, Reason: solver.ReasonHeuristic, Limit: solver.LimitNone,
		Objective: greedyObjective, Bound: ownBound, RelativeGap: (ownBound - greedyObjective) / ownBound,
		GreedyObjective: greedyObjective, Attempts: []solver.Attempt{answered(last, "")},
	}
	with := func(r solver.Report, change func(*solver.Report)) solver.Report {
		change(&r)
		return r
	}
	// What greedy's is where the time was too short for another.
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
		backends []solver.Backend
		greedy   solver.Backend // answers if nil
		options  func(*solver.Options)
		want     solver.Report
	}{
		{
			name:     "the first backend answers and no other is asked",
			backends: []solver.Backend{exact(), panics(cbc)},
			want:     optimum,
		},
		{
			name:     "the backend asked for comes first",
			backends: []solver.Backend{panics(cbc), panics(highs), exact()},
			want:     optimum,
		},
		{
			name: "then the configured ones in order, then greedy",
			backends: []solver.Backend{
				fails(cbc, fmt.Errorf("%w: no such file", solver.ErrUnavailable)),
				hangs(first),
				fails(highs, fmt.Errorf("%w: no solution file", solver.ErrTimedOut)),
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
			backends: []solver.Backend{exact()},
			options:  func(o *solver.Options) { o.Backend = cbc },
			want: after(optimum, solver.Attempt{
				Backend: cbc, Outcome: solver.OutcomeUnavailable,
				Detail: `backend is unavailable: "cbc" is not configured`,
			}),
		},
		{
			name:     "a bare deadline error is a time-out",
			backends: []solver.Backend{fails(first, context.DeadlineExceeded)},
			want: after(late, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeTimedOut, Detail: "context deadline exceeded",
			}),
		},
		{
			name:     "any other error is a crash",
			backends: []solver.Backend{fails(first, errors.New("exit status 255"))},
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeCrashed, Detail: "exit status 255",
			}),
		},
		{
			name:     "so is a panic",
			backends: []solver.Backend{panics(first)},
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeCrashed, Detail: "panic: a step of -1",
			}),
		},
		{
			name: "an illegal plan is refused",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: solver.Plan{solver.Nodes(2, 2), solver.Nodes(2, 1)}, Bound: 100}),
			},
			want: after(heuristic, solver.Attempt{
				Backend: first, Outcome: solver.OutcomeInvalidPlan,
				Detail: "plan uses 4 nodes in step 1; the pool has 3",
			}),
		},
		{
			name: "only a heuristic may leave an admitted job waiting",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: solver.Plan{solver.Nodes(2, 1), solver.Nodes(0, 2)}, Bound: 100}),
			},
			greedy: gives(last, solver.Result{
				Plan: solver.Plan{solver.Nodes(2, 2), solver.Nodes(0, 0)}, Bound: math.Inf(1), Limit: solver.LimitNone, Heuristic: true,
			}),
			want: after(with(heuristic, func(r *solver.Report) {
				r.Objective, r.GreedyObjective, r.RelativeGap, r.IdleNodes = 2, 2, (ownBound-2)/ownBound, 1
			}), solver.Attempt{
				Backend: first, Outcome: solver.OutcomeInvalidPlan,
				Detail: "plan gives job 1 0 nodes in step 1; its legal sizes are [1 2]",
			}),
		},
		{
			name:     "asking for greedy asks only greedy",
			backends: []solver.Backend{panics(first)},
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
			name:     "greedy fails where only its objective is wanted",
			backends: []solver.Backend{exact()},
			greedy:   panics(last),
			want: with(optimum, func(r *solver.Report) {
				r.GreedyObjective = 0
				r.Attempts = append(r.Attempts, solver.Attempt{
					Backend: last, Outcome: solver.OutcomeCrashed, Detail: "panic: a step of -1",
				})
			}),
		},

		{
			name: "a search cut short",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: worsePlan(), Bound: 3, Limit: solver.LimitTime}),
			},
			want: with(feasible(worseObjective, 3, solver.LimitTime), func(r *solver.Report) { r.IdleNodes = 1 }),
		},
		{
			name: "a search cut short just when it had proven the optimum",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: bestPlan(), Bound: bestObjective, Limit: solver.LimitTime}),
			},
			// More time may have found another plan as good.
			want: with(optimum, func(r *solver.Report) {
				r.Limit, r.Attempts = solver.LimitTime, []solver.Attempt{answered(first, "")}
			}),
		},
		{
			name: "a search cut short within the gap asked for",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: bestPlan(), Bound: ownBound, Limit: solver.LimitTime}),
			},
			options: func(o *solver.Options) { o.RelativeGap = 0.05 },
			want:    feasible(bestObjective, ownBound, solver.LimitTime),
		},
		{
			name: "the gap asked for is reached",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: bestPlan(), Bound: ownBound, Limit: solver.LimitNone}),
			},
			options: func(o *solver.Options) { o.RelativeGap = 0.05 },
			want:    feasible(bestObjective, ownBound, solver.LimitGap),
		},
		{
			name: "a backend without a bound has ours",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: bestPlan(), Bound: math.Inf(1), Limit: solver.LimitNone}),
			},
			want: feasible(bestObjective, ownBound, solver.LimitNone),
		},
		{
			name: "a bound below the objective by noise is raised to it",
			backends: []solver.Backend{
				gives(first, solver.Result{Plan: bestPlan(), Bound: bestObjective * (1 - 1e-13), Detail: "1 node"}),
			},
			want: optimum,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.greedy == nil {
				test.greedy = greedy()
			}
			synctest.Test(t, func(t *testing.T) { // A fake clock, for the backends that hang.
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

// TestHeuristicPlanMayExceedTheBound: it leaves a job waiting that the model admits.
func TestHeuristicPlanMayExceedTheBound(t *testing.T) {
	c := newChain(gives(solver.BackendGreedy, solver.Result{Plan: solver.Plan{solver.Nodes(2, 2), solver.Nodes(0, 0)}, Heuristic: true}))
	c.config.Prover = bounds(func(context.Context, *solver.Problem) float64 { return 1 })
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
	c.config.Prover = bounds(func(context.Context, *solver.Problem) float64 {
		t.Error("a bound is worked out that is not wanted")
		return ownBound
	})
	o := solver.Options{Backend: solver.BackendGreedy, NoBound: true}.WithDefaults()
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
		t.Errorf("report = %+v; want the bound that exact proves anyway", r)
	}
}

// TestContradiction: a legal plan above a bound of any backend leaves of the bound
// what needs no search, and says so.
func TestContradiction(t *testing.T) {
	const first = solver.BackendExact
	tests := []struct {
		name    string
		backend solver.Backend
		bound   float64 // of the prover
		own     string  // contradiction of it
		want    string
	}{
		{
			name:    "a backend's bound is wrong",
			backend: gives(first, solver.Result{Plan: bestPlan(), Bound: 2.39}),
			want:    "the bound 2.39 is wrong: a legal plan of exact has objective 2.4",
		},
		{
			name:    "our bound is wrong",
			backend: gives(first, solver.Result{Plan: bestPlan(), Bound: math.Inf(1)}), bound: 2.39,
			want: "the bound 2.39 is wrong: a legal plan of exact has objective 2.4",
		},
		{
			name:    "our bound has contradicted itself",
			backend: gives(first, solver.Result{Plan: bestPlan(), Bound: math.Inf(1)}), bound: 2.5, own: "lemma 1 bounds 3 by 2",
			want: "lemma 1 bounds 3 by 2",
		},
		{
			name:    "a backend has contradicted itself",
			backend: gives(first, solver.Result{Plan: bestPlan(), Bound: bestObjective, Contradiction: "lemma 1 bounds 3 by 2"}),
			want:    "lemma 1 bounds 3 by 2",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(greedy(), test.backend)
			own := bounds(func(context.Context, *solver.Problem) float64 { return test.bound })
			own.contradiction = test.own
			c.config.Prover = own
			d, err := c.Allocate(t.Context(), twoJobs(), solver.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			p := solver.NewProblem(twoJobs(), solver.AdmissionFIFO)
			if r := d.Report; r.Contradiction != test.want || r.Objective != bestObjective || r.Bound != p.TrivialBound() ||
				r.Reason != solver.ReasonFeasible || r.Limit != solver.LimitWork {
				t.Errorf("report = %+v; want contradiction %q and the bound %v that needs no search", r, test.want, p.TrivialBound())
			}
		})
	}
}

// TestNextToNothing: where all that can be gained is next to nothing, its last digits are no
// contradiction.
func TestNextToNothing(t *testing.T) {
	s := twoJobs()
	for i := range s.Jobs {
		s.Jobs[i].Weight = new(math.SmallestNonzeroFloat64)
	}
	c := newChain(greedy(), gives(solver.BackendExact, solver.Result{Plan: bestPlan(), Bound: 0}))
	d, err := c.Allocate(t.Context(), s, solver.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Report; !(r.Objective > 0) || r.Contradiction != "" || r.Reason != solver.ReasonOptimal {
		t.Errorf("report = %+v; want an optimum above 0", r)
	}
}

// TestContradictionWithoutAnswer: a contradiction is told whatever became of the answer that
// it was found for, and of the decision.
func TestContradictionWithoutAnswer(t *testing.T) {
	const first, next, found = solver.BackendExact, solver.BackendHiGHS, "lemma 1 bounds 3 by 2"
	illegal := gives(first, solver.Result{Plan: solver.Plan{solver.Nodes(9, 9), solver.Nodes(9, 9)}, Bound: 3, Contradiction: found})
	broken := fake{first, func(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
		return solver.Result{Contradiction: found}, errors.New("broken")
	}}
	answers := gives(next, solver.Result{Plan: bestPlan(), Bound: bestObjective})
	tests := []struct {
		name     string
		backends []solver.Backend
		prover   solver.Backend
		noBound  bool
		want     solver.BackendName
	}{
		{name: "the plan is illegal, greedy answers", backends: []solver.Backend{illegal}, prover: exact(), want: solver.BackendGreedy},
		{name: "the backend fails, greedy answers", backends: []solver.Backend{broken}, prover: exact(), want: solver.BackendGreedy},
		{name: "without a bound", backends: []solver.Backend{broken}, prover: exact(), noBound: true, want: solver.BackendGreedy},
		{name: "another backend answers", backends: []solver.Backend{illegal, answers}, prover: exact(), want: next},
		{name: "the verification fails", backends: []solver.Backend{claims(next, bestPlan(), true)}, prover: broken, want: next},
		{name: "its plan is illegal", backends: []solver.Backend{claims(next, bestPlan(), true)}, prover: illegal, want: next},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(greedy(), test.backends...)
			c.config.Prover = proves(test.prover)
			d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) { o.NoBound = test.noBound }))
			if err != nil {
				t.Fatal(err)
			}
			bound := solver.NewProblem(twoJobs(), solver.AdmissionFIFO).TrivialBound()
			if test.noBound {
				bound = math.Inf(1)
			}
			if r := d.Report; r.Contradiction != found || r.Backend != test.want || r.Bound != bound || r.Reason == solver.ReasonOptimal {
				t.Errorf("report = %+v; want the contradiction, an answer of %s and the bound %v that needs no search", r, test.want, bound)
			}
		})
	}
	c := newChain(greedy())
	c.config.Prover = proves(illegal)
	if result, err := c.Solve(t.Context(), solver.NewProblem(twoJobs(), solver.AdmissionFIFO), solver.SolveOptions{}); err == nil || result.Contradiction != found {
		t.Errorf("Solve() = %+v, %v; want an error and the contradiction", result, err)
	}
	nothing := newChain(fake{solver.BackendGreedy, broken.solve}, broken)
	if d, err := nothing.Allocate(t.Context(), twoJobs(), solver.DefaultOptions()); err == nil || d.Report.Contradiction != found {
		t.Errorf("Allocate() = %+v, %v; want an error and the contradiction", d, err)
	}
}

func TestErrors(t *testing.T) {
	const first, last = solver.BackendExact, solver.BackendGreedy
	broken := errors.New("broken")
	tests := []struct {
		name    string
		greedy  solver.Backend
		backend solver.Backend
		bound   float64 // of Config.Bound
		want    string  // all of it, part by part
	}{
		{
			name: "not even greedy answers", greedy: fails(last, broken), backend: panics(first),
			want: "no backend answered: exact crashed: panic: a step of -1; greedy crashed: broken",
		},
		{
			name:    "not even greedy has a legal plan",
			greedy:  gives(last, solver.Result{Plan: solver.Plan{solver.Nodes(2, 2)}, Heuristic: true}),
			backend: fails(first, broken),
			want:    "no backend answered: exact crashed: broken; greedy invalid-plan: plan has 1 jobs; the problem has 2",
		},
		{
			name: "a bound is not a number", greedy: greedy(),
			backend: gives(first, solver.Result{Plan: bestPlan(), Bound: math.NaN()}),
			want:    "the bound for the plan of exact is NaN",
		},
		{
			name: "our bound panics", greedy: greedy(), backend: fails(first, broken), bound: -1,
			want: "bound of exact: panic: a bound below 0",
		},
		{
			name: "our bound is infinite", greedy: greedy(), backend: fails(first, broken), bound: math.Inf(1),
			want: "the bound for the plan of greedy is +Inf",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(test.greedy, test.backend)
			c.config.Prover = bounds(func(context.Context, *solver.Problem) float64 {
				if test.bound < 0 {
					panic("a bound below 0")
				}
				return test.bound
			})
			d, err := c.Allocate(t.Context(), twoJobs(), solver.DefaultOptions())
			if err == nil {
				t.Fatalf("Allocate() = %+v; want an error", d)
			}
			if err.Error() != test.want {
				t.Errorf("error %q; want %q", err, test.want)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %q passes for one of the caller's context", err)
			}
		})
	}
}

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

// claiming returns an external solver that returns a plan with a claim.
func claiming(name solver.BackendName, plan problem.Plan, optimal bool) fake {
	limit := solver.LimitNone
	if !optimal {
		limit = solver.LimitTime
	}
	return returning(name, problem.Result{
		Plan: plan, Bound: math.Inf(1), Limit: limit, Detail: "from the solver",
		Claim: &problem.Claim{Optimal: optimal, Objective: bestObjective, Bound: math.NaN()},
	})
}

// calledOnce returns a backend that fails the test if it is called twice.
func calledOnce(t *testing.T, backend fake) fake {
	t.Helper()
	called := false
	return fake{backend.name, func(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
		if called {
			t.Errorf("%s was called twice", backend.name)
		}
		called = true
		return backend.solve(ctx, p, o)
	}}
}

func TestVerification(t *testing.T) {
	const cbc, highs, prover = solver.BackendCBC, solver.BackendHiGHS, solver.BackendExact
	const refuted = "from the solver; refuted: the claimed optimum is 2.3, but exact has a plan of 2.4"
	attempt := func(name solver.BackendName, outcome solver.Outcome, detail string) solver.Attempt {
		return solver.Attempt{Backend: name, Outcome: outcome, Detail: detail}
	}
	accepted := attempt(cbc, solver.OutcomeAnswered, "from the solver")
	report := func(backend solver.BackendName, objective, bound float64, attempts ...solver.Attempt) solver.Report {
		r := solver.Report{
			Backend: backend, Reason: solver.ReasonOptimal, Limit: solver.LimitNone,
			Objective: objective, Bound: bound, RelativeGap: solver.RelativeGap(objective, bound),
			GreedyObjective: greedyObjective, Attempts: attempts,
		}
		if r.RelativeGap > 0 {
			r.Reason = solver.ReasonFeasible
		}
		return r
	}
	limited := func(limit solver.Limit, r solver.Report) solver.Report {
		r.Limit = limit
		return r
	}
	cutShort := func(bound float64) fake {
		return returning(prover, problem.Result{Plan: greedyPlan(), Bound: bound, Limit: solver.LimitTime})
	}

	tests := []struct {
		name     string
		backends []problem.Backend
		prover   fake
		gap      float64
		want     solver.Report
	}{
		{
			name:     "a confirmed claim is reported as optimal",
			backends: []problem.Backend{claiming(cbc, bestPlan(), true)}, prover: exact(),
			want: report(cbc, bestObjective, bestObjective, accepted),
		},
		{
			name:     "a backend without a claim is not verified",
			backends: []problem.Backend{returning(cbc, problem.Result{Plan: bestPlan(), Bound: bestObjective})},
			prover:   panicking(prover),
			want:     report(cbc, bestObjective, bestObjective, attempt(cbc, solver.OutcomeAnswered, "")),
		},
		{
			name:     "if a claim is refuted, the next backend is called",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true), claiming(highs, bestPlan(), true), panicking(prover)},
			prover:   exact(),
			want: report(highs, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(highs, solver.OutcomeAnswered, "from the solver")),
		},
		{
			name:     "the next backend may be the prover",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true), panicking(prover)}, prover: exact(),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "the plan of the verification is used even if the prover is not a backend",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true), failing(highs, solver.ErrUnavailable)}, prover: exact(),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted),
				attempt(highs, solver.OutcomeUnavailable, "backend is unavailable"),
				attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name: "a wrong objective of the best plan refutes its claim",
			backends: []problem.Backend{returning(cbc, problem.Result{
				Plan: bestPlan(), Bound: math.Inf(1), Detail: "from the solver",
				Claim: &problem.Claim{Optimal: true, Objective: 2.3, Bound: 2.3},
			})},
			prover: exact(),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name: "an objective of NaN does not refute the claim",
			backends: []problem.Backend{returning(cbc, problem.Result{
				Plan: bestPlan(), Bound: math.Inf(1), Detail: "from the solver",
				Claim: &problem.Claim{Optimal: true, Objective: math.NaN(), Bound: math.NaN()},
			})},
			prover: exact(),
			want:   report(cbc, bestObjective, bestObjective, accepted),
		},
		{
			name:     "a worse plan that is not claimed to be optimal is replaced by the prover's",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), false)}, prover: exact(),
			want: report(prover, bestObjective, bestObjective, accepted, attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			// 2.3 is 4.1667% below 2.4.
			name:     "a worse plan within the requested gap is replaced too",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true)}, prover: exact(), gap: 0.0417,
			want: report(prover, bestObjective, bestObjective, accepted, attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "a plan outside the gap by a solver's tolerance is replaced too",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true)}, prover: exact(), gap: 0.0416661,
			want: report(prover, bestObjective, bestObjective, accepted, attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "a plan outside the gap by more is refuted",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true)}, prover: exact(), gap: 0.041665,
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "the bound of an incomplete verification is used",
			backends: []problem.Backend{claiming(cbc, bestPlan(), true)}, prover: cutShort(2.45),
			want: limited(solver.LimitTime, report(cbc, bestObjective, 2.45, accepted)),
		},
		{
			name:     "unless the prover has a better bound",
			backends: []problem.Backend{claiming(cbc, bestPlan(), true)}, prover: cutShort(2.6),
			want: limited(solver.LimitTime, report(cbc, bestObjective, proverBound, accepted)),
		},
		{
			name:     "if the verification fails, the bound is the prover's",
			backends: []problem.Backend{claiming(cbc, greedyPlan(), true)}, prover: failing(prover, errors.New("broken")),
			want: report(cbc, greedyObjective, proverBound, accepted),
		},
		{
			name:     "a prover that fails is not called again",
			backends: []problem.Backend{failing(cbc, solver.ErrInvalidPlan), claiming(highs, bestPlan(), true)},
			prover:   failing(prover, errors.New("broken")),
			want: report(highs, bestObjective, proverBound,
				attempt(cbc, solver.OutcomeInvalidPlan, "backend has no valid plan"),
				attempt(highs, solver.OutcomeAnswered, "from the solver")),
		},
		{
			name: "a claim of infeasibility is an invalid plan",
			backends: []problem.Backend{
				failing(cbc, fmt.Errorf("%w: CBC reports: Infeasible", solver.ErrInvalidPlan)), exact(),
			},
			prover: panicking(prover),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, "backend has no valid plan: CBC reports: Infeasible"),
				attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(greedy(), test.backends...)
			c.config.Prover = proverOf(calledOnce(t, test.prover))
			d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
				o.Backend, o.RelativeGap = cbc, test.gap
			}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, d.Report, equal()); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEqualPlans has a solver and the prover find two optima of one job, which completes within the
// first step on one node and on two.
func TestEqualPlans(t *testing.T) {
	keep, grow := problem.Plan{solver.Nodes(1, 1)}, problem.Plan{solver.Nodes(2, 1)}
	for _, test := range []struct {
		solver, prover problem.Plan
		want           solver.BackendName
	}{{grow, keep, solver.BackendExact}, {keep, grow, solver.BackendCBC}, {keep, keep, solver.BackendCBC}} {
		s := twoJobs()
		s.Jobs = s.Jobs[:1]
		s.Jobs[0].CurrentNodes, s.Jobs[0].RemainingETA = 1, 50*time.Second
		c := newChain(returning(solver.BackendGreedy, problem.Result{Plan: grow, Bound: math.Inf(1), Heuristic: true}),
			returning(solver.BackendCBC, problem.Result{
				Plan: test.solver, Bound: math.Inf(1), Claim: &problem.Claim{Optimal: true, Objective: 2, Bound: math.NaN()},
			}))
		c.config.Prover = proverOf(returning(solver.BackendExact, problem.Result{Plan: test.prover, Bound: 2}))
		d, err := c.Allocate(t.Context(), s, options(func(o *solver.Options) { o.Backend = solver.BackendCBC }))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Allocations[0].Nodes; got != 1 || d.Report.Backend != test.want {
			t.Errorf("solver %v, prover %v: %d nodes by %s; want 1 by %s", test.solver, test.prover, got, d.Report.Backend, test.want)
		}
	}
}

// TestVerificationTime checks the division of a budget of one second: 100 ms are reserved for greedy, and
// a backend whose claim may have to be verified leaves a quarter of the other 900 ms to the prover.
func TestVerificationTime(t *testing.T) {
	tests := []struct {
		name           string
		backend        problem.Backend
		attempt, total time.Duration
	}{
		{"the backend hangs", hanging(solver.BackendCBC), 675 * time.Millisecond, 675 * time.Millisecond},
		{"the prover hangs", claiming(solver.BackendCBC, bestPlan(), true), 0, 900 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChain(greedy(), test.backend)
				c.config.Prover = proverOf(hanging(solver.BackendExact))
				start := time.Now()
				d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
					o.Backend, o.TimeBudget = solver.BackendCBC, time.Second
				}))
				if err != nil {
					t.Fatal(err)
				}
				if total, got := time.Since(start), d.Report.Attempts[0].Duration; total != test.total || got != test.attempt {
					t.Errorf("the decision took %v, the backend %v; want %v and %v", total, got, test.total, test.attempt)
				}
			})
		})
	}
}

// TestProverTime checks that the prover has the whole search time if it is the requested backend, because
// no backend is called after it.
func TestProverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prover := fake{solver.BackendExact, func(ctx context.Context, _ *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
			<-ctx.Done()
			return problem.Result{Plan: greedyPlan(), Bound: bestObjective, Limit: solver.LimitTime}, nil
		}}
		c := newChain(greedy(), prover, panicking(solver.BackendCBC), panicking(solver.BackendHiGHS))
		c.config.Prover = proverOf(prover)
		d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
			o.Backend, o.TimeBudget = solver.BackendExact, time.Second
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Report.Attempts[0].Duration; got != 900*time.Millisecond {
			t.Errorf("the prover had %v; want 900ms", got)
		}
	})
}

// TestIncumbents checks the incumbents: greedy's plan for backends, even if it is not legal in the model,
// and the plan to be verified for the prover.
func TestIncumbents(t *testing.T) {
	waiting := returning(solver.BackendGreedy, problem.Result{
		Plan: problem.Plan{solver.Nodes(2, 2), solver.Nodes(0, 0)}, Bound: math.Inf(1), Heuristic: true,
	})
	for name, test := range map[string]struct {
		greedy problem.Backend
		want   problem.Plan
	}{
		"greedy's":                    {greedy(), problem.Plan{solver.Nodes(2, 1), solver.Nodes(1, 1)}},
		"a plan in which a job waits": {waiting, problem.Plan{solver.Nodes(2, 1), solver.Nodes(0, 0)}},
		"none if greedy fails":        {panicking(solver.BackendGreedy), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(map[solver.BackendName]problem.Plan)
			spy := func(backend fake) fake {
				return fake{backend.name, func(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
					got[backend.name] = o.Incumbent
					return backend.solve(ctx, p, o)
				}}
			}
			c := newChain(test.greedy, spy(claiming(solver.BackendCBC, bestPlan(), true)))
			c.config.Prover = proverOf(spy(exact()))
			if _, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
				o.Backend = solver.BackendCBC
			})); err != nil {
				t.Fatal(err)
			}
			want := map[solver.BackendName]problem.Plan{solver.BackendCBC: test.want, solver.BackendExact: bestPlan()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("incumbents (-want +got):\n%s", diff)
			}
		})
	}
}

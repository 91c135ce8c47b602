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

// claims returns an external solver with a plan and what it says of it.
func claims(name solver.BackendName, plan solver.Plan, optimal bool) fake {
	limit := solver.LimitNone
	if !optimal {
		limit = solver.LimitTime
	}
	return gives(name, solver.Result{
		Plan: plan, Bound: math.Inf(1), Limit: limit, Detail: "it says so",
		Claim: &solver.Claim{Optimal: optimal, Objective: bestObjective, Bound: math.NaN()},
	})
}

// once returns a backend that must not be asked twice.
func once(t *testing.T, backend fake) fake {
	t.Helper()
	asked := false
	return fake{backend.name, func(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
		if asked {
			t.Errorf("%s was asked twice", backend.name)
		}
		asked = true
		return backend.solve(ctx, p, o)
	}}
}

func TestJudge(t *testing.T) {
	const cbc, highs, prover = solver.BackendCBC, solver.BackendHiGHS, solver.BackendExact
	const refuted = "it says so; refuted: it calls 2.3 optimal, and exact has a plan of 2.4"
	attempt := func(name solver.BackendName, outcome solver.Outcome, detail string) solver.Attempt {
		return solver.Attempt{Backend: name, Outcome: outcome, Detail: detail}
	}
	stands := attempt(cbc, solver.OutcomeAnswered, "it says so")
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
		return gives(prover, solver.Result{Plan: greedyPlan(), Bound: bound, Limit: solver.LimitTime})
	}

	tests := []struct {
		name     string
		backends []solver.Backend
		prover   fake
		gap      float64
		want     solver.Report
	}{
		{
			name:     "a claim that holds is called optimal on our proof",
			backends: []solver.Backend{claims(cbc, bestPlan(), true)}, prover: exact(),
			want: report(cbc, bestObjective, bestObjective, stands),
		},
		{
			name:     "a backend that claims nothing is not verified",
			backends: []solver.Backend{gives(cbc, solver.Result{Plan: bestPlan(), Bound: bestObjective})},
			prover:   panics(prover),
			want:     report(cbc, bestObjective, bestObjective, attempt(cbc, solver.OutcomeAnswered, "")),
		},
		{
			name:     "where a claim is refuted, the next backend answers",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true), claims(highs, bestPlan(), true), panics(prover)},
			prover:   exact(),
			want: report(highs, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(highs, solver.OutcomeAnswered, "it says so")),
		},
		{
			name:     "which may be the prover",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true), panics(prover)}, prover: exact(),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "whose plan is not lost where it was not to be asked",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true), fails(highs, solver.ErrUnavailable)}, prover: exact(),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted),
				attempt(highs, solver.OutcomeUnavailable, "backend is unavailable"),
				attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name: "a wrong objective of the best plan refutes it too",
			backends: []solver.Backend{gives(cbc, solver.Result{
				Plan: bestPlan(), Bound: math.Inf(1), Detail: "it says so",
				Claim: &solver.Claim{Optimal: true, Objective: 2.3, Bound: 2.3},
			})},
			prover: exact(),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name: "but not one that is NaN",
			backends: []solver.Backend{gives(cbc, solver.Result{
				Plan: bestPlan(), Bound: math.Inf(1), Detail: "it says so",
				Claim: &solver.Claim{Optimal: true, Objective: math.NaN(), Bound: math.NaN()},
			})},
			prover: exact(),
			want:   report(cbc, bestObjective, bestObjective, stands),
		},
		{
			name:     "a worse plan that is not called optimal gives way to the prover's",
			backends: []solver.Backend{claims(cbc, greedyPlan(), false)}, prover: exact(),
			want: report(prover, bestObjective, bestObjective, stands, attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			// 2.3 is 4.1667 % below 2.4.
			name:     "so does one within the gap asked for",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true)}, prover: exact(), gap: 0.0417,
			want: report(prover, bestObjective, bestObjective, stands, attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "or outside it by as little as a solver's tolerance",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true)}, prover: exact(), gap: 0.0416661,
			want: report(prover, bestObjective, bestObjective, stands, attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "by more it is refuted",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true)}, prover: exact(), gap: 0.041665,
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, refuted), attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
		{
			name:     "the bound of a prover cut short counts",
			backends: []solver.Backend{claims(cbc, bestPlan(), true)}, prover: cutShort(2.45),
			want: limited(solver.LimitTime, report(cbc, bestObjective, 2.45, stands)),
		},
		{
			name:     "unless there is a better one",
			backends: []solver.Backend{claims(cbc, bestPlan(), true)}, prover: cutShort(2.6),
			want: limited(solver.LimitTime, report(cbc, bestObjective, ownBound, stands)),
		},
		{
			name:     "without a verification there is our bound",
			backends: []solver.Backend{claims(cbc, greedyPlan(), true)}, prover: fails(prover, errors.New("broken")),
			want: report(cbc, greedyObjective, ownBound, stands),
		},
		{
			name:     "a prover that fails is not asked again",
			backends: []solver.Backend{fails(cbc, solver.ErrInvalidPlan), claims(highs, bestPlan(), true)},
			prover:   fails(prover, errors.New("broken")),
			want: report(highs, bestObjective, ownBound,
				attempt(cbc, solver.OutcomeInvalidPlan, "backend has no valid plan"),
				attempt(highs, solver.OutcomeAnswered, "it says so")),
		},
		{
			name: "a solver that claims infeasibility errs",
			backends: []solver.Backend{
				fails(cbc, fmt.Errorf("%w: CBC says: Infeasible", solver.ErrInvalidPlan)), exact(),
			},
			prover: panics(prover),
			want: report(prover, bestObjective, bestObjective,
				attempt(cbc, solver.OutcomeInvalidPlan, "backend has no valid plan: CBC says: Infeasible"),
				attempt(prover, solver.OutcomeAnswered, "1 node")),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(greedy(), test.backends...)
			c.config.Prover = proves(once(t, test.prover))
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

// TestEqualPlans has a solver and the prover find two optima of one job, which ends within the
// first step whether it keeps its node or gets a second one.
func TestEqualPlans(t *testing.T) {
	keeps, grows := solver.Plan{solver.Nodes(1, 1)}, solver.Plan{solver.Nodes(2, 1)}
	for _, test := range []struct {
		solver, prover solver.Plan
		want           solver.BackendName
	}{{grows, keeps, solver.BackendExact}, {keeps, grows, solver.BackendCBC}, {keeps, keeps, solver.BackendCBC}} {
		s := twoJobs()
		s.Jobs = s.Jobs[:1]
		s.Jobs[0].CurrentNodes, s.Jobs[0].RemainingETA = 1, 50*time.Second
		c := newChain(gives(solver.BackendGreedy, solver.Result{Plan: grows, Bound: math.Inf(1), Heuristic: true}), gives(solver.BackendCBC, solver.Result{
			Plan: test.solver, Bound: math.Inf(1), Claim: &solver.Claim{Optimal: true, Objective: 2, Bound: math.NaN()},
		}))
		c.config.Prover = proves(gives(solver.BackendExact, solver.Result{Plan: test.prover, Bound: 2}))
		d, err := c.Allocate(t.Context(), s, options(func(o *solver.Options) { o.Backend = solver.BackendCBC }))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Allocations[0].Nodes; got != 1 || d.Report.Backend != test.want {
			t.Errorf("solver %v, prover %v: %d nodes by %s; want 1 by %s", test.solver, test.prover, got, d.Report.Backend, test.want)
		}
	}
}

// TestTimeOfTheJudge runs on a fake clock. Of a second, 100 ms are kept for greedy;
// a backend whose claim may have to be verified leaves a quarter of the rest to the prover,
// who has what is left of it.
func TestTimeOfTheJudge(t *testing.T) {
	tests := []struct {
		name          string
		backend       solver.Backend
		backends, all time.Duration
	}{
		{"the backend hangs", hangs(solver.BackendCBC), 675 * time.Millisecond, 675 * time.Millisecond},
		{"the prover hangs", claims(solver.BackendCBC, bestPlan(), true), 0, 900 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newChain(greedy(), test.backend)
				c.config.Prover = proves(hangs(solver.BackendExact))
				start := time.Now()
				d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
					o.Backend, o.TimeBudget = solver.BackendCBC, time.Second
				}))
				if err != nil {
					t.Fatal(err)
				}
				if all, got := time.Since(start), d.Report.Attempts[0].Duration; all != test.all || got != test.backends {
					t.Errorf("the decision took %v, the backend %v; want %v and %v", all, got, test.all, test.backends)
				}
			})
		})
	}
}

// TestTimeOfTheProver runs on a fake clock: where the prover is asked for itself, it has
// all the time there is for searching, whatever comes after it, for nothing will.
func TestTimeOfTheProver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prover := fake{solver.BackendExact, func(ctx context.Context, _ *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
			<-ctx.Done()
			return solver.Result{Plan: greedyPlan(), Bound: bestObjective, Limit: solver.LimitTime}, nil
		}}
		c := newChain(greedy(), prover, panics(solver.BackendCBC), panics(solver.BackendHiGHS))
		c.config.Prover = proves(prover)
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

// TestIncumbents checks what plans there are to start from: greedy's, which a backend
// makes legal or ignores where it is none of the problem, and for the prover the plan
// that it verifies.
func TestIncumbents(t *testing.T) {
	waiting := gives(solver.BackendGreedy, solver.Result{
		Plan: solver.Plan{solver.Nodes(2, 2), solver.Nodes(0, 0)}, Bound: math.Inf(1), Heuristic: true,
	})
	for name, test := range map[string]struct {
		greedy solver.Backend
		want   solver.Plan
	}{
		"greedy's":                 {greedy(), solver.Plan{solver.Nodes(2, 1), solver.Nodes(1, 1)}},
		"one where somebody waits": {waiting, solver.Plan{solver.Nodes(2, 1), solver.Nodes(0, 0)}},
		"none where greedy fails":  {panics(solver.BackendGreedy), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(map[solver.BackendName]solver.Plan)
			spy := func(backend fake) fake {
				return fake{backend.name, func(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
					got[backend.name] = o.Incumbent
					return backend.solve(ctx, p, o)
				}}
			}
			c := newChain(test.greedy, spy(claims(solver.BackendCBC, bestPlan(), true)))
			c.config.Prover = proves(spy(exact()))
			if _, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) {
				o.Backend = solver.BackendCBC
			})); err != nil {
				t.Fatal(err)
			}
			want := map[solver.BackendName]solver.Plan{solver.BackendCBC: test.want, solver.BackendExact: bestPlan()}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("incumbents (-want +got):\n%s", diff)
			}
		})
	}
}

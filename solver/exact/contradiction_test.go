package exact_test

import (
	"context"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
)

// meddler makes the jobs of a problem worth twice as much while it is being solved.
type meddler struct {
	context.Context
	problem *solver.Problem
	asked   int
}

func (m *meddler) Err() error {
	if m.asked++; m.asked == 50 {
		for i := range m.problem.Jobs {
			for step := range m.problem.Jobs[i].Gain {
				m.problem.Jobs[i].Gain[step] *= 2
			}
		}
	}
	return m.Context.Err()
}

// TestContradictionOfPlan: a plan that is worth more than the bound is a contradiction even where
// no lemma saw it, which leaves no bound but the ceiling.
func TestContradictionOfPlan(t *testing.T) {
	t.Parallel()
	p := solver.NewProblem(&solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{
		solver.NewJob("a", 20*time.Minute), solver.NewJob("b", 10*time.Hour), solver.NewJob("c", 7*time.Hour),
	}}, solver.AdmissionPreemptive)
	m := &meddler{Context: t.Context(), problem: p}
	result, err := exact.NewAsking(1).Solve(m, p, solver.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Contradiction == "" || result.Limit != solver.LimitWork || result.Bound != p.Ceiling() || p.Check(result.Plan) != nil {
		t.Errorf("after %d questions: contradiction %q, limit %v, bound %v; want one, %v and %v",
			m.asked, result.Contradiction, result.Limit, result.Bound, solver.LimitWork, p.Ceiling())
	}
}

package exact_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestIncumbentIsMadeLegal starts from plans with too many nodes or with illegal sizes. The plan is never worse than
// their legal form.
func TestIncumbentIsMadeLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.Problems().Draw(t, "problem")
		plan := problem.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for step := range plan[i] {
				plan[i][step].Nodes = rapid.Int32Range(-1, 20).Draw(t, "nodes")
			}
		}
		result, err := exact.New().Solve(&countdown{Context: t.Context(), left: 1}, p, problem.SolveOptions{Incumbent: plan})
		if err != nil {
			t.Fatal(err)
		}
		objective := checked(t, p, result)
		if p.Check(plan) == nil && objective < p.Objective(plan)-1e-9*max(1, objective) {
			t.Fatalf("objective %v; the incumbent has %v", objective, p.Objective(plan))
		}
	})
}

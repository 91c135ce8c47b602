package exact_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// TestByWork holds the one oracle against the other.
func TestByWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.GridProblems().Filter(func(p *solver.Problem) bool {
			plans := 1.0
			for i := range p.Jobs {
				plans *= math.Pow(float64(len(p.Jobs[i].Sizes)), float64(p.Steps))
			}
			return plans < 1e5
		}).Draw(t, "problem")
		got, plan := solvertest.ByWork(p)
		want, ok := solvertest.Exhaustive(p)
		if !ok || math.Abs(got-want.Objective) > 1e-12*math.Abs(want.Objective) {
			t.Fatalf("optimum %.17g by work, %.17g by exhaustive search", got, want.Objective)
		}
		if err := p.Check(plan); err != nil {
			t.Fatal(err)
		}
		if objective := p.Objective(plan); math.Abs(got-objective) > 1e-12*math.Abs(got) {
			t.Fatalf("optimum %.17g, of a plan of %.17g", got, objective)
		}
	})
}

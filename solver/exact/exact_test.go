package exact_test

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

var admissions = []solver.Admission{
	solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive,
}

// solve returns the result of the exact backend after checking what must hold for
// any problem: a legal plan, a bound that is not below its objective.
func solve(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *solver.Problem, options solver.SolveOptions) (solver.Result, float64) {
	t.Helper()
	result, err := exact.New().Solve(context.Background(), p, options)
	if err != nil {
		t.Fatalf("solve: %v", err)
	}
	if err := p.Check(result.Plan); err != nil {
		t.Fatalf("illegal plan: %v", err)
	}
	objective := p.Objective(result.Plan)
	if math.IsNaN(result.Bound) || math.IsInf(result.Bound, 0) || result.Bound < objective {
		t.Fatalf("bound %v is not an upper bound on the objective %v", result.Bound, objective)
	}
	return result, objective
}

// TestAgainstExhaustiveSearch is the promise of the package: on small snapshots
// with every feature mixed in the plan is optimal, proven so, and among equals the
// one that changes the fewest jobs and then takes the fewest nodes now.
func TestAgainstExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot := solvertest.Snapshots().Draw(t, "snapshot")
		p := solver.NewProblem(snapshot, rapid.SampledFrom(admissions).Draw(t, "admission"))
		result, objective := solve(t, p, solver.SolveOptions{})
		want, ok := solvertest.Exhaustive(p)
		if !ok {
			t.Fatalf("no legal plan after admission")
		}
		if math.Abs(objective-want.Objective) > 1e-9*math.Max(1e-3, want.Objective) {
			t.Fatalf("objective %.15g, exhaustive search %.15g", objective, want.Objective)
		}
		if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap && result.Bound-objective > 1e-12 {
			t.Fatalf("optimal but not proven: gap %g", gap)
		}
		if result.Limit != solver.LimitNone {
			t.Fatalf("limit %s without one", result.Limit)
		}
		changed, nodes := 0, 0
		for i := range p.Jobs {
			if result.Plan[i][0] != p.Jobs[i].Current {
				changed++
			}
			nodes += result.Plan[i][0]
		}
		// Plans within rounding of each other count as equal to exhaustive search; we
		// may have told them apart.
		equal := objective <= p.Objective(want.Plan)*(1+1e-15)
		if equal && (changed > want.Changed || changed == want.Changed && nodes > want.Nodes) {
			t.Fatalf("%d changed jobs and %d nodes now; among plans of objective %.15g (ours %.15g) there is one with %d and %d",
				changed, nodes, want.Objective, objective, want.Changed, want.Nodes)
		}
	})
}

package solvertest_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestSharedPools solves random small snapshots with groups, node types and size limits, all three or two of them,
// under every admission. The objective of exact must be that of exhaustive search, which shares no code with it, and of
// HiGHS and CBC. No bound may be below it.
func TestSharedPools(t *testing.T) {
	rivals := []problem.Backend{
		external.HiGHS(solvertest.Program(t, solver.BackendHiGHS)), external.CBC(solvertest.Program(t, solver.BackendCBC)),
	}
	snapshots := solvertest.SharedSnapshots(solvertest.Limits{Jobs: 6, Steps: 1, Sizes: 3, Nodes: 16})
	solved, open, compared := 0, 0, make(map[solver.BackendName]int)
	for seed := range testtier.Conformance.Examples(40, 500) {
		s := snapshots.Example(seed)
		for _, admission := range solver.Admissions() {
			name := fmt.Sprintf("snapshot %d, %s", seed, admission)
			p := problem.NewProblemFor(s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}.WithDefaults())
			best := solvertest.Solve(t, p).Best
			result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := p.Check(result.Plan); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			objective := p.Objective(result.Plan)
			few := tolerance(solver.BackendExact, p, best.Objective)
			if solved++; solver.RelativeGap(objective, result.Bound) > solver.OptimalGap && result.Bound-objective > few {
				open++
				t.Logf("%s: objective %.17g, bound %.17g, optimum %.17g", name, objective, result.Bound, best.Objective)
			}
			if math.Abs(objective-best.Objective) > few+2*solver.OptimalGap*math.Abs(objective) ||
				result.Bound < best.Objective-few || result.Contradiction != "" {
				t.Errorf("%s: objective %.17g, bound %.17g, contradiction %q; the optimum is %.17g",
					name, objective, result.Bound, result.Contradiction, best.Objective)
			}
			if start, err := greedy.New().Solve(t.Context(), p, problem.SolveOptions{}); err != nil || p.CheckWaiting(start.Plan) != nil {
				t.Errorf("%s: greedy: %v, %v", name, err, p.CheckWaiting(start.Plan))
			}
			for _, rival := range rivals {
				if checkRival(t, name, rival, p, best.Objective) {
					compared[rival.Name()]++
				}
			}
		}
	}
	if t.Logf("%d problems, %d open; compared: %v", solved, open, compared); open > 0 {
		t.Errorf("%d problems are open", open)
	}
}

// checkRival checks that the plan of an external solver is optimal. It reports whether the solver has one.
func checkRival(t *testing.T, name string, rival problem.Backend, p *problem.Problem, optimum float64) bool {
	t.Helper()
	result, err := rival.Solve(t.Context(), p, problem.SolveOptions{Formulation: solver.FormulationOneHot})
	if isKnown(err, rival.Name()) {
		return false
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", name, rival.Name(), err)
	}
	if objective := p.Objective(result.Plan); math.Abs(objective-optimum) > tolerance(rival.Name(), p, optimum) {
		t.Errorf("%s: %s has %.17g; the optimum is %.17g", name, rival.Name(), objective, optimum)
	}
	return true
}

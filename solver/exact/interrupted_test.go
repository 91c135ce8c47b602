package exact_test

import (
	"context"
	"flag"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/instances"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// countdown is a context that expires after a number of calls of Err.
type countdown struct {
	context.Context
	left, checks int
}

// Err returns nil as often as the countdown began with.
func (c *countdown) Err() error {
	c.checks++
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// cutsPerSearch is the number of checks of the deadline at which a search is stopped, 0 for every check.
var cutsPerSearch = flag.Int("cuts", testtier.Conformance.Examples(20, 200), "cuts of each search, 0 for every check of the deadline")

// frequentChecks is the work between two checks of the deadline, a thousandth of the interval of the product.
const frequentChecks = 100

// endless is more checks of the deadline than any search makes.
const endless = math.MaxInt / 2

// checkCuts stops a search at checks of the deadline from the first to the last: the plan
// must be legal, the objective at most the optimum, and the bound at least the optimum. It
// returns the number of stops. The argument work is the work between two checks.
func checkCuts(t rapid.TB, p *problem.Problem, work int) int {
	t.Helper()
	whole := &countdown{Context: context.Background(), left: endless}
	result, err := exact.NewWithQuantum(work).Solve(whole, p, problem.SolveOptions{})
	if err != nil || result.Limit != solver.LimitNone {
		t.Fatalf("the search without a cut: limit %s, error %v", result.Limit, err)
	}
	optimum := checked(t, p, result)
	least := optimum - 1e-12*math.Abs(optimum) - 1e-14*solvertest.Magnitude(p)
	most := optimum + 2*solver.OptimalGap*math.Abs(optimum) + 1e-12
	cuts := 0
	for left := 0; left < whole.checks; left += stride(whole.checks) {
		result, err := exact.NewWithQuantum(work).Solve(&countdown{Context: context.Background(), left: left}, p, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if objective := checked(t, p, result); objective > most {
			t.Fatalf("stopped at check %d of %d: objective %.15g, optimum %.15g", left, whole.checks, objective, optimum)
		}
		if result.Bound < least {
			t.Fatalf("stopped at check %d of %d: bound %.15g, optimum %.15g", left, whole.checks, result.Bound, optimum)
		}
		cuts++
	}
	bounding := &countdown{Context: context.Background(), left: endless}
	exact.NewWithQuantum(work).Bound(bounding, p)
	for left := 0; left < bounding.checks; left += stride(bounding.checks) {
		bound, _, _ := exact.NewWithQuantum(work).Bound(&countdown{Context: context.Background(), left: left}, p)
		if bound < least || math.IsInf(bound, 1) {
			t.Fatalf("bound stopped at check %d of %d: %.15g, optimum %.15g", left, bounding.checks, bound, optimum)
		}
		cuts++
	}
	return cuts
}

// stride returns the distance between stops of a search with a number of checks.
func stride(checks int) int {
	if *cutsPerSearch == 0 {
		return 1
	}
	return 1 + checks / *cutsPerSearch
}

// TestCutAnywhere stops the searches of random problems early.
func TestCutAnywhere(t *testing.T) {
	cuts := 0
	rapid.Check(t, func(t *rapid.T) {
		limits := solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 5, Nodes: 40}
		problems := rapid.OneOf(solvertest.ProblemsWithin(limits), solvertest.GroupedProblems(limits))
		cuts += checkCuts(t, problems.Draw(t, "problem"), frequentChecks)
	})
	t.Logf("%d cuts", cuts)
}

// TestCutInstances stops the proofs of random instances early.
func TestCutInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("in short mode")
	}
	cuts := 0
	for _, instance := range instances.Load(t, testtier.Conformance.Examples(25, 60)) {
		t.Run(instance.Name, func(t *testing.T) {
			cuts += checkCuts(t, problem.NewProblem(instance.Snapshot, solver.AdmissionFIFO), frequentChecks)
		})
	}
	t.Logf("%d cuts", cuts)
}

// TestCutSweeps cuts proofs that need prices per size.
func TestCutSweeps(t *testing.T) {
	if testing.Short() {
		t.Skip("in short mode")
	}
	cuts := 0
	for _, s := range []shape{
		{jobs: 24, nodes: 48, steps: 5, groups: 1, sizes: 4, running: true, admission: solver.AdmissionPreemptive},
		{jobs: 30, nodes: 90, steps: 12, groups: 1, admission: solver.AdmissionFIFO},
		{jobs: 9, nodes: 40, steps: 6, groups: 2, sizes: 4, running: true, admission: solver.AdmissionOptimized},
	} {
		t.Run(s.String(), func(t *testing.T) { cuts += checkCuts(t, s.problem(), 10_000) })
	}
	t.Logf("%d cuts", cuts)
}

package solvertest_test

import (
	"testing"

	"github.com/elastalloc/elastalloc/internal/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/highs"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// TestExactAgreesWithHiGHS holds the exact backend against an independent solver on
// snapshots too large for exhaustive search, with every feature mixed in.
func TestExactAgreesWithHiGHS(t *testing.T) {
	oracle := highs.New(solvertest.Program(t, solver.BackendHiGHS))
	snapshots := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 10, Steps: 5, Sizes: 5, Nodes: 60})
	admissions := []solver.Admission{solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive}
	examples := testtier.Conformance.Draws(50, 3000)
	for seed := range examples {
		p := solver.NewProblem(snapshots.Example(seed), admissions[seed%len(admissions)])
		want, err := oracle.Solve(t.Context(), p, solver.SolveOptions{Formulation: solver.FormulationOneHot})
		if err != nil {
			t.Fatalf("snapshot %d: HiGHS: %v", seed, err)
		}
		got, err := exact.New().Solve(t.Context(), p, solver.SolveOptions{})
		if err != nil {
			t.Fatalf("snapshot %d: exact: %v", seed, err)
		}
		ours, theirs := p.Objective(got.Plan), p.Objective(want.Plan)
		if ours < theirs*(1-solver.OptimalGap) {
			t.Errorf("snapshot %d: the objective of exact's plan is %.12g, of HiGHS's %.12g", seed, ours, theirs)
		}
		// A solver works to absolute tolerances, which an objective this small escapes.
		if ours > 1e-9 && theirs < ours*(1-solvertest.Agreement) {
			t.Errorf("snapshot %d: the objective of HiGHS's plan is %.12g, of exact's %.12g, and HiGHS calls it optimal: %t",
				seed, theirs, ours, want.Claim.Optimal)
		}
		if gap := solver.RelativeGap(ours, got.Bound); gap > solver.OptimalGap && got.Bound-ours > 1e-12 {
			t.Errorf("snapshot %d: the objective of exact's plan is %.12g, its bound %.12g", seed, ours, got.Bound)
		}
	}
}

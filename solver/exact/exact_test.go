package exact_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

var admissions = []solver.Admission{
	solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive,
}

// solve returns the result of the exact backend and its objective, both checked.
func solve(t rapid.TB, p *problem.Problem, options problem.SolveOptions) (problem.Result, float64) {
	t.Helper()
	result, err := exact.New().Solve(context.Background(), p, options)
	if err != nil {
		t.Fatalf("solve: %v", err)
	}
	return result, checked(t, p, result)
}

// checked returns the objective of a result. It fails the test unless the plan is legal, the bound is finite and not
// below the objective, and there is no contradiction.
func checked(t rapid.TB, p *problem.Problem, result problem.Result) float64 {
	t.Helper()
	if err := p.Check(result.Plan); err != nil {
		t.Fatalf("illegal plan: %v", err)
	}
	if result.Contradiction != "" {
		t.Fatalf("contradiction: %s", result.Contradiction)
	}
	objective := p.Objective(result.Plan)
	if math.IsNaN(result.Bound) || math.IsInf(result.Bound, 0) || result.Bound < objective {
		t.Fatalf("bound %v is not an upper bound on the objective %v", result.Bound, objective)
	}
	return objective
}

// auditOptimum has the result for a valid snapshot audited if it is optimal.
func auditOptimum(t rapid.TB, s *solver.Snapshot, o solver.Options, p *problem.Problem, result problem.Result) {
	t.Helper()
	if solver.RelativeGap(p.Objective(result.Plan), result.Bound) > solver.OptimalGap {
		return
	}
	if err := audittest.Result(context.Background(), s, o, p, result); err != nil {
		t.Fatal(err)
	}
}

// admittedSnapshot returns a random snapshot and admission.
func admittedSnapshot(t *rapid.T) (*solver.Snapshot, solver.Admission) {
	limits := solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 5, Nodes: 40}
	return solvertest.SnapshotsWithin(limits).Draw(t, "snapshot"), rapid.SampledFrom(admissions).Draw(t, "admission")
}

// decide returns the problem of a snapshot, the result for it, audited if it is optimal, and its
// objective.
func decide(t *rapid.T, s *solver.Snapshot, admission solver.Admission) (*problem.Problem, problem.Result, float64) {
	t.Helper()
	p := problem.NewProblem(s, admission)
	result, objective := solve(t, p, problem.SolveOptions{})
	auditOptimum(t, s, solver.Options{Objective: solver.ObjectiveProgress, Admission: admission}.WithDefaults(), p, result)
	return p, result, objective
}

// optimum returns the proven optimum of a snapshot.
func optimum(t *rapid.T, s *solver.Snapshot, admission solver.Admission) float64 {
	_, _, objective := decide(t, s, admission)
	return objective
}

// near reports whether two optima are the same but for the gap that counts as
// proven.
func near(a, b float64) bool { return math.Abs(a-b) <= 2*solver.OptimalGap*max(a, b, 1e-6) }

// TestScalingAllWeightsChangesNothing multiplies every weight by the same factor.
func TestScalingAllWeightsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, admission := admittedSnapshot(t)
		factor := rapid.SampledFrom([]float64{0.25, 4, 1024}).Draw(t, "factor")
		for i := range s.Jobs {
			s.Jobs[i].Weight = new(min(s.Jobs[i].WeightOrDefault(), 1e9/1024)) // Weights above 1e9 count as 1e9.
		}
		_, before, objective := decide(t, s, admission)
		for i := range s.Jobs {
			s.Jobs[i].Weight = new(factor * s.Jobs[i].WeightOrDefault())
		}
		after, scaled := solve(t, problem.NewProblem(s, admission), problem.SolveOptions{})
		if diff := cmp.Diff(before.Plan, after.Plan); diff != "" {
			t.Fatalf("another plan with weights times %g:\n%s", factor, diff)
		}
		if !near(scaled, factor*objective) {
			t.Fatalf("objective %g became %g with weights times %g", objective, scaled, factor)
		}
	})
}

// TestOrderOfRunningJobsChangesNoObjective permutes the running jobs. If their smallest sizes did not fit, the order
// would determine which job is preempted, so the pool is large enough for all of them.
func TestOrderOfRunningJobsChangesNoObjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, admission := admittedSnapshot(t)
		var running []int
		smallest := 0
		for i := range s.Jobs {
			if !s.Jobs[i].Queued() {
				running = append(running, i)
				smallest += s.Jobs[i].LegalSizes()[0]
			}
		}
		s.TotalNodes = max(s.TotalNodes, smallest)
		before := optimum(t, s, admission)
		permuted := *s
		permuted.Jobs = slices.Clone(s.Jobs)
		for n, from := range rapid.Permutation(running).Draw(t, "order") {
			permuted.Jobs[running[n]] = s.Jobs[from]
		}
		if after := optimum(t, &permuted, admission); !near(before, after) {
			t.Fatalf("optimum %.12g, %.12g with running jobs in another order", before, after)
		}
	})
}

// TestSameProblemSamePlan solves everything twice.
func TestSameProblemSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, admission := admittedSnapshot(t)
		p := problem.NewProblem(s, admission)
		first, _ := solve(t, p, problem.SolveOptions{})
		second, _ := solve(t, p, problem.SolveOptions{})
		if diff := cmp.Diff(first, second); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestInfeasibleProblem hands over what admission never makes.
func TestInfeasibleProblem(t *testing.T) {
	s := &solver.Snapshot{TotalNodes: 1, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{
		solver.NewJob("a", time.Hour), solver.NewJob("b", time.Hour),
	}}
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	p.Jobs = append(p.Jobs, p.Jobs[0])
	if _, err := exact.New().Solve(context.Background(), p, problem.SolveOptions{}); err == nil {
		t.Fatal("no error for a problem without a legal plan")
	}
}

package exact_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

var admissions = []solver.Admission{
	solver.AdmissionFIFO, solver.AdmissionOptimized, solver.AdmissionPreemptive,
}

// solve returns the result of the exact backend and its objective, both checked.
func solve(t rapid.TB, p *solver.Problem, options solver.SolveOptions) (solver.Result, float64) {
	t.Helper()
	result, err := exact.New().Solve(context.Background(), p, options)
	if err != nil {
		t.Fatalf("solve: %v", err)
	}
	return result, checked(t, p, result)
}

// checked returns the objective of a result after checking what must hold for any
// problem: a legal plan and a finite bound that is not below its objective.
func checked(t rapid.TB, p *solver.Problem, result solver.Result) float64 {
	t.Helper()
	if err := p.Check(result.Plan); err != nil {
		t.Fatalf("illegal plan: %v", err)
	}
	objective := p.Objective(result.Plan)
	if math.IsNaN(result.Bound) || math.IsInf(result.Bound, 0) || result.Bound < objective {
		t.Fatalf("bound %v is not an upper bound on the objective %v", result.Bound, objective)
	}
	return objective
}

// TestAgainstExhaustiveSearch is the promise of the package: on small problems with
// every feature mixed in the plan is optimal, proven so, and among equals the one
// that changes the fewest jobs and then takes the fewest nodes now.
func TestAgainstExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.Problems().Draw(t, "problem")
		result, objective := solve(t, p, solver.SolveOptions{})
		want, ok := solvertest.Exhaustive(p)
		if !ok {
			t.Fatalf("no legal plan after admission")
		}
		if math.Abs(objective-want.Objective) > 1e-9*math.Max(1e-3, math.Abs(want.Objective)) {
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
		best := p.Objective(want.Plan)
		equal := objective <= best+1e-15*math.Abs(best)
		if equal && (changed > want.Changed || changed == want.Changed && nodes > want.Nodes) {
			t.Fatalf("%d changed jobs and %d nodes now; among plans of objective %.15g (ours %.15g) there is one with %d and %d",
				changed, nodes, want.Objective, objective, want.Changed, want.Nodes)
		}
	})
}

// admittedSnapshot draws a snapshot and an admission.
func admittedSnapshot(t *rapid.T) (*solver.Snapshot, solver.Admission) {
	limits := solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 5, Nodes: 40}
	return solvertest.SnapshotsWithin(limits).Draw(t, "snapshot"), rapid.SampledFrom(admissions).Draw(t, "admission")
}

// optimum returns the proven optimum of a snapshot.
func optimum(t *rapid.T, s *solver.Snapshot, admission solver.Admission) float64 {
	_, objective := solve(t, solver.NewProblem(s, admission), solver.SolveOptions{})
	return objective
}

// near reports whether two optima are the same but for the gap that counts as
// proven.
func near(a, b float64) bool { return math.Abs(a-b) <= 2*solver.OptimalGap*max(a, b, 1e-6) }

// TestMoreNodesNeverLowerTheOptimum compares the pool with one that has a node
// more. Admission is held fixed by size 0: under FIFO a node more may let in a job
// that the others must make room for.
func TestMoreNodesNeverLowerTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := admittedSnapshot(t)
		before := optimum(t, s, solver.AdmissionPreemptive)
		s.TotalNodes++
		if after := optimum(t, s, solver.AdmissionPreemptive); after < before && !near(before, after) {
			t.Fatalf("%.12g with a node more, %.12g without", after, before)
		}
	})
}

// TestScalingAllWeightsChangesNothing multiplies every weight by the same factor.
func TestScalingAllWeightsChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, admission := admittedSnapshot(t)
		factor := rapid.SampledFrom([]float64{0.25, 4, 1024}).Draw(t, "factor")
		p := solver.NewProblem(s, admission)
		before, objective := solve(t, p, solver.SolveOptions{})
		for i := range s.Jobs {
			s.Jobs[i].Weight = new(factor * s.Jobs[i].WeightOrDefault())
		}
		after, scaled := solve(t, solver.NewProblem(s, admission), solver.SolveOptions{})
		if diff := cmp.Diff(before.Plan, after.Plan); diff != "" {
			t.Fatalf("another plan with weights times %g:\n%s", factor, diff)
		}
		if !near(scaled, factor*objective) {
			t.Fatalf("objective %g became %g with weights times %g", objective, scaled, factor)
		}
	})
}

// TestOrderOfRunningJobsChangesNoObjective permutes the running jobs. Where not
// even their smallest sizes fit, the order says who is preempted, so the pool is
// made large enough for all of them.
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

// TestBoundAlone holds the bound that every answer carries against the optimum.
func TestBoundAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.Problems().Draw(t, "problem")
		want, _ := solvertest.Exhaustive(p)
		least := want.Objective - 1e-14*max(1, math.Abs(want.Objective))
		if bound, _ := exact.New().Bound(context.Background(), p); bound < least || math.IsInf(bound, 1) {
			t.Fatalf("bound %.15g on an optimum of %.15g", bound, want.Objective)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if bound, _ := exact.New().Bound(ended, p); bound < least || math.IsInf(bound, 1) {
			t.Fatalf("bound %.15g without any time, on an optimum of %.15g", bound, want.Objective)
		}
	})
}

// TestSameProblemSamePlan solves everything twice.
func TestSameProblemSamePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, admission := admittedSnapshot(t)
		p := solver.NewProblem(s, admission)
		first, _ := solve(t, p, solver.SolveOptions{})
		second, _ := solve(t, p, solver.SolveOptions{})
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
	p := solver.NewProblem(s, solver.AdmissionFIFO)
	p.Jobs = append(p.Jobs, p.Jobs[0])
	if _, err := exact.New().Solve(context.Background(), p, solver.SolveOptions{}); err == nil {
		t.Fatal("no error for a problem without a legal plan")
	}
}

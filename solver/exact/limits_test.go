package exact_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// follow solves a problem whose optimum is known, as the backend does it and in each of the
// ways made for hard problems: no lemma may cut the optimum off, no bound may be below it,
// and a search that has ended has it.
func follow(t rapid.TB, p *solver.Problem, optimum float64, plan solver.Plan) {
	t.Helper()
	followBy(t, exact.New(), p, optimum, plan)
	for kind := range exact.Anxieties() {
		followBy(t, exact.NewAnxious(kind), p, optimum, plan)
	}
}

func followBy(t rapid.TB, s *exact.Solver, p *solver.Problem, optimum float64, plan solver.Plan) {
	t.Helper()
	result, err := s.WithWitness(plan).Solve(context.Background(), p, solver.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objective := checked(t, p, result)
	if result.Contradiction != "" {
		t.Fatalf("%s", result.Contradiction)
	}
	rounding := 1e-12*math.Abs(optimum) + 1e-14*magnitude(p)
	if result.Bound < optimum-rounding {
		t.Fatalf("bound %.17g below the optimum %.17g", result.Bound, optimum)
	}
	if objective > optimum+rounding {
		t.Fatalf("objective %.17g above the optimum %.17g", objective, optimum)
	}
	if result.Limit == solver.LimitNone && objective < optimum-rounding-solver.OptimalGap*math.Abs(optimum) {
		t.Fatalf("objective %.17g, limit %s; the optimum is %.17g", objective, result.Limit, optimum)
	}
}

// TestEveryWay follows the optimum of small problems through every way of searching.
func TestEveryWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.ProblemsWithin(solvertest.Limits{Jobs: 5, Steps: 3, Sizes: 4, Nodes: 20}).Draw(t, "problem")
		optimum, _ := solvertest.Exhaustive(p)
		follow(t, p, optimum.Objective, optimum.Plan)
	})
}

// TestMostSizes does so where a job has as many sizes as it may, and size 0.
func TestMostSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 3, Steps: 2, Sizes: 3, Nodes: 60}).Draw(t, "snapshot")
		if len(snapshot.Jobs) == 0 {
			return
		}
		job := &snapshot.Jobs[rapid.IntRange(0, len(snapshot.Jobs)-1).Draw(t, "job")]
		solvertest.DrawMostSizes(t, job)
		if rapid.IntRange(0, 3).Draw(t, "room for all sizes") > 0 {
			snapshot.TotalNodes = job.MaxNodes + rapid.IntRange(0, 12).Draw(t, "more nodes")
			// Every size counts where the largest one just ends the job, or nearly.
			work := slices.Max(job.Scaling.Speeds) * snapshot.Horizon.Step.Seconds()
			share := rapid.SampledFrom([]float64{0.5, 1, 1.9, 2, 3}).Draw(t, "steps to the end")
			job.RemainingETA, job.RescaleDelay, job.RestartTime = time.Duration(share*work*float64(time.Second)), 0, 0
		}
		p := solver.NewProblem(snapshot, rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"))
		optimum, ok := solvertest.Exhaustive(p)
		if !ok {
			t.Fatal("an admitted problem without a plan")
		}
		follow(t, p, optimum.Objective, optimum.Plan)
	})
}

// TestMostSteps does so over up to 24 steps. The number of draws is its own, for the oracle
// takes its time.
func TestMostSteps(t *testing.T) {
	for n := range testtier.Conformance.Draws(20, 150) {
		p := solvertest.GridProblems().Example(n)
		optimum, plan := solvertest.ByWork(p)
		follow(t, p, optimum, plan)
	}
}

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

// TestMoreChoiceNeverLowersTheOptimum adds one size, with a speed of its own, to one job.
// Every job may wait, so that admission is the same.
func TestMoreChoiceNeverLowersTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 6, Nodes: 60}).Draw(t, "snapshot")
		if len(s.Jobs) == 0 {
			return
		}
		job := &s.Jobs[rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "job")]
		job.ETANodes = 0 // Work stays the same, whatever the speeds.
		solvertest.DrawMostSizes(t, job)
		most := solver.NewProblem(s, solver.AdmissionPreemptive)
		k := rapid.IntRange(0, len(job.AllowedNodes)-1).Draw(t, "size")
		job.AllowedNodes = slices.Delete(slices.Clone(job.AllowedNodes), k, k+1)
		job.Scaling.Speeds = slices.Delete(slices.Clone(job.Scaling.Speeds), k, k+1)
		fewer := solver.NewProblem(s, solver.AdmissionPreemptive)
		if len(fewer.Jobs) != len(most.Jobs) {
			return // The smallest size is gone, and the next does not fit the pool.
		}
		less, before := solve(t, fewer, solver.SolveOptions{})
		more, after := solve(t, most, solver.SolveOptions{})
		if after < before && !near(before, after) || more.Bound < before && !near(more.Bound, before) || more.Bound < less.Bound && !near(more.Bound, less.Bound) {
			t.Fatalf("optimum %.12g, bound %.12g; with a size less %.12g and %.12g", after, more.Bound, before, less.Bound)
		}
	})
}

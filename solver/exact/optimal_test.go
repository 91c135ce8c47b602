package exact_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// rounding is how far apart two sums of the values of a problem may be.
func rounding(p *problem.Problem, sum float64) float64 {
	return 1e-12*math.Abs(sum) + 1e-14*solvertest.Magnitude(p)
}

// TestOptimal is the promise of the package: the plan is optimal, proven so, and among equals
// the one that changes the fewest jobs and then takes the fewest nodes now. A proof fails only
// within a few of the last digits of what the objective is added up from.
func TestOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.SolvedProblems().Draw(t, "problem")
		result, objective := solve(t, p.Problem, problem.SolveOptions{})
		if math.Abs(objective-p.Best.Objective) > rounding(p.Problem, objective)+2*solver.OptimalGap*math.Abs(objective) {
			t.Fatalf("objective %.15g, optimum %.15g", objective, p.Best.Objective)
		}
		gap := solver.RelativeGap(objective, result.Bound)
		if gap > solver.OptimalGap && result.Bound-objective > 1e-14*solvertest.Magnitude(p.Problem) {
			t.Fatalf("objective %.15g, bound %.15g", objective, result.Bound)
		}
		if gap <= solver.OptimalGap && result.Limit != solver.LimitNone {
			t.Fatalf("limit %s without one", result.Limit)
		}
		// Exhaustive search treats plans whose objectives differ by rounding as equal; the search
		// may have distinguished them. Near 0, tie costs are too small to compute with.
		best := p.Objective(p.Best.Plan)
		if !p.TiesBroken || objective > best+1e-15*math.Abs(best) || math.Abs(best) < 1e-270 {
			return
		}
		changed, nodes := 0, 0
		for i := range p.Jobs {
			if result.Plan[i][0] != p.Jobs[i].Current {
				changed++
			}
			nodes += int(result.Plan[i][0].Nodes)
		}
		if changed > p.Best.Changed || changed == p.Best.Changed && nodes > p.Best.Nodes {
			t.Fatalf("%d changed jobs and %d nodes now; among plans of objective %.15g (ours %.15g) there is one with %d and %d",
				changed, nodes, p.Best.Objective, objective, p.Best.Changed, p.Best.Nodes)
		}
	})
}

// TestEveryWay solves problems as the backend does, and with each of the stages for hard
// problems. No lemma may exclude the optimum, no bound may be below it, and a complete search must
// find it. Together with the tests of lemmas this covers at least 90% of the statements of each stage:
//
//	go test ./solver/exact ./solver/exact/horizon -run 'TestEveryWay|TestLemma' -coverpkg ./solver/exact/... -coverprofile cover.out
//	go tool cover -func cover.out
func TestEveryWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { everyWay(t, solvertest.SolvedProblems().Draw(t, "problem")) })
	for seed := range uint64(testtier.Conformance.Examples(40, 120)) { // Random snapshots are rarely hard enough.
		r := rand.New(rand.NewPCG(seed, 10))
		p := &problem.Problem{Capacity: []int{7 + r.IntN(4), 7 + r.IntN(4)}, Steps: 2}
		for i := range 5 {
			job := problem.AdmittedJob{
				Index: i, Demand: 1, Options: solver.Nodes(0, 1+r.IntN(2), 3+r.IntN(3)), Gain: []float64{r.Float64(), r.Float64()},
			}
			job.StepWork = []float64{0, 0.2 + 0.4*r.Float64(), 0.6 + 0.6*r.Float64()}
			job.FirstStepWork = job.StepWork
			if i > 0 && seed%3 == 0 { // equal jobs
				job, job.Index = p.Jobs[0], i
			}
			p.Jobs = append(p.Jobs, job)
		}
		best, _ := solvertest.Exhaustive(p)
		everyWay(t, solvertest.Solved{Problem: p, Best: best})
	}
}

func everyWay(t rapid.TB, p solvertest.Solved) {
	t.Helper()
	ways := []*exact.Solver{exact.New()}
	for kind := range exact.SmallEfforts() {
		ways = append(ways, exact.NewWithSmallEffort(kind))
	}
	for _, s := range ways {
		result, err := s.WithWitness(p.Best.Plan).Solve(context.Background(), p.Problem, problem.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		objective, optimum := checked(t, p.Problem, result), p.Best.Objective
		few := rounding(p.Problem, optimum)
		if result.Bound < optimum-few {
			t.Fatalf("bound %.17g below the optimum %.17g", result.Bound, optimum)
		}
		if objective > optimum+few {
			t.Fatalf("objective %.17g above the optimum %.17g", objective, optimum)
		}
		if result.Limit == solver.LimitNone && objective < optimum-few-solver.OptimalGap*math.Abs(optimum) {
			t.Fatalf("objective %.17g, limit %s; the optimum is %.17g", objective, result.Limit, optimum)
		}
	}
}

// TestSolverUsedAgain checks that a decision owes nothing to the ones before, whose memory it
// is made in: those of other shapes, in every way, some of them cut short.
func TestSolverUsedAgain(t *testing.T) {
	limits := solvertest.Limits{Jobs: 7, Steps: 6, Sizes: 6, Nodes: 40}
	problems := rapid.OneOf(solvertest.ProblemsWithin(limits), solvertest.GroupedProblems(limits), solvertest.TypedProblems(limits))
	rapid.Check(t, func(t *rapid.T) {
		makers := []func() *exact.Solver{func() *exact.Solver { return exact.NewWithQuantum(10) }}
		for kind := range exact.SmallEfforts() {
			makers = append(makers, func() *exact.Solver { return exact.NewWithSmallEffort(kind) })
		}
		random := rapid.SliceOfN(problems, 2, 4).Draw(t, "problems")
		cut := rapid.IntRange(0, 100).Draw(t, "cut")
		for way, maker := range makers {
			used := maker()
			for n, p := range random {
				for _, left := range []int{cut, endless} {
					decide := func(by *exact.Solver) problem.Result {
						result, err := by.Solve(&countdown{Context: context.Background(), left: left}, p, problem.SolveOptions{})
						if err != nil {
							t.Fatal(err)
						}
						return result
					}
					if diff := cmp.Diff(decide(maker()), decide(used)); diff != "" {
						t.Fatalf("way %d, decision %d, cut at question %d (-by a new solver +by one used before):\n%s", way, n+1, left, diff)
					}
				}
			}
		}
	})
}

// TestBoundAlone compares the bound of every response with the optimum.
func TestBoundAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.SolvedProblems().Draw(t, "problem")
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, ctx := range []context.Context{context.Background(), ended} {
			bound, _, contradiction := exact.New().WithWitness(p.Best.Plan).Bound(ctx, p.Problem)
			if contradiction != "" {
				t.Fatal(contradiction)
			}
			if !(bound >= p.Best.Objective-rounding(p.Problem, p.Best.Objective)) || math.IsInf(bound, 1) {
				t.Fatalf("bound %.15g on an optimum of %.15g, %v", bound, p.Best.Objective, ctx.Err())
			}
		}
	})
}

// TestMoreNeverLowersTheOptimum compares a snapshot with one that has a node, a job or a size
// more, nor does it lower the bound. Every job may wait, so that admission is the same.
func TestMoreNeverLowersTheOptimum(t *testing.T) {
	snapshots := rapid.OneOf(
		solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 6, Nodes: 60}),
		solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 2, Steps: solver.MaxSteps, Sizes: 3, Nodes: 12}),
	)
	rapid.Check(t, func(t *rapid.T) {
		s := snapshots.Filter(func(s *solver.Snapshot) bool { return len(s.Jobs) > 0 }).Draw(t, "snapshot")
		if rapid.IntRange(0, 9).Draw(t, "largest pool") == 0 {
			s.TotalNodes = math.MaxInt32
		}
		fewer := *s
		fewer.Jobs = slices.Clone(s.Jobs)
		switch what := rapid.SampledFrom([]string{"node", "job", "size"}).Draw(t, "more"); what {
		case "node":
			fewer.TotalNodes = max(0, s.TotalNodes-1)
		case "job":
			fewer.Jobs = fewer.Jobs[:len(s.Jobs)-1]
		case "size":
			at := rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "job")
			job := &s.Jobs[at]
			solvertest.DrawMostSizes(t, job)
			k := rapid.IntRange(0, len(job.AllowedNodes)-1).Draw(t, "size")
			fewer.Jobs[at] = *job
			fewer.Jobs[at].AllowedNodes = slices.Delete(slices.Clone(job.AllowedNodes), k, k+1)
			fewer.Jobs[at].Scaling.Speeds = slices.Delete(slices.Clone(job.Scaling.Speeds), k, k+1)
		}
		less, before, low := decide(t, &fewer, solver.AdmissionPreemptive)
		p, after, high := decide(t, s, solver.AdmissionPreemptive)
		if len(less.Jobs) < len(p.Jobs) && len(fewer.Jobs) == len(s.Jobs) {
			return // The smallest size of a job is too large for the pool.
		}
		few := 2*solver.OptimalGap*max(math.Abs(low), 1e-6) + rounding(p, high)
		if high < low-few || after.Bound < low-few || after.Bound < before.Bound-few {
			t.Fatalf("optimum %.12g, bound %.12g; with less %.12g and %.12g", high, after.Bound, low, before.Bound)
		}
	})
}

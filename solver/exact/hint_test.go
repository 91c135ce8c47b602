package exact_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// firstStep returns the nodes now, their sum, and the number of changed jobs.
func firstStep(p *solver.Problem, plan solver.Plan) (nodes []int, total, changed int) {
	for i := range plan {
		nodes = append(nodes, plan[i][0])
		total += plan[i][0]
		if plan[i][0] != p.Jobs[i].Current {
			changed++
		}
	}
	return nodes, total, changed
}

// TestPriceHintChangesNoAnswer solves with the prices that the problem itself ends
// with, and with others: problems that are too small to use them and larger ones.
func TestPriceHintChangesNoAnswer(t *testing.T) {
	for seed := range uint64(60) {
		jobs := 2 + int(seed%23)
		if seed%3 == 0 {
			jobs += 400
		}
		d := drawn{
			jobs: jobs, nodes: 70 + 2*jobs, steps: 1 + int(seed%6), sizes: int(seed % 5),
			admission: admissions[seed%3], seed: seed,
		}
		p := d.problem()
		want, objective := solve(t, p, solver.SolveOptions{})
		wantNodes, _, _ := firstStep(p, want.Plan)
		other := d
		other.nodes, other.jobs = d.nodes+9, d.jobs+1
		neighbour, _ := solve(t, other.problem(), solver.SolveOptions{})
		for _, hint := range [][]float64{want.NodePrices, neighbour.NodePrices, make([]float64, p.Steps)} {
			got, hinted := solve(t, p, solver.SolveOptions{PriceHint: hint})
			gotNodes, _, _ := firstStep(p, got.Plan)
			if diff := cmp.Diff(wantNodes, gotNodes); diff != "" || !near(hinted, objective) {
				t.Fatalf("%v: hint %v: objective %.15g; %.15g without; nodes (-without +with):\n%s", d, hint, hinted, objective, diff)
			}
		}
	}
}

// TestPriceHintChangesNoRank does so on problems of any kind, where plans of equal
// objective, changes and nodes are frequent: it may be another of them.
func TestPriceHintChangesNoRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.ProblemsWithin(solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 5, Nodes: 40}).Draw(t, "problem")
		want, objective := solve(t, p, solver.SolveOptions{})
		_, wantTotal, wantChanged := firstStep(p, want.Plan)
		anything := rapid.SliceOfN(rapid.Float64(), 0, p.Steps+1).Draw(t, "hint")
		for _, hint := range [][]float64{want.NodePrices, anything, make([]float64, p.Steps)} {
			got, hinted := solve(t, p, solver.SolveOptions{PriceHint: hint})
			_, total, changed := firstStep(p, got.Plan)
			if !near(hinted, objective) || hinted == objective && (changed != wantChanged || total != wantTotal) {
				t.Fatalf("hint %v: objective %.15g, %d changed, %d nodes; %.15g, %d, %d without",
					hint, hinted, changed, total, objective, wantChanged, wantTotal)
			}
		}
	})
}

// TestIncumbentIsMadeLegal starts from plans that hold too many nodes, or sizes that
// are none: at no time is the plan worse than what they come to.
func TestIncumbentIsMadeLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := solvertest.Problems().Draw(t, "problem")
		plan := solver.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for step := range plan[i] {
				plan[i][step] = rapid.IntRange(-1, 20).Draw(t, "nodes")
			}
		}
		result, err := exact.New().Solve(&countdown{Context: t.Context(), left: 1}, p, solver.SolveOptions{Incumbent: plan})
		if err != nil {
			t.Fatal(err)
		}
		objective := checked(t, p, result)
		if p.Check(plan) == nil && objective < p.Objective(plan)-1e-9*max(1, objective) {
			t.Fatalf("objective %v; the incumbent has %v", objective, p.Objective(plan))
		}
	})
}

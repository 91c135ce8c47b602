package horizon

import (
	"math/rand/v2"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestGroupTables compares the tables of two teams within a third with all plans, where limits and
// floors bind and values are irregular: there a number too few in a table is missed.
func TestGroupTables(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 9))
		p := &problem.Problem{Capacity: []int{8 + r.IntN(8)}, Steps: 1, QuotaPrice: r.Float64()}
		for g := range 3 {
			p.Groups = append(p.Groups, problem.AdmittedGroup{Parent: []int{2, 2, -1}[g], Limit: 3 + r.IntN(6), Floor: r.IntN(8)})
		}
		for i := range 3 + r.IntN(3) {
			job := problem.AdmittedJob{
				Index: i, Member: problem.Member{Group: r.IntN(2)}, Demand: 1, Options: solver.Nodes(0, 1+r.IntN(2), 3+r.IntN(3)), Gain: []float64{0},
			}
			job.FirstStepWork = make([]float64, len(job.Options))
			job.StepWork = job.FirstStepWork
			for _, k := range job.Options {
				job.OptionValue = append(job.OptionValue, float64(k.Nodes)*(r.Float64()-0.2))
			}
			p.Jobs = append(p.Jobs, job)
		}
		want, ok := solvertest.Exhaustive(p)
		if !ok {
			t.Fatalf("seed %d: no plan", seed)
		}
		clock := model.NewClock(t.Context(), model.DefaultEffort().CheckInterval)
		in, err := model.NewInstance(clock, p, model.DefaultEffort(), new(model.Memory))
		if err != nil {
			t.Fatal(err)
		}
		tree := newGroupTree(in)
		pool := len(tree.nodes) - 1
		if !tree.relax(clock, false) || !tree.minimize(clock, pool) {
			t.Fatalf("seed %d: not decided", seed)
		}
		if bound, best := tree.bound-tree.provenLoss(pool), want.Objective/in.Unit; bound < best-in.TieTotal-1e-12 {
			t.Fatalf("seed %d: group tables prove %.17g; there is a plan of %.17g", seed, bound, best)
		}
	}
}

package horizon

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestDropped lets beams of one to three states drop the optimum of a problem of five jobs. The
// bound of the core search, with and without a tightened look-ahead, and the bound of the stepwise
// search must account for the dropped states.
func TestDropped(t *testing.T) {
	seeds, dropped := testtier.Conformance.Examples(60, 300), 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 8))
		p := &problem.Problem{Capacity: []int{7 + r.IntN(4), 7 + r.IntN(4)}, Steps: 2}
		for range 5 {
			job := problem.AdmittedJob{Demand: 1, Options: solver.Nodes(0, 1+r.IntN(2), 3+r.IntN(3)), Gain: []float64{r.Float64(), r.Float64()}}
			job.StepWork = []float64{0, 0.2 + 0.4*r.Float64(), 0.6 + 0.6*r.Float64()}
			job.FirstStepWork = job.StepWork
			p.Jobs = append(p.Jobs, job)
		}
		g := &ground{clock: model.NewClock(t.Context(), model.DefaultEffort().CheckInterval)}
		in, err := model.NewInstance(g.clock, p, model.DefaultEffort(), new(model.Memory))
		if err != nil {
			t.Fatal(err)
		}
		g.Instance = in
		g.enumerate(model.NewPlan(in), 0, 0, slices.Clone(in.Free))
		best := slices.Max(g.values)
		l := newLagrangian(g.clock, in)
		prices := []float64{0.2 * r.Float64(), 0.2 * r.Float64()}
		bound, _ := l.bound(g.clock, prices)
		core := newCoreSearch(g.clock, l.classes, prices, 2*(bound-best)+0.1, 0, new(Memory))
		if core == nil {
			t.Fatalf("seed %d: too much to search", seed)
		}
		if seed%2 == 0 && !core.prepare(g.clock, true, 0) {
			t.Fatalf("seed %d: time is up", seed)
		}
		least := core.run(g.clock, 1+r.IntN(3))
		if bound-least < best-1e-12*g.magnitude-in.Precision {
			t.Fatalf("seed %d: of %.17g at least %.17g is lost; there is a plan of %.17g", seed, bound, least, best)
		}
		sizes := newSizePrices(g.clock, in)
		sizes.set(sizes.At(prices), coarseCells)
		for _, width := range []int{1 + r.IntN(3), 1000} {
			_, most, _ := newStepwise(g.clock, sizes).run(g.clock, width, 0, 0)
			if most < best-1e-12*g.magnitude-in.Precision {
				t.Fatalf("seed %d: of %d states a step, plans are worth at most %.17g; there is one of %.17g", seed, width, most, best)
			}
		}
		if core.best > bound-best+1e-9 && !math.IsInf(core.dropped, 1) {
			dropped++
		}
	}
	if t.Logf("%d optima were dropped", dropped); dropped < seeds/30 {
		t.Error("too few")
	}
}

// TestKeepOutOfTime: where time is up before states are sorted, a beam has lost none of them that
// does not count.
func TestKeepOutOfTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b beam
	b.reset(1)
	for n := range int32(5000) {
		b.insert(b.find([]int32{n}), []int32{n}, 0, float64(-n), n)
	}
	least := slices.Min(b.total)
	if dropped := b.prune(model.NewClock(ctx, 10_000), 10); min(dropped, slices.Min(b.total)) > least {
		t.Errorf("of states that lose %g and more those kept lose %g, the others %g", least, slices.Min(b.total), dropped)
	}
}

// TestLeftOver: what a pool's nodes cost where they are left over is a product, right to its last
// digit, and not a sum over all of them.
func TestLeftOver(t *testing.T) {
	nodes, price := 1_000_000, 0.1
	best := withIdleNodes(series{low: -1, values: []float64{0.0625, math.Inf(1), 0.125}}, price, 0, nodes, math.Inf(1))
	for x, want := range map[int]float64{0: 0.0625 + price, 1: 0.125, nodes: 0.125 + price*float64(nodes-1)} {
		if got := best.value(x); got != want {
			t.Errorf("with %d nodes %.17g is lost; want %.17g", x, got, want)
		}
	}
}

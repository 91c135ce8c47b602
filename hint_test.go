package elastalloc_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// TestPriceHintKeepsDecision checks that a price hint does not change the decision. The hints are the
// prices of the decision, scaled prices, the prices of a larger pool, and random prices.
func TestPriceHintKeepsDecision(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(rt *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 10, Steps: 5, Sizes: 5, Nodes: 60}).Draw(rt, "snapshot")
		o := randomOptions(rt)
		o.Backend = solver.BackendExact
		decide := func(total int, hint []float64) solver.Decision {
			s, o := *s, o
			s.TotalNodes, o.PriceHint = total, hint
			decision, err := allocator.Allocate(t.Context(), &s, o)
			if err != nil {
				rt.Fatal(err)
			}
			return decision
		}
		want := decide(s.TotalNodes, nil)
		steps := o.Horizon(s.WithDefaults()).Steps
		if got := len(want.Report.NodePrices); got != steps {
			rt.Fatalf("%d node prices; want %d", got, steps)
		}
		hints := [][]float64{
			want.Report.NodePrices,
			decide(s.TotalNodes+3, nil).Report.NodePrices,
			rapid.SliceOfN(rapid.Float64Range(0, 1e9), steps, steps).Draw(rt, "hint"),
			scale(want.Report.NodePrices, rapid.SampledFrom([]float64{0, 0.25, 4, 1000}).Draw(rt, "factor")),
		}
		for _, hint := range hints {
			if diff := cmp.Diff(want.Allocations, decide(s.TotalNodes, hint).Allocations); diff != "" {
				rt.Fatalf("hint %v changes the decision (-without +with):\n%s", hint, diff)
			}
		}
	})
}

// scale returns prices times a factor.
func scale(prices []float64, factor float64) []float64 {
	scaled := slices.Clone(prices)
	for n := range scaled {
		scaled[n] *= factor
	}
	return scaled
}

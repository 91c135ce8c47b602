package proof

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// bestByTable solves a knapsack by a table over every number of nodes.
func bestByTable(k *knapsack, capacity int) float64 {
	best := make([]float64, capacity+1)
	for n := range len(k.starts) - 1 {
		next := make([]float64, capacity+1)
		for x := range next {
			next[x] = math.Inf(-1)
			for m := k.starts[n]; m < k.starts[n+1]; m++ {
				if left := x - int(k.nodes[m]); left >= 0 {
					next[x] = max(next[x], best[left]+k.values[m])
				}
			}
		}
		best = next
	}
	return best[capacity]
}

// TestKnapsack compares with a table that leaves nothing out.
func TestKnapsack(t *testing.T) {
	var k knapsack // The memory is used again.
	rapid.Check(t, func(t *rapid.T) {
		k.Reset()
		smallest := 0
		for range rapid.IntRange(0, 30).Draw(t, "items") {
			size := int32(rapid.IntRange(0, 2).Draw(t, "smallest"))
			smallest += int(size)
			for range rapid.IntRange(1, 6).Draw(t, "options") {
				k.Option(size, rapid.OneOf(rapid.Float64Range(-2, 10), rapid.SampledFrom([]float64{0, 1, 2, 3})).Draw(t, "value"))
				size += int32(rapid.IntRange(1, 4).Draw(t, "distance"))
			}
			k.Item()
		}
		capacity := smallest + rapid.IntRange(0, 60).Draw(t, "free")
		s, ok := k.solve(model.NewClock(context.Background(), model.Usual().Quantum), capacity, 0)
		if !ok {
			t.Fatal("no solution")
		}
		want := bestByTable(&k, capacity)
		if math.Abs(s.value-want) > 1e-12*max(1, math.Abs(want)) || s.bound < want-1e-12 || s.bound > want+1e-12*max(1, math.Abs(want)) {
			t.Fatalf("value %v, bound %v; want %v", s.value, s.bound, want)
		}
		used := 0
		for n, chosen := range s.choices {
			used += int(k.nodes[k.starts[n]+int(chosen)])
		}
		if used > capacity || len(s.choices) != len(k.starts)-1 {
			t.Fatalf("%d nodes of %d", used, capacity)
		}
	})
}

package horizon

import (
	"context"
	"math"
	"math/rand/v2"
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
		s, ok := k.solve(model.NewClock(context.Background(), model.DefaultEffort().CheckInterval), capacity, 0, maxCallCells)
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

// TestKnapsackTooLarge: where nodes are too many for tables, the bound is not that of the choices,
// which are not called the best.
func TestKnapsackTooLarge(t *testing.T) {
	open := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		var k knapsack
		k.Reset()
		for range 8 {
			nodes := int32(0)
			for n := range 3 {
				k.Option(nodes, float64(n)*(1+r.Float64()))
				nodes += 100_000 + r.Int32N(100_000)
			}
			k.Item()
		}
		capacity := 400_000 + r.IntN(800_000)
		s, ok := k.solve(model.NewClock(t.Context(), model.DefaultEffort().CheckInterval), capacity, 0, maxCallCells)
		best := math.Inf(-1)
		var walk func(item, left int, value float64)
		walk = func(item, left int, value float64) {
			if item == len(k.starts)-1 {
				best = max(best, value)
				return
			}
			for m := k.starts[item]; m < k.starts[item+1] && int(k.nodes[m]) <= left; m++ {
				walk(item+1, left-int(k.nodes[m]), value+k.values[m])
			}
		}
		walk(0, capacity, 0)
		if !ok || s.bound < best-1e-12 || s.value > best+1e-12 || s.complete && s.value < best-1e-12 {
			t.Fatalf("seed %d: value %v, bound %v, complete %t; the best is %v", seed, s.value, s.bound, s.complete, best)
		}
		if s.value < best-1e-12 {
			open++
		}
	}
	if open == 0 {
		t.Error("all choices are the best")
	}
}

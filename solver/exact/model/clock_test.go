package model

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortFalling: numbers fall and equal ones keep their order, however many there are.
func TestSortFalling(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 999, 1000, 5000} {
		rates := make([]Rate, n)
		for i := range rates {
			rates[i] = Rate{PerNode: math.Ldexp(float64(r.IntN(9)-4), r.IntN(3)*400-400), Nodes: float64(i)}
		}
		want := slices.Clone(rates)
		slices.SortStableFunc(want, func(a, b Rate) int { return cmp.Compare(b.PerNode, a.PerNode) })
		if !SortFalling(NewClock(context.Background(), 1000), rates, make([]Rate, n), func(r Rate) float64 { return r.PerNode }) || !slices.Equal(rates, want) {
			t.Errorf("%d rates are not sorted", n)
		}
	}
}

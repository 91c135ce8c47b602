package model

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortDescending checks that the numbers decrease and that equal items keep their order, for few and many items.
func TestSortDescending(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 999, 1000, 5000} {
		rates := make([]Edge, n)
		for i := range rates {
			rates[i] = Edge{Rate: math.Ldexp(float64(r.IntN(9)-4), r.IntN(3)*400-400), Nodes: float64(i)}
		}
		want := slices.Clone(rates)
		slices.SortStableFunc(want, func(a, b Edge) int { return cmp.Compare(b.Rate, a.Rate) })
		if !SortDescending(NewClock(context.Background(), 1000), rates, make([]Edge, n), func(r Edge) float64 { return r.Rate }) ||
			!slices.Equal(rates, want) {
			t.Errorf("%d rates are not sorted", n)
		}
	}
}

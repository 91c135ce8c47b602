package model

import (
	"slices"
	"testing"
)

// TestRates: the value of a size below the hull, however large, takes no digit of an edge over it.
func TestRates(t *testing.T) {
	got := AppendEdges(nil, []int32{0, 1, 2, 4, 8}, []float64{0, -1e9, 6 * 0x1p-20, -7e20, 12 * 0x1p-20})
	if want := []Edge{{Rate: 3 * 0x1p-20, Nodes: 2}, {Rate: 0x1p-20, Nodes: 6}}; !slices.Equal(got, want) {
		t.Errorf("rates %v; want %v", got, want)
	}
}

package model

import (
	"math/rand/v2"
	"testing"
)

// Without releasing later blocks, an arena would keep the largest slice of every position.
func TestArenaMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var arena Arena[float64]
	const small, large = 1 << 16, 1 << 19
	for round := range 100 {
		arena.Reset()
		taken, at := 0, random.IntN(10)
		for n := range 10 {
			size := small
			if n == at {
				size = large + round
			}
			if got := len(arena.Take(size)); got != size {
				t.Fatalf("round %d: %d items, want %d", round, got, size)
			}
			taken += size
		}
		kept := 0
		for _, block := range arena.blocks {
			kept += len(block)
		}
		if kept > 2*taken {
			t.Fatalf("round %d: blocks of %d items for slices of %d items", round, kept, taken)
		}
	}
}

package rows

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// TestDropped has beams of one to three states drop the best choice of five jobs: what was dropped
// has to count in the proven loss of every choice.
func TestDropped(t *testing.T) {
	for seed := range uint64(testtier.Conformance.Examples(60, 300)) {
		r := rand.New(rand.NewPCG(seed, 13))
		p := &Problem{Capacity: []int{3 + r.IntN(4), 3 + r.IntN(4)}, Start: make([]int, 5), Current: make([]Allocation, 5)}
		for range 5 {
			options := []Option{option(0, 0, 0)}
			for g := range 2 {
				options = append(options, option(g, 1+r.IntN(2), r.Float64()), option(g, 3+r.IntN(2), 1+r.Float64()))
			}
			p.Jobs = append(p.Jobs, options)
		}
		s := newSearch(clock(t), p, DefaultEffort())
		prices := []float64{0.5 * r.Float64(), 0.5 * r.Float64()}
		relaxed := s.relax(prices)
		best, _ := exhaustive(p)
		least := new(big.Rat).Sub(exactBound(s.Problem, rats(prices)), best)
		limit, _ := least.Float64()
		c := s.newCore(relaxed, min(relaxed.below, 1.5*limit))
		if c == nil {
			continue
		}
		c.run(1 + r.IntN(3))
		if rat(c.proven()).Cmp(least) > 0 {
			t.Fatalf("seed %d: the proven loss is %g; the best choice loses %g", seed, c.proven(), limit)
		}
	}
}

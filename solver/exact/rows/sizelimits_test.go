package rows

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// limited returns a random problem with 1 to 3 types that have 1 to 4 rows each, and whose jobs may have no
// nodes.
func limited(r *rand.Rand) *Problem {
	p := &Problem{}
	for range 1 + r.IntN(3) {
		p.First = append(p.First, len(p.Capacity))
		nodes := 4 + r.IntN(9)
		for range 1 + r.IntN(4) {
			p.Capacity = append(p.Capacity, nodes)
			nodes = max(0, nodes-r.IntN(3))
		}
	}
	for range 3 + r.IntN(2) {
		options := []Option{{Value: r.Float64()}}
		for g, first := range p.First {
			end := len(p.Capacity)
			if g+1 < len(p.First) {
				end = p.First[g+1]
			}
			for range 1 + r.IntN(3) {
				row := first + r.IntN(end-first)
				nodes := 1 + r.IntN(max(1, min(6, p.Capacity[row])))
				if nodes > p.Capacity[row] {
					continue
				}
				o := Allocation{Type: int16(g), Row: int16(row), RemainderRow: int16(row), Nodes: int32(nodes)}
				if row > first && nodes > 1 && r.IntN(2) == 0 {
					o.RemainderRow, o.Remainder = int16(first+r.IntN(row-first)), int32(1+r.IntN(nodes-1))
				}
				options = append(options, Option{o, r.Float64() * float64(1+nodes)})
			}
		}
		p.Jobs, p.Current, p.Start = append(p.Jobs, options), append(p.Current, Allocation{}), append(p.Start, 0)
	}
	return p
}

// TestRowPrices checks the lemma "node prices" with several rows per type: at 15,000 random prices, the bound
// is at least the optimum of an enumeration, and equals the sum of the lemma.
func TestRowPrices(t *testing.T) {
	seeds, tight := testtier.Conformance.Examples(50, 250), 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 31))
		p := limited(r)
		best, _ := exhaustive(p)
		optimum, _ := best.Float64()
		s := &search{Problem: p, clock: clock(t), effort: DefaultEffort(), choice: p.Start}
		for range 60 {
			prices := make([]float64, len(p.Capacity))
			for row := range prices {
				if r.IntN(3) > 0 {
					prices[row] = 2 * r.Float64() * math.Pow(10, float64(-r.IntN(3)))
				}
			}
			bound := s.relax(prices).bound.up()
			want, _ := exactBound(p, rats(prices)).Float64()
			if rat(bound).Cmp(best) < 0 || math.Abs(bound-want) > 1e-12*want {
				t.Fatalf("seed %d: bound %v at prices %v; the lemma has %v, the optimum is %v", seed, bound, prices, want, optimum)
			}
			if bound < 1.1*optimum {
				tight++
			}
		}
	}
	if t.Logf("%d of %d bounds within 10%%", tight, 60*seeds); tight < 4*seeds {
		t.Error("the bounds are too weak for a test")
	}
}

// TestManyRows solves problems with the largest number of rows: 8 types and 64 size limits.
func TestManyRows(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 33))
		p := &Problem{}
		for range 8 {
			p.First = append(p.First, len(p.Capacity))
			for n := range 9 {
				p.Capacity = append(p.Capacity, 12-n)
			}
		}
		for range 5 {
			options := []Option{{}}
			for range 6 {
				g, size := r.IntN(2), 1+r.IntN(9)
				options = append(options, Option{
					Allocation{Type: int16(g), Row: int16(p.First[g] + size - 1), Nodes: int32(min(size, 4))}, r.Float64() * float64(size),
				})
			}
			p.Jobs, p.Current, p.Start = append(p.Jobs, options), append(p.Current, Allocation{}), append(p.Start, 0)
		}
		best, _ := exhaustive(p)
		if got := Solve(clock(t), p, DefaultEffort()); !got.Complete || exactValue(p, got.Choice).Cmp(best) != 0 {
			t.Errorf("seed %d: %+v; the optimum is %v", seed, got, best)
		}
	}
}

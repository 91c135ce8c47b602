package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
)

// grid is the distribution of the remaining work W - x of a job, if ln W is normal and W > x, computed
// by sums over a grid of ln W.
type grid struct{ left, chance []float64 }

func newGrid(median, s, x float64) grid {
	var g grid
	low, high := median-10*s, median+10*s
	if x > 0 && math.Log(x) > low {
		// Beyond x nearly all is within some s^2 / (ln x - median) of it.
		low = math.Log(x)
		z := max((low-median)/s, 1)
		high = min(max(high, low+40*s/z), low+40*s/z+11*s)
	}
	const cells = 20_000
	total := 0.0
	for k := range cells {
		beyond := (high - low) * (float64(k) + 0.5) / cells
		y := low + beyond
		// The exponents are taken from that at low, which may be far out.
		total += math.Exp(-((y-median)*(y-median) - (low-median)*(low-median)) / (2 * s * s))
		left := math.Exp(y) - x
		if x > 0 && low == math.Log(x) {
			left = x * math.Expm1(beyond)
		}
		g.left, g.chance = append(g.left, left), append(g.chance, total)
	}
	for k := range g.chance {
		g.chance[k] /= total
	}
	return g
}

func (g grid) mean() float64 {
	sum, before := 0.0, 0.0
	for k, c := range g.chance {
		sum += g.left[k] * (c - before)
		before = c
	}
	return sum
}

func (g grid) quantile(q float64) float64 {
	at, _ := slices.BinarySearch(g.chance, q)
	return g.left[min(at, len(g.left)-1)]
}

// TestSampleRemaining compares quantiles of samples with the distribution whose mean is the estimate,
// computed by sums over a grid.
func TestSampleRemaining(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
	const estimate, samples = 3600.0, 10_000
	for _, s := range []float64{0.3, 5, 1e-3, 1.4}[:testtier.Conformance.Examples(2, 4)] {
		for _, share := range []float64{0, 1, 0.1, 100}[:testtier.Conformance.Examples(2, 4)] {
			t.Run(fmt.Sprintf("error=%v/done=%v", s, share), func(t *testing.T) {
				t.Parallel()
				x := share * estimate
				low, high := math.Log(estimate)-s*s*(3+3*share), math.Log(estimate+x)
				for range 60 {
					if middle := (low + high) / 2; newGrid(middle, s, x).mean() < estimate {
						low = middle
					} else {
						high = middle
					}
				}
				want := newGrid(low, s, x)
				random := rand.New(rand.NewPCG(1, 2))
				var got []float64
				for range samples {
					got = append(got, sampleRemaining(estimate, s, x, random))
				}
				slices.Sort(got)
				for _, q := range []float64{0.1, 0.5, 0.9} {
					below, above := want.quantile(q-0.015), want.quantile(q+0.015)
					if left := got[int(q*samples)]; left < below || left > above {
						t.Errorf("quantile %v is %v; want %v to %v", q, left, below, above)
					}
				}
			})
		}
	}
	if got := sampleRemaining(estimate, 0, 100, nil); got != estimate {
		t.Errorf("sampleRemaining() = %v for an exact ETA; want the estimate", got)
	}
}

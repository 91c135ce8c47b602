package hesrpt

import (
	"math"
	"testing"
	"time"
)

func TestShares(t *testing.T) {
	for jobs := range 40 {
		shares := Shares(jobs)
		sum := 0.0
		for i, share := range shares {
			sum += share
			if i > 0 && share <= shares[i-1] {
				t.Errorf("of %d, job %d has no more than the longer one before it", jobs, i)
			}
		}
		if jobs > 0 && math.Abs(sum-1) > 1e-12 {
			t.Errorf("the shares of %d jobs add up to %v", jobs, sum)
		}
	}
}

// TestBound compares the bound with the closed form of the heSRPT paper's
// theorem on the least total flow time: with sizes x_1 >= x_2 >= … it is
// sum over k of x_k / s(N) * (k s(1+w_k) - (k-1) s(w_k)),
// where w_k = 1 / ((k/(k-1))^(1/(1-a)) - 1) and s(n) = n^a.
func TestBound(t *testing.T) {
	demands := []time.Duration{40 * time.Minute, 3 * time.Hour, 40 * time.Minute, 7 * time.Second, 9 * time.Hour}
	descending := []float64{32400, 10800, 2400, 2400, 7}
	const nodes = 70
	a := math.Log2(1.6)
	speed := func(n float64) float64 { return math.Pow(n, a) }
	total := descending[0]
	for k := 2.0; int(k) <= len(descending); k++ {
		w := 1 / (math.Pow(k/(k-1), 1/(1-a)) - 1)
		total += descending[int(k)-1] * (k*speed(1+w) - (k-1)*speed(w))
	}
	want := total / speed(nodes) / float64(len(descending))
	if got := Bound(demands, nodes).Seconds(); math.Abs(got-want) > 1e-6*want {
		t.Errorf("the bound is %v s; want %v", got, want)
	}
	if got := Bound([]time.Duration{time.Hour}, 1); got != time.Hour {
		t.Errorf("the bound of an hour on one node is %v", got)
	}
	if got := Bound(nil, 1); got != 0 {
		t.Errorf("the bound of no jobs is %v", got)
	}
}

// Package hesrpt computes the optimal mean completion time of a batch of jobs on divisible nodes.
package hesrpt

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// exponent returns a in speed(k) = k^a. Each doubling of the nodes multiplies the speed by 1.6.
func exponent() float64 { return math.Log2(2 * solver.DefaultDoublingEfficiency) }

// Shares returns the shares of the pool that heSRPT (Berg et al., arXiv
// 1903.09346) gives to m jobs in descending order of remaining ETA. The share of job i is
// (i/m)^(1/(1-a)) - ((i-1)/m)^(1/(1-a)). These shares minimize the mean completion time if all jobs are
// present and nodes are divisible.
func Shares(jobs int) []float64 {
	power := 1 / (1 - exponent())
	shares := make([]float64, jobs)
	for i := range shares {
		shares[i] = math.Pow(float64(i+1)/float64(jobs), power) - math.Pow(float64(i)/float64(jobs), power)
	}
	return shares
}

// Bound returns a lower bound of the mean completion time of a batch of jobs with the given demands
// on a pool of nodes. It is the mean completion time of heSRPT with divisible nodes and no largest size, and
// applies to every allocator, even with knowledge of the future. It is loose if there are more jobs than
// nodes, because the speed curve overestimates speeds on less than one node.
func Bound(demands []time.Duration, nodes int) time.Duration {
	longestFirst := slices.SortedFunc(slices.Values(demands), func(a, b time.Duration) int { return cmp.Compare(b, a) })
	left := make([]float64, len(longestFirst))
	for i, demand := range longestFirst {
		left[i] = demand.Seconds()
	}
	now, sum := 0.0, 0.0
	// Jobs complete in ascending order of demand, and shares change only at completions.
	for m := len(left); m > 0; m-- {
		shares := Shares(m)
		speed := func(i int) float64 { return math.Pow(shares[i]*float64(nodes), exponent()) }
		span := left[m-1] / speed(m-1)
		for i := range m {
			left[i] -= span * speed(i)
		}
		now += span
		sum += now
	}
	return time.Duration(math.Round(float64(time.Second) * (sum / float64(max(1, len(demands))))))
}

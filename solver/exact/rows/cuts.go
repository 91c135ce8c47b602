package rows

import (
	"math"
	"slices"
)

// Cuts: constraints that all numbers of jobs satisfy, but not all fractions of jobs.
//
// Let u >= 0 be a multiplier of each row, and w one of each class. The sum of (u weights + w) times the
// counts is at most u nodes + w jobs. The counts are integers of at least 0, so the weights and then the
// total may be rounded down (Chvátal-Gomory cut). An equation of a vertex with a fractional count supplies
// multipliers for which the cut excludes the vertex. Multipliers are multiples of 1/cutUnit, so that the
// integers are exact.
//
// The measured effects in this file and in counts.go are those on 850 sweeps like those of BenchmarkSizeLimits
// and BenchmarkNodeTypes (go test ./solver/exact -run '^$' -bench '(SizeLimits|NodeTypes)/.*sweep' -benchtime
// 1x -timeout 30m), which are all proven.

const (
	cutUnit = 1 << 32
	// maxWeight is the largest weight and number of nodes in a row that is combined. It keeps the sums
	// within 63 bits.
	maxWeight = 1 << 20
	// cutDepth is the smallest distance of the vertex from a cut, in nodes of the cut. With 100 times the value
	// running sweeps take 1.2 times the CPU time.
	cutDepth = 1e-4
)

// addCuts adds the cuts of all equations of a vertex. It returns false if there are none or enough.
func (c *countSearch) addCuts(v *vertex) (added bool) {
	x := v.solution()
	for row := range v.basis {
		if len(c.rows) == len(c.Capacity)+c.effort.Cuts {
			return false
		}
		if v.basis[row] < c.counts && math.Abs(v.level[row]-math.Round(v.level[row])) > levelZero {
			if cut, ok := c.cut(v.table[row], x); ok {
				c.rows = append(c.rows, cut)
				c.addRow(v, &c.rows[len(c.rows)-1])
				added = true
			}
		}
	}
	return added
}

// cut returns the cut of an equation. It returns false if the cut does not exclude the solution x. Without the
// margin for rounding errors, a sweep is not proven.
func (c *countSearch) cut(equation, x []float64) (cut countRow, ok bool) {
	cut.weights = make([]int64, c.counts)
	excess, margin := 0.0, int64(0)
	for n, r := range c.rows {
		multiplier := equation[c.counts+n] * r.scale
		u := int64(math.Round((multiplier-math.Floor(multiplier))*cutUnit)) % cutUnit
		if u == 0 {
			continue
		}
		most := slices.Max(r.weights)
		if max(most, r.nodes) > maxWeight {
			return cut, false
		}
		margin += most
		for j, weight := range r.weights {
			cut.weights[j] += u * weight
		}
		cut.nodes += u * r.nodes
	}
	for _, k := range c.classes {
		weights := cut.weights[k.first : k.first+len(k.options)]
		// The multiplier of the class makes the weight of a count with jobs slightly more than an integer.
		used := 0
		for n := range weights {
			if x[k.first+n] > x[k.first+used] {
				used = n
			}
		}
		w := (margin - weights[used]) & (cutUnit - 1)
		cut.nodes += w * int64(len(k.jobs))
		for n := range weights {
			weights[n] = (weights[n] + w) >> 32
		}
	}
	cut.nodes >>= 32
	for _, k := range c.classes { // Make the smallest weight of each class 0.
		weights := cut.weights[k.first : k.first+len(k.options)]
		least := slices.Min(weights)
		cut.nodes -= least * int64(len(k.jobs))
		for n := range weights {
			weights[n] -= least
			excess += float64(weights[n]) * x[k.first+n]
		}
	}
	return cut, excess-float64(cut.nodes) > cutDepth
}

package audit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// place is a job, by its position in the model, in a step.
type place struct{ job, step int }

// box is the positions of the sizes that a leaf leaves in some places.
type box map[place][]int

// leaves returns the leaves of the answer's certificate, one without restrictions where it
// has none, and makes sure that every plan is in one of them.
func (a *answer) leaves(c *search) ([]*leaf, error) {
	all := make([][]int, len(a.jobs)) // the sizes that fit
	for i := range a.jobs {
		for n := range a.jobs[i].sizes {
			if a.fits(&a.jobs[i], n) {
				all[i] = append(all[i], n)
			}
		}
	}
	index := make(map[int32]int, len(a.jobs)) // by the position in the request
	for i := range a.jobs {
		index[int32(a.jobs[i].index)] = i
	}
	from := a.report.GetCertificate().GetLeaves()
	if len(from) == 0 {
		from = []*elastallocv1.Certificate_Leaf{{}}
	}
	var list []*leaf
	var boxes []box
	for _, f := range from {
		c.spend(1000 * len(a.jobs) * a.steps) // Above all memory.
		l := &leaf{allowed: make([][][]int, len(a.jobs)), sizes: make(map[int][][]int64)}
		nodePrices := f.GetNodePrices()
		if len(nodePrices) == 0 {
			nodePrices = a.report.GetNodePrices()
		}
		l.prices, l.free = a.prices(nodePrices), len(nodePrices) != a.steps
		left := a.box(f, all, index)
		for i := range a.jobs {
			for t := range a.steps {
				sizes, restricted := left[place{i, t}]
				if !restricted {
					sizes = all[i]
				}
				l.allowed[i] = append(l.allowed[i], sizes)
			}
		}
		a.readSizePrices(f, l, index)
		list, boxes = append(list, l), append(boxes, left)
	}
	if !c.cover(boxes, all) {
		return nil, refute("the leaves of the certificate leave out plans")
	}
	return list, nil
}

// box reads the restrictions of a leaf.
func (a *answer) box(from *elastallocv1.Certificate_Leaf, all [][]int, index map[int32]int) box {
	left := make(box)
	for _, r := range from.GetRestrictions() {
		i, known := index[r.GetJob()]
		if !known || r.GetStep() < 0 || int(r.GetStep()) >= a.steps {
			continue
		}
		at := place{i, int(r.GetStep())}
		sizes, restricted := left[at]
		if !restricted {
			sizes = all[i]
		}
		left[at] = slices.DeleteFunc(slices.Clone(sizes), func(n int) bool {
			return !slices.Contains(r.GetNodes(), int32(a.jobs[i].sizes[n]))
		})
	}
	return left
}

// cover reports whether boxes together hold every plan: they do if they hold, for each size
// in a place that one of them restricts, all plans with it.
func (c *search) cover(boxes []box, all [][]int) bool {
	c.spend(10 * (len(boxes) + 1))
	if len(boxes) == 0 {
		return false
	}
	first := place{-1, -1}
	for _, b := range boxes {
		if len(b) == 0 {
			return true
		}
		for at := range b {
			// Any place will do; the first makes the work the same each time.
			if first.job < 0 || at.job < first.job || at.job == first.job && at.step < first.step {
				first = at
			}
		}
	}
	for _, n := range all[first.job] {
		var with []box
		for _, b := range boxes {
			sizes, restricted := b[first]
			if restricted && !slices.Contains(sizes, n) {
				continue
			}
			rest := make(box, len(b))
			for at, sizes := range b {
				if at != first {
					rest[at] = sizes
				}
			}
			with = append(with, rest)
			c.spend(50 * len(b))
		}
		if !c.cover(with, all) {
			return false
		}
	}
	return true
}

// readSizePrices reads the prices of sizes that a leaf has, if all of them together stay far
// below what 64 bits hold.
func (a *answer) readSizePrices(from *elastallocv1.Certificate_Leaf, l *leaf, index map[int32]int) {
	total := 0.0
	for _, f := range from.GetSizePrices() {
		i, known := index[f.GetJob()]
		if !known || a.jobs[i].byStep || len(f.GetPrices()) != a.steps*len(a.jobs[i].sizes) {
			continue
		}
		l.sizes[i] = nil
		for row := range slices.Chunk(f.GetPrices(), len(a.jobs[i].sizes)) {
			var units []int64
			for _, price := range row {
				at := math.Ldexp(price, a.unit)
				total += math.Abs(at)
				units = append(units, int64(at))
			}
			l.sizes[i] = append(l.sizes[i], units)
		}
	}
	if !(total < highest) {
		clear(l.sizes)
	}
}

// prices returns prices in units, 0 for what is no price.
func (a *answer) prices(from []float64) []int64 {
	prices := make([]int64, a.steps)
	if len(from) != a.steps {
		return prices
	}
	for t, price := range from {
		// All nodes at all prices stay far below what 64 bits hold.
		if at := math.Ldexp(price, a.unit); at > 0 && at*float64(a.pool+1) < highest/mostSteps {
			prices[t] = int64(at)
		}
	}
	return prices
}

// describe returns what a plan gives jobs that the answer's plan does not.
func (a *answer) describe(plan [][]int) string {
	var parts []string
	for i := range a.jobs {
		if i < len(a.plan) && slices.Equal(a.plan[i], plan[i]) {
			continue
		}
		if len(parts) == 20 {
			parts = append(parts, "and others")
			break
		}
		parts = append(parts, fmt.Sprintf("%q %v", a.jobs[i].id, plan[i]))
	}
	return strings.Join(parts, ", ")
}

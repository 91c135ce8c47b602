package audit

import (
	"fmt"
	"math"
	"strings"
)

// leaves returns the leaves that the answer's certificate has, one without restrictions
// where it has none, and makes sure that every plan is in one of them.
func (a *answer) leaves(c *search) ([]*leaf, error) {
	l := &leaf{allowed: make([][][]int, len(a.jobs)), prices: a.prices(a.report.GetNodePrices())}
	l.free = len(a.report.GetNodePrices()) != a.steps
	for i := range a.jobs {
		var all []int
		for n := range a.jobs[i].sizes {
			if a.fits(&a.jobs[i], n) {
				all = append(all, n)
			}
		}
		for range a.steps {
			l.allowed[i] = append(l.allowed[i], all)
		}
	}
	return []*leaf{l}, nil
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
		if a.plan != nil && fmt.Sprint(a.plan[i]) == fmt.Sprint(plan[i]) {
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

package rows

import (
	"math"
	"slices"
)

// Better prices for the search with tables.
//
// The tables of leaf groups replace the prices of their windows, so that the best prices of the other rows are not those
// of the smallest bound D. Polyak's subgradient steps move towards them, in the metric of the smoothed bound.

const (
	// tightenSteps limits the steps at each temperature.
	tightenSteps = 30
	// patienceSteps is the number of steps without a better bound after which steps are halved.
	patienceSteps = 3
)

// tighten returns the relaxation at better prices, or nil if it finds none. The metric is that of the temperature at
// which half an alternative per job has a probability. If it does not help, a higher temperature may.
func (s *search) tighten(r *relaxation) *relaxation {
	if len(r.others) == 0 || s.pricedCount() < s.rowCount() {
		return nil
	}
	for _, alternatives := range []int{len(s.Jobs) / 2, 2 * len(s.Jobs), 5 * len(s.Jobs)} {
		at := min(len(r.others)-1, max(alternatives, 2*s.rowCount()))
		if better := s.tightenAt(r, r.others[at].loss); better != nil || s.clock.Expired {
			return better
		}
	}
	return nil
}

func (s *search) tightenAt(r *relaxation, temperature float64) *relaxation {
	all, capacity := s.sample(len(s.Jobs))
	metric := s.newSmooth(all, capacity)
	metric.at(r.prices, temperature)
	best, now, prices := r, r, slices.Clone(r.prices)
	least, share, since := math.Inf(1), 1.0, 0
	for range tightenSteps {
		bound, left := s.tableBound(now)
		if s.clock.Expired {
			return nil
		}
		since++
		switch {
		case bound < least && bound >= s.value.high:
			least, best, since = bound, now, 0
		case since >= patienceSteps || bound < s.value.high:
			share, since = share/2, 0
			copy(prices, best.prices)
			bound, left = s.tableBound(best)
		}
		for row := range metric.gradient {
			metric.gradient[row] = s.slope(row, prices[row], left[row])
		}
		step, slope := metric.step(prices, 1e100), 0.0
		for row := range step {
			if s.inTable(row) {
				step[row] = 0 // The tables do not depend on the price.
			}
			slope -= step[row] * metric.gradient[row]
		}
		gap := bound - s.value.high
		if !(slope > 0) || gap <= 0 {
			break
		}
		for row := range prices {
			low, high := s.priceRange(row)
			prices[row] = min(high, max(low, prices[row]+share*gap/slope*step[row]))
		}
		now = s.relax(prices)
	}
	if best == r {
		return nil
	}
	return best
}

// inTable reports whether a row is the window of a leaf group with the table.
func (s *search) inTable(row int) bool {
	rows := len(s.Capacity)
	if row < rows {
		return false
	}
	w := &s.windows.windows[row-rows]
	return s.tables[w.group] == row && !slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Parent == w.group })
}

// slope returns the derivative of the bound by the price of a row or window if a choice leaves the given nodes free.
func (s *search) slope(row int, price float64, left int) float64 {
	rows := len(s.Capacity)
	if row < rows {
		return float64(left)
	}
	w := &s.windows.windows[row-rows]
	short := left - w.limit + w.floor
	switch {
	case s.inTable(row):
		return 0
	case price > 0 || left < 0:
		return float64(left)
	case price < 0 || short > 0:
		return float64(short)
	}
	return 0
}

// tableBound returns the bound with the tables of leaf groups, and the nodes that its choice leaves free. The bound is
// an estimate: alternatives that lose at least relaxation.below are missing.
func (s *search) tableBound(r *relaxation) (bound float64, left []int) {
	c := &tree{search: s, relaxation: r, limit: math.Inf(1)}
	choice := make([]int, len(s.Jobs))
	for i, n := range r.best {
		choice[i] = int(n)
	}
	c.spare = s.free(choice)
	bound = r.bound.high
	for g, jobs := range c.alternatives(r.below) {
		l := treeLeaf{group: g, row: c.tables[g]}
		if l.row < 0 || !s.inTable(l.row) {
			continue
		}
		l.after = c.remaining(jobs, l.row, func(j *treeJob, o *treeOption) (int, float64) { return c.change(j, o, l.row), o.loss })
		if l.after == nil {
			return math.Inf(1), s.free(choice)
		}
		bound -= l.after[0].value(0)
		excess := 0
		for m := range jobs {
			j, least, chosen := &jobs[m], math.Inf(1), 0
			for k := range j.options {
				if loss := j.options[k].loss + l.after[m+1].value(excess+c.change(j, &j.options[k], l.row)); loss < least {
					least, chosen = loss, k
				}
			}
			excess += c.change(j, &j.options[chosen], l.row)
			choice[j.job] = int(j.options[chosen].option)
		}
	}
	return bound, s.free(choice)
}

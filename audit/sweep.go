package audit

import "slices"

const (
	// maxRounds limits the rounds in which the prices of sizes are improved.
	maxRounds = 300
	// Every extrapolationRounds rounds, the change of the prices is extrapolated by a factor of at most
	// maxExtrapolation.
	extrapolationRounds, maxExtrapolation = 8, 1 << 9
)

// sweep improves the prices of sizes, member by member, for some rounds or until the bound no longer
// decreases. It reports whether the bound stays above the target.
func (s *search) sweep(rounds int) bool {
	for _, c := range s.open {
		for t, largest := range c.paths.prune(c, infeasible) {
			for n, v := range largest {
				if v == infeasible {
					c.adjust[t][n] = infeasible
				}
			}
		}
		c.best = c.paths.backward(c)[0][0]
	}
	n := len(s.open)
	prefix := make([][][]int64, n+1)
	s.suffix = make([][][]int64, n+1)
	s.suffix[n] = s.layerBest
	for _, row := range s.layerBest {
		s.store(2 * n * len(row))
		prefix[0] = append(prefix[0], make([]int64, len(row)))
	}
	for m := n - 1; m >= 0; m-- {
		s.suffix[m] = s.extend(s.suffix[m+1], s.open[m])
	}
	bound, earlier := s.currentBound(), s.clonePrices()
	for round := range rounds {
		for m, c := range s.open {
			if !s.reprice(c, prefix[m], s.suffix[m+1], false) {
				return false
			}
			prefix[m+1] = s.extend(prefix[m], c)
		}
		for m := n - 1; m >= 0; m-- {
			if !s.reprice(s.open[m], prefix[m], s.suffix[m+1], true) {
				return false
			}
			s.suffix[m] = s.extend(s.suffix[m+1], s.open[m])
		}
		previous := bound
		if bound = s.currentBound(); previous-bound < (bound-s.target)/2048 {
			break
		}
		if round%extrapolationRounds == extrapolationRounds-1 {
			bound = s.extrapolate(earlier, bound)
			earlier = s.clonePrices()
		}
	}
	return bound > s.target
}

// clonePrices returns a copy of the adjustments of the open members.
func (s *search) clonePrices() (prices [][][]int64) {
	for _, c := range s.open {
		var rows [][]int64
		for _, row := range c.adjust {
			rows = append(rows, slices.Clone(row))
		}
		prices = append(prices, rows)
	}
	return prices
}

// extrapolate continues the change of the prices since earlier prices as far as that lowers the bound:
// prices often change in the same direction for many rounds. It returns the new bound.
func (s *search) extrapolate(earlier [][][]int64, bound int64) int64 {
	current, best := s.clonePrices(), int64(0)
	for factor := int64(1); factor <= maxExtrapolation; factor *= 2 {
		next := s.setPrices(current, earlier, factor)
		if next >= bound {
			break
		}
		bound, best = next, factor
	}
	return s.setPrices(current, earlier, best)
}

// setPrices adds a multiple of the change since earlier prices to the current prices. It returns the
// new bound.
func (s *search) setPrices(current, earlier [][][]int64, factor int64) int64 {
	for m, c := range s.open {
		for t, row := range current[m] {
			for n, adjust := range row {
				if change := adjust - earlier[m][t][n]; adjust != infeasible && max(change, -change) < maxPrices/maxExtrapolation/8 {
					adjust += factor * change
				}
				c.adjust[t][n] = adjust
			}
			checkRange(c.adjust[t])
		}
		c.best = c.paths.backward(c)[0][0]
	}
	for m := len(s.open) - 1; m >= 0; m-- {
		s.suffix[m] = s.extend(s.suffix[m+1], s.open[m])
	}
	return s.currentBound()
}

// currentBound returns the upper bound of the value of any plan. If it is too large to add up, it
// returns a number that no plan reaches.
func (s *search) currentBound() int64 {
	bound, sum := int64(0), 0.0
	for _, c := range s.open {
		bound, sum = bound+c.best, sum+float64(c.best)
	}
	for _, table := range s.suffix[0] {
		best := table[len(table)-1]
		if best == infeasible {
			return infeasible
		}
		bound, sum = bound+best, sum+float64(best)
	}
	if sum > -infeasible { // The prices were extrapolated too far.
		return -infeasible
	}
	return bound
}

// extend adds the prices that a member pays to tables by the maximum number of nodes.
func (s *search) extend(tables [][]int64, c *candidates) (extended [][]int64) {
	for t, from := range tables {
		table := slices.Repeat([]int64{infeasible}, len(from))
		for n, adjust := range c.adjust[t] {
			if adjust == infeasible {
				continue
			}
			k := s.consumption(c.member, t, n)
			for at, v := range from[:max(0, len(from)-k)] {
				if v != infeasible {
					table[at+k] = max(table[at+k], v-adjust)
				}
			}
			s.spend(len(from))
		}
		checkRange(table)
		extended = append(extended, table)
	}
	return extended
}

// reprice drops the paths of a member that no better plan has, and sets new prices of its sizes, from
// the first row forward or from the last row back. For each size, the loss of the best plan with that
// size in that row, compared with the best plan, is divided evenly between the row and the member. The
// rows that follow use what remains at the member. It reports whether any path is left.
//
// This is sequential message passing: Kolmogorov, "A new look at reweighted message passing" (2015).
func (s *search) reprice(c *candidates, prefix, suffix [][]int64, back bool) bool {
	// others[t][n] is the largest sum that the other members pay in row t if this member has its n-th
	// size; paid[t] is the largest sum that all members pay. rest is the bound of everything else.
	others, paid, rest := make([][]int64, len(c.adjust)), make([]int64, len(c.adjust)), -c.best
	for _, other := range s.open {
		rest += other.best
	}
	for t, row := range c.adjust {
		last := len(prefix[t]) - 1
		others[t], paid[t] = slices.Repeat([]int64{infeasible}, len(row)), infeasible
		for n, adjust := range row {
			k := s.consumption(c.member, t, n)
			for at := 0; adjust != infeasible && at+k <= last; at++ {
				if a, b := prefix[t][at], suffix[t][last-k-at]; a != infeasible && b != infeasible {
					others[t][n] = max(others[t][n], a+b)
				}
			}
			s.spend(last)
			if others[t][n] != infeasible {
				paid[t] = max(paid[t], others[t][n]-adjust)
			}
		}
		if paid[t] == infeasible {
			return false
		}
		checkRange(append(others[t], paid[t]))
		rest += paid[t]
	}
	c.paths.start(back)
	for step := range c.adjust {
		t := step
		if back {
			t = len(c.adjust) - 1 - step
		}
		rest -= paid[t] // The member now receives all that the others pay in this row.
		largest := c.paths.pruneRow(c, t, others[t], s.target-rest)
		if c.best = slices.Max(largest); c.best == infeasible {
			return false
		}
		for n, v := range largest {
			if c.adjust[t][n] = infeasible; v != infeasible {
				c.adjust[t][n] = others[t][n] + (c.best-v)/2
			}
		}
		checkRange(c.adjust[t])
		c.paths.propagate(c, t, back)
	}
	return true
}

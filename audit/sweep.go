package audit

import "slices"

const (
	// mostRounds is how often the prices of sizes are improved.
	mostRounds = 300
	// Every leapRounds of them, prices go on as they went, up to mostLeaps times as far.
	leapRounds, mostLeaps = 8, 1 << 9
)

// sweep improves the prices of sizes member by member, some rounds, as long as that lowers what any
// plan is worth at most. It reports whether that stays above the target.
func (s *search) sweep(rounds int) bool {
	for _, p := range s.open {
		for t, most := range p.paths.cut(p, never) {
			for n, v := range most {
				if v == never {
					p.add[t][n] = never
				}
			}
		}
		p.kept = p.paths.behind(p)[0][0]
	}
	n := len(s.open)
	before := make([][][]int64, n+1)
	s.behind = make([][][]int64, n+1)
	s.behind[n] = s.ends
	for _, ends := range s.ends {
		s.keep(2 * n * len(ends))
		before[0] = append(before[0], make([]int64, len(ends)))
	}
	for m := n - 1; m >= 0; m-- {
		s.behind[m] = s.extend(s.behind[m+1], s.open[m])
	}
	known, from := s.known(), s.prices()
	for round := range rounds {
		for m, p := range s.open {
			if !s.improve(p, before[m], s.behind[m+1], false) {
				return false
			}
			before[m+1] = s.extend(before[m], p)
		}
		for m := n - 1; m >= 0; m-- {
			if !s.improve(s.open[m], before[m], s.behind[m+1], true) {
				return false
			}
			s.behind[m] = s.extend(s.behind[m+1], s.open[m])
		}
		was := known
		if known = s.known(); was-known < (known-s.target)/2048 {
			break
		}
		if round%leapRounds == leapRounds-1 {
			known = s.leap(from, known)
			from = s.prices()
		}
	}
	return known > s.target
}

// prices returns what the open members are paid.
func (s *search) prices() (prices [][][]int64) {
	for _, p := range s.open {
		var own [][]int64
		for _, row := range p.add {
			own = append(own, slices.Clone(row))
		}
		prices = append(prices, own)
	}
	return prices
}

// leap has prices go on from some to those come to and beyond, as far as that lowers the most that any plan
// is worth, which is known: often they go the same way for a hundred rounds. It returns what that comes to.
func (s *search) leap(from [][][]int64, known int64) int64 {
	now, best := s.prices(), int64(0)
	for factor := int64(1); factor <= mostLeaps; factor *= 2 {
		got := s.setPrices(now, from, factor)
		if got >= known {
			break
		}
		known, best = got, factor
	}
	return s.setPrices(now, from, best)
}

// setPrices sets prices as far beyond some as a factor says these are from others, and returns the most that
// any plan is worth.
func (s *search) setPrices(now, from [][][]int64, factor int64) int64 {
	for m, p := range s.open {
		for t, row := range now[m] {
			for n, add := range row {
				if way := add - from[m][t][n]; add != never && max(way, -way) < mostPrices/mostLeaps/8 {
					add += factor * way
				}
				p.add[t][n] = add
			}
			within(p.add[t])
		}
		p.kept = p.paths.behind(p)[0][0]
	}
	for m := len(s.open) - 1; m >= 0; m-- {
		s.behind[m] = s.extend(s.behind[m+1], s.open[m])
	}
	return s.known()
}

// known returns the most that any plan is worth, or what no plan is where that is too much to add up.
func (s *search) known() int64 {
	known, sum := int64(0), 0.0
	for _, p := range s.open {
		known, sum = known+p.kept, sum+float64(p.kept)
	}
	for _, table := range s.behind[0] {
		most := table[len(table)-1]
		if most == never {
			return never
		}
		known, sum = known+most, sum+float64(most)
	}
	if sum > -never { // Prices have leapt too far.
		return -never
	}
	return known
}

// extend adds what a member pays to tables by the nodes that there are at most.
func (s *search) extend(tables [][]int64, p *plans) (extended [][]int64) {
	for t, from := range tables {
		table := slices.Repeat([]int64{never}, len(from))
		for n, add := range p.add[t] {
			if add == never {
				continue
			}
			k := p.member.sizes[n]
			for at, v := range from[:max(0, len(from)-k)] {
				if v != never {
					table[at+k] = max(table[at+k], v-add)
				}
			}
			s.spend(len(from))
		}
		within(table)
		extended = append(extended, table)
	}
	return extended
}

// improve drops the plans of a member that no better one has, and prices its sizes anew, row by row from
// the first or back from the last: what the most that a plan is worth in which it has a size there falls
// short of the best is shared evenly between the row and the member. The rows behind find what it kept. It
// reports whether any plan is left.
//
// (Sequential message passing; Kolmogorov, "A new look at reweighted message passing" (2015).)
func (s *search) improve(p *plans, before, behind [][]int64, back bool) bool {
	// others are the most that the others pay in a row for all nodes but those of a size, paid with what
	// the member pays for it.
	others, paid, rest := make([][]int64, len(p.rows)), make([]int64, len(p.rows)), -p.kept
	for _, other := range s.open {
		rest += other.kept
	}
	for t, row := range p.add {
		last := len(before[t]) - 1
		others[t], paid[t] = slices.Repeat([]int64{never}, len(row)), never
		for n, add := range row {
			for at := 0; add != never && at+p.member.sizes[n] <= last; at++ {
				if a, b := before[t][at], behind[t][last-p.member.sizes[n]-at]; a != never && b != never {
					others[t][n] = max(others[t][n], a+b)
				}
			}
			if s.spend(last); others[t][n] != never {
				paid[t] = max(paid[t], others[t][n]-add)
			}
		}
		if paid[t] == never {
			return false
		}
		within(append(others[t], paid[t]))
		rest += paid[t]
	}
	p.paths.begin(back)
	for at := range p.rows {
		t := at
		if back {
			t = len(p.rows) - 1 - at
		}
		rest -= paid[t] // Nothing from now on.
		most := p.paths.narrow(p, t, others[t], s.target-rest)
		if p.kept = slices.Max(most); p.kept == never {
			return false
		}
		for n, v := range most {
			if p.add[t][n] = never; v != never {
				p.add[t][n] = others[t][n] + (p.kept-v)/2
			}
		}
		within(p.add[t])
		p.paths.pass(p, t, back)
	}
	return true
}

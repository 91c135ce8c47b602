package audit

import (
	"cmp"
	"math"
	"slices"
)

// mostRounds is how often the prices of sizes are improved.
const mostRounds = 300

// trial is what is left to decide.
type trial struct {
	*search
	open []*open
	// options are, by row, those that the other members have left.
	options [][][]option
	// layers are, by row, the members that have one plan left or are worth what they are row
	// by row; ends[n] is the most that they are worth with at most n nodes beside their least.
	layers []*layer
	ends   [][]int64
	// behind is, by open member and row, the most that it and those behind it pay for their
	// sizes and the layer is worth, by the most nodes that they hold; it ends with ends.
	behind [][][]int64
}

// open is a member of which several plans may be part of a better one. It pays the rows a
// price for each size, of either sign.
type open struct {
	*plans
	paths *paths
	price [][]int64 // by row; never for sizes that are in no plan
	kept  int64     // the most that a plan is worth beyond what it pays
}

// pay makes what the sizes add what they cost, works out what is kept, and returns that by
// rows taken and vertex.
func (o *open) pay() [][]int64 {
	for t, row := range o.price {
		for n, price := range row {
			if o.add[t][n] = never; price != never {
				o.add[t][n] = -price
			}
		}
	}
	behind := o.paths.behind(o.plans)
	o.kept = behind[0][0]
	return behind
}

// price sets the first prices of sizes.
func (s *trial) price() {
	// losses are the least that members lose by not having their best plan.
	losses := make(map[*open]int64)
	for _, o := range s.open {
		losses[o] = math.MaxInt64
		for _, row := range o.paths.narrow(o.plans, never) {
			slices.Sort(row)
			losses[o] = min(losses[o], row[len(row)-1]-slices.Max(append(row[:len(row)-1], never)))
		}
	}
	slices.SortStableFunc(s.open, func(a, b *open) int { return cmp.Or(cmp.Compare(losses[a], losses[b]), cmp.Compare(a.most, b.most)) })
	for _, o := range s.open {
		for t, arcs := range o.paths.arcs {
			row := slices.Repeat([]int64{never}, len(o.add[t]))
			for _, a := range arcs {
				row[a.size] = -o.add[t][a.size]
			}
			o.price = append(o.price, row)
		}
		o.pay()
	}
}

// sweep improves the prices member by member, some rounds, as long as that lowers what any plan is worth
// at most. It reports whether that stays above the target.
func (s *trial) sweep(rounds int) bool {
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
	known := s.known()
	for range rounds {
		if known <= s.target {
			return false
		}
		for m, o := range s.open {
			if !s.improve(o, before[m], s.behind[m+1]) {
				return false
			}
			before[m+1] = s.extend(before[m], o)
		}
		for m := n - 1; m >= 0; m-- {
			if !s.improve(s.open[m], before[m], s.behind[m+1]) {
				return false
			}
			s.behind[m] = s.extend(s.behind[m+1], s.open[m])
		}
		was := known
		if known = s.known(); was-known < (known-s.target)/512 {
			break
		}
	}
	return known > s.target
}

// known returns the most that any plan is worth.
func (s *trial) known() int64 {
	known := int64(0)
	for _, o := range s.open {
		known += o.kept
	}
	for _, table := range s.behind[0] {
		if table[len(table)-1] == never {
			return never
		}
		known += table[len(table)-1]
	}
	return known
}

// extend adds what a member pays to tables by the nodes that there are at most.
func (c *search) extend(tables [][]int64, o *open) (extended [][]int64) {
	for t, from := range tables {
		table := slices.Repeat([]int64{never}, len(from))
		for n, price := range o.price[t] {
			if price == never {
				continue
			}
			k := o.member.sizes[n]
			for at, v := range from[:max(0, len(from)-k)] {
				if v != never {
					table[at+k] = max(table[at+k], v+price)
				}
			}
			c.spend(len(from))
		}
		extended = append(extended, table)
	}
	return extended
}

// improve drops the plans of a member that no better one has, and prices its sizes anew: the
// most that a plan is worth in which it has a size in a row is shared evenly between the
// rows and the member. It reports whether any plan is left.
func (s *trial) improve(o *open, before, behind [][]int64) bool {
	rest := -o.kept
	for _, other := range s.open {
		rest += other.kept
	}
	for t, row := range o.price {
		last := len(before[t]) - 1
		for n, price := range row {
			// The most that the others pay in the row for all nodes but those of the size.
			others := int64(never)
			for at := 0; price != never && at+o.member.sizes[n] <= last; at++ {
				if a, b := before[t][at], behind[t][last-o.member.sizes[n]-at]; a != never && b != never {
					others = max(others, a+b)
				}
			}
			s.spend(last)
			o.add[t][n] = others
		}
	}
	most := o.paths.narrow(o.plans, s.target-rest)
	for t := range most {
		if len(o.paths.arcs[t]) == 0 {
			return false
		}
		for n, v := range most[t] {
			if o.price[t][n] = never; v != never {
				o.price[t][n] = v/int64(len(o.rows)+1) - o.add[t][n]
			}
		}
	}
	o.pay()
	return true
}

// refine leaves members the sizes that are left to decide on, and reports whether values have a
// finer unit then: sizes that are in no plan may be worth far more than any that is.
func (s *trial) refine() bool {
	for i := range s.members {
		j := &s.members[i]
		for t := range j.usable {
			j.usable[t] = nil
			for _, o := range s.options[t][i] {
				j.usable[t] = append(j.usable[t], slices.Index(j.sizes, o.nodes))
			}
		}
	}
	for _, o := range s.open {
		for t, arcs := range o.paths.arcs {
			for _, a := range arcs {
				o.usable[t] = append(o.usable[t], int(a.size))
			}
			slices.Sort(o.usable[t])
			o.usable[t] = slices.Compact(o.usable[t])
		}
	}
	before := s.unit
	return s.scale() && s.unit > before
}

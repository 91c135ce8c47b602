package audit

import "slices"

// mostRounds is how often the splits are improved.
const mostRounds = 100

// newChosen returns an open job. Without a split, its losses all remain with it.
func newChosen(job int, plans []plan, split [][]int64, sizes []int) *chosen {
	o := &chosen{job: job, plans: plans, split: make([][]int64, len(plans[0].sizes))}
	for t := range o.split {
		o.split[t] = slices.Repeat([]int64{infinite}, len(sizes))
		for _, p := range plans {
			if k := p.sizes[t]; split != nil {
				o.split[t][k] = split[t][k]
			} else {
				o.split[t][k] = 0
			}
		}
	}
	o.keep()
	return o
}

// keep works out what the plans of a job have in common of the losses that the steps do not
// count.
func (o *chosen) keep() {
	o.kept = infinite
	for _, p := range o.plans {
		rest := p.loss
		for t, k := range p.sizes {
			rest -= o.split[t][k]
		}
		o.kept = min(o.kept, rest)
	}
}

// sweep improves the splits job by job: what is known of the loss of a solution in which the
// job has a size in a step is shared evenly between the steps and the job. It reports
// whether a solution may lose less than the cut, and leaves the tables for the search.
func (s *horizon) sweep() bool {
	before, possible := s.tables()
	if !possible {
		return false
	}
	known := s.known()
	for range mostRounds {
		if known >= s.cut {
			return false
		}
		for n := range s.open {
			if !s.improve(n, before[n]) {
				return false
			}
			before[n+1] = s.each(func(t int) []int64 { return s.forward(n, t, before[n][t]) })
		}
		for n := len(s.open) - 1; n >= 0; n-- {
			if !s.improve(n, before[n]) {
				return false
			}
			s.back[n] = s.each(func(t int) []int64 { return s.backward(n, t, s.back[n+1][t]) })
		}
		was := known
		if known = s.known(); known-was < (s.cut-known)/64 {
			break
		}
	}
	return known < s.cut
}

// tables fills the tables behind each open job, and returns those before each. It reports
// whether the least of all fits.
func (s *horizon) tables() (before [][][]int64, possible bool) {
	for n := range len(s.open) + 1 {
		for t := range s.steps {
			most := s.most(n, t)
			if most < 0 {
				return nil, false
			}
			s.keep(2 * (most + 1))
		}
	}
	s.back = make([][][]int64, len(s.open)+1)
	for n := len(s.open); n >= 0; n-- {
		s.back[n] = s.each(func(t int) []int64 {
			if n == len(s.open) {
				return s.ends(t)
			}
			return s.backward(n, t, s.back[n+1][t])
		})
	}
	before = make([][][]int64, len(s.open)+1)
	before[0] = s.each(func(t int) []int64 {
		table := s.blank(0, t)
		table[s.left[t]] = 0
		return table
	})
	for n := range s.open {
		before[n+1] = s.each(func(t int) []int64 { return s.forward(n, t, before[n][t]) })
	}
	return before, true
}

// each returns a table of each step.
func (s *horizon) each(of func(t int) []int64) [][]int64 {
	tables := make([][]int64, s.steps)
	for t := range tables {
		tables[t] = of(t)
	}
	return tables
}

// known returns the least that every solution loses.
func (s *horizon) known() int64 {
	known := s.fixed
	for _, o := range s.open {
		known += o.kept
	}
	for t, left := range s.left {
		if s.back[0][t][left] >= infinite {
			return infinite
		}
		known += s.back[0][t][left]
	}
	return known
}

// improve drops the plans of the n-th open job that no better solution has, and splits the
// losses of the others anew. It reports whether any is left.
func (s *horizon) improve(n int, before [][]int64) bool {
	o := s.open[n]
	others := s.others(n, before, s.back[n+1])
	least := make([][]int64, s.steps)
	for t := range least {
		least[t] = slices.Repeat([]int64{infinite}, len(o.split[t]))
	}
	rest := s.fixed
	for _, other := range s.open {
		rest += other.kept
	}
	rest -= o.kept
	s.spend(len(o.plans) * s.steps * 2)
	kept := o.plans[:0]
	for _, p := range o.plans {
		loss := p.loss
		for t, k := range p.sizes {
			if loss = min(infinite, loss+others[t][k]); loss == infinite {
				break
			}
		}
		if loss+rest >= s.cut {
			continue
		}
		kept = append(kept, p)
		for t, k := range p.sizes {
			least[t][k] = min(least[t][k], loss)
		}
	}
	if o.plans = kept; len(kept) == 0 {
		return false
	}
	for t := range least {
		for k, loss := range least[t] {
			if o.split[t][k] = infinite; loss < infinite {
				o.split[t][k] = loss/int64(s.steps+1) - others[t][k]
			}
		}
	}
	o.keep()
	return true
}

// most returns the most nodes that the open jobs from the n-th on can be left in a step,
// below 0 where those before it take too many.
func (s *horizon) most(n, t int) int {
	most := s.left[t]
	for _, o := range s.open[:n] {
		if k := slices.IndexFunc(o.split[t], func(loss int64) bool { return loss < infinite }); k >= 0 {
			most -= s.jobs[o.job].sizes[k]
		}
	}
	return most
}

// blank returns a table of infinite losses over the nodes that the n-th open job and those
// behind it can be left.
func (s *horizon) blank(n, t int) []int64 {
	table := slices.Repeat([]int64{infinite}, max(0, s.most(n, t))+1)
	s.spend(len(table))
	return table
}

// ends returns the table behind the last open job.
func (s *horizon) ends(t int) []int64 {
	table := s.blank(len(s.open), t)
	price, y := s.leaf.prices[t], s.byStep[t]
	for a := range table {
		if a > 0 && table[a-1] < infinite {
			table[a] = table[a-1] + price
		}
		if n := a - y.from; n >= 0 && n < len(y.loss) {
			table[a] = min(table[a], y.loss[n])
		}
	}
	return table
}

// backward returns the table before the n-th open job from that behind it.
func (s *horizon) backward(n, t int, behind []int64) []int64 {
	o, table := s.open[n], s.blank(n, t)
	for k, loss := range o.split[t] {
		if loss == infinite {
			continue
		}
		nodes := s.jobs[o.job].sizes[k]
		for a := nodes; a < len(table) && a-nodes < len(behind); a++ {
			if then := behind[a-nodes]; then < infinite {
				table[a] = min(table[a], then+loss)
			}
		}
		s.spend(len(table))
	}
	return table
}

// forward returns the least losses of the open jobs up to the n-th, by the nodes that they
// leave, from those before it.
func (s *horizon) forward(n, t int, before []int64) []int64 {
	o, table := s.open[n], s.blank(n+1, t)
	for k, loss := range o.split[t] {
		if loss == infinite {
			continue
		}
		nodes := s.jobs[o.job].sizes[k]
		for a := nodes; a < len(before); a++ {
			if before[a] < infinite && a-nodes < len(table) {
				table[a-nodes] = min(table[a-nodes], before[a]+loss)
			}
		}
		s.spend(len(before))
	}
	return table
}

// others returns, by step and size, the least that all others lose in the step when the n-th
// open job has the size.
func (s *horizon) others(n int, before, behind [][]int64) [][]int64 {
	o := s.open[n]
	others := make([][]int64, s.steps)
	for t := range others {
		others[t] = make([]int64, len(o.split[t]))
		for k, loss := range o.split[t] {
			others[t][k] = infinite
			if loss == infinite {
				continue
			}
			nodes := s.jobs[o.job].sizes[k]
			for a := nodes; a < len(before[t]) && a-nodes < len(behind[t]); a++ {
				if before[t][a] < infinite && behind[t][a-nodes] < infinite {
					others[t][k] = min(others[t][k], before[t][a]+behind[t][a-nodes])
				}
			}
			s.spend(len(before[t]))
		}
	}
	return others
}

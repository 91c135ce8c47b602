package rows

import (
	"math"
)

// The search for choices of a problem with groups.

const (
	// firstPart is the first limit of the loss, as a part of the gap beyond the bound at the root, and partGrowth the
	// factor from one limit to the next.
	firstPart  = 1.0 / 16
	partGrowth = 2
	// leastPart is the smallest part.
	leastPart = 1e-3
)

// searchTree searches a problem with groups. It reports whether the search completed.
func (s *search) searchTree(r *relaxation) bool {
	s.chooseTables(r.prices)
	s.findChoice(r, s.effort.FirstWidth/guidedWidth/4)
	s.improvePairs(r)
	if s.clock.Expired {
		return false
	}
	complete, cut := s.searchParts(r, s.effort.FirstWidth)
	if !cut {
		return complete
	}
	s.findChoice(r, s.effort.FirstWidth/guidedWidth)
	if better := s.tighten(r); better != nil {
		r = better
		s.prove(r.bound, 0, lemmaPrices)
		s.findChoice(r, s.effort.FirstWidth/guidedWidth)
	}
	s.improvePairs(r)
	if s.clock.Expired {
		return false
	}
	complete, _ = s.searchParts(r, s.effort.LastWidth)
	return complete
}

// searchParts runs core searches, from little work to much, with beams of at most the given width. It reports whether
// the last one completed, and whether the width was too small.
func (s *search) searchParts(r *relaxation, lastWidth int) (complete, cut bool) {
	width, part, searched := min(s.effort.FirstWidth, lastWidth), firstPart, false
	for {
		full := s.fullGap(r)
		most := min(full, r.below)
		c := s.newTree(r, most, r.below, false)
		if s.clock.Expired {
			return false, false
		}
		root := 0.0
		if c != nil {
			root = c.root
		}
		if root >= most {
			s.proveTree(c, most)
			return full <= r.below, false
		}
		if part < 1 || c == nil {
			c = s.newTree(r, min(root+part*(full-root), r.below), r.below, false)
		}
		if s.clock.Expired {
			return false, false
		}
		if c == nil {
			// Lower the limit, unless a lower limit was searched before.
			if part /= 4; searched || part < leastPart {
				return false, false
			}
			continue
		}
		if c.root >= c.limit {
			s.proveTree(c, c.limit)
			part = min(1, part*partGrowth*partGrowth)
			continue
		}
		complete := c.run(width)
		if !math.IsInf(c.minLoss, 1) {
			s.offer(c.choice())
		}
		s.proveTree(c, min(c.limit, c.minLoss, c.dropped))
		if s.clock.Expired {
			return false, false
		}
		searched = true
		switch narrow := c.dropped < min(c.limit, c.minLoss); {
		case s.goodEnough():
			return false, false
		case !complete, narrow && width >= lastWidth:
			return false, true
		case narrow && math.IsInf(c.minLoss, 1) && part < 1:
			part = min(1, part*partGrowth) // A larger limit makes it easier to find a choice, and the choice then limits the search.
			width = min(lastWidth, 2*width)
		case narrow:
			width = min(lastWidth, width*widening)
		case c.minLoss < c.limit || c.limit >= full:
			return true, false
		case c.limit >= r.below:
			return false, false
		default:
			part = min(1, part*partGrowth)
		}
	}
}

// proveTree lowers the bound by the loss that every choice has at least.
func (s *search) proveTree(c *tree, loss float64) {
	s.prove(c.relaxation.bound, c.proven(loss), lemmaTree)
}

// proven reduces a lower bound on the loss of every choice, which is at most the limit, by its rounding error and by
// the differences that ties may have ignored.
func (c *tree) proven(loss float64) float64 {
	// A choice loses at most one loss per job, row and window. Every sum of losses in a table or a state adds
	// numbers of at least 0, in some order, so that its relative error is below 2^-53 per term.
	terms := float64(len(c.Jobs) + c.rowCount() + 2*len(c.Groups))
	return max(0, loss-(terms+16)*0x1p-50*c.limit-terms*c.tolerance)
}

const (
	// guidedWidth is the factor by which the beam of findChoice is narrower than that of a search.
	guidedWidth = 3
	// limitRaises is the number of times that findChoice raises the limit of the loss fourfold.
	limitRaises = 10
)

// findChoice searches for a good choice with a narrow beam over the options with the smallest losses.
func (s *search) findChoice(r *relaxation, width int) {
	if len(r.others) == 0 {
		return
	}
	for n, count := range []int{3*len(s.Groups) + 60, 8*len(s.Groups) + 200, 20*len(s.Groups) + 600} {
		most := max(r.others[min(count, len(r.others)-1)].loss, s.tolerance()+0x1p-1000)
		limit := 4 * most
		for range limitRaises {
			c := s.newTree(r, limit, most, true)
			if c == nil || math.IsInf(c.root, 1) {
				break
			}
			if limit = 4 * max(limit, c.root); c.root >= c.limit {
				continue
			}
			c.run(width)
			if math.IsInf(c.minLoss, 1) {
				continue
			}
			before := s.value.high
			s.offer(c.choice())
			if c.minLoss < 1.2*c.root || n > 0 && s.value.high <= before {
				return
			}
			break
		}
		if s.clock.Expired {
			return
		}
	}
}

// rest returns a lower bound on the remaining loss of a state with c.excess before job n.
func (c *tree) rest(n int) (sum float64) {
	if n == len(c.jobs) {
		for _, t := range c.rows[:len(c.Capacity)] {
			sum += t.tails[n].value(int(c.excess[t.coordinate]))
		}
		return sum
	}
	l := &c.leaves[c.jobs[n].leaf]
	excess := 0
	if l.row >= 0 {
		excess = int(c.excess[l.coordinate])
	}
	sum = c.later[n] + l.after[n-l.from].value(excess)
	for _, t := range l.rows {
		sum += t.tails[n-t.from].value(int(c.excess[t.coordinate]))
	}
	if c.joint.rows == nil || math.IsInf(sum, 1) {
		return sum
	}
	return max(sum, c.jointRest(n))
}

// run searches with a beam of the given width. It returns false if the limit of links or the deadline is reached. The
// remaining states then count as dropped.
func (c *tree) run(width int) bool {
	c.dropped, c.minLoss, c.bestLink = math.Inf(1), math.Inf(1), -1
	c.next.reset()
	clear(c.excess)
	c.add(0, &state{link: -1, loss: c.fixed}, 0)
	c.current, c.next = c.next, c.current
	for n := range c.jobs {
		c.next.reset()
		for from := range c.current.states {
			if len(c.links) > c.effort.Links || c.clock.Add(len(c.jobs[n].options)*len(c.leaves[c.jobs[n].leaf].rows)) {
				for _, left := range c.current.states {
					c.dropped = min(c.dropped, left.total)
				}
				return false
			}
			c.expand(n, &c.current.states[from])
			if len(c.next.states) > width+width/2 {
				c.dropped = min(c.dropped, c.next.prune(width))
			}
		}
		c.dropped = min(c.dropped, c.next.prune(width))
		c.states += len(c.next.states)
		c.current, c.next = c.next, c.current
	}
	for n := range c.current.states {
		s := &c.current.states[n]
		if s.total < c.limit && (s.total < c.minLoss-c.tolerance || s.total <= c.minLoss+c.tolerance && s.tie.compare(c.tie) < 0) {
			c.minLoss, c.tie, c.bestLink = s.total, s.tie, s.link
		}
	}
	return true
}

// expand adds the states to which the options of job n lead from a state.
func (c *tree) expand(n int, from *state) {
	j := &c.jobs[n]
	l := &c.leaves[j.leaf]
	for m := range j.options {
		o := &j.options[m]
		next := *from
		if next.loss += o.loss; next.loss > c.limit {
			break
		}
		copy(c.excess, c.current.excess(from))
		for _, t := range l.rows {
			c.excess[t.coordinate] += int32(c.change(j, o, t.row))
		}
		if l.row >= 0 {
			c.excess[l.coordinate] += int32(c.change(j, o, l.row))
		}
		next.tie = from.tie.plus(o.tie)
		if c.add(n+1, &next, m) && m > 0 {
			c.links = append(c.links, link{parent: from.link, job: int32(n), option: int32(m)})
		}
	}
}

// add adds a state with the nodes in c.excess before job n, reached by an option of the job before, unless its bound or
// another state excludes it. It reports whether it added the state.
func (c *tree) add(n int, s *state, option int) bool {
	if n > 0 {
		c.closeWindows(n, s)
	}
	if n < len(c.jobs) {
		for _, t := range c.leaves[c.jobs[n].leaf].rows {
			if t.rises != nil { // Nodes that the remaining jobs cannot use do not matter.
				c.excess[t.coordinate] = max(c.excess[t.coordinate], int32(c.spare[t.row]-t.rises[n-t.from]))
			}
		}
	}
	if s.total = s.loss + c.rest(n); s.total > c.limit {
		return false
	}
	if option > 0 {
		s.link = int32(len(c.links))
	}
	return c.next.keep(s, c.excess, c.tolerance)
}

// closeWindows adds the losses of the windows that end before job n.
func (c *tree) closeWindows(n int, s *state) {
	l := &c.leaves[c.jobs[n-1].leaf]
	if l.to != n {
		return
	}
	end := func(row, coordinate int) {
		s.loss += c.lossAt(row, int(c.excess[coordinate]))
		c.excess[coordinate] = 0
	}
	if l.row >= 0 {
		end(l.row, l.coordinate)
	}
	for _, t := range l.rows[len(c.Capacity):] {
		if t.to == n {
			end(t.row, t.coordinate)
		}
	}
}

// choice returns the choice with the smallest loss found.
func (c *tree) choice() []int {
	choice := make([]int, len(c.best))
	for i, n := range c.best {
		choice[i] = int(n)
	}
	for at := c.bestLink; at >= 0; at = c.links[at].parent {
		j := &c.jobs[c.links[at].job]
		choice[j.job] = int(j.options[c.links[at].option].option)
	}
	return choice
}

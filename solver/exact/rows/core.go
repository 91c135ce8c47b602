package rows

import (
	"math"
	"slices"
)

// The core search over the options with small losses.
//
// The state is the vector of excess nodes: the nodes of each row that the decided jobs use minus
// the nodes of their best options. (Pisinger, "A minimal algorithm for the multiple-choice knapsack
// problem" (1995), generalized to several capacities.)
//
// The constants of this file trade the number of searches for their size. BenchmarkNodeTypes (go
// test ./solver/exact -run '^$' -bench NodeTypes -benchtime 1x -timeout 30m) shows the effect of a
// change.

const (
	// firstOptions is the approximate number of alternative options in the first core problem.
	firstOptions = 20
	// minFraction is the smallest limit, as a fraction of the gap. A quarter, or 4 times the value, has
	// no effect.
	minFraction = 1e-7
	// growth is the factor from one limit to the next. With 6 random snapshots lose proofs and take twice the
	// CPU time.
	growth = 1.5
	// widening is the factor from one width of the beam to the next. With 2 random snapshots take 1.4
	// times the CPU time.
	widening = 6
)

// coreOption is an option relative to the best one of the job.
type coreOption struct {
	Allocation
	option int32
	// rows is the number of rows with a price in which the job then has more or fewer nodes.
	rows int32
	loss float64
	tie  tie
}

// coreJob is a job with several options: the best one, and then the others by increasing loss.
type coreJob struct {
	job     int
	options []coreOption
}

// core searches for choices that lose less than limit.
type core struct {
	*search
	*relaxation
	limit float64
	// tolerance is the difference up to which losses count as equal.
	tolerance float64
	jobs      []coreJob
	// free is the number of nodes of each row that the best options leave free; it may be
	// negative.
	free []int
	// tails contains the smallest remaining loss by job and row.
	tails [][]tail

	current, next beam
	excess        []int32 // scratch: excess nodes of a new state
	links         []link
	// dropped is the smallest bound of the states that the beam dropped. minLoss is the smallest
	// loss found, at the link bestLink.
	dropped, minLoss float64
	tie              tie
	bestLink         int32
}

// link is an option of a job of the core that leads to a state.
type link struct{ parent, job, option int32 }

// searchCore runs core searches, from little work to much. It reports whether the last one
// completed.
func (s *search) searchCore(r *relaxation) bool {
	limit, width, searched := s.firstLimit(r), s.effort.FirstWidth, false
	for {
		fullGap := s.fullGap(r)
		limit = min(max(limit, minFraction*fullGap), fullGap)
		c := s.newCore(r, min(limit, r.below))
		if c == nil {
			// Lower the limit, unless a lower limit was searched before.
			if limit /= 4; s.clock.Expired || searched || limit < minFraction*fullGap {
				return false
			}
			continue
		}
		complete := c.run(width)
		if !math.IsInf(c.minLoss, 1) {
			s.offer(c.choice())
		}
		if s.clock.Expired {
			return false
		}
		searched = true
		s.prove(r.bound, c.proven(), lemmaCore)
		switch cut := c.dropped < min(c.limit, c.minLoss); {
		case s.goodEnough() || !complete:
			return false
		case cut && math.IsInf(c.minLoss, 1) && c.limit < min(fullGap, r.below):
			limit *= 2 * growth // A larger limit makes it easier to find a choice, and the choice then limits the search.
		case cut && width >= s.effort.LastWidth:
			return false
		case cut:
			width *= widening
		case c.minLoss < c.limit || c.limit >= fullGap:
			return true
		case c.limit >= r.below:
			return false
		default:
			limit *= growth
		}
	}
}

// fullGap returns an upper bound on the loss of every choice that is better than the incumbent.
func (s *search) fullGap(r *relaxation) float64 {
	return max(0, r.bound.minus(s.value))*(1+0x1p-40) + 4*s.tolerance() + 0x1p-1000
}

// firstLimit returns the limit of the loss for the first core search.
func (s *search) firstLimit(r *relaxation) float64 {
	at := slices.IndexFunc(r.others, func(o losing) bool { return o.loss > 0 })
	if at < 0 {
		return 0
	}
	return r.others[min(at+firstOptions, len(r.others)-1)].loss
}

// newCore prepares the search for all choices that lose less than limit. It returns nil if the core
// problem is too large or the deadline has passed.
func (s *search) newCore(r *relaxation, limit float64) *core {
	c := &core{search: s, relaxation: r, limit: limit, tolerance: s.tolerance() + 0x1p-48*limit, free: slices.Clone(s.Capacity)}
	for i, n := range r.best {
		s.Problem.spend(c.free, &s.Jobs[i][n].Allocation, 1)
	}
	c.excess, c.current.rows, c.next.rows = make([]int32, len(r.prices)), len(r.prices), len(r.prices)
	if s.clock.Add(len(s.Jobs) + len(r.others)) {
		return nil
	}
	// Jobs with small losses come first, because the later jobs then have no alternative in many
	// states.
	at := make([]int32, len(s.Jobs)) // index of each job in the core, counted from 1
	for _, o := range r.others {
		if o.loss >= limit {
			break
		}
		i, best := int(o.job), int(r.best[o.job])
		if at[i] == 0 {
			c.jobs = append(c.jobs, coreJob{job: i, options: []coreOption{{Allocation: s.Jobs[i][best].Allocation, option: int32(best)}}})
			at[i] = int32(len(c.jobs))
		}
		j, to := &c.jobs[at[i]-1], s.Jobs[i][o.option].Allocation
		alternative := coreOption{
			Allocation: to, option: o.option, loss: o.loss, tie: s.tie(i, to).minus(s.tie(i, j.options[0].Allocation)),
		}
		for g, price := range r.prices {
			if price > 0 && c.deviation(j, &alternative, g) != 0 {
				alternative.rows++
			}
		}
		j.options = append(j.options, alternative)
	}
	if !c.makeTails() {
		return nil
	}
	return c
}

// deviation returns the change of the excess nodes of a row by an option. An equal part of the loss of
// the option is assigned to each row with a price that it changes.
func (c *core) deviation(j *coreJob, o *coreOption, g int) int {
	return c.nodesIn(&o.Allocation, g) - c.nodesIn(&j.options[0].Allocation, g)
}

// tail is the smallest remaining loss by excess nodes, from low on. It is below for fewer excess nodes,
// and at least the limit for more.
type tail struct {
	low   int
	at    []float64
	below float64
}

func (t *tail) value(excess int) float64 {
	excess -= t.low
	switch {
	case excess < 0:
		return t.below
	case excess < len(t.at):
		return t.at[excess]
	}
	return math.Inf(1)
}

func (t *tail) high() int { return t.low + len(t.at) - 1 }

// makeTails computes the tails from the last job to the first. It returns false if they are too
// large or the deadline has passed.
func (c *core) makeTails() bool {
	jobs := len(c.jobs)
	c.tails = make([][]tail, jobs+1)
	for n := range c.tails {
		c.tails[n] = make([]tail, len(c.prices))
	}
	before := make([]excessRange, jobs+1)
	cells := 0
	for g, price := range c.prices {
		c.setRanges(before, g)
		if price == 0 {
			// Idle nodes lose nothing. A state is only left out if the remaining jobs cannot bring it
			// back to the capacity.
			for n := range c.tails {
				c.tails[n][g] = tail{low: c.free[g] + before[n].low - before[jobs].low + 1}
			}
			continue
		}
		if !c.makeRowTails(before, g, &cells) {
			return false
		}
	}
	return true
}

// excessRange is the range of the excess nodes that some jobs can cause in a row.
type excessRange struct{ low, high int }

// setRanges sets the range of the excess nodes of a row before each job, and after the last one.
func (c *core) setRanges(before []excessRange, g int) {
	for n := range c.jobs {
		j, of := &c.jobs[n], excessRange{}
		for m := range j.options {
			nodes := c.deviation(j, &j.options[m], g)
			of.low, of.high = min(of.low, nodes), max(of.high, nodes)
		}
		before[n+1] = excessRange{before[n].low + of.low, before[n].high + of.high}
	}
}

// makeRowTails computes the tails of a row with a price, and adds their numbers to cells. It returns false if
// there are too many numbers or the deadline has passed.
func (c *core) makeRowTails(before []excessRange, g int, cells *int) bool {
	jobs, price := len(c.jobs), c.prices[g]
	low, high := before[jobs].low, min(before[jobs].high, c.free[g])
	if most := c.limit / price; most < 1<<40 {
		low = max(low, c.free[g]-int(most)-1)
	}
	for n := jobs; n >= 0; n-- {
		if n < jobs {
			after, this, next := &c.tails[n+1][g], before[n], before[n+1]
			low, high = max(this.low, after.low-(next.high-this.high)), min(this.high, after.high()-(next.low-this.low))
		}
		size := max(0, high-low+1)
		if *cells += size; *cells > c.effort.Cells || c.clock.Add(size) {
			return false
		}
		t := tail{low: low, at: make([]float64, size), below: math.Inf(1)}
		if n == jobs {
			for x := range t.at {
				t.at[x] = price * float64(c.free[g]-low-x)
			}
		} else if !c.prepend(&t, n, g) {
			return false
		}
		c.tails[n][g] = t
	}
	return true
}

// prepend computes the tail from job n on from the tail of the next job. It returns false if the
// deadline has passed.
func (c *core) prepend(t *tail, n, g int) bool {
	j, after := &c.jobs[n], &c.tails[n+1][g]
	for x := range t.at {
		t.at[x] = after.value(t.low + x)
	}
	for m := range j.options[1:] {
		o := &j.options[1+m]
		nodes := c.deviation(j, o, g)
		if nodes == 0 {
			continue
		}
		loss := o.loss / float64(o.rows)
		shift := t.low + nodes - after.low
		for x := max(0, -shift); x < min(len(t.at), len(after.at)-shift); x++ {
			t.at[x] = min(t.at[x], after.at[x+shift]+loss)
		}
		if c.clock.Add(len(t.at)) {
			return false
		}
	}
	for len(t.at) > 0 && t.at[0] >= c.limit {
		t.at, t.low = t.at[1:], t.low+1
	}
	for len(t.at) > 0 && t.at[len(t.at)-1] >= c.limit {
		t.at = t.at[:len(t.at)-1]
	}
	return true
}

// run searches with a beam of the given width. It returns false if the limit of links or the
// deadline is reached. The remaining states then count as dropped.
func (c *core) run(width int) bool {
	c.dropped, c.minLoss, c.bestLink = math.Inf(1), math.Inf(1), -1
	c.next.reset()
	clear(c.excess)
	c.add(0, &state{link: -1}, 0)
	c.current, c.next = c.next, c.current
	for n := range c.jobs {
		c.next.reset()
		for from := range c.current.states {
			if len(c.links) > c.effort.Links || c.clock.Add(len(c.jobs[n].options)*len(c.prices)) {
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
	return true
}

// expand adds the states to which the options of job n lead from a state.
func (c *core) expand(n int, from *state) {
	if from.total > c.cutoff() {
		return
	}
	j := &c.jobs[n]
	best := &j.options[0]
	for m := range j.options {
		o := &j.options[m]
		next := *from
		if next.loss += o.loss; next.loss > c.cutoff() {
			break
		}
		copy(c.excess, c.current.excess(from))
		for row := c.first(&best.Allocation); row <= int(best.Row); row++ {
			c.excess[row] -= int32(best.upTo(row))
		}
		for row := c.first(&o.Allocation); row <= int(o.Row); row++ {
			c.excess[row] += int32(o.upTo(row))
		}
		next.tie = from.tie.plus(o.tie)
		if c.add(n+1, &next, m) && m > 0 {
			c.links = append(c.links, link{parent: from.link, job: int32(n), option: int32(m)})
		}
	}
}

// add adds a state with the nodes in c.excess before job n, reached by an option of the job before,
// unless its bound or another state excludes it. It reports whether it added the state.
func (c *core) add(n int, s *state, option int) bool {
	s.total = s.loss
	for g := range c.prices {
		s.total += c.tails[n][g].value(int(c.excess[g]))
	}
	if s.total > c.cutoff() {
		return false
	}
	if option > 0 {
		s.link = int32(len(c.links))
	}
	if !c.next.keep(s, c.excess, c.tolerance) {
		return false
	}
	c.finish(s)
	return true
}

// cutoff returns the loss above which choices are ignored.
func (c *core) cutoff() float64 { return min(c.limit, c.minLoss+c.tolerance) }

// finish considers the choice in which all remaining jobs have their best options. c.excess belongs to
// the state.
func (c *core) finish(s *state) {
	loss := s.loss
	for g, price := range c.prices {
		left := c.free[g] - int(c.excess[g])
		if left < 0 {
			return
		}
		loss += price * float64(left)
	}
	if more := loss - c.minLoss; loss < c.limit && (more < -c.tolerance || more <= c.tolerance && s.tie.compare(c.tie) < 0) {
		c.minLoss, c.tie, c.bestLink = loss, s.tie, s.link
	}
}

// proven returns a lower bound on the loss of every choice.
func (c *core) proven() float64 {
	return roundDown(min(c.limit, c.minLoss, c.dropped), len(c.jobs)+len(c.prices)-c.types(), c.tolerance)
}

// roundDown reduces a sum of losses, one per job, by its rounding error and by the differences,
// each below tolerance, that ties may have ignored.
func roundDown(loss float64, jobs int, tolerance float64) float64 {
	n := float64(jobs)
	return max(0, loss*(1-(n+16)*0x1p-52)-n*tolerance)
}

// choice returns the choice with the smallest loss found.
func (c *core) choice() []int {
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

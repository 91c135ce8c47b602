package nodetypes

import (
	"math"
	"slices"
)

// The core: the search over the options that lose little.
//
// Its state is the excess: the nodes of each type that the jobs dealt with hold beyond what
// their best options do. (Pisinger, "A minimal algorithm for the multiple-choice knapsack
// problem" (1995), with a vector for a number.)

const (
	// firstOptions is about how many options besides the best ones the first core has.
	firstOptions = 20
	// leastShare is the smallest share of what the best choice known loses that a core takes on.
	leastShare = 1e-7
	// growth is by how much a core's limit exceeds that of the one before.
	growth = 1.5
	// widening is the same of a beam.
	widening = 6
)

// coreOption is an option by what it differs in from the job's best.
type coreOption struct {
	Holding
	option int32
	loss   float64
	tie    tie
}

// coreJob is a job with more than one option, the first of which is its best; the others by
// rising loss.
type coreJob struct {
	job     int
	options []coreOption
}

// core searches for choices that lose less than limit.
type core struct {
	*search
	*relaxation
	limit float64
	// same is the difference up to which losses are the same.
	same float64
	jobs []coreJob
	// room is what the best options leave of each type; it may be below 0.
	room []int
	// tails have, by job and type, the least loss from there on.
	tails [][]tail

	now, next beam
	trail     []link
	// dropped is the least total of the states that the beam dropped, least the best loss
	// found, reached at a link.
	dropped, least float64
	tie            tie
	at             int32
}

// link is an option of a job of the core on the way to a state.
type link struct{ parent, job, option int32 }

// searchCore searches the problem at prices, from cheap to thorough. It reports whether it
// came to its end.
func (s *search) searchCore(r *relaxation) bool {
	limit, width, searched := s.firstLimit(r), s.effort.FirstWidth, false
	for {
		whole := s.whole(r)
		limit = min(max(limit, leastShare*whole), whole)
		c := s.newCore(r, min(limit, r.below))
		if c == nil {
			// Take on less, unless less was searched already.
			if limit /= 4; s.clock.Ended || searched || limit < leastShare*whole {
				return false
			}
			continue
		}
		complete := c.run(width)
		if !math.IsInf(c.least, 1) {
			s.offer(c.choice())
		}
		if s.clock.Ended {
			return false
		}
		searched = true
		s.prove(r.bound, c.proven(), lemmaCore)
		switch cut := c.dropped < min(c.limit, c.least); {
		case s.goodEnough() || !complete:
			return false
		case cut && math.IsInf(c.least, 1) && c.limit < min(whole, r.below):
			limit *= 2 * growth // A choice is easier to find, and then limits what it takes.
		case cut && width >= s.effort.LastWidth:
			return false
		case cut:
			width *= widening
		case c.least < c.limit || c.limit >= whole:
			return true
		case c.limit >= r.below:
			return false
		default:
			limit *= growth
		}
	}
}

// whole returns what every choice that is better than the best one known loses less than.
func (s *search) whole(r *relaxation) float64 {
	return max(0, r.bound.minus(s.value))*(1+0x1p-40) + 4*s.same() + 0x1p-1000
}

// firstLimit returns the limit of the first core.
func (s *search) firstLimit(r *relaxation) float64 {
	at := slices.IndexFunc(r.others, func(o losing) bool { return o.loss > 0 })
	if at < 0 {
		return 0
	}
	return r.others[min(at+firstOptions, len(r.others)-1)].loss
}

// newCore prepares the search of all choices that lose less than limit. It returns nil if
// there is too much to search or time is up.
func (s *search) newCore(r *relaxation, limit float64) *core {
	c := &core{search: s, relaxation: r, limit: limit, same: s.same() + 0x1p-48*limit, room: slices.Clone(s.Capacity)}
	for i, n := range r.best {
		o := &s.Jobs[i][n]
		c.room[o.Type] -= int(o.Nodes)
	}
	if s.clock.Up(len(s.Jobs) + len(r.others)) {
		return nil
	}
	// The jobs that lose least come first: those after them have no choice in many states.
	at := make([]int32, len(s.Jobs)) // of each job in the core, counted from 1
	for _, o := range r.others {
		if o.loss >= limit {
			break
		}
		i, best := int(o.job), int(r.best[o.job])
		if at[i] == 0 {
			c.jobs = append(c.jobs, coreJob{job: i, options: []coreOption{{Holding: s.Jobs[i][best].Holding, option: int32(best)}}})
			at[i] = int32(len(c.jobs))
		}
		j, to := &c.jobs[at[i]-1], s.Jobs[i][o.option].Holding
		j.options = append(j.options, coreOption{
			Holding: to, option: o.option, loss: o.loss, tie: s.tie(i, to).minus(s.tie(i, j.options[0].Holding)),
		})
	}
	if !c.makeTails() {
		return nil
	}
	return c
}

// deviation returns by how much an option changes the excess of a type, and the share of its
// loss that goes to that type: half where it moves the job to another.
func (j *coreJob) deviation(o *coreOption, g int) (nodes int, loss float64) {
	from, loss := &j.options[0], o.loss
	if from.Nodes > 0 && o.Nodes > 0 && from.Type != o.Type {
		loss /= 2
	}
	if int(from.Type) == g {
		nodes -= int(from.Nodes)
	}
	if int(o.Type) == g {
		nodes += int(o.Nodes)
	}
	if nodes == 0 {
		return 0, 0 // Its loss may go to no type at all.
	}
	return nodes, loss
}

// tail is the least loss by excess, from low on; beyond its ends it is at least the limit.
type tail struct {
	low int
	at  []float64
}

func (t *tail) value(excess int) float64 {
	if excess -= t.low; uint(excess) < uint(len(t.at)) {
		return t.at[excess]
	}
	return math.Inf(1)
}

func (t *tail) high() int { return t.low + len(t.at) - 1 }

// makeTails fills the tails from the last job to the first. It returns false if they are too
// large or time is up.
func (c *core) makeTails() bool {
	jobs := len(c.jobs)
	c.tails = make([][]tail, jobs+1)
	for n := range c.tails {
		c.tails[n] = make([]tail, len(c.prices))
	}
	lows, highs := make([]int, jobs+1), make([]int, jobs+1) // of the excess before a job
	cells := 0
	for g, price := range c.prices {
		for n := range c.jobs {
			j, low, high := &c.jobs[n], 0, 0
			for m := range j.options {
				nodes, _ := j.deviation(&j.options[m], g)
				low, high = min(low, nodes), max(high, nodes)
			}
			lows[n+1], highs[n+1] = lows[n]+low, highs[n]+high
		}
		low, high := lows[jobs], min(highs[jobs], c.room[g])
		if most := c.limit / price; price > 0 && most < 1<<40 {
			low = max(low, c.room[g]-int(most)-1)
		}
		for n := jobs; ; n-- {
			size := max(0, high-low+1)
			if cells += size; cells > c.effort.Cells || c.clock.Up(size) {
				return false
			}
			t := tail{low: low, at: make([]float64, size)}
			if n == jobs {
				for x := range t.at {
					t.at[x] = price * float64(c.room[g]-low-x)
				}
			} else if !c.prepend(&t, n, g) {
				return false
			}
			c.tails[n][g] = t
			if n == 0 {
				break
			}
			low, high = max(lows[n-1], t.low-(highs[n]-highs[n-1])), min(highs[n-1], t.high()-(lows[n]-lows[n-1]))
		}
	}
	return true
}

// prepend fills the tail from job n on from the one after it. It returns false if time is up.
func (c *core) prepend(t *tail, n, g int) bool {
	j, after := &c.jobs[n], &c.tails[n+1][g]
	for x := range t.at {
		t.at[x] = after.value(t.low + x)
	}
	for m := range j.options[1:] {
		nodes, loss := j.deviation(&j.options[1+m], g)
		if nodes == 0 {
			continue
		}
		shift := t.low + nodes - after.low
		for x := max(0, -shift); x < min(len(t.at), len(after.at)-shift); x++ {
			t.at[x] = min(t.at[x], after.at[x+shift]+loss)
		}
		if c.clock.Up(len(t.at)) {
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

// run searches with a beam of the given width. It returns false if the links or the time are
// used up: what was not searched then counts as dropped.
func (c *core) run(width int) bool {
	c.dropped, c.least, c.at = math.Inf(1), math.Inf(1), -1
	c.next.reset()
	c.add(0, &state{link: -1}, 0)
	c.now, c.next = c.next, c.now
	for n := range c.jobs {
		c.next.reset()
		for from := range c.now.states {
			if len(c.trail) > c.effort.Links || c.clock.Up(len(c.jobs[n].options)*len(c.prices)) {
				for _, left := range c.now.states {
					c.dropped = min(c.dropped, left.total)
				}
				return false
			}
			if c.expand(n, &c.now.states[from]); len(c.next.states) > width+width/2 {
				c.dropped = min(c.dropped, c.next.keep(width))
			}
		}
		c.dropped = min(c.dropped, c.next.keep(width))
		c.states += len(c.next.states)
		c.now, c.next = c.next, c.now
	}
	return true
}

// expand adds the states that the options of job n lead to from a state.
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
		next.excess[best.Type] -= best.Nodes
		next.excess[o.Type] += o.Nodes
		next.tie = from.tie.plus(o.tie)
		if c.add(n+1, &next, m) && m > 0 {
			c.trail = append(c.trail, link{parent: from.link, job: int32(n), option: int32(m)})
		}
	}
}

// add adds a state before job n, reached by an option of the job before, unless it is of no
// interest. It reports whether it was added.
func (c *core) add(n int, s *state, option int) bool {
	s.total = s.loss
	for g := range c.prices {
		s.total += c.tails[n][g].value(int(s.excess[g]))
	}
	if s.total > c.cutoff() {
		return false
	}
	slot := c.next.find(&s.excess)
	at := c.next.slots[slot]
	if at >= 0 {
		there := &c.next.states[at]
		if more := s.loss - there.loss; more > c.same || more >= -c.same && s.tie.compare(there.tie) >= 0 {
			return false
		}
	}
	if option > 0 {
		s.link = int32(len(c.trail))
	}
	if at >= 0 {
		c.next.states[at] = *s
	} else {
		c.next.put(slot, *s)
	}
	c.finish(s)
	return true
}

// cutoff is the loss beyond which nothing is of interest.
func (c *core) cutoff() float64 { return min(c.limit, c.least+c.same) }

// finish considers the choice in which the jobs to come hold their best options.
func (c *core) finish(s *state) {
	loss := s.loss
	for g, price := range c.prices {
		left := c.room[g] - int(s.excess[g])
		if left < 0 {
			return
		}
		loss += price * float64(left)
	}
	if more := loss - c.least; loss < c.limit && (more < -c.same || more <= c.same && s.tie.compare(c.tie) < 0) {
		c.least, c.tie, c.at = loss, s.tie, s.link
	}
}

// proven returns a loss that every choice has.
func (c *core) proven() float64 {
	return surely(min(c.limit, c.least, c.dropped), len(c.jobs), c.same)
}

// surely returns what is left of a sum of losses, one a job, after rounding, where those that differ
// by less than same are told apart by ties.
func surely(loss float64, jobs int, same float64) float64 {
	n := float64(jobs)
	return max(0, loss*(1-(n+16)*0x1p-52)-n*same)
}

// choice returns the choice of the least loss found.
func (c *core) choice() []int {
	choice := make([]int, len(c.best))
	for i, n := range c.best {
		choice[i] = int(n)
	}
	for at := c.at; at >= 0; at = c.trail[at].parent {
		j := &c.jobs[c.trail[at].job]
		choice[j.job] = int(j.options[c.trail[at].option].option)
	}
	return choice
}

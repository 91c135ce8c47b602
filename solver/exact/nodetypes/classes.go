package nodetypes

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// The search over classes of identical jobs.
//
// For jobs with the same options and the same current allocation, only the number of jobs per
// option matters. Hyperparameter sweeps (identical jobs) are therefore searched type by type, while
// the core search proceeds job by job. A state is the number of jobs of each class that have nodes
// of the types so far.

// linksPerState is the assumed number of links per state. It divides Effort.Links into a limit of
// states. The sweeps of BenchmarkNodeTypes (go test ./solver/exact -run '^$' -bench
// 'NodeTypes/.*/.*/.*/sweep' -benchtime 1x -timeout 30m) show no effect between 2 and 32.
const linksPerState = 8

// counts contains the number of jobs of each class in a bit field. The highest bit of each field is
// a guard bit.
type counts uint64

// class is a set of identical jobs.
type class struct {
	jobs []int
	bit  int // first bit of its field
	// idle is the option without nodes; its loss is +Inf if there is none.
	idle classOption
}

// classOption is an option of a class.
type classOption struct {
	Allocation
	class, option int32
	loss          float64
	tie           tie
}

// countState is a state: numbers of jobs with nodes, and the smallest loss that leads to them.
type countState struct {
	counts counts
	nodes  int32 // of the current type
	loss   float64
	tie    tie
	link   int32
}

// countLink is the number of jobs of a class with an option. one and other are the links of up to
// two earlier states, or -1.
type countLink struct {
	class, option, jobs int32
	one, other          int32
}

// classSearch searches for choices that lose less than limit.
type classSearch struct {
	*search
	*relaxation
	classes []class
	// counts are feasible if adding excess sets no guard bit.
	excess, guards counts
	options        [][]classOption // by type, decreasing row and decreasing nodes
	// fills contains, by type, option and nodes used so far, the smallest loss of the options from
	// there on and of the nodes that stay idle. others is the smallest loss of all other types.
	fills  [][][]float64
	others []float64

	limit, tolerance float64
	listed           int // number of states of the types so far
	links            []countLink
	best             countState
}

// newClassSearch prepares a search. It returns nil if there are many classes, if the tables would
// be too large, or if the deadline has passed.
func (s *search) newClassSearch(r *relaxation) *classSearch {
	c := &classSearch{search: s, relaxation: r, options: make([][]classOption, s.types())}
	for i, options := range s.Jobs {
		n := slices.IndexFunc(c.classes, func(k class) bool {
			return s.Current[i] == s.Current[k.jobs[0]] && slices.Equal(options, s.Jobs[k.jobs[0]])
		})
		if n < 0 {
			n, c.classes = len(c.classes), append(c.classes, class{})
		}
		if c.classes[n].jobs = append(c.classes[n].jobs, i); 2*len(c.classes) > 64 || s.clock.Add(len(c.classes)) {
			return nil
		}
	}
	if 2*len(c.classes) > len(s.Jobs) {
		return nil
	}
	bit := 0
	for n := range c.classes {
		width := bits.Len(uint(len(c.classes[n].jobs)))
		if bit+width >= 64 {
			return nil
		}
		c.classes[n].bit = bit
		c.excess |= (1<<width - 1 - counts(len(c.classes[n].jobs))) << bit
		c.guards |= 1 << (bit + width)
		bit += width + 1
		c.list(n)
	}
	cells := 0
	for g := range c.options {
		slices.SortStableFunc(c.options[g], func(a, b classOption) int {
			return cmp.Or(cmp.Compare(b.Row, a.Row), cmp.Compare(b.Nodes, a.Nodes))
		})
		size := (len(c.options[g]) + 1) * (c.Capacity[c.first(&Allocation{Type: int16(g)})] + 1)
		if cells += size; cells > c.effort.Cells || c.clock.Add(size) {
			return nil
		}
		c.fills = append(c.fills, c.fill(g))
	}
	for g := range c.options {
		least := 0.0
		for other, fills := range c.fills {
			if other != g {
				least += fills[0][0]
			}
		}
		c.others = append(c.others, least)
	}
	return c
}

// list lists the options of a class.
func (c *classSearch) list(n int) {
	k, net := &c.classes[n], nets{}
	job := k.jobs[0]
	net.compute(c.Jobs[job], c.unit, 0)
	k.idle.loss = math.Inf(1)
	for m, from := range c.Jobs[job] {
		o := classOption{Allocation: from.Allocation, class: int32(n), option: int32(m), loss: net.loss(m), tie: c.tie(job, from.Allocation)}
		switch {
		case o.Nodes > 0:
			c.options[o.Type] = append(c.options[o.Type], o)
		case o.loss < k.idle.loss:
			k.idle = o
		}
	}
}

// closing returns the range of the rows of a type in which options before position m count and options
// from there on do not.
func (c *classSearch) closing(g, m int) (row, end int) {
	options := c.options[g]
	row, end = c.rowsOf(g)
	if m > 0 {
		end = int(options[m-1].Row) + 1
	}
	if m < len(options) {
		row = int(options[m].Row) + 1
	}
	return row, end
}

// idle returns the loss of the nodes of a range of rows that are not used: +Inf if more are used than a
// row has.
func (c *classSearch) idle(row, end int, used int32) (loss float64) {
	for ; row < end; row++ {
		left := c.Capacity[row] - int(used)
		if left < 0 {
			return math.Inf(1)
		}
		loss += c.prices[row] * float64(left)
	}
	return loss
}

// fill returns the smallest losses of the options of a type and of its idle nodes.
func (c *classSearch) fill(g int) [][]float64 {
	options := c.options[g]
	capacity, _ := c.rowsOf(g)
	fills := make([][]float64, len(options)+1)
	for m := len(options); m >= 0; m-- {
		row := make([]float64, c.Capacity[capacity]+1)
		if m < len(options) {
			copy(row, fills[m+1])
			nodes := int(options[m].Nodes)
			for used := len(row) - 1 - nodes; used >= 0; used-- {
				row[used] = min(row[used], row[used+nodes]+options[m].loss)
			}
		}
		if closing, end := c.closing(g, m); closing < end {
			for used := range row {
				row[used] += c.idle(closing, end, int32(used))
			}
		}
		fills[m] = row
	}
	return fills
}

// of returns the number of jobs of a class in the counts.
func (k *class) of(c counts) int {
	return int(c >> k.bit & (1<<bits.Len(uint(len(k.jobs))) - 1))
}

// searchClasses searches with increasing limits. It reports whether the search completed.
func (c *classSearch) searchClasses() bool {
	for limit := c.firstLimit(c.relaxation); ; limit *= growth {
		fullGap := c.fullGap(c.relaxation)
		limit = min(max(limit, minFraction*fullGap), fullGap)
		if !c.run(limit) {
			return false
		}
		if c.best.loss < limit {
			c.offer(c.choice())
		}
		c.prove(c.relaxation.bound, c.proven(), lemmaClasses)
		if complete := c.best.loss < limit || limit >= fullGap; complete || c.goodEnough() {
			return complete
		}
	}
}

// proven returns a lower bound on the loss of every choice.
func (c *classSearch) proven() float64 {
	return roundDown(min(c.limit, c.best.loss), len(c.Jobs)+2*len(c.prices)+1, c.tolerance)
}

// run searches for the choice with the smallest loss below limit. It returns false if there are too
// many states or the deadline has passed.
func (c *classSearch) run(limit float64) bool {
	c.limit, c.tolerance = limit, c.search.tolerance()+0x1p-48*limit
	c.listed, c.links, c.best = 0, c.links[:0], countState{loss: math.Inf(1)}
	types := make([][]countState, len(c.options))
	for g := range types {
		if types[g] = c.statesOf(g); types[g] == nil {
			return false
		}
		c.listed += len(types[g])
	}
	remaining := c.remaining(types)
	now := []countState{{link: -1}}
	for g, held := range types {
		next := newCountStates(c)
		for i := range now {
			for j := range held {
				both := countState{counts: now[i].counts + held[j].counts, loss: now[i].loss + held[j].loss, tie: now[i].tie.plus(held[j].tie)}
				if both.loss >= limit {
					break
				}
				if c.feasible(both.counts) && both.loss+c.remainingLoss(remaining[g+1], both.counts) < limit {
					next.add(&both, countLink{one: now[i].link, other: held[j].link})
				}
			}
			if next.full() || c.clock.Add(len(held)) {
				return false
			}
		}
		c.states += len(next.list)
		now = next.list
	}
	for _, b := range now { // The remaining jobs have no nodes.
		for n := range c.classes {
			for range len(c.classes[n].jobs) - c.classes[n].of(b.counts) {
				b.loss, b.tie = b.loss+c.classes[n].idle.loss, b.tie.plus(c.classes[n].idle.tie)
			}
		}
		if more := b.loss - c.best.loss; b.loss < limit && (more < -c.tolerance || more <= c.tolerance && b.tie.compare(c.best.tie) < 0) {
			c.best = b
		}
	}
	return true
}

// feasible reports whether each class has as many jobs as counted.
func (c *classSearch) feasible(of counts) bool { return (of+c.excess)&c.guards == 0 }

// statesOf returns the states of one type, by increasing loss including idle nodes. It returns nil
// if there are too many or the deadline has passed. The options that count in the innermost row come
// first, so that the nodes of a state count in the row of the next option.
func (c *classSearch) statesOf(g int) []countState {
	fills := c.fills[g]
	states := newCountStates(c)
	states.add(new(countState), countLink{one: -1, other: -1})
	for m := range c.options[g] {
		o := &c.options[g][m]
		if row, end := c.closing(g, m); row < end {
			for i := range states.list {
				states.list[i].loss += c.idle(row, end, states.list[i].nodes)
			}
		}
		for i := range len(states.list) {
			next := states.list[i]
			for jobs := int32(1); ; jobs++ {
				next.counts, next.nodes = next.counts+1<<c.classes[o.class].bit, next.nodes+o.Nodes
				next.loss, next.tie = next.loss+o.loss, next.tie.plus(o.tie)
				if !c.feasible(next.counts) || int(next.nodes) >= len(fills[m+1]) || next.loss >= c.limit {
					break
				}
				if next.loss+fills[m+1][next.nodes]+c.others[g] < c.limit {
					states.add(&next, countLink{class: o.class, option: o.option, jobs: jobs, one: states.list[i].link, other: -1})
				}
			}
			if states.full() || c.clock.Add(8) {
				return nil
			}
		}
	}
	complete := newCountStates(c)
	row, end := c.closing(g, len(c.options[g]))
	for _, b := range states.list {
		b.loss += c.idle(row, end, b.nodes)
		if b.nodes = 0; b.loss+c.others[g] < c.limit {
			complete.add(&b, countLink{one: b.link, other: -1})
		}
	}
	slices.SortFunc(complete.list, func(a, b countState) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.counts, b.counts)) })
	return append([]countState{}, complete.list...)
}

// remaining returns, by type, class and number of remaining jobs, the smallest loss of the types
// from there on and of the jobs without nodes.
func (c *classSearch) remaining(types [][]countState) [][][]float64 {
	rests := make([][][]float64, len(types)+1)
	for n := range c.classes {
		waiting := []float64{0}
		for job := range c.classes[n].jobs {
			waiting = append(waiting, waiting[job]+c.classes[n].idle.loss)
		}
		rests[len(types)] = append(rests[len(types)], waiting)
	}
	for g := len(types) - 1; g >= 0; g-- {
		for n, after := range rests[g+1] {
			own, row := slices.Repeat([]float64{math.Inf(1)}, len(after)), slices.Repeat([]float64{math.Inf(1)}, len(after))
			for i := range types[g] {
				jobs := c.classes[n].of(types[g][i].counts)
				own[jobs] = min(own[jobs], types[g][i].loss)
			}
			for jobs, loss := range own {
				for more, least := range after[:len(row)-jobs] {
					row[jobs+more] = min(row[jobs+more], loss+least)
				}
			}
			rests[g] = append(rests[g], row)
		}
	}
	return rests
}

// remainingLoss returns a lower bound on the remaining loss after the counted jobs.
func (c *classSearch) remainingLoss(rests [][]float64, done counts) (least float64) {
	for n, row := range rests {
		least = max(least, row[len(row)-1-c.classes[n].of(done)])
	}
	return least
}

// choice returns the choice with the smallest loss found.
func (c *classSearch) choice() []int {
	choice, dealt := make([]int, len(c.Jobs)), make([]int, len(c.classes))
	for links := []int32{c.best.link}; len(links) > 0; {
		at := links[len(links)-1]
		if links = links[:len(links)-1]; at < 0 {
			continue
		}
		l := &c.links[at]
		for range l.jobs {
			choice[c.classes[l.class].jobs[dealt[l.class]]] = int(l.option)
			dealt[l.class]++
		}
		links = append(links, l.one, l.other)
	}
	for n, k := range c.classes {
		for _, job := range k.jobs[dealt[n]:] {
			choice[job] = int(k.idle.option)
		}
	}
	return choice
}

// countStates is a set of states with different counts and nodes.
type countStates struct {
	*classSearch
	list []countState
	at   map[countKey]int
}

type countKey struct {
	counts counts
	nodes  int32
}

func newCountStates(c *classSearch) *countStates {
	return &countStates{classSearch: c, at: make(map[countKey]int)}
}

// add adds a state unless there is one with the same counts and nodes and at most the same loss.
func (s *countStates) add(b *countState, l countLink) {
	key := countKey{b.counts, b.nodes}
	n, there := s.at[key]
	if !there {
		n = len(s.list)
		s.at[key], s.list = n, append(s.list, *b)
	} else if more := b.loss - s.list[n].loss; more > s.tolerance || more >= -s.tolerance && b.tie.compare(s.list[n].tie) >= 0 {
		return
	}
	s.list[n] = *b
	s.list[n].link = int32(len(s.links))
	s.links = append(s.links, l)
}

// full reports whether there are more states or links than the work limits permit.
func (s *countStates) full() bool {
	return s.listed+len(s.list) > s.effort.Links/linksPerState || len(s.links) > s.effort.Links
}

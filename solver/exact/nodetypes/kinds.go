package nodetypes

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// Kinds: of jobs that have the same options and hold the same now, only how many hold which
// option matters. So sweeps of equal jobs are searched type by type, where the core goes job by
// job: a state is how many jobs of each kind hold nodes of the types dealt with.

// batchLinks is how many links an effort has for each batch.
const batchLinks = 8

// counts are numbers of jobs by kind, a field of bits each, the highest of which is a guard.
type counts uint64

// kind is jobs that are alike.
type kind struct {
	jobs []int
	bit  int // where its field begins
	// waits is the option of no nodes; where there is none, it loses +Inf.
	waits kindOption
}

// kindOption is an option of a kind.
type kindOption struct {
	Holding
	kind, option int32
	loss         float64
	tie          tie
}

// batch is jobs and the options that they hold.
type batch struct {
	counts counts
	nodes  int32 // of the type at hand
	loss   float64
	tie    tie
	link   int32
}

// batchLink says how many jobs of a batch hold an option. The others are those of up to two
// batches, by their links, or -1.
type batchLink struct {
	kind, option, jobs int32
	one, other         int32
}

// kindSearch searches for choices that lose less than limit.
type kindSearch struct {
	*search
	*relaxation
	kinds []kind
	// There are as many jobs as counted if these and excess carry nothing into guards.
	excess, guards counts
	options        [][]kindOption // by type, the largest first
	// fills has, by type, option and nodes, the least that is lost by filling these nodes with the
	// options from there on; others what all other types lose at least.
	fills  [][][]float64
	others []float64

	limit, same float64
	batches     int // of types, listed
	trail       []batchLink
	best        batch
}

// newKindSearch prepares a search. It returns nil where there are many kinds, more nodes than the
// effort allows, or no time.
func (s *search) newKindSearch(r *relaxation) *kindSearch {
	c := &kindSearch{search: s, relaxation: r, options: make([][]kindOption, len(r.prices))}
	for i, options := range s.Jobs {
		n := slices.IndexFunc(c.kinds, func(k kind) bool {
			return s.Now[i] == s.Now[k.jobs[0]] && slices.Equal(options, s.Jobs[k.jobs[0]])
		})
		if n < 0 {
			n, c.kinds = len(c.kinds), append(c.kinds, kind{})
		}
		if c.kinds[n].jobs = append(c.kinds[n].jobs, i); 2*len(c.kinds) > 64 || s.clock.Up(len(c.kinds)) {
			return nil
		}
	}
	if 2*len(c.kinds) > len(s.Jobs) {
		return nil
	}
	bit := 0
	for n := range c.kinds {
		width := bits.Len(uint(len(c.kinds[n].jobs)))
		if bit+width >= 64 {
			return nil
		}
		c.kinds[n].bit = bit
		c.excess |= (1<<width - 1 - counts(len(c.kinds[n].jobs))) << bit
		c.guards |= 1 << (bit + width)
		bit += width + 1
		c.list(n)
	}
	cells := 0
	for g := range c.prices {
		slices.SortStableFunc(c.options[g], func(a, b kindOption) int { return cmp.Compare(b.Nodes, a.Nodes) })
		size := (len(c.options[g]) + 1) * (c.Capacity[g] + 1)
		if cells += size; cells > c.effort.Cells || c.clock.Up(size) {
			return nil
		}
		c.fills = append(c.fills, c.fill(g))
	}
	for g := range c.prices {
		least := 0.0
		for other, fills := range c.fills {
			if other != g {
				least += fills[0][c.Capacity[other]]
			}
		}
		c.others = append(c.others, least)
	}
	return c
}

// list lists the options of a kind.
func (c *kindSearch) list(n int) {
	k, net := &c.kinds[n], nets{}
	job := k.jobs[0]
	net.of(c.Jobs[job], c.prices, 0)
	k.waits.loss = math.Inf(1)
	for m, from := range c.Jobs[job] {
		o := kindOption{Holding: from.Holding, kind: int32(n), option: int32(m), loss: net.loss(m), tie: c.tie(job, from.Holding)}
		switch {
		case o.Nodes > 0:
			c.options[o.Type] = append(c.options[o.Type], o)
		case o.loss < k.waits.loss:
			k.waits = o
		}
	}
}

// fill returns the least losses of filling the nodes of a type.
func (c *kindSearch) fill(g int) [][]float64 {
	options := c.options[g]
	fills := make([][]float64, len(options)+1)
	for left := range c.Capacity[g] + 1 {
		fills[len(options)] = append(fills[len(options)], c.prices[g]*float64(left))
	}
	for m := len(options) - 1; m >= 0; m-- {
		row, nodes := slices.Clone(fills[m+1]), int(options[m].Nodes)
		for left := nodes; left < len(row); left++ {
			row[left] = min(row[left], row[left-nodes]+options[m].loss)
		}
		fills[m] = row
	}
	return fills
}

// of returns how many jobs of a kind are counted.
func (k *kind) of(c counts) int {
	return int(c >> k.bit & (1<<bits.Len(uint(len(k.jobs))) - 1))
}

// searchKinds searches with ever larger limits. It reports whether it came to its end.
func (c *kindSearch) searchKinds() bool {
	for limit := c.firstLimit(c.relaxation); ; limit *= growth {
		whole := c.whole(c.relaxation)
		limit = min(max(limit, leastShare*whole), whole)
		if !c.run(limit) {
			return false
		}
		if c.best.loss < limit {
			c.offer(c.choice())
		}
		c.prove(c.relaxation.bound, c.proven(), lemmaKinds)
		if complete := c.best.loss < limit || limit >= whole; complete || c.goodEnough() {
			return complete
		}
	}
}

// proven returns a loss that every choice has.
func (c *kindSearch) proven() float64 {
	return surely(min(c.limit, c.best.loss), len(c.Jobs)+2*len(c.prices)+1, c.same)
}

// run searches for the choice that loses least of those that lose less than limit. It returns
// false if there are too many batches or time is up.
func (c *kindSearch) run(limit float64) bool {
	c.limit, c.same = limit, c.search.same()+0x1p-48*limit
	c.batches, c.trail, c.best = 0, c.trail[:0], batch{loss: math.Inf(1)}
	types := make([][]batch, len(c.prices))
	for g := range types {
		if types[g] = c.hold(g); types[g] == nil {
			return false
		}
		c.batches += len(types[g])
	}
	rests := c.rests(types)
	now := []batch{{link: -1}}
	for g, held := range types {
		next := newBatches(c)
		for i := range now {
			for j := range held {
				both := batch{counts: now[i].counts + held[j].counts, loss: now[i].loss + held[j].loss, tie: now[i].tie.plus(held[j].tie)}
				if both.loss >= limit {
					break
				}
				if c.enough(both.counts) && both.loss+c.rest(rests[g+1], both.counts) < limit {
					next.add(&both, batchLink{one: now[i].link, other: held[j].link})
				}
			}
			if next.full() || c.clock.Up(len(held)) {
				return false
			}
		}
		c.states += len(next.list)
		now = next.list
	}
	for _, b := range now { // The other jobs wait.
		for n := range c.kinds {
			for range len(c.kinds[n].jobs) - c.kinds[n].of(b.counts) {
				b.loss, b.tie = b.loss+c.kinds[n].waits.loss, b.tie.plus(c.kinds[n].waits.tie)
			}
		}
		if more := b.loss - c.best.loss; b.loss < limit && (more < -c.same || more <= c.same && b.tie.compare(c.best.tie) < 0) {
			c.best = b
		}
	}
	return true
}

// enough reports whether there are as many jobs as counted.
func (c *kindSearch) enough(of counts) bool { return (of+c.excess)&c.guards == 0 }

// hold returns the batches that hold nodes of a type, by what they lose, nodes left over included.
// It returns nil if there are too many or time is up.
func (c *kindSearch) hold(g int) []batch {
	nodes, fills := c.Capacity[g], c.fills[g]
	held := newBatches(c)
	held.add(new(batch), batchLink{one: -1, other: -1})
	for m := range c.options[g] {
		o := &c.options[g][m]
		for i := range len(held.list) {
			next := held.list[i]
			for jobs := int32(1); ; jobs++ {
				next.counts, next.nodes = next.counts+1<<c.kinds[o.kind].bit, next.nodes+o.Nodes
				next.loss, next.tie = next.loss+o.loss, next.tie.plus(o.tie)
				if !c.enough(next.counts) || int(next.nodes) > nodes || next.loss >= c.limit {
					break
				}
				if next.loss+fills[m+1][nodes-int(next.nodes)]+c.others[g] < c.limit {
					held.add(&next, batchLink{kind: o.kind, option: o.option, jobs: jobs, one: held.list[i].link, other: -1})
				}
			}
			if held.full() || c.clock.Up(8) {
				return nil
			}
		}
	}
	filled := newBatches(c)
	for _, b := range held.list {
		b.loss += c.prices[g] * float64(nodes-int(b.nodes))
		if b.nodes = 0; b.loss+c.others[g] < c.limit {
			filled.add(&b, batchLink{one: b.link, other: -1})
		}
	}
	slices.SortFunc(filled.list, func(a, b batch) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.counts, b.counts)) })
	return append([]batch{}, filled.list...)
}

// rests returns, by type and kind, the least that the types from there on lose, and the jobs that
// wait, by how many jobs of the kind there are.
func (c *kindSearch) rests(types [][]batch) [][][]float64 {
	rests := make([][][]float64, len(types)+1)
	for n := range c.kinds {
		waiting := []float64{0}
		for job := range c.kinds[n].jobs {
			waiting = append(waiting, waiting[job]+c.kinds[n].waits.loss)
		}
		rests[len(types)] = append(rests[len(types)], waiting)
	}
	for g := len(types) - 1; g >= 0; g-- {
		for n, after := range rests[g+1] {
			own, row := slices.Repeat([]float64{math.Inf(1)}, len(after)), slices.Repeat([]float64{math.Inf(1)}, len(after))
			for i := range types[g] {
				jobs := c.kinds[n].of(types[g][i].counts)
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

// rest returns the least that is still lost when the jobs counted are dealt with.
func (c *kindSearch) rest(rests [][]float64, done counts) (least float64) {
	for n, row := range rests {
		least = max(least, row[len(row)-1-c.kinds[n].of(done)])
	}
	return least
}

// choice returns the choice of the least loss found.
func (c *kindSearch) choice() []int {
	choice, dealt := make([]int, len(c.Jobs)), make([]int, len(c.kinds))
	for links := []int32{c.best.link}; len(links) > 0; {
		at := links[len(links)-1]
		if links = links[:len(links)-1]; at < 0 {
			continue
		}
		l := &c.trail[at]
		for range l.jobs {
			choice[c.kinds[l.kind].jobs[dealt[l.kind]]] = int(l.option)
			dealt[l.kind]++
		}
		links = append(links, l.one, l.other)
	}
	for n, k := range c.kinds {
		for _, job := range k.jobs[dealt[n]:] {
			choice[job] = int(k.waits.option)
		}
	}
	return choice
}

// batches are batches no two of which have the same counts and nodes.
type batches struct {
	*kindSearch
	list []batch
	at   map[batchKey]int
}

type batchKey struct {
	counts counts
	nodes  int32
}

func newBatches(c *kindSearch) *batches { return &batches{kindSearch: c, at: make(map[batchKey]int)} }

// add adds a batch unless there is one of the same counts and nodes that loses no more.
func (s *batches) add(b *batch, l batchLink) {
	key := batchKey{b.counts, b.nodes}
	n, there := s.at[key]
	if !there {
		n = len(s.list)
		s.at[key], s.list = n, append(s.list, *b)
	} else if more := b.loss - s.list[n].loss; more > s.same || more >= -s.same && b.tie.compare(s.list[n].tie) >= 0 {
		return
	}
	s.list[n] = *b
	s.list[n].link = int32(len(s.trail))
	s.trail = append(s.trail, l)
}

// full reports whether there are more batches or links than the effort allows.
func (s *batches) full() bool {
	return s.batches+len(s.list) > s.effort.Links/batchLinks || len(s.trail) > s.effort.Links
}

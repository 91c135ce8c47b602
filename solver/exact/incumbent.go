package exact

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver"
)

// The incumbent: a legal plan made from prices.
//
// At good prices almost every job's best plan is also its plan in the optimum;
// only the jobs that are nearly indifferent between two plans decide how the pool
// is filled to the last node. So the jobs choose one after the other, the least
// indifferent first, each taking its best plan that leaves all jobs after it the
// smallest size; then the nodes left over are offered to all again at half price
// and for nothing.

// plan is a size per job and step, by position in the job's sizes.
type plan [][]uint8

// newPlan returns the plan in which every job holds its smallest size.
func newPlan(in *instance) plan {
	block := make([]uint8, len(in.jobs)*in.steps)
	p := make(plan, len(in.jobs))
	for i := range p {
		p[i], block = block[:in.steps:in.steps], block[in.steps:]
	}
	return p
}

// planOf returns a plan of the problem in the units of the search, made legal: a size
// that is not becomes the next smaller one, or the smallest, and where that takes more
// nodes than there are, the jobs that hold most beyond their smallest size give some
// back. It returns nil for a plan of other jobs or steps.
func (in *instance) planOf(nodes solver.Plan) plan {
	if len(nodes) != len(in.jobs) {
		return nil
	}
	p := newPlan(in)
	free := slices.Clone(in.free)
	for i := range p {
		if len(nodes[i]) != in.steps {
			return nil
		}
		sizes := in.jobs[i].sizes
		for t, held := range nodes[i] {
			k, legal := slices.BinarySearch(sizes, int32(min(held, math.MaxInt32)))
			if !legal {
				k = max(0, k-1)
			}
			p[i][t] = uint8(k)
			free[t] -= int(sizes[k] - sizes[0])
		}
	}
	if len(in.groups) > 0 {
		free[0] += in.shrinkGroups(p)
	}
	for t := range free {
		if free[t] < 0 {
			in.shrink(p, t, -free[t], in.everyJob())
		}
	}
	return p
}

// everyJob returns the positions of all jobs.
func (in *instance) everyJob() []int {
	all := make([]int, len(in.jobs))
	for i := range all {
		all[i] = i
	}
	return all
}

// shrink takes at least this many nodes from the given jobs in step t, those first that hold
// most beyond their smallest size, and returns how many it took.
func (in *instance) shrink(p plan, t, nodes int, jobs []int) (taken int) {
	beyond := func(i int) int32 { return in.jobs[i].sizes[p[i][t]] - in.jobs[i].sizes[0] }
	var order []int
	for _, i := range jobs {
		if p[i][t] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(beyond(b), beyond(a)) })
	for taken < nodes {
		for _, i := range order {
			if taken >= nodes {
				break
			}
			if k := p[i][t]; k > 0 {
				taken += int(in.jobs[i].sizes[k] - in.jobs[i].sizes[k-1])
				p[i][t]--
			}
		}
	}
	return taken
}

// constantPlan returns the best plan in which every job holds one size as long as it
// trains: a single knapsack, which even many jobs have time for. It is nil if they have
// not.
func constantPlan(c *clock, in *instance) plan {
	k := newKnapsack(in.size() / in.steps)
	k.reset()
	free := slices.Min(in.free)
	for i := range in.jobs {
		j := &in.jobs[i]
		for n, nodes := range j.sizes {
			if int(nodes-j.sizes[0]) > free {
				break
			}
			k.option(nodes, j.progress(j.first[n], j.later[n])-j.cost[n])
		}
		k.item()
		if c.up(2 * in.steps * len(j.sizes)) {
			return nil
		}
	}
	s, ok := k.solve(c, slices.Min(in.capacity), constantPrecision*in.scale)
	if !ok {
		return nil
	}
	p := newPlan(in)
	for i, n := range s.choices {
		share := 0.0
		for t := 0; t < in.steps && share < finished; t++ {
			p[i][t] = n
			share += in.jobs[i].shares(t)[n]
		}
		if c.up(in.steps) {
			break
		}
	}
	return p
}

// constantPrecision is how good a constant plan is, as a share of the objective: there
// are better ones.
const constantPrecision = 1e-5

// value returns the objective of a plan less its tie cost, whatever the time, and the sum
// of the magnitudes of what it is made of, some of which may cancel out.
func (in *instance) value(c *clock, p plan) (total, magnitude float64) {
	for i := range p {
		j := &in.jobs[i]
		value, cost := j.value(p[i]), j.cost[p[i][0]]
		total, magnitude = total+value, magnitude+math.Abs(value+cost)+math.Abs(cost)
		c.up(in.steps)
	}
	if len(in.groups) > 0 {
		short := in.shortfall(p)
		total, magnitude = total-short, magnitude+short
	}
	return total, magnitude
}

// builder makes legal plans.
type builder struct {
	in   *instance
	dual *dual
	// free is the number of nodes per step that no job holds.
	free    []int
	allowed []sizeSet
	scaled  []float64
}

func newBuilder(in *instance, d *dual) *builder {
	return &builder{
		in: in, dual: d,
		free: make([]int, in.steps), allowed: make([]sizeSet, in.steps), scaled: make([]float64, in.steps),
	}
}

// build returns a legal plan made from the prices. When time is up it leaves the
// jobs it has not come to at their smallest size, which is legal too.
func (b *builder) build(c *clock, prices []float64) plan {
	in := b.in
	p := newPlan(in)
	copy(b.free, in.free)
	order := b.byRegret(c, prices)
	for _, i := range order {
		if c.ended {
			return p
		}
		b.choose(c, p, i, prices)
	}
	slices.Reverse(order)
	for _, share := range []float64{0.5, 0} {
		for t := range prices {
			b.scaled[t] = share * prices[t]
		}
		for _, i := range order {
			if c.ended || slices.Max(b.free) == 0 {
				return p
			}
			b.choose(c, p, i, b.scaled)
		}
	}
	return p
}

// choose gives job i its best plan at the prices among those that need no more
// nodes than it holds and are free.
func (b *builder) choose(c *clock, p plan, i int, prices []float64) {
	j := &b.in.jobs[i]
	now := 0.0
	for t, k := range p[i] {
		held := j.sizes[k]
		now += prices[t] * float64(held)
		fits := sort.Search(len(j.sizes), func(n int) bool { return int(j.sizes[n]-held) > b.free[t] })
		b.allowed[t] = smallestSizes(fits)
	}
	// Only a plan whose value exceeds the present one's by more than rounding
	// changes anything.
	_, chosen := b.dual.pricer.price(c, j, prices, b.allowed, j.value(p[i])-now+b.in.precision/8)
	for t, k := range chosen {
		b.free[t] -= int(j.sizes[k] - j.sizes[p[i][t]])
		p[i][t] = k
	}
}

// byRegret returns all jobs, those that lose most by not getting their best plan
// at the prices first. It returns nil if time is up.
func (b *builder) byRegret(c *clock, prices []float64) []int {
	in := b.in
	regret := make([]float64, len(in.jobs))
	for _, i := range in.separable {
		j := &in.jobs[i]
		regret[i] = math.Inf(1)
		for t := range prices {
			best, second := math.Inf(-1), math.Inf(-1)
			for k := range in.fitting(j, t) {
				net := j.stepValue(t, k) - prices[t]*float64(j.sizes[k])
				second = max(second, min(best, net))
				best = max(best, net)
			}
			regret[i] = min(regret[i], best-second)
		}
		if c.up(2 * len(prices) * len(j.sizes)) {
			return nil
		}
	}
	for f, i := range in.finishing {
		u := b.dual.unit(f)
		best, net := b.dual.bestColumn(u, prices)
		regret[i] = math.Inf(1)
		set := &b.dual.columns[u.class]
		for _, column := range u.active {
			if int(column) != best {
				regret[i] = min(regret[i], net-set.net(column, prices))
			}
		}
		if c.up(2 * len(u.active) * len(prices)) {
			return nil
		}
	}
	order := make([]int, len(in.jobs))
	for i := range order {
		order[i] = i
	}
	if !stableSort(c, order, func(a, b int) int { return cmp.Compare(regret[b], regret[a]) }) {
		return nil
	}
	return order
}

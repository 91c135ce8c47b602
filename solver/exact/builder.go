package exact

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// The incumbent: a legal plan made from prices.
//
// At good prices almost every job's best plan is also its plan in the optimum;
// only the jobs that are nearly indifferent between two plans decide how the pool
// is filled to the last node. So the jobs choose one after the other, the least
// indifferent first, each taking its best plan that leaves all jobs after it the
// smallest size; then the nodes left over are offered to all again at half price
// and for nothing.

// priceJob returns the best plan of a job at prices, of the sizes allowed per step, and its
// value net of them; nil if that is at most floor.
type priceJob func(c *clock, j *job, prices []float64, allowed []sizeSet, floor float64) (float64, []uint8)

// builder makes legal plans.
type builder struct {
	in    *instance
	kinds *kinds
	price priceJob
	// free is the number of nodes per step that no job holds.
	free    []int
	allowed []sizeSet
	scaled  []float64
}

func newBuilder(in *instance, d *kinds, price priceJob) *builder {
	return &builder{
		in: in, kinds: d, price: price,
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
	_, chosen := b.price(c, j, prices, b.allowed, j.value(p[i])-now+b.in.precision/8)
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
		u := b.kinds.kind(f)
		best, net := b.kinds.bestColumn(u, prices)
		regret[i] = math.Inf(1)
		set := &b.kinds.columns[u.class]
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

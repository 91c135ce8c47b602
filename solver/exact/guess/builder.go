package guess

import (
	"math"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The incumbent: a legal plan made from prices.
//
// At good prices almost every job's best plan is also its plan in the optimum;
// only the jobs that are nearly indifferent between two plans decide how the pool
// is filled to the last node. So the jobs choose one after the other, the least
// indifferent first, each taking its best plan that leaves all jobs after it the
// smallest size; then the nodes left over are offered to all again at half price
// and for nothing.

// PriceJob returns the best plan of a job at prices, of the first sizes of each step, as many
// as fit, and its value net of them; nil if that is at most floor.
type PriceJob func(clock *model.Clock, j *model.Job, prices []float64, fitting []int, floor float64) (float64, []uint8)

// Builder makes legal plans.
type Builder struct {
	in      *model.Instance
	classes *model.JobClasses
	price   PriceJob
	// free is the number of nodes per step that no job holds.
	free    []int
	fitting []int
	scaled  []float64
	// order, spare and regret are scratch of all jobs.
	order, spare []int
	regret       []float64
}

// NewBuilder returns a builder at the columns of classes.
func NewBuilder(in *model.Instance, d *model.JobClasses, price PriceJob) *Builder {
	return &Builder{
		in: in, classes: d, price: price,
		free: make([]int, in.Steps), fitting: make([]int, in.Steps), scaled: make([]float64, in.Steps),
		order: in.Memory.Ints.Take(len(in.Jobs)), spare: in.Memory.Ints.Take(len(in.Jobs)), regret: in.Memory.Floats.Take(len(in.Jobs)),
	}
}

// Build returns a legal plan made from the prices. When time is up it leaves the
// jobs it has not come to at their smallest size, which is legal too.
func (b *Builder) Build(clock *model.Clock, prices []float64) *model.Plan {
	in := b.in
	p := model.NewPlan(in)
	copy(b.free, in.Free)
	order := b.byRegret(clock, p, prices)
	if order == nil {
		return model.NewPlan(in)
	}
	for _, i := range order {
		if clock.Expired {
			clear(p.Of(i))
		} else if !b.take(p.Of(i), in.Jobs[i].Sizes) {
			clear(p.Of(i))
			b.choose(clock, p, i, prices)
		}
	}
	slices.Reverse(order)
	for _, share := range []float64{0.5, 0} {
		for t := range prices {
			b.scaled[t] = share * prices[t]
		}
		for _, i := range order {
			if clock.Expired || slices.Max(b.free) == 0 {
				return p
			}
			b.choose(clock, p, i, b.scaled)
		}
	}
	return p
}

// take takes the nodes of a job's plan from those that are free, if they are.
func (b *Builder) take(plan []uint8, sizes []int32) bool {
	for t, k := range plan {
		if int(sizes[k]-sizes[0]) > b.free[t] {
			return false
		}
	}
	for t, k := range plan {
		b.free[t] -= int(sizes[k] - sizes[0])
	}
	return true
}

// choose gives job i its best plan at the prices among those that need no more
// nodes than it holds and are free.
func (b *Builder) choose(clock *model.Clock, p *model.Plan, i int, prices []float64) {
	j := &b.in.Jobs[i]
	now := 0.0
	for t, k := range p.Of(i) {
		held := j.Sizes[k]
		now += prices[t] * float64(held)
		b.fitting[t] = sort.Search(len(j.Sizes), func(n int) bool { return int(j.Sizes[n]-held) > b.free[t] })
	}
	// Only a plan whose value exceeds the present one's by more than rounding
	// changes anything.
	_, chosen := b.price(clock, j, prices, b.fitting, j.Value(p.Of(i))-now+b.in.Precision/8)
	for t, k := range chosen {
		b.free[t] -= int(j.Sizes[k] - j.Sizes[p.Of(i)[t]])
		p.Of(i)[t] = k
	}
}

// byRegret returns all jobs, those that lose most by not getting their best plan
// at the prices first, and sets p to these plans, of columns, or to the
// smallest sizes where there is no column. It returns nil if time is up.
func (b *Builder) byRegret(clock *model.Clock, p *model.Plan, prices []float64) []int {
	in := b.in
	regret, order := b.regret, b.order
	for _, i := range in.Separable {
		j := &in.Jobs[i]
		regret[i] = math.Inf(1)
		for t := range prices {
			best, second := math.Inf(-1), math.Inf(-1)
			for k := range in.Fitting(j, t) {
				net := j.StepValue(t, k) - prices[t]*float64(j.Sizes[k])
				if second = max(second, min(best, net)); net > best {
					best, p.Of(i)[t] = net, uint8(k)
				}
			}
			regret[i] = min(regret[i], best-second)
		}
		if clock.Add(2 * len(prices) * len(j.Sizes)) {
			return nil
		}
	}
	for f, i := range in.Finishing {
		class := b.classes.Class(f)
		best, net := class.Best(prices)
		regret[i] = math.Inf(1)
		if best >= 0 {
			copy(p.Of(i), class.Plan(best))
		}
		for column := range class.Len() {
			if column != best {
				regret[i] = min(regret[i], net-class.Net(column, prices))
			}
		}
		if clock.Add(2 * class.Len() * len(prices)) {
			return nil
		}
	}
	for i := range order {
		order[i] = i
	}
	if !model.SortDescending(clock, order, b.spare, func(i int) float64 { return regret[i] }) {
		return nil
	}
	return order
}

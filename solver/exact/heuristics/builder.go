package heuristics

import (
	"math"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// A greedy heuristic: a legal plan from prices, job by job.
//
// At good prices, the best plan of almost every job is also its plan in the optimum. Only the jobs
// with two plans of almost equal net value decide how the pool is filled. The jobs therefore choose
// by decreasing regret, the difference between their two best plans. Each job takes its best plan
// that leaves the smallest size to all later jobs. The remaining nodes are then offered to all jobs
// again, at half the price and at the price 0.

// PriceJob returns the net value of the best plan of a job at prices, and this plan, if only the
// first fitting[t] sizes may be used in step t. The plan is nil if its net value is at most floor.
type PriceJob func(clock *model.Clock, j *model.Job, prices []float64, fitting []int, floor float64) (float64, []uint8)

// Builder derives legal plans from prices.
type Builder struct {
	in      *model.Instance
	classes *model.JobClasses
	price   PriceJob
	// free is the number of free nodes per step.
	free    []int
	fitting []int
	scaled  []float64
	// order, spare and regret are scratch memory with one entry per job.
	order, spare []int
	regret       []float64
}

// NewBuilder returns a builder that uses the columns of the classes.
func NewBuilder(in *model.Instance, d *model.JobClasses, price PriceJob) *Builder {
	return &Builder{
		in: in, classes: d, price: price,
		free: make([]int, in.Steps), fitting: make([]int, in.Steps), scaled: make([]float64, in.Steps),
		order: in.Memory.Ints.Take(len(in.Jobs)), spare: in.Memory.Ints.Take(len(in.Jobs)), regret: in.Memory.Floats.Take(len(in.Jobs)),
	}
}

// Build returns a legal plan derived from the prices. If the deadline passes, the remaining jobs
// keep their smallest size, which is also legal.
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
		} else if !b.allocate(p.Of(i), in.Jobs[i].Sizes) {
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

// allocate takes the nodes of the plan of a job from the free nodes. It returns false if they do
// not suffice.
func (b *Builder) allocate(plan []uint8, sizes []int32) bool {
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

// choose gives job i its best plan at the prices among the plans that its nodes and the free nodes
// permit.
func (b *Builder) choose(clock *model.Clock, p *model.Plan, i int, prices []float64) {
	j := &b.in.Jobs[i]
	now := 0.0
	for t, k := range p.Of(i) {
		held := j.Sizes[k]
		now += prices[t] * float64(held)
		b.fitting[t] = sort.Search(len(j.Sizes), func(n int) bool { return int(j.Sizes[n]-held) > b.free[t] })
	}
	// The new plan has to be better by more than the rounding error.
	_, chosen := b.price(clock, j, prices, b.fitting, j.Value(p.Of(i))-now+b.in.Precision/8)
	for t, k := range chosen {
		b.free[t] -= int(j.Sizes[k] - j.Sizes[p.Of(i)[t]])
		p.Of(i)[t] = k
	}
}

// byRegret returns all jobs by decreasing regret: the loss of the second best plan at the prices.
// It sets p to the best columns, or to the smallest sizes of a job without columns. It returns nil
// if the deadline has passed.
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

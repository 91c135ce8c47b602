package horizon

import (
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The recount: the gap of one step, computed from losses only.
//
// If values and prices are much larger than the objective, they cancel out, and their rounding
// error can prevent a proof after a complete search. The bound itself is not needed for one step.
// The difference between the bound and a plan is a sum of losses, all at least 0. The gap is the
// loss of the incumbent minus the smallest loss. The recount therefore builds the tables of groups
// again; without groups the tree contains only the pool. Their losses have a relative error of a
// few units in the last place. Values are exact, because they are the values of the problem times a
// power of two, without tie costs. Prices are multiples of a unit that is small enough for exact
// products, differences and sums.

// Recount returns the incumbent, or a plan that is better by more than tolerance, and an upper
// bound on how much better any plan is. It returns false if the deadline has passed or the tables
// are too large. The instance must have one step and no tie costs.
func Recount(clock *model.Clock, in *model.Instance, incumbent *model.Plan, tolerance float64) (best *model.Plan, better float64, ok bool) {
	t := newGroupTree(in)
	pool := len(t.nodes) - 1
	if !t.relax(clock, true) || !t.minimize(clock, pool) {
		return nil, 0, false
	}
	minLoss := t.nodes[pool].table.minLoss
	best, better = incumbent, t.loss(incumbent)-minLoss
	// The rounding error of sums of losses, of numbers below model.Tiny, and of values that are
	// products.
	rounding := float64(len(in.Jobs)+len(t.nodes)+4) * (ulp*2*minLoss + 4*model.Tiny)
	for i := range in.Jobs {
		rounding += 8 * ulp * in.Jobs[i].Tail[0]
	}
	if better > max(rounding, tolerance) {
		best, better = t.plan(), 0
	}
	return best, max(0, better) + rounding, true
}

// loss returns the bound minus the value of a plan.
func (t *groupTree) loss(p *model.Plan) float64 {
	sum := 0.0
	for i := range t.in.Jobs {
		sum += t.losses[t.starts[i]+int(p.Of(i)[0])]
	}
	for g, nodes := range t.groupNodes(p) {
		sum += t.nodes[g].loss(nodes, t.in.QuotaPrice)
	}
	return sum
}

// priceGrain returns the unit of which prices are multiples. 2^53 units exceed the cost of the pool
// at the highest price.
func (t *groupTree) priceGrain() float64 {
	highest, quotas := 0.0, 0.0
	for g := range t.nodes {
		n := &t.nodes[g]
		for _, e := range n.edges {
			highest = max(highest, math.Abs(e.Rate))
		}
		if n.floor > n.minNodes {
			quotas += t.in.QuotaPrice
		}
	}
	return model.PowerOfTwo((highest+quotas)*float64(t.in.Capacity[0])) / (1 << 51)
}

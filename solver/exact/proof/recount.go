package proof

import (
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The recount: how much better than the best plan found another can be, where rounding is
// much of the objective.
//
// Values and prices that are huge beside the objective cancel out in it, and their rounding
// is all that keeps a complete search from being a proof. In one step it can be kept out:
// what a plan falls short of the bound is a sum of losses, none below 0, and its loss less
// the least one is what the best plan is better by. The bound itself is not needed. So the
// tables of groups are made once more, the pool alone being their tree where there are no
// groups, of losses that are right to a few of their own last digits: values are exact, being
// those of the problem times a power of two, less no tie cost; prices are whole multiples of a
// unit, so fine that their products with nodes, differences and sums are exact too.

// Recount returns the incumbent, or a plan that losses show to be better by more than what
// counts as the same, and the most that any plan is better than it. It returns false if time or
// memory is up. The instance must be of one step and without ties.
func Recount(clock *model.Clock, in *model.Instance, incumbent *model.Plan, same float64) (best *model.Plan, better float64, ok bool) {
	t := newGroupTree(in)
	pool := len(t.nodes) - 1
	if !t.relax(clock, true) || !t.minimise(clock, pool) {
		return nil, 0, false
	}
	least := t.nodes[pool].table.least
	best, better = incumbent, t.loss(incumbent)-least
	// Sums of losses, what was too small to calculate with, and values that are products.
	rounding := float64(len(in.Jobs)+len(t.nodes)+4) * (ulp*2*least + 4*model.Tiny)
	for i := range in.Jobs {
		rounding += 8 * ulp * in.Jobs[i].Tail[0]
	}
	if better > max(rounding, same) {
		best, better = t.plan(), 0
	}
	return best, max(0, better) + rounding, true
}

// loss returns what a plan falls short of the bound.
func (t *groupTree) loss(p *model.Plan) float64 {
	sum := 0.0
	for i := range t.in.Jobs {
		sum += t.losses[t.starts[i]+int(p.Of(i)[0])]
	}
	for g, nodes := range t.heldBy(p) {
		sum += t.nodes[g].loss(nodes, t.in.QuotaPrice)
	}
	return sum
}

// priceGrain returns what prices are whole multiples of: 2^53 of it are more than the pool
// costs at the highest price.
func (t *groupTree) priceGrain() float64 {
	highest, quotas := 0.0, 0.0
	for g := range t.nodes {
		n := &t.nodes[g]
		for _, e := range n.edges {
			highest = max(highest, math.Abs(e.PerNode))
		}
		if n.floor > n.smallest {
			quotas += t.in.QuotaPrice
		}
	}
	return model.PowerOfTwo((highest+quotas)*float64(t.in.Capacity[0])) / (1 << 51)
}

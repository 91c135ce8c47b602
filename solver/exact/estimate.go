package exact

import (
	"math"
	"slices"
)

// estimate sets least, most and scale. The upper bound is within a small factor of
// the objective: every job has its smallest size, and they share the free node-steps
// as in a fractional knapsack, each at what it gains alone in the pool and at no more
// per node-step than its best size brings.
func (in *instance) estimate(c *clock) {
	var lots []rate
	for i := range in.jobs {
		j := &in.jobs[i]
		served := j.progress(j.first[0], j.later[0])
		in.least += served - j.cost[0]
		in.scale += served + math.Abs(j.cost[0])
		in.magnitude += max(math.Abs(slices.Min(j.cost)), math.Abs(slices.Max(j.cost)))
		gain := j.progress(slices.Max(j.first), slices.Max(j.later)) - served + max(0, j.cost[0]-slices.Min(j.cost))
		perNode := 0.0
		for k := 1; k < len(j.sizes); k++ {
			value := j.tail[0]*max(j.first[k], j.later[k]) + max(0, j.cost[0]-j.cost[k])
			perNode = max(perNode, value/float64(j.sizes[k]-j.sizes[0]))
		}
		if gain > 0 {
			lots = append(lots, rate{perNode: perNode, nodes: gain / perNode})
		}
		if c.up(8*len(j.sizes) + 8*in.steps) {
			return
		}
	}
	left := 0.0
	for _, nodes := range in.free {
		left += float64(nodes)
	}
	price, ok := breakRate(c, lots, left)
	if !ok {
		return
	}
	gained := price * left
	for _, l := range lots {
		gained += max(0, l.perNode-price) * l.nodes
	}
	in.most = in.least + gained + noise*(in.scale+gained)
	in.scale += gained
	if len(in.groups) > 0 {
		in.least -= in.shortfall(newPlan(in))
		for g := range in.groups {
			in.scale += in.quotaPrice * float64(in.groups[g].Floor)
		}
	}
	in.magnitude += in.scale
}

package model

import (
	"math"
	"slices"
)

// estimate sets least, most and scale. The upper bound is within a small factor of
// the objective: every job has its smallest size, and they share the free node-steps
// as in a fractional knapsack, each at what it gains alone in the pool and at no more
// per node-step than its best size brings.
func (in *Instance) estimate(clock *Clock) {
	lots := in.Memory.rates.Take(len(in.Jobs))[:0]
	for i := range in.Jobs {
		j := &in.Jobs[i]
		served := j.Progress(j.First[0], j.Later[0])
		in.Least += served - j.Cost[0]
		in.Scale += served + math.Abs(j.Cost[0])
		in.magnitude += max(math.Abs(slices.Min(j.Cost)), math.Abs(slices.Max(j.Cost)))
		gain := j.Progress(slices.Max(j.First), slices.Max(j.Later)) - served + max(0, j.Cost[0]-slices.Min(j.Cost))
		perNode := 0.0
		for k := 1; k < len(j.Sizes); k++ {
			value := j.Tail[0]*max(j.First[k], j.Later[k]) + max(0, j.Cost[0]-j.Cost[k])
			perNode = max(perNode, value/float64(j.Sizes[k]-j.Sizes[0]))
		}
		if gain > 0 {
			lots = append(lots, Rate{PerNode: perNode, Nodes: gain / perNode})
		}
		if clock.Up(8*len(j.Sizes) + 8*in.Steps) {
			return
		}
	}
	left := 0.0
	for _, nodes := range in.Free {
		left += float64(nodes)
	}
	price, ok := BreakRate(clock, lots, left)
	if !ok {
		return
	}
	gained := price * left
	for _, l := range lots {
		gained += max(0, l.PerNode-price) * l.Nodes
	}
	in.Most = in.Least + gained + Noise*(in.Scale+gained)
	in.Scale += gained
	if len(in.Groups) > 0 {
		in.Least -= in.shortfall(NewPlan(in))
		for g := range in.Groups {
			in.Scale += in.QuotaPrice * float64(in.Groups[g].Floor)
		}
	}
	in.magnitude += in.Scale
}

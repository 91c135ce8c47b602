package model

import (
	"math"
	"slices"
)

// estimate sets BaseValue, UpperBound and Scale. The upper bound is within a small factor of the
// objective. Every job has its smallest size, and the jobs share the free nodes of all steps in a
// fractional knapsack. A job gains at most the value that it would have alone in the pool, and at
// most the rate of its best size per node and step.
func (in *Instance) estimate(clock *Clock) {
	edges := in.Memory.edges.Take(len(in.Jobs))[:0]
	for i := range in.Jobs {
		j := &in.Jobs[i]
		served := j.Progress(j.First[0], j.Later[0])
		in.BaseValue += served - j.Cost[0]
		in.Scale += served + math.Abs(j.Cost[0])
		in.magnitude += max(math.Abs(slices.Min(j.Cost)), math.Abs(slices.Max(j.Cost)))
		gain := j.Progress(slices.Max(j.First), slices.Max(j.Later)) - served + max(0, j.Cost[0]-slices.Min(j.Cost))
		perNode := 0.0
		for k := 1; k < len(j.Sizes); k++ {
			value := j.Tail[0]*max(j.First[k], j.Later[k]) + max(0, j.Cost[0]-j.Cost[k])
			perNode = max(perNode, value/float64(j.Sizes[k]-j.Sizes[0]))
		}
		if gain > 0 {
			edges = append(edges, Edge{Rate: perNode, Nodes: gain / perNode})
		}
		if clock.Add(8*len(j.Sizes) + 8*in.Steps) {
			return
		}
	}
	left := 0.0
	for _, nodes := range in.Free {
		left += float64(nodes)
	}
	price, ok := BreakRate(clock, edges, left)
	if !ok {
		return
	}
	gained := price * left
	for _, l := range edges {
		gained += max(0, l.Rate-price) * l.Nodes
	}
	in.UpperBound = in.BaseValue + gained + Noise*(in.Scale+gained)
	in.Scale += gained
	if len(in.Groups) > 0 {
		in.BaseValue -= in.shortfall(NewPlan(in))
		for g := range in.Groups {
			in.Scale += in.QuotaPrice * float64(in.Groups[g].Floor)
		}
	}
	in.magnitude += in.Scale
}

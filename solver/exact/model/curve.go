package model

import (
	"math"
	"sort"
)

// Separable jobs: jobs that cannot finish within the horizon.
//
// No step caps the demand served of such a job. Its part of the objective is therefore a sum over
// steps, and k nodes in step t (counted from 0) add
//
//	v_t(k) = (gain_t + gain_(t+1) + ...) share_t(k),
//
// because demand served in step t counts in step t and in every later step. In the first step the
// value of the size is added. The same is true for every job if there is only one step, which caps
// the share at 1. At a price lambda per node the maximum over k of v_t(k) - lambda k depends only
// on the upper concave hull of the points (k, v_t(k)). Starting from its smallest size, the job
// takes every hull edge whose rate (value per node) exceeds lambda. The edges of all jobs are
// sorted by rate, with prefix sums. One binary search then prices all separable jobs in a step.

// StepCurve is the net value of all separable jobs in one step as a function of the price of a
// node.
type StepCurve struct {
	BaseGain, BaseNodes float64 // every job with its smallest size
	Edges               []Edge  // by decreasing rate
	SumGain, SumNodes   []float64
	// Scale multiplies every rate. Later steps share one sorted list of edges if their values
	// differ only by a factor.
	Scale float64
}

// NewStepCurves returns the curve of every step.
func NewStepCurves(clock *Clock, in *Instance) []StepCurve {
	curves := make([]StepCurve, in.Steps)
	for t := range curves {
		curves[t].Scale = 0
		if t > 1 {
			curves[t] = curves[1]
			curves[t].Scale = in.factor(t)
		}
		if curves[t].Scale == 0 {
			curves[t] = newStepCurve(clock, in, t)
		}
	}
	return curves
}

// factor returns the ratio of the values of all separable jobs in step t to their values in step 1,
// or 0 if it differs between jobs.
func (in *Instance) factor(t int) float64 {
	if len(in.Separable) == 0 || in.Free[t] != in.Free[1] {
		return 0
	}
	first := in.Jobs[in.Separable[0]].Tail
	factor := first[t] / first[1]
	for _, i := range in.Separable {
		tail := in.Jobs[i].Tail
		if !(math.Abs(tail[t]-factor*tail[1]) <= float64(in.Steps)*Noise*tail[1]) {
			return 0
		}
	}
	return factor
}

func newStepCurve(clock *Clock, in *Instance, t int) StepCurve {
	edges := in.Size() / in.Steps * len(in.Separable) / max(1, len(in.Jobs)) // estimate
	curve := StepCurve{Scale: 1, Edges: in.Memory.edges.Take(edges)[:0]}
	var values []float64
	for _, i := range in.Separable {
		j := &in.Jobs[i]
		curve.BaseGain += j.StepValue(t, 0)
		curve.BaseNodes += float64(j.Sizes[0])
		sizes := j.Sizes[:in.Fitting(j, t)]
		values = values[:0]
		for k := range sizes {
			values = append(values, j.StepValue(t, k))
		}
		curve.Edges = AppendEdges(curve.Edges, sizes, values)
		if clock.Add(8 * len(j.Sizes)) {
			return curve
		}
	}
	if !SortDescending(clock, curve.Edges, in.Memory.edges.Take(len(curve.Edges)), func(r Edge) float64 { return r.Rate }) {
		return curve
	}
	curve.SumGain, curve.SumNodes = in.Memory.Floats.Zeros(len(curve.Edges)+1), in.Memory.Floats.Zeros(len(curve.Edges)+1)
	for n, e := range curve.Edges {
		curve.SumGain[n+1] = curve.SumGain[n] + e.Rate*e.Nodes
		curve.SumNodes[n+1] = curve.SumNodes[n] + e.Nodes
	}
	return curve
}

// Taken returns the number of edges whose rate exceeds the given price.
func (curve *StepCurve) Taken(price float64) int {
	return sort.Search(len(curve.Edges), func(n int) bool { return curve.Scale*curve.Edges[n].Rate <= price })
}

// Knapsack is a multiple-choice knapsack to which options are added, item by item.
type Knapsack interface {
	Reset()
	Option(nodes int32, value float64)
	Item()
}

// SeparableItems resets a knapsack and adds the separable jobs as the items of step t. It stops at
// the deadline.
func (in *Instance) SeparableItems(clock *Clock, k Knapsack, t int) {
	k.Reset()
	for _, i := range in.Separable {
		j := &in.Jobs[i]
		for n, nodes := range j.Sizes[:in.Fitting(j, t)] {
			k.Option(nodes, j.StepValue(t, n))
		}
		k.Item()
		if clock.Add(2 * len(j.Sizes)) {
			return
		}
	}
}

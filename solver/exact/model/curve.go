package model

import (
	"math"
	"sort"
)

// Jobs that cannot finish within the horizon.
//
// For such a job no step caps the demand served, so that its part of the
// objective is a sum over steps: k nodes in step t (counted from 0) add
//
//	v_t(k) = (gain_t + gain_(t+1) + ...) share_t(k),
//
// since demand served in step t counts in step t and in every later one, and in the
// first step the value of the size. The same holds for every job where there is only
// one step, share being capped at 1 there. At a
// price lambda per node the job's best is the maximum over k of v_t(k) - lambda k,
// which depends only on the upper concave hull of the points (k, v_t(k)): starting
// from the smallest size, the job takes every hull edge whose gain per node
// exceeds lambda. With the edges of all jobs sorted by gain per node and their
// sums kept, one binary search prices all these jobs in a step.

// StepCurve is the net value of all separable jobs together in one step as a
// function of the price of a node.
type StepCurve struct {
	BaseGain, BaseNodes float64 // every job at its smallest size
	Edges               []Rate  // by rate, largest first
	SumGain, SumNodes   []float64
	// Scale multiplies every gain: later steps share one sorted list of edges where
	// their values differ only by a factor.
	Scale float64
}

// NewStepCurves builds the curve of every step.
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

// factor returns the number by which the values of all separable jobs in step t are
// those in step 1, 0 if there is none.
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
	edges := in.Size() / in.Steps * len(in.Separable) / max(1, len(in.Jobs)) // about
	curve := StepCurve{Scale: 1, Edges: in.Memory.rates.Take(edges)[:0]}
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
		curve.Edges = AppendRates(curve.Edges, sizes, values)
		if clock.Up(8 * len(j.Sizes)) {
			return curve
		}
	}
	if !SortFalling(clock, curve.Edges, in.Memory.rates.Take(len(curve.Edges)), func(r Rate) float64 { return r.PerNode }) {
		return curve
	}
	curve.SumGain, curve.SumNodes = in.Memory.Floats.Zeros(len(curve.Edges)+1), in.Memory.Floats.Zeros(len(curve.Edges)+1)
	for n, e := range curve.Edges {
		curve.SumGain[n+1] = curve.SumGain[n] + e.PerNode*e.Nodes
		curve.SumNodes[n+1] = curve.SumNodes[n] + e.Nodes
	}
	return curve
}

// Taken returns how many edges gain more than their nodes cost at the given price.
func (curve *StepCurve) Taken(price float64) int {
	return sort.Search(len(curve.Edges), func(n int) bool { return curve.Scale*curve.Edges[n].PerNode <= price })
}

// Knapsack takes the options of a multiple-choice knapsack, item after item.
type Knapsack interface {
	Reset()
	Option(nodes int32, value float64)
	Item()
}

// SeparableItems empties a knapsack and adds the separable jobs as the items of step t,
// until time is up.
func (in *Instance) SeparableItems(clock *Clock, k Knapsack, t int) {
	k.Reset()
	for _, i := range in.Separable {
		j := &in.Jobs[i]
		for n, nodes := range j.Sizes[:in.Fitting(j, t)] {
			k.Option(nodes, j.StepValue(t, n))
		}
		k.Item()
		if clock.Up(2 * len(j.Sizes)) {
			return
		}
	}
}

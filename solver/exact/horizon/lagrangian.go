package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/heuristics"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The Lagrangian bound.
//
// For every lambda >= 0
//
//	L(lambda) = sum_t N_t lambda_t + sum_i phi_i(lambda)
//
// is an upper bound on the optimum, because the jobs share only the T capacity constraints of the
// pool. This file computes the bound; package heuristics proposes the prices.

// lagrangian evaluates L and records the best prices.
type lagrangian struct {
	in      *model.Instance
	classes *model.JobClasses
	curves  []model.StepCurve
	pricer  pricer
	descent *heuristics.Descent
	fitting []int // scratch
	// last is the last evaluation, kept the best one.
	last, kept evaluation
}

// evaluation is a bound and its prices.
type evaluation struct {
	prices []float64
	bound  float64
}

// set copies the evaluation.
func (e *evaluation) set(prices []float64, bound float64) {
	e.prices, e.bound = append(e.prices[:0], prices...), bound
}

// newLagrangian prepares the evaluation of L. The result is incomplete if the deadline has passed.
func newLagrangian(clock *model.Clock, in *model.Instance) *lagrangian {
	l := &lagrangian{in: in, classes: model.NewJobClasses(clock, in), pricer: pricer{maxLabels: in.Effort.MaxLabels}}
	l.curves = model.NewStepCurves(clock, in)
	l.descent = heuristics.NewDescent(clock, in, l.classes, l.curves)
	return l
}

// bound returns L(prices). It prices every class and adds each plan that is better than the columns
// of the class as a column. It also returns the number of jobs with a new column. The bound is +Inf
// if a price is negative or the deadline has passed.
func (l *lagrangian) bound(clock *model.Clock, prices []float64) (bound float64, found int) {
	for t, price := range prices {
		if !(price >= 0) {
			return math.Inf(1), 0 // A negative price gives no bound.
		}
		bound += float64(l.in.Capacity[t])*price + separableNet(&l.curves[t], price)
	}
	for n := range l.classes.All {
		class := &l.classes.All[n]
		j := &l.in.Jobs[class.Job]
		_, floor := class.Best(prices)
		l.fitting = l.in.AllFitting(j, l.fitting)
		phi, chosen := l.pricer.price(clock, j, prices, l.fitting, floor)
		if clock.Add(class.Len() * l.in.Steps) {
			return math.Inf(1), found
		}
		// Ignore improvements within the rounding error; otherwise the same plan would be added
		// repeatedly.
		if chosen != nil && phi > floor+l.in.Precision/8 {
			found += int(class.Count)
			class.Add(j, chosen)
		}
		bound += class.Count * phi
	}
	return bound, found
}

// Evaluate returns L(prices) and the number of jobs with a new column. A repeated call with the
// same prices returns the same bound and 0.
func (l *lagrangian) Evaluate(clock *model.Clock, prices []float64) (bound float64, found int) {
	if slices.Equal(prices, l.last.prices) {
		return l.last.bound, 0
	}
	bound, found = l.bound(clock, prices)
	l.last.set(prices, bound)
	return bound, found
}

// Keep records the last evaluation as the best one.
func (l *lagrangian) Keep() { l.last, l.kept = l.kept, l.last }

// minimize lowers L from a start and returns the best bound with its prices. It stops early if the
// bound falls to target or the deadline has passed.
func (l *lagrangian) minimize(clock *model.Clock, from heuristics.Start, target float64) (bound float64, prices []float64) {
	l.descent.Minimize(clock, l, from, target)
	return l.kept.bound, slices.Clone(l.kept.prices)
}

// startOf returns the initial prices for an instance. For large instances these are the best prices
// of a sample of the jobs.
func startOf(clock *model.Clock, in *model.Instance) heuristics.Start {
	start := heuristics.Start{Prices: heuristics.AveragePrices(clock, in), Temperature: heuristics.FirstTemperature}
	if len(in.Jobs) < in.Effort.MinSampledJobs || clock.Expired {
		return start
	}
	sample := heuristics.Sampled(in)
	from := startOf(clock, sample)
	if clock.Expired {
		return start
	}
	if l := newLagrangian(clock, sample); !clock.Expired {
		from.Rough = true
		_, prices := l.minimize(clock, from, math.Inf(-1))
		start = heuristics.SampledStart(prices, len(in.Jobs))
	}
	return start
}

// LagrangianBound returns the Lagrangian bound and its prices. The prices are nil if the deadline
// passes before the first evaluation.
func LagrangianBound(clock *model.Clock, in *model.Instance) (bound float64, prices []float64) {
	start := startOf(clock, in)
	if clock.Expired {
		return in.UpperBound, nil
	}
	l := newLagrangian(clock, in)
	if clock.Expired {
		return in.UpperBound, nil
	}
	bound, prices = l.minimize(clock, start, math.Inf(-1))
	return min(bound, in.UpperBound), prices
}

// separableNet returns the maximum value of the separable jobs in a step, net of the price of a
// node.
func separableNet(curve *model.StepCurve, price float64) float64 {
	n := curve.Taken(price)
	nodes := curve.BaseNodes + curve.SumNodes[n]
	return curve.Scale*(curve.BaseGain+curve.SumGain[n]) - price*nodes
}

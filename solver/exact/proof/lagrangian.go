package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/guess"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The Lagrangian bound: the pool bought at prices.
//
// For every lambda >= 0
//
//	L(lambda) = sum_t N_t lambda_t + sum_i phi_i(lambda)
//
// is at least the optimum, because only the pool's T capacity rows couple the jobs. Whatever
// the prices, the bound is worked out here.

// lagrangian evaluates L, and remembers the prices that are worth it.
type lagrangian struct {
	in      *model.Instance
	classes *model.JobClasses
	curves  []model.StepCurve
	pricer  pricer
	descent *guess.Descent
	fitting []int // scratch
	// last is what was evaluated last, kept the best.
	last, kept evaluation
}

// evaluation is a bound and its prices.
type evaluation struct {
	prices []float64
	bound  float64
}

// note sets the evaluation, in memory of its own.
func (e *evaluation) note(prices []float64, bound float64) {
	e.prices, e.bound = append(e.prices[:0], prices...), bound
}

// newLagrangian prepares the evaluation of L. Where time is up it is not complete.
func newLagrangian(clock *model.Clock, in *model.Instance) *lagrangian {
	l := &lagrangian{in: in, classes: model.NewJobClasses(clock, in), pricer: pricer{maxLabels: in.Effort.MaxLabels}}
	l.curves = model.NewStepCurves(clock, in)
	l.descent = guess.NewDescent(clock, in, l.classes, l.curves)
	return l
}

// bound returns L(prices). Every class is priced; plans that beat its columns become columns,
// and the number of jobs they are for is returned. The bound is +Inf if a price is below 0 or
// time was up before it was known.
func (l *lagrangian) bound(clock *model.Clock, prices []float64) (bound float64, found int) {
	for t, price := range prices {
		if !(price >= 0) {
			return math.Inf(1), 0 // It bounds nothing.
		}
		bound += float64(l.in.Capacity[t])*price + netAt(&l.curves[t], price)
	}
	for n := range l.classes.All {
		class := &l.classes.All[n]
		j := &l.in.Jobs[class.Job]
		_, floor := class.Best(prices)
		l.fitting = l.in.AllFitting(j, l.fitting)
		phi, chosen := l.pricer.price(clock, j, prices, l.fitting, floor)
		if clock.Up(class.Len() * l.in.Steps) {
			return math.Inf(1), found
		}
		// A plan that is better by rounding only would be found again and again.
		if chosen != nil && phi > floor+l.in.Precision/8 {
			found += int(class.Count)
			class.Add(j, chosen)
		}
		bound += class.Count * phi
	}
	return bound, found
}

// Evaluate returns L(prices) and the number of jobs that plans were found for. At the same
// prices it finds no more.
func (l *lagrangian) Evaluate(clock *model.Clock, prices []float64) (bound float64, found int) {
	if slices.Equal(prices, l.last.prices) {
		return l.last.bound, 0
	}
	bound, found = l.bound(clock, prices)
	l.last.note(prices, bound)
	return bound, found
}

// Keep makes the prices evaluated last the best.
func (l *lagrangian) Keep() { l.last, l.kept = l.kept, l.last }

// minimise lowers L from a start and returns the best bound with its prices. It stops early
// when time is up or when the bound falls to enough.
func (l *lagrangian) minimise(clock *model.Clock, from guess.Start, enough float64) (bound float64, prices []float64) {
	l.descent.Minimise(clock, l, from, enough)
	return l.kept.bound, slices.Clone(l.kept.prices)
}

// startOf returns where the search for the prices of an instance starts.
func startOf(clock *model.Clock, in *model.Instance) guess.Start {
	start := guess.Start{Prices: guess.AveragePrices(clock, in), Temperature: guess.FirstTemperature}
	if len(in.Jobs) < in.Effort.MinSampled || clock.Ended {
		return start
	}
	sample := guess.Sampled(in)
	from := startOf(clock, sample)
	if clock.Ended {
		return start
	}
	if l := newLagrangian(clock, sample); !clock.Ended {
		from.Rough = true
		_, prices := l.minimise(clock, from, math.Inf(-1))
		start = guess.SampledStart(prices, len(in.Jobs))
	}
	return start
}

// LagrangianBound returns the Lagrangian bound and its prices, nil where time ends before there
// are any.
func LagrangianBound(clock *model.Clock, in *model.Instance) (bound float64, prices []float64) {
	start := startOf(clock, in)
	if clock.Ended {
		return in.Most, nil
	}
	l := newLagrangian(clock, in)
	if clock.Ended {
		return in.Most, nil
	}
	bound, prices = l.minimise(clock, start, math.Inf(-1))
	return min(bound, in.Most), prices
}

// netAt returns the most that the separable jobs have in a step net of the price of a node.
func netAt(curve *model.StepCurve, price float64) float64 {
	n := curve.Taken(price)
	nodes := curve.BaseNodes + curve.SumNodes[n]
	return curve.Scale*(curve.BaseGain+curve.SumGain[n]) - price*nodes
}

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
	kinds   *model.Kinds
	curves  []model.StepCurve
	pricer  pricer
	descent *guess.Descent
	// part is the subproblem entered last; last is what was evaluated in it last, kept the best.
	part       *subproblem
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
	l := &lagrangian{in: in, kinds: model.NewKinds(clock, in), pricer: pricer{maxLabels: in.Effort.MaxLabels}}
	l.curves = model.NewStepCurves(clock, in)
	l.descent = guess.NewDescent(clock, in, l.kinds, l.curves)
	return l
}

// bound returns L(prices) over the subproblem entered last. Every kind is priced; plans that
// beat its columns become columns, and the number of jobs they are for is returned. The
// bound is -Inf if some job has no plan in the subproblem, and +Inf if a price is below 0 or
// time was up before it was known.
func (l *lagrangian) bound(clock *model.Clock, prices []float64) (bound float64, found int) {
	for t, price := range prices {
		if !(price >= 0) {
			return math.Inf(1), 0 // It bounds nothing.
		}
		bound += float64(l.in.Capacity[t])*price + netAt(&l.curves[t], price)
	}
	for n := range l.kinds.All {
		u := &l.kinds.All[n]
		j := &l.in.Jobs[u.Job]
		_, floor := l.kinds.BestColumn(u, prices)
		phi, chosen := l.pricer.price(clock, j, prices, u.Allowed, floor)
		if clock.Up(len(u.Active) * l.in.Steps) {
			return math.Inf(1), found
		}
		// A plan that is better by rounding only would be found again and again.
		if chosen != nil && phi > floor+l.in.Precision/8 {
			found += int(u.Count)
			l.kinds.Add(u.Class, j, chosen)
		}
		bound += u.Count * phi
	}
	return bound, found
}

// Evaluate returns L(prices) over the subproblem entered last and the number of jobs that
// plans were found for. At the same prices it finds no more.
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

// enter makes a subproblem the one that is evaluated, if it is not.
func (l *lagrangian) enter(clock *model.Clock, part *subproblem) {
	if l.part != part {
		l.kinds.Enter(clock, part.allowed)
		l.part, l.last.prices, l.kept.prices = part, l.last.prices[:0], l.kept.prices[:0]
	}
}

// minimise lowers L over the subproblem, starting from its prices, and returns the best
// bound with its prices. It stops early when time is up or when the bound falls to enough.
func (l *lagrangian) minimise(clock *model.Clock, part *subproblem, enough float64) (bound float64, prices []float64) {
	l.enter(clock, part)
	l.descent.Minimise(clock, l, part.Start, enough)
	return l.kept.bound, slices.Clone(l.kept.prices)
}

// LagrangianBound returns the Lagrangian bound and its prices, nil where time ends before there
// are any.
func LagrangianBound(clock *model.Clock, in *model.Instance) (bound float64, prices []float64) {
	root := new(subproblem)
	root.begin(clock, in)
	if clock.Ended {
		return in.Most, nil
	}
	l := newLagrangian(clock, in)
	if clock.Ended {
		return in.Most, nil
	}
	bound, prices = l.minimise(clock, root, math.Inf(-1))
	return min(bound, in.Most), prices
}

// netAt returns the most that the separable jobs have in a step net of the price of a node.
func netAt(curve *model.StepCurve, price float64) float64 {
	n := curve.Taken(price)
	nodes := curve.BaseNodes + curve.SumNodes[n]
	return curve.Scale*(curve.BaseGain+curve.SumGain[n]) - price*nodes
}

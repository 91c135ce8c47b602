package exact

import (
	"math"
	"slices"
)

// The Lagrangian bound: the pool bought at prices.
//
// For every lambda >= 0
//
//	L(lambda) = sum_t N_t lambda_t + sum_i phi_i(lambda)
//
// is at least the optimum, because only the pool's T capacity rows couple the jobs. Whoever
// names the prices, the bound is worked out here.

// lagrangian evaluates L, and remembers the prices that are worth it.
type lagrangian struct {
	in      *instance
	kinds   *kinds
	curves  []stepCurve
	pricer  pricer
	descent *descent
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
func newLagrangian(c *clock, in *instance) *lagrangian {
	l := &lagrangian{in: in, kinds: newKinds(c, in), pricer: pricer{maxLabels: in.effort.maxLabels}}
	l.curves = newStepCurves(c, in)
	l.descent = newDescent(c, in, l.kinds, l.curves)
	return l
}

// bound returns L(prices) over the subproblem entered last. Every kind is priced; plans that
// beat its columns become columns, and the number of jobs they are for is returned. The bound is
// -Inf if some job has no plan in the subproblem, and +Inf if time was up before it was
// known.
func (l *lagrangian) bound(c *clock, prices []float64) (bound float64, found int) {
	for t, price := range prices {
		net := netAt(&l.curves[t], price)
		bound += float64(l.in.capacity[t])*price + net
	}
	for n := range l.kinds.all {
		u := &l.kinds.all[n]
		j := &l.in.jobs[u.job]
		_, floor := l.kinds.bestColumn(u, prices)
		phi, chosen := l.pricer.price(c, j, prices, u.allowed, floor)
		if c.up(len(u.active) * l.in.steps) {
			return math.Inf(1), found
		}
		// A plan that is better by rounding only would be found again and again.
		if chosen != nil && phi > floor+l.in.precision/8 {
			found += int(u.count)
			l.kinds.add(u.class, j, chosen)
		}
		bound += u.count * phi
	}
	return bound, found
}

// Evaluate returns L(prices) over the subproblem entered last and the number of jobs that
// plans were found for.
func (l *lagrangian) Evaluate(c *clock, prices []float64) (bound float64, found int) {
	bound, found = l.bound(c, prices)
	l.last.note(prices, bound)
	return bound, found
}

// Keep makes the prices evaluated last the best.
func (l *lagrangian) Keep() { l.last, l.kept = l.kept, l.last }

// minimise lowers L over the subproblem, starting from its prices, and returns the best
// bound with its prices. It stops early when time is up or when the bound falls to enough.
func (l *lagrangian) minimise(c *clock, b *subproblem, enough float64) (bound float64, prices []float64) {
	l.kinds.enter(c, b.allowed)
	l.descent.minimise(c, l, start{prices: b.prices, temperature: b.temperature, trust: b.trust}, enough)
	return l.kept.bound, slices.Clone(l.kept.prices)
}

// lagrangianBound returns the Lagrangian bound and its prices, nil where time ends before there
// are any.
func lagrangianBound(c *clock, in *instance) (bound float64, prices []float64) {
	root := new(subproblem)
	root.begin(c, in)
	if c.ended {
		return in.most, nil
	}
	l := newLagrangian(c, in)
	if c.ended {
		return in.most, nil
	}
	bound, prices = l.minimise(c, root, math.Inf(-1))
	return min(bound, in.most), prices
}

// netAt returns the most that the separable jobs have in a step net of the price of a node.
func netAt(c *stepCurve, price float64) float64 {
	n := c.taken(price)
	nodes := c.baseNodes + c.sumNodes[n]
	return c.scale*(c.baseGain+c.sumGain[n]) - price*nodes
}

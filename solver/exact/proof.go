package exact

import (
	"fmt"
	"math"
)

// lemma names why a number is a bound. The package comment states each.
type lemma string

const (
	lemmaAlone      lemma = "every job alone"
	lemmaPrices     lemma = "node prices"
	lemmaCore       lemma = "core"
	lemmaSizePrices lemma = "size prices"
	lemmaNoColumn   lemma = "no column left"
	lemmaLeft       lemma = "columns left"
	lemmaBranch     lemma = "branch"
	lemmaSteps      lemma = "steps alone"
	lemmaGroups     lemma = "group prices"
	lemmaTables     lemma = "group tables"
)

// ulp is the relative rounding of one operation.
const ulp = 1.0 / (1 << 53)

// rounding is the most that arithmetic may put a bound below the truth, or a plan's value
// above it. It is added up here and nowhere else: a sum of n terms is off by at most
// n * ulp times the sum of their magnitudes. A bound has one term a job, each made of a
// few a step; with values the sum of |value| of the jobs in some legal plan, and priced
// that of price * nodes over steps and limits,
//
//	|bound| + 3 values + 4 priced
//
// bounds those magnitudes: what a job has at its best, net of prices, is no less than what
// it has in that plan, so that its negative part is part of values and priced.
func rounding(in *instance, bound, values, priced float64) float64 {
	terms := float64(len(in.jobs) + 4*in.steps + 16)
	return terms * ulp * (math.Abs(bound) + 3*values + 4*priced)
}

// priced is what the whole pool costs at node prices.
func priced(in *instance, prices []float64) float64 {
	sum := 0.0
	for t, price := range prices {
		sum += price * float64(in.capacity[t])
	}
	return sum
}

// prove lowers the bound of a subproblem to one that a lemma proves, of numbers that come
// to priced with the pool's prices. No bound is written anywhere else. One below a plan
// that the subproblem holds disproves the search.
func (s *search) prove(b *subproblem, bound, priced float64, by lemma) {
	if !(bound < b.bound) {
		return
	}
	b.bound, b.by = bound, by
	s.priced = max(s.priced, priced)
	if s.value-bound > s.slack() && s.holds(b, s.incumbent) {
		s.contradict(by, bound, s.value)
	}
	if w := s.witness; w != nil && w.value-bound > s.slack() && s.holds(b, w.plan) {
		s.contradict(by, bound, w.value)
	}
}

// slack is the difference of two values that rounding may make, and that between plans
// which the search does not tell apart.
func (s *search) slack() float64 {
	return rounding(s.in, s.value, s.values, s.priced) + s.in.precision
}

// solve closes a subproblem whose best plan was found, or that has none better than the
// incumbent, if nothing but rounding is left between the incumbent and its bound.
func (s *search) solve(b *subproblem) { b.solved = b.bound-s.value <= s.slack() }

// contradict notes a legal plan above a bound: of these two the plan is true.
func (s *search) contradict(by lemma, bound, value float64) {
	if s.contradiction == "" {
		s.contradiction = fmt.Sprintf("lemma %q bounds a plan of value %.17g by %.17g", by, value*s.in.unit, bound*s.in.unit)
	}
}

// refute notes that the incumbent is above the bound of all plans.
func (s *search) refute(bound float64) { s.contradict(s.root.by, bound, s.value) }

// holds reports whether a plan is one of the subproblem's. The root has all, whatever its
// restrictions say. In the others a finished job holds its smallest size: a plan in which it
// holds more is worth what that one is.
func (s *search) holds(b *subproblem, p plan) bool {
	if b == s.root {
		return true
	}
	for f, i := range s.in.finishing {
		j, share := &s.in.jobs[i], 0.0
		for t, allowed := range b.allowedFor(f, s.in.steps) {
			k := int(p[i][t])
			if share >= finished {
				k = 0
			}
			if !allowed.has(k) {
				return false
			}
			share += j.shares(t)[k]
		}
	}
	return true
}

// witness is a plan that tests know to be optimal: the lemma that cuts it off is the one
// that is false.
type witness struct {
	plan  plan
	value float64
}

// objectiveBound turns a bound on values in the search, with what rounding may have taken
// off it, into one on the objective, which exceeds a plan's value by its tie cost.
func objectiveBound(in *instance, bound, rounding float64) float64 {
	return (min(bound+in.tieTotal, in.most) + rounding) * in.unit
}

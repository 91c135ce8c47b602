package proof

import (
	"fmt"
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// lemma names why a number is a bound. The package comment of exact states each.
type lemma string

const (
	lemmaAlone      lemma = "every job alone"
	lemmaPrices     lemma = "node prices"
	lemmaCore       lemma = "core"
	lemmaSizePrices lemma = "size prices"
	lemmaSteps      lemma = "steps alone"
	lemmaStepwise   lemma = "step by step"
	lemmaGroups     lemma = "group prices"
	lemmaTables     lemma = "group tables"
)

// ulp is the relative rounding of one operation.
const ulp = 1.0 / (1 << 53)

// Rounding is the most that arithmetic may put a bound below the truth, or a plan's value
// above it. It is added up here and nowhere else: a sum of n terms is off by at most
// n * ulp times the sum of their magnitudes. A bound has one term a job, each made of a
// few a step; with values the sum of |value| of the jobs in some legal plan, and priced
// that of price * nodes over steps and limits,
//
//	|bound| + 3 values + 4 priced
//
// bounds those magnitudes: what a job has at its best, net of prices, is no less than what
// it has in that plan, so that its negative part is part of values and priced. Each term may
// have lost what was too small to calculate with besides.
func Rounding(in *model.Instance, bound, values, priced float64) float64 {
	terms := float64(len(in.Jobs) + 4*in.Steps + 16)
	return terms * (ulp*(math.Abs(bound)+3*values+4*priced) + model.Tiny)
}

// Priced is what the whole pool costs at node prices.
func Priced(in *model.Instance, prices []float64) float64 {
	sum := 0.0
	for t, price := range prices {
		sum += price * float64(in.Capacity[t])
	}
	return sum
}

// prove lowers the upper bound to one that a lemma proves. To priced comes what the pool costs
// at the lemma's prices, and the larger bound that losses were taken off. No bound is written
// anywhere else. One below a legal plan disproves the search.
func (s *Search) prove(bound, priced float64, by lemma) {
	s.priced = max(s.priced, priced) // What is found at these prices is off as well.
	if !(bound < s.upper) {
		return
	}
	s.upper, s.by = bound, by
	s.compare(s.Value)
	s.compare(s.witness)
}

// compare notes a contradiction if the value of a legal plan is above the upper bound.
func (s *Search) compare(value float64) {
	if value-s.upper > s.Slack() {
		s.contradict(s.by, s.upper, value)
	}
}

// Slack is the difference of two values that rounding may make, and that between plans
// which the search does not tell apart.
func (s *Search) Slack() float64 {
	return Rounding(s.in, s.Value, s.values, s.priced) + s.in.Precision
}

// solve notes that no plan is better than the incumbent, if nothing but rounding is left
// between the incumbent and the upper bound.
func (s *Search) solve() { s.solved = s.upper-s.Value <= s.Slack() }

// contradict notes a legal plan above a bound: of these two the plan is true.
func (s *Search) contradict(by lemma, bound, value float64) {
	if s.Contradiction == "" {
		s.Contradiction = fmt.Sprintf("lemma %q bounds a plan of value %.17g by %.17g", by, value*s.in.Unit, bound*s.in.Unit)
	}
}

// Refute notes that the incumbent is above the bound of all plans.
func (s *Search) Refute(bound float64) { s.contradict(s.by, bound, s.Value) }

// ObjectiveBound turns a bound on values in the search, with what rounding may have taken
// off it, into one on the objective, which exceeds a plan's value by its tie cost.
func ObjectiveBound(in *model.Instance, bound, rounding float64) float64 {
	return (min(bound+in.TieTotal, in.Most) + rounding) * in.Unit
}

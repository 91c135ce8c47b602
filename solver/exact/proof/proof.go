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
	lemmaBranch     lemma = "branch"
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

// prove lowers the bound of a subproblem to one that a lemma proves. To priced comes what
// the pool costs at the lemma's prices, and the larger bound that losses were taken off. No
// bound is written anywhere else. One below a plan
// that the subproblem holds disproves the search.
func (s *Search) prove(part *subproblem, bound, priced float64, by lemma) {
	s.priced = max(s.priced, priced) // What is found at these prices is off as well.
	if !(bound < part.bound) {
		return
	}
	part.bound, part.by = bound, by
	s.compare(part, s.Incumbent, s.Value)
	if w := s.witness; w != nil {
		s.compare(part, w.plan, w.value)
	}
}

// compare notes a contradiction if a plan is above the bound of a subproblem that holds it.
func (s *Search) compare(part *subproblem, p *model.Plan, value float64) {
	if value-part.bound > s.Slack() && s.holds(part, p) {
		s.contradict(part.by, part.bound, value)
	}
}

// Slack is the difference of two values that rounding may make, and that between plans
// which the search does not tell apart.
func (s *Search) Slack() float64 {
	return Rounding(s.in, s.Value, s.values, s.priced) + s.in.Precision
}

// solve closes a subproblem whose best plan was found, or that has none better than the
// incumbent, if nothing but rounding is left between the incumbent and its bound.
func (s *Search) solve(part *subproblem) { part.solved = part.bound-s.Value <= s.Slack() }

// contradict notes a legal plan above a bound: of these two the plan is true.
func (s *Search) contradict(by lemma, bound, value float64) {
	if s.Contradiction == "" {
		s.Contradiction = fmt.Sprintf("lemma %q bounds a plan of value %.17g by %.17g", by, value*s.in.Unit, bound*s.in.Unit)
	}
}

// Refute notes that the incumbent is above the bound of all plans.
func (s *Search) Refute(bound float64) { s.contradict(s.root.by, bound, s.Value) }

// holds reports whether a plan is one of the subproblem's. The root has all, whatever its
// restrictions say.
func (s *Search) holds(part *subproblem, p *model.Plan) bool {
	if part == s.root {
		return true
	}
	for f, i := range s.in.Finishing {
		for t, allowed := range part.allowedFor(f, s.in.Steps) {
			if !allowed.Has(int(p.Of(i)[t])) {
				return false
			}
		}
	}
	return true
}

// witness is a plan that tests know to be optimal: the lemma that cuts it off is the one
// that is false.
type witness struct {
	plan  *model.Plan
	value float64
}

// ObjectiveBound turns a bound on values in the search, with what rounding may have taken
// off it, into one on the objective, which exceeds a plan's value by its tie cost.
func ObjectiveBound(in *model.Instance, bound, rounding float64) float64 {
	return (min(bound+in.TieTotal, in.Most) + rounding) * in.Unit
}

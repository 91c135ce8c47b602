package horizon

import (
	"fmt"
	"math"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// lemma is the name of the lemma that proves a bound. The package comment of exact states the
// lemmas.
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

// ulp is the relative rounding error of one operation.
const ulp = 1.0 / (1 << 53)

// Rounding returns an upper bound on the rounding error of a bound and of the value of a plan. A
// sum of n terms has an error of at most n * ulp times the sum of their magnitudes. A bound has one
// term per job, and each term has a few operations per step. The sum of the magnitudes is at most
//
//	|bound| + 3 values + 4 cost,
//
// where values is the sum of |value| of the jobs in a legal plan, and cost is the cost of the
// pool. The reason is that the maximum of a job, net of prices, is at least its net value in that
// plan, so that values and cost bound its negative part. In addition, each term may have lost
// numbers below model.Tiny.
func Rounding(in *model.Instance, bound, values, cost float64) float64 {
	terms := float64(len(in.Jobs) + 4*in.Steps + 16)
	return terms * (ulp*(math.Abs(bound)+3*values+4*cost) + model.Tiny)
}

// PoolCost returns the cost of the whole pool at node prices.
func PoolCost(in *model.Instance, prices []float64) float64 {
	sum := 0.0
	for t, price := range prices {
		sum += price * float64(in.Capacity[t])
	}
	return sum
}

// prove lowers the upper bound to a bound that the lemma proves. Every bound passes through this
// method. The argument cost is the cost of the pool at the prices of the lemma, plus the magnitude
// of the bound from which losses were subtracted. If the value of a legal plan exceeds the bound,
// prove records a contradiction.
func (s *Search) prove(bound, cost float64, by lemma) {
	s.poolCost = max(s.poolCost, cost) // the rounding error also affects plans found at these prices
	if !(bound < s.upper) {
		return
	}
	s.upper, s.by = bound, by
	s.checkValue(s.Value)
	s.checkValue(s.witness)
}

// checkValue records a contradiction if the value of a legal plan exceeds the upper bound.
func (s *Search) checkValue(value float64) {
	if value-s.upper > s.Slack() {
		s.contradict(s.by, s.upper, value)
	}
}

// Slack returns the largest difference of two values that rounding or Instance.Precision may
// explain.
func (s *Search) Slack() float64 {
	return Rounding(s.in, s.Value, s.values, s.poolCost) + s.in.Precision
}

// markSolved records that the incumbent is optimal, if the gap is within Slack.
func (s *Search) markSolved() { s.solved = s.upper-s.Value <= s.Slack() }

// contradict records that the value of a legal plan exceeds a bound. The plan is correct then, and
// the bound is not.
func (s *Search) contradict(by lemma, bound, value float64) {
	if s.Contradiction == "" {
		s.Contradiction = fmt.Sprintf("lemma %q bounds a plan of value %.17g by %.17g", by, value*s.in.Unit, bound*s.in.Unit)
	}
}

// Refute records that the value of the incumbent exceeds the bound.
func (s *Search) Refute(bound float64) { s.contradict(s.by, bound, s.Value) }

// ObjectiveBound converts a bound of the search and its rounding error to a bound on the objective.
// The objective of a plan exceeds its value by the tie cost.
func ObjectiveBound(in *model.Instance, bound, rounding float64) float64 {
	return (min(bound+in.TieTotal, in.UpperBound) + rounding) * in.Unit
}

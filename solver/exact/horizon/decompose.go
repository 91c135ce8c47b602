package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/heuristics"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The stage of prices per size.
//
// While the bundle method minimizes the bound, rollouts and stepwise searches look for better plans
// at its prices. A last stepwise search at the best prices has a larger work limit. The bounds of
// this stage are often tighter than the bounds of core searches with tens of thousands of columns.

// A stepwise search starts each time the work of the bundle method has doubled, with a work limit of
// 1/stepwiseShare of that work. With 1 the sweeps of BenchmarkSizePrices (go test ./solver/exact -run
// '^$' -bench SizePrices -benchtime 1x) take 1.3 times the work, and with 16 BenchmarkHardEnd takes
// 2.2 times.
const stepwiseShare = 4

// searchSizePrices searches at prices per size, if one evaluation of their bound is affordable.
func (s *Search) searchSizePrices(clock *model.Clock, _ int) {
	sizes := newSizePrices(clock, s.in)
	s.sizes = sizes
	if sizes.work() > s.in.Effort.MaxEvaluationWork {
		return
	}
	bundle := heuristics.NewBundle(sizes.SizeIndex)
	bundle.AddColumns(s.lagrangian.classes, s.Prices)
	x, began, next := sizes.At(s.Prices), clock.Work, 0
	sizes.kept.set(x, math.Inf(1))
	bundle.Minimize(clock, sizes, x, clock.Work+s.in.Effort.SizePricesWork, func(x []float64) (*model.Plan, float64, bool) {
		if x != nil && !s.closed() {
			s.Offer(clock, s.rollout.PlanAt(clock, sizes.CostAt(x)))
			if work := clock.Work - began; work > next {
				s.searchStepwise(clock, x, clock.Work+work/stepwiseShare)
				next = 2 * (clock.Work - began)
			}
		}
		return s.Incumbent, s.Value, s.closed() && !s.certify
	})
	s.bestSizePrices = slices.Clone(sizes.kept.prices)
	s.prove(sizes.kept.bound, PoolCost(s.in, s.Prices), lemmaSizePrices)
	if !s.done() {
		s.searchStepwise(clock, s.bestSizePrices, clock.Work+s.in.Effort.SizePricesWork)
	}
}

// searchStepwise runs stepwise searches at the prices x, from a narrow beam to a wide one. It does
// nothing if the tables would be too large. It stops if the count of work reaches until.
func (s *Search) searchStepwise(clock *model.Clock, x []float64, until int) {
	s.sizes.set(x, fineCells)
	q := newStepwise(clock, s.sizes)
	if q == nil {
		return
	}
	for width := s.in.Effort.FirstStates; width <= s.in.Effort.LastStates && !s.closed(); width *= 8 {
		best, bound, ok := q.run(clock, width, s.Value, until)
		if !ok {
			break
		}
		s.Offer(clock, best)
		s.prove(bound, PoolCost(s.in, s.Prices), lemmaStepwise)
		s.markSolved()
	}
}

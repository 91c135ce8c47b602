package proof

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

const (
	// sizeWorkFactor and stepwiseWorkFactor are the work limits of the bundle method and of the
	// last stepwise search, as multiples of the work limit of the core searches before, in addition
	// to Effort.SizePricesWork. No benchmark chose them; they trade time for proofs of hard problems.
	// BenchmarkSizePrices (go test ./solver/exact -run '^$' -bench SizePrices -benchtime 1x) would
	// show a change.
	sizeWorkFactor     = 8
	stepwiseWorkFactor = 4
	// A stepwise search starts each time the work of the bundle method has doubled, with a work
	// limit of 1/stepwiseShare of that work. BenchmarkSizePrices and BenchmarkAgainstHiGHS
	// would show a change.
	stepwiseShare = 4
)

// searchSizePrices searches at prices per size, if one evaluation of their bound is affordable.
func (s *Search) searchSizePrices(clock *model.Clock, _ int) {
	sizes := newSizePrices(clock, s.in)
	s.sizes = sizes
	if sizes.work() > s.in.Effort.MaxEvaluationWork {
		return
	}
	n := min(sizes.PriceCount, s.in.Effort.MaxDenseRows)
	before := s.in.Effort.FirstCoreWork + 20*n*n*n + 20*sizes.work()
	until := clock.Work + s.in.Effort.SizePricesWork + sizeWorkFactor*before
	bundle := heuristics.NewBundle(sizes.SizeIndex)
	bundle.AddColumns(s.lagrangian.classes, s.Prices)
	x, began, next := sizes.At(s.Prices), clock.Work, 0
	sizes.kept.set(x, math.Inf(1))
	bundle.Minimize(clock, sizes, x, until, func(x []float64) (*model.Plan, float64, bool) {
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
		s.searchStepwise(clock, s.bestSizePrices, clock.Work+s.in.Effort.SizePricesWork+stepwiseWorkFactor*before)
	}
}

// searchSteps runs stepwise searches at the prices x, from a narrow beam to a wide one. It does
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

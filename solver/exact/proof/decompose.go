package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/guess"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// The instance at prices per size.
//
// On the way to the best prices there are plans to be found, by rollouts and by searches step by
// step; at the best ones a last search step by step has more work. The bounds that they
// prove are often closer than what tens of thousands of columns lose at node prices.

const (
	// bundleWork and leftWork are how many times the work that core searches had before
	// goes into the prices per size, and into searching what is left at them, each
	// besides Effort.SizesWork.
	bundleWork = 8
	leftWork   = 4
	// tieWork is the work spent on a better one among equals.
	tieWork = 2_000_000
	// Whenever the work on prices has doubled, a stepwiseShare-th of it goes into a search step by
	// step. A wider one follows where the last left no more than widerGain of the gap of the one before.
	stepwiseShare = 4
	widerGain     = 0.75
)

// searchSizePrices searches at prices per size, if there are not too many of them.
func (s *Search) searchSizePrices(clock *model.Clock, _ int) {
	sizes := newSizePrices(clock, s.in)
	s.sizes = sizes
	if sizes.work() > s.in.Effort.BundleWork {
		return
	}
	n := min(sizes.Prices, s.in.Effort.DenseRows)
	before := s.in.Effort.EasyWork + 20*n*n*n + 20*sizes.work()
	until := clock.Work + s.in.Effort.SizesWork + bundleWork*before
	bundle := guess.NewBundle(sizes.SizeIndex)
	bundle.AddColumns(s.lagrangian.classes, s.Prices)
	x, began, next := sizes.At(s.Prices), clock.Work, 0
	sizes.kept.note(x, math.Inf(1))
	bundle.Minimise(clock, sizes, x, until, func(x []float64) (*model.Plan, float64, bool) {
		if x != nil && !s.closed() {
			s.Offer(clock, s.rollout.PlanAt(clock, sizes.CostAt(x)))
			if work := clock.Work - began; work > next {
				s.searchSteps(clock, x, clock.Work+work/stepwiseShare)
				next = 2 * (clock.Work - began)
			}
		}
		return s.Incumbent, s.Value, s.closed() && !s.certify
	})
	s.sizesAt = slices.Clone(sizes.kept.prices)
	s.prove(sizes.kept.bound, Priced(s.in, s.Prices), lemmaSizePrices)
	if s.closed() || problem.RelativeGap(s.Value, s.upper) <= model.TiesOnly {
		return
	}
	work := s.in.Effort.SizesWork + leftWork*before
	if s.settled() {
		work = min(work, tieWork)
	}
	s.searchSteps(clock, s.sizesAt, clock.Work+work)
}

// searchSteps searches step by step at prices per size, from narrow to
// wide, if it is small enough for that. It ends where the clock's work reaches until.
func (s *Search) searchSteps(clock *model.Clock, x []float64, until int) {
	s.sizes.set(x, lastCells)
	q := newStepwise(clock, s.sizes)
	if q == nil {
		return
	}
	for width, last := s.in.Effort.FirstStates, math.Inf(1); width <= s.in.Effort.LastStates && !s.closed(); width *= 8 {
		best, most, ok := q.run(clock, width, s.Value, until)
		if !ok {
			break
		}
		s.Offer(clock, best)
		s.prove(most, Priced(s.in, s.Prices), lemmaStepwise)
		s.solve()
		if most-s.Value > widerGain*last {
			break
		}
		last = most - s.Value
	}
}

// settled reports whether all that the search can still bring is a better one among equals,
// which is looked for with little work.
func (s *Search) settled() bool {
	return problem.RelativeGap(s.Value, s.upper) <= provenGap
}

package proof

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/guess"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// What is left of the root at the best prices per size.
//
// There a plan that loses as much as the bound exceeds the incumbent is in no better
// solution, as in fixing.go, but far fewer plans lose less: often few dozens where
// prices per node leave tens of thousands. They go into the core search with the
// losses that they have at the prices per node.

const (
	// bundleWork and leftWork are how many times the work that core searches had before
	// goes into the prices per size, and into searching what is left at them, each
	// besides Effort.SizesWork.
	bundleWork = 8
	leftWork   = 4
	// tieWork is the work spent on a better one among equals: thousands of subproblems may
	// hardly differ.
	tieWork = 2_000_000
	// A stepwiseShare-th of the work on prices goes into searches step by step on the way. A wider
	// one follows where the last left no more than widerGain of the gap of the one before.
	stepwiseShare = 4
	widerGain     = 0.75
	// manyPrices is the number of prices per size beyond which core searches are given more
	// work before, its cube.
	manyPrices = 500
	// longHorizon is the number of steps beyond which prices per size come first, unless they
	// are many.
	longHorizon = 12
)

// decompose searches the root at prices per size, once and if there are not too many of
// them.
func (s *Search) decompose(clock *model.Clock, part *subproblem, atNodes float64) {
	if !s.decomposable {
		return
	}
	s.decomposable = false
	sizes := s.atSizes(clock)
	if sizes.work() > s.in.Effort.BundleWork {
		return
	}
	n := min(sizes.Prices, s.in.Effort.DenseRows)
	before := s.in.Effort.EasyWork + 20*n*n*n + 20*sizes.work()
	until := clock.Work + s.in.Effort.SizesWork + bundleWork*before
	bundle := guess.NewBundle(sizes.SizeIndex)
	bundle.AddColumns(s.lagrangian.kinds, part.Prices)
	x, tried := sizes.At(part.Prices), clock.Work
	sizes.kept.note(x, math.Inf(1))
	bundle.Minimise(clock, sizes, x, until, func(x []float64) (*model.Plan, float64, bool) {
		if x != nil && !s.closed(part) {
			s.Offer(clock, s.rollout.PlanAt(clock, sizes.CostAt(x)))
			s.searchSteps(clock, part, x, clock.Work+(clock.Work-tried)/stepwiseShare)
			tried = clock.Work
		}
		return s.Incumbent, s.Value, s.closed(part) && !s.certify
	})
	atSizes, x := sizes.kept.bound, slices.Clone(sizes.kept.prices)
	s.sizesAt = x
	s.prove(part, atSizes, Priced(s.in, part.Prices), lemmaSizePrices)
	if s.closed(part) || solver.RelativeGap(s.Value, part.bound) <= model.TiesOnly {
		return
	}
	work := s.in.Effort.SizesWork + leftWork*before
	if s.settled(part) {
		work = min(work, tieWork)
	}
	few := s.searchSteps(clock, part, x, clock.Work+work)
	if !s.closed(part) && !clock.Ended && (!few || !s.settled(part)) {
		s.searchLeft(clock, part, atNodes, sizes, atSizes, clock.Work+work)
	}
}

// searchSteps searches the root step by step at prices per size, from narrow to wide, and
// reports whether it is small enough for that. It ends where the clock's work reaches until.
func (s *Search) searchSteps(clock *model.Clock, part *subproblem, x []float64, until int) bool {
	s.sizes.set(x, lastCells)
	q := newStepwise(clock, s.sizes)
	if q == nil {
		return false
	}
	for width, last := firstStates, math.Inf(1); width <= lastStates && !s.closed(part); width *= 8 {
		best, most, ok := q.run(clock, width, s.Value, until)
		if !ok {
			break
		}
		s.Offer(clock, best)
		s.prove(part, most, Priced(s.in, part.Prices), lemmaStepwise)
		s.solve(part)
		if most-s.Value > widerGain*last {
			break
		}
		last = most - s.Value
	}
	return true
}

// atSizes returns the decomposition.
func (s *Search) atSizes(clock *model.Clock) *sizePrices {
	if s.sizes == nil {
		s.sizes = newSizePrices(clock, s.in)
	}
	return s.sizes
}

// searchLeft searches the columns of the root that lose little at the prices per size set,
// where the bound is atSizes, from cheap to thorough; atNodes is that at the prices of the
// subproblem. It ends where the clock's work reaches until. Where the columns together lose a
// share of the gap, so does every better solution.
func (s *Search) searchLeft(
	clock *model.Clock, part *subproblem, atNodes float64, sizes *sizePrices, atSizes float64, until int,
) {
	width := s.in.Effort.LeftWidths[:]
	for lossLimit := firstFraction * (atSizes - s.Value); ; lossLimit *= 4 {
		whole := lossLimit >= atSizes-s.Value
		lossLimit = min(lossLimit, atSizes-s.Value)
		lists, fixed, found := s.left(clock, part, sizes, lossLimit, until)
		switch found {
		case tooMany:
			return
		case noColumn:
			// A plan of the root holds one of the class, all of which lose the limit.
			s.prove(part, atSizes-lossLimit, Priced(s.in, part.Prices)+math.Abs(atSizes), lemmaNoColumn)
			if whole || s.closed(part) {
				return
			}
			continue
		}
		core := newCoreSearchOver(clock, s.in, part.Prices, lists, atNodes-fixed-atSizes+lossLimit, s.startAt(part, sizes), until, s.memory)
		if core == nil {
			return
		}
		loss := core.run(clock, width[0])
		for len(width) > 1 && core.dropped < min(core.lossLimit, core.best) && !core.gaveUp && !clock.Ended {
			width = width[1:]
			loss = core.run(clock, width[0])
		}
		better := !math.IsInf(core.best, 1)
		if better {
			s.Offer(clock, core.solution())
		}
		s.prove(part, atNodes-fixed-loss, Priced(s.in, part.Prices)+math.Abs(atNodes)+math.Abs(atSizes), lemmaLeft)
		switch {
		case clock.Ended || core.gaveUp || loss < min(core.lossLimit, core.best):
			return // more than the beam holds
		case better || whole:
			s.solve(part)
			return
		}
	}
}

// startAt returns how prices per size split the losses at the prices of a subproblem.
func (s *Search) startAt(part *subproblem, sizes *sizePrices) func(i, t, k int) float64 {
	cost := sizes.CostAt(sizes.x)
	classes := make([]int, len(s.in.Jobs))
	for f, i := range s.in.Finishing {
		classes[i] = sizes.ClassOf[f]
	}
	return func(i, t, k int) float64 {
		return part.Prices[t]*float64(s.in.Jobs[i].Sizes[k]-s.in.Jobs[i].Sizes[0]) - cost(classes[i], t, k)
	}
}

// settled reports whether all that a subproblem can still bring is a better one among
// equals, which is looked for with little work.
func (s *Search) settled(part *subproblem) bool {
	return solver.RelativeGap(s.Value, part.bound) <= provenGap
}

// listing is how listing columns ended.
type listing uint8

const (
	listed   listing = iota
	tooMany          // or time or work was up
	noColumn         // a class has none that loses less than the limit
)

// left lists the columns of each finishing job that lose less than lossLimit at the prices per
// size set, with their losses at the prices of the subproblem less the smallest of the job,
// and the sum of those smallest. It ends where the clock's work reaches until.
func (s *Search) left(clock *model.Clock, part *subproblem, sizes *sizePrices, lossLimit float64, until int) (lists [][]column, fixed float64, found listing) {
	byClass := make([][]column, len(sizes.Jobs))
	lists = make([][]column, len(s.in.Finishing))
	total := 0
	for f, i := range s.in.Finishing {
		class := sizes.ClassOf[f]
		if byClass[class] == nil {
			columns, ok := sizes.list(clock, class, lossLimit, max(s.in.Effort.MaxColumns, mostColumns(s.in)/len(s.in.Finishing)), until)
			if !ok {
				return nil, 0, tooMany
			}
			if len(columns) == 0 {
				return nil, 0, noColumn
			}
			s.loseAt(part.Prices, &s.in.Jobs[i], f, columns)
			byClass[class] = columns
		}
		if total += len(byClass[class]); total > mostColumns(s.in) {
			return nil, 0, tooMany
		}
		lists[f] = slices.Clone(byClass[class])
		least := lists[f][0].loss
		fixed += least
		for n := range lists[f] {
			lists[f][n].loss -= least
		}
	}
	return lists, fixed, listed
}

// loseAt sets the losses of columns of the f-th finishing job to those at node prices,
// and sorts by them.
func (s *Search) loseAt(prices []float64, j *model.Job, f int, columns []column) {
	_, phi := s.lagrangian.kinds.BestColumn(s.lagrangian.kinds.Kind(f), prices)
	for n := range columns {
		net := j.Value(columns[n].chosen)
		for t, k := range columns[n].chosen {
			net -= prices[t] * float64(j.Sizes[k])
		}
		columns[n].loss = max(0, phi-net)
	}
	slices.SortFunc(columns, func(a, b column) int {
		return cmp.Or(cmp.Compare(a.loss, b.loss), slices.Compare(a.chosen, b.chosen))
	})
}

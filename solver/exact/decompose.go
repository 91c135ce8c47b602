package exact

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
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
	// besides effort.sizesWork.
	bundleWork = 8
	leftWork   = 4
	// tieWork is the work spent on a better one among equals.
	tieWork = 5_000_000
)

// decompose searches the root at prices per size, once and if there are not too many of
// them, with a multiple of the work that was spent before. It returns false if it did not.
func (s *search) decompose(c *clock, b *subproblem, bound float64, before int) bool {
	if s.decomposable && before == 0 {
		before = s.workBeforeDecomposing(c)
	}
	if !s.decomposable || b.order != 0 {
		return false
	}
	s.decomposable = false
	sizes := s.sizes
	until := c.work + s.in.effort.sizesWork + bundleWork*before
	bundle := newBundle(sizes.sizeIndex)
	bundle.addColumns(s.lagrangian.kinds, b.prices)
	x := sizes.at(b.prices)
	sizes.kept.note(x, math.Inf(1))
	bundle.minimise(c, sizes, x, until, func(x []float64) (plan, float64) {
		if x != nil {
			s.offer(c, s.rollout.planAt(c, sizes.costAt(x)))
		}
		return s.incumbent, s.value
	})
	least, x := sizes.kept.bound, slices.Clone(sizes.kept.prices)
	s.sizesAt = x
	s.prove(b, least, priced(s.in, b.prices), lemmaSizePrices)
	if s.closed(b) || c.ended {
		return true
	}
	s.searchLeft(c, b, bound, sizes, x, least, c.work+s.in.effort.sizesWork+leftWork*before)
	return true
}

// searchLeft searches the columns of the root that lose little at prices per size x,
// where the bound is least, from cheap to thorough; bound is that at the prices of the
// subproblem. It ends where the clock's work reaches until. Where the columns lose a share of
// what there is to lose together, so does every better solution.
func (s *search) searchLeft(
	c *clock, b *subproblem, bound float64, sizes *sizePrices, x []float64, least float64, until int,
) {
	if s.settled(b) {
		until = min(until, c.work+tieWork)
	}
	width := s.in.effort.leftWidths[:]
	for limit := firstFraction * (least - s.value); ; limit *= 2 {
		whole := limit >= least-s.value
		limit = min(limit, least-s.value)
		lists, fixed, found := s.left(c, b, sizes, x, limit)
		switch {
		case found == tooMany:
			return
		case found == noColumn:
			// A plan of the root holds one of the class, all of which lose the limit.
			s.prove(b, least-limit, priced(s.in, b.prices), lemmaNoColumn)
			if whole || s.closed(b) {
				return
			}
			continue
		}
		core := newCoreSearchOver(c, s.in, b.prices, lists, bound-fixed-least+limit, s.startAt(b, sizes, x), until)
		if core == nil {
			return
		}
		loss := core.run(c, width[0])
		for len(width) > 1 && core.dropped < min(core.limit, core.best) && !core.gaveUp && !c.ended {
			width = width[1:]
			loss = core.run(c, width[0])
		}
		better := !math.IsInf(core.best, 1)
		if better {
			s.offer(c, core.solution())
		}
		s.prove(b, bound-fixed-loss, priced(s.in, b.prices), lemmaLeft)
		switch {
		case c.ended || core.gaveUp || loss < min(core.limit, core.best):
			return // more than the beam holds
		case better || whole:
			s.solve(b)
			return
		}
	}
}

// startAt returns how prices per size split the losses at the prices of a subproblem.
func (s *search) startAt(b *subproblem, sizes *sizePrices, x []float64) func(i, t, k int) float64 {
	cost := sizes.costAt(x)
	classes := make([]int, len(s.in.jobs))
	for f, i := range s.in.finishing {
		classes[i] = sizes.classOf[f]
	}
	return func(i, t, k int) float64 {
		return b.prices[t]*float64(s.in.jobs[i].sizes[k]-s.in.jobs[i].sizes[0]) - cost(classes[i], t, k)
	}
}

// settled reports whether all that a subproblem can still bring is a better one among
// equals.
func (s *search) settled(b *subproblem) bool { return solver.RelativeGap(s.value, b.bound) <= tiesOnly }

// listing is how listing columns ended.
type listing uint8

const (
	listed   listing = iota
	tooMany          // or time was up
	noColumn         // a class has none that loses less than the limit
)

// left lists the columns of each finishing job that lose less than limit at prices per
// size, with their losses at the prices of the subproblem less the smallest of the job,
// and the sum of those smallest.
func (s *search) left(c *clock, b *subproblem, sizes *sizePrices, x []float64, limit float64) (lists [][]column, fixed float64, found listing) {
	byClass := make([][]column, len(sizes.jobs))
	lists = make([][]column, len(s.in.finishing))
	total := 0
	for f, i := range s.in.finishing {
		class := sizes.classOf[f]
		if byClass[class] == nil {
			columns, ok := sizes.list(c, class, x, limit, max(maxColumnsPerJob, maxColumns/len(s.in.finishing)))
			if !ok {
				return nil, 0, tooMany
			}
			if len(columns) == 0 {
				return nil, 0, noColumn
			}
			s.loseAt(b.prices, &s.in.jobs[i], f, columns)
			byClass[class] = columns
		}
		if total += len(byClass[class]); total > maxColumns {
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
func (s *search) loseAt(prices []float64, j *job, f int, columns []column) {
	_, phi := s.lagrangian.kinds.bestColumn(s.lagrangian.kinds.kind(f), prices)
	for n := range columns {
		net := j.value(columns[n].chosen)
		for t, k := range columns[n].chosen {
			net -= prices[t] * float64(j.sizes[k])
		}
		columns[n].loss = max(0, phi-net)
	}
	slices.SortFunc(columns, func(a, b column) int {
		return cmp.Or(cmp.Compare(a.loss, b.loss), slices.Compare(a.chosen, b.chosen))
	})
}

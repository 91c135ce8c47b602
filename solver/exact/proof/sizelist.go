package proof

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The columns of a class that lose little at prices per size.

// list returns the plans of a class that lose less than lossLimit at the prices set, of
// those that hold the smallest size once they have finished. It returns false if there
// are more than remaining, if time is up, or if the clock's work reaches until.
func (s *sizePrices) list(clock *model.Clock, class int, lossLimit float64, remaining, until int) ([]column, bool) {
	phi, _, ok := s.job(clock, class) // which fills costs and toGo
	if !ok {
		return nil, false
	}
	l := lister{
		clock: clock, sizes: s, toGo: &s.toGo[s.ShapeOf[class]], j: &s.In.Jobs[s.Jobs[class]], fits: s.Sizes[s.ShapeOf[class]],
		least: phi - lossLimit, until: until, remaining: remaining, visits: visitsPerColumn * remaining,
		chosen: make([]uint8, s.In.Steps),
	}
	l.extend(0, 0, 0)
	return l.found, l.remaining >= 0 && l.visits >= 0 && !clock.Ended && !clock.Past(until)
}

// lister lists plans at the costs of sizes.
type lister struct {
	clock             *model.Clock
	sizes             *sizePrices
	toGo              *valueToGo
	j                 *model.Job
	fits              []int
	least             float64
	until             int
	remaining, visits int
	chosen            []uint8
	found             []column
}

// extend lists the plans that begin with the first t sizes chosen, which serve share and
// have value.
func (l *lister) extend(t int, share, value float64) {
	if l.visits--; l.remaining < 0 || l.visits < 0 || l.clock.Up(2*len(l.j.Sizes)) || l.clock.Past(l.until) {
		return
	}
	if t == len(l.fits) {
		l.emit(value)
		return
	}
	shares := l.j.Shares(t)
	for k := range l.fits[t] {
		l.chosen[t] = uint8(k)
		net, after := value-l.sizes.costs[t*l.sizes.Stride+k], share+shares[k]
		if after >= model.Finished {
			clear(l.chosen[t+1:])
			l.emit(net + l.j.Tail[t])
			continue
		}
		if net += l.j.Gain[t] * after; net+l.toGo.most(t+1, after) > l.least {
			l.extend(t+1, after, net)
		}
	}
}

// emit lists the plan in chosen if it loses less than the limit.
func (l *lister) emit(value float64) {
	if value <= l.least {
		return
	}
	if l.remaining--; l.remaining >= 0 {
		l.found = append(l.found, column{chosen: slices.Clone(l.chosen)})
	}
}

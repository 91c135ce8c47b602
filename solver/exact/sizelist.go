package exact

import "slices"

// The columns of a class that lose little at prices per size.

// list returns the plans of a class that lose less than limit at prices per size, of
// those that hold the smallest size once they have finished. It returns false if there
// are more than remaining, or if time is up.
func (s *sizePrices) list(c *clock, class int, x []float64, limit float64, remaining int) ([]column, bool) {
	s.set(x)
	phi, _, ok := s.job(c, class) // which fills costs and the table
	if !ok {
		return nil, false
	}
	l := lister{
		clock: c, sizes: s, table: &s.tables[s.shapeOf[class]], j: &s.in.jobs[s.jobs[class]], fits: s.sizes[s.shapeOf[class]],
		least: phi - limit, remaining: remaining, visits: visitsPerColumn * remaining,
		chosen: make([]uint8, s.in.steps),
	}
	l.extend(0, 0, 0)
	return l.found, l.remaining >= 0 && l.visits >= 0 && !c.ended
}

// lister lists plans at the costs of sizes.
type lister struct {
	clock             *clock
	sizes             *sizePrices
	table             *followTable
	j                 *job
	fits              []int
	least             float64
	remaining, visits int
	chosen            []uint8
	found             []column
}

// extend lists the plans that begin with the first t sizes chosen, which serve share and
// have value.
func (l *lister) extend(t int, share, value float64) {
	if l.visits--; l.remaining < 0 || l.visits < 0 || l.clock.up(2*len(l.j.sizes)) {
		return
	}
	if t == len(l.fits) {
		l.emit(value)
		return
	}
	shares := l.j.shares(t)
	for k := range l.fits[t] {
		l.chosen[t] = uint8(k)
		net, after := value-l.sizes.costs[t*l.sizes.stride+k], share+shares[k]
		if after >= finished {
			clear(l.chosen[t+1:])
			l.emit(net + l.j.tail[t])
			continue
		}
		if net += l.j.gain[t] * after; net+l.table.most(t+1, after) > l.least {
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

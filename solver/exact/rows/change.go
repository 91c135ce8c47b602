package rows

import (
	"cmp"
	"math"
	"slices"
)

// Changes of choices of a problem with groups.

// layout is a choice and the nodes that it leaves free.
type layout struct {
	*search
	choice, left []int
}

func (s *search) newLayout(choice []int) *layout {
	return &layout{search: s, choice: slices.Clone(choice), left: s.free(choice)}
}

// change sets the option of a job.
func (l *layout) change(i, n int) {
	l.spend(l.left, i, &l.Jobs[i][l.choice[i]].Allocation, -1)
	l.spend(l.left, i, &l.Jobs[i][n].Allocation, 1)
	l.choice[i] = n
}

// gain returns the change of the value by an option of a job, with the cost of nodes below floors.
func (l *layout) gain(i, n int) float64 {
	now, o := &l.Jobs[i][l.choice[i]], &l.Jobs[i][n]
	by := o.Value - now.Value
	for _, m := range l.windowsOfJob(i) {
		if w := &l.windows.windows[m]; w.floor > 0 {
			short := w.floor - w.limit + l.left[len(l.Capacity)+m]
			by += l.QuotaPrice * float64(max(0, short)-max(0, short-int(o.Nodes-now.Nodes)))
		}
	}
	return by
}

// fits reports whether an option of a job fits into all rows and windows in which it counts.
func (l *layout) fits(i, n int) bool {
	now, o := &l.Jobs[i][l.choice[i]].Allocation, &l.Jobs[i][n].Allocation
	if o.Nodes == 0 {
		return true
	}
	for row := l.first(o); row <= int(o.Row); row++ {
		if o.upTo(row) > l.left[row]+l.nodesIn(now, row) {
			return false
		}
	}
	for _, m := range l.windowsOfJob(i) {
		w := &l.windows.windows[m]
		if more := w.nodesOf(o) - w.nodesOf(now); more > 0 && more > l.left[len(l.Capacity)+m] {
			return false
		}
	}
	return true
}

// exceeds reports whether a row or window in which a job counts is exceeded.
func (l *layout) exceeds(i int) bool {
	now := &l.Jobs[i][l.choice[i]].Allocation
	if now.Nodes == 0 {
		return false
	}
	for row := l.first(now); row <= int(now.Row); row++ {
		if l.left[row] < 0 {
			return true
		}
	}
	return slices.ContainsFunc(l.windowsOfJob(i), func(m int) bool {
		return l.windows.windows[m].nodesOf(now) > 0 && l.left[len(l.Capacity)+m] < 0
	})
}

// maxRounds limits how often all jobs are tried. Further rounds rarely find a better choice.
const maxRounds = 4

// improveGroups makes a choice legal, with the options that lose least at the prices of r, if it is not nil. Then it
// raises the value job by job, and offers the result.
func (s *search) improveGroups(choice []int, r *relaxation) {
	l := s.newLayout(choice)
	if r != nil {
		for _, o := range r.others {
			i := int(o.job)
			if s.Jobs[i][o.option].Nodes <= s.Jobs[i][l.choice[i]].Nodes && l.exceeds(i) {
				l.change(i, int(o.option))
			}
		}
	}
	for range maxRounds {
		changed := false
		for i, options := range s.Jobs {
			if s.clock.Add(8 * len(options)) {
				return
			}
			best, most := l.choice[i], 0.0
			for n := range options {
				if by := l.gain(i, n); by > most && l.fits(i, n) {
					best, most = n, by
				}
			}
			if best != l.choice[i] {
				l.change(i, best)
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	s.offer(l.choice)
}

const (
	// pairMoves is the number of changes of one job that improvePairs combines, and pairRounds limits how often.
	pairMoves  = 700
	pairRounds = 40
)

// improvePairs improves the incumbent by changes of one or two jobs.
func (s *search) improvePairs(r *relaxation) {
	l := s.newLayout(s.choice)
	least := 1e-9 * math.Abs(s.value.high) // Smaller gains do not count, because of rounding errors.
	for range pairRounds {
		if !l.improveOnce(s.smallMoves(r, l.choice), least) || s.clock.Expired {
			break
		}
	}
	s.offer(l.choice)
}

// smallMoves returns the options with the smallest losses at the prices compared with a choice.
func (s *search) smallMoves(r *relaxation, choice []int) []losing {
	var moves []losing
	for i, options := range s.Jobs {
		unit, now := s.unitOf(r.units, i), &options[choice[i]]
		net := now.Value - now.cost(unit)
		for n := range options {
			if o := &options[n]; n != choice[i] {
				moves = append(moves, losing{job: int32(i), option: int32(n), loss: net - o.Value + o.cost(unit)})
			}
		}
	}
	s.clock.Add(4 * len(moves))
	slices.SortFunc(moves, func(a, b losing) int { return cmp.Compare(a.loss, b.loss) })
	return moves[:min(len(moves), pairMoves)]
}

// improveOnce tries each move, alone and together with each other one. It keeps those that gain more than least, and
// reports whether there was one.
func (l *layout) improveOnce(moves []losing, least float64) (improved bool) {
	for _, m := range moves {
		i, before := int(m.job), l.choice[m.job]
		if before == int(m.option) {
			continue
		}
		first := l.gain(i, int(m.option))
		l.change(i, int(m.option))
		if first > least && !l.exceeds(i) {
			improved = true
			continue
		}
		if l.clock.Add(8 * len(moves)) {
			l.change(i, before)
			return improved
		}
		if l.improveWith(i, first, moves, least) {
			improved = true
		} else {
			l.change(i, before)
		}
	}
	return improved
}

// improveWith changes a second job, so that the gain with the first is more than least and no row is exceeded. It
// reports whether it did.
func (l *layout) improveWith(first int, gained float64, moves []losing, least float64) bool {
	for _, m := range moves {
		i, n := int(m.job), int(m.option)
		if i == first || n == l.choice[i] || gained+l.gain(i, n) <= least || !l.fits(i, n) {
			continue
		}
		before := l.choice[i]
		l.change(i, n)
		if !l.exceeds(i) && !l.exceeds(first) {
			return true
		}
		l.change(i, before)
	}
	return false
}

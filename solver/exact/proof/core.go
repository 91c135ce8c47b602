package proof

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The core: the search over what survives.
//
// In terms of losses the problem at prices lambda reads: choose a column
// per finishing job so that
//
//	sum of their losses + sum_t D_t(free_t - extra_t)
//
// is least, where extra_t is what the chosen plans hold in step t beyond the best
// plans, free_t what the pool has there beyond the best plans of all jobs, and D_t the
// step tables. It is solved by dynamic programming over the jobs with the vector
// of excess nodes as state, a beam of bounded width, and the look-ahead as bound.
// What the beam drops is remembered by its bound, so that the outcome is exact
// either way: a least loss, or a least loss with a lower bound on it. (Core:
// Pisinger, "A minimal algorithm for the multiple-choice knapsack problem" (1995).)

// coreJob is a finishing job with more than one column.
type coreJob struct {
	job   int
	plans []column
}

// coreSearch searches an instance at given prices.
type coreSearch struct {
	in        *model.Instance
	prices    []float64
	base      *model.Plan // every job's best plan at the prices
	free      []int
	jobs      []coreJob
	tables    []*stepTable
	ahead     *lookAhead
	lossLimit float64 // loss that a solution must stay below
	memory    *Memory

	// until is the clock's count of work at which the search stops, 0 for never.
	until int

	now, next  beam
	trail      []link
	best       float64 // least loss found
	bestLink   int32
	bestExcess []int32
	dropped    float64 // least bound of what the beam dropped
}

// Memory is what a search works in, which the next one uses again.
type Memory struct {
	Instance model.Memory
	knapsack knapsack
	ahead    []float64 // of the rollout
	// Those of the core search.
	columns               enumerator
	options               []option
	tables, after, before cellMemory
}

// link is a choice on the way to a state.
type link struct {
	parent int32
	plan   int32
}

// mostColumns, mostCells (the numbers in all step tables and in the look-ahead) and maxLinks bound
// one search and its memory; beyond them it is given up for a smaller lossLimit, beyond maxLinks
// where it stands. Beside many jobs, which take memory of their own, it may be larger.
func mostColumns(in *model.Instance) int { return 50_000 + len(in.Jobs) }
func mostCells(in *model.Instance) int   { return 1_000_000 + 20*len(in.Jobs) }

const maxLinks = 1_000_000

// newCoreSearch prepares the search for solutions that lose less than lossLimit. It returns
// nil if there is too much to search, or if the clock's work reaches until, 0 for never.
func newCoreSearch(clock *model.Clock, d *model.JobClasses, prices []float64, lossLimit float64, until int, memory *Memory) *coreSearch {
	in := d.In
	lists, byClass := make([][]column, len(in.Finishing)), make([][]column, len(d.All))
	e := &memory.columns
	e.reset(until, in.Effort.Visits, len(d.All)+len(d.All)/8+64, in.Steps)
	total := 0
	var fitting []int
	for f := range in.Finishing {
		n := d.Of[f]
		if byClass[n] == nil {
			class := &d.All[n]
			_, phi := class.Best(prices)
			if clock.Up(class.Len() * in.Steps) {
				return nil
			}
			j := &in.Jobs[class.Job]
			fitting = in.AllFitting(j, fitting)
			plans, ok := e.list(clock, j, prices, fitting, phi, lossLimit, in.Effort.MaxColumns)
			if !ok || len(plans) == 0 {
				return nil
			}
			byClass[n], lists[f] = plans, plans
		} else {
			lists[f] = slices.Clone(byClass[n])
		}
		if total += len(lists[f]); total > mostColumns(in) {
			return nil
		}
	}
	s := &coreSearch{
		until: until,
		in:    in, prices: prices, base: model.NewPlan(in), free: make([]int, in.Steps), lossLimit: lossLimit, memory: memory,
		best: math.Inf(1), bestLink: -1, dropped: math.Inf(1),
	}
	used := make([]int, in.Steps)
	separableBase(clock, in, prices, s.base, used)
	for f, i := range in.Finishing {
		plans := lists[f]
		j := &in.Jobs[i]
		copy(s.base.Of(i), plans[0].chosen)
		for t, k := range s.base.Of(i) {
			used[t] += int(j.Sizes[k])
		}
		if len(plans) == 1 {
			continue
		}
		for n, excess := range grid[int32](len(plans), in.Steps) {
			plans[n].excess = excess
			for t, k := range plans[n].chosen {
				excess[t] = j.Sizes[k] - j.Sizes[s.base.Of(i)[t]]
			}
		}
		s.jobs = append(s.jobs, coreJob{job: i, plans: plans})
	}
	for t := range s.free {
		s.free[t] = in.Capacity[t] - used[t]
	}
	slices.SortStableFunc(s.jobs, func(a, b coreJob) int { return cmp.Compare(len(b.plans), len(a.plans)) })
	if !s.look(clock) {
		return nil
	}
	return s
}

// look builds the step tables and the look-ahead. It returns false if they are too
// large or time is up.
func (s *coreSearch) look(clock *model.Clock) bool {
	steps := s.in.Steps
	s.tables = make([]*stepTable, steps)
	last := make([]series, steps)
	cells := 0
	s.memory.tables.Reset()
	s.memory.options = s.memory.options[:0]
	for t := range steps {
		low, high := 0, 0
		for n := range s.jobs {
			lo, hi := int32(0), int32(0)
			for m := range s.jobs[n].plans {
				p := &s.jobs[n].plans[m]
				lo, hi = min(lo, p.excess[t]), max(hi, p.excess[t])
			}
			low, high = low+int(lo), high+int(hi)
			if clock.Up(len(s.jobs[n].plans)) {
				return false
			}
		}
		if cells += (1 + 2*len(s.jobs)) * (high - low + 1); cells > mostCells(s.in) || clock.Up(4*(high-low+1)) {
			return false
		}
		table, filled := newStepTable(clock, s.in, t, s.prices[t], s.base, s.free[t]-high, s.free[t]-low, s.lossLimit, mostCells(s.in)-cells, s.memory)
		if table == nil {
			return false
		}
		cells += filled
		s.tables[t] = table
		last[t] = s.memory.tables.infinite(low, high)
		for x := range last[t].at {
			last[t].at[x] = table.best.value(s.free[t] - (low + x))
		}
		last[t] = last[t].trimmed()
	}
	s.ahead = newLookAhead(clock, s.jobs, last, s.lossLimit, s.until, s.memory)
	return s.ahead != nil
}

// prepare sharpens the look-ahead, if that is asked for, and then may lower s.lossLimit;
// proven is a loss that every solution is known to have. It returns
// false if time was up meanwhile: the search must not be run.
func (s *coreSearch) prepare(clock *model.Clock, sharpen bool, proven float64) bool {
	return !sharpen || s.ahead.sharpen(clock, s.until) && s.narrow(clock, proven)
}

// run searches with a beam of the given width. It returns a lower bound on the loss of
// every solution, at most lossLimit; if a solution that loses less than
// lossLimit was found, s.best is its loss.
func (s *coreSearch) run(clock *model.Clock, width int) float64 {
	steps := s.in.Steps
	excess := make([]int32, steps)
	s.now.reset(steps)
	s.trail = s.trail[:0]
	s.best, s.bestLink, s.bestExcess, s.dropped = math.Inf(1), -1, nil, math.Inf(1)
	total := s.ahead.leastLoss()
	if total >= s.lossLimit {
		return s.lossLimit
	}
	s.offer(excess, 0, -1)
	s.now.put(s.now.find(excess), excess, 0, total, -1)
	for n := range s.jobs {
		s.next.reset(steps)
		for from := range s.now.size() {
			if clock.Past(s.until) || len(s.trail) > maxLinks || clock.Up(4*len(s.jobs[n].plans)*steps) {
				return min(s.dropped, s.lossLimit, slices.Min(s.now.total))
			}
			s.expand(n, from, excess)
			if s.next.size() > 4*width {
				s.dropped = min(s.dropped, s.next.keep(clock, width))
			}
		}
		s.dropped = min(s.dropped, s.next.keep(clock, width))
		s.now, s.next = s.next, s.now
	}
	return min(s.dropped, s.best, s.lossLimit)
}

// narrow lowers the limit to just above what the sharpened look-ahead says is lost
// at least, for that is mostly close to the truth, and what loses more can go. It
// leaves the limit well above what was proven, and above what rounding hides, so that
// searches get somewhere. It returns false if time was up meanwhile.
func (s *coreSearch) narrow(clock *model.Clock, proven float64) bool {
	lossLimit := max(1.1*s.ahead.leastLoss(), 1.5*proven, s.in.Precision)
	if lossLimit >= s.lossLimit {
		return true
	}
	s.lossLimit, s.ahead.lossLimit = lossLimit, lossLimit
	return s.ahead.sharpen(clock, s.until)
}

// expand adds the states that job n's plans lead to from a state.
func (s *coreSearch) expand(n, from int, excess []int32) {
	start, lost, before := s.now.state(from), s.now.loss[from], s.now.link[from]
	if s.now.total[from] >= s.cutoff() {
		return
	}
	for m := range s.jobs[n].plans {
		p := &s.jobs[n].plans[m]
		loss := lost + p.loss
		if loss >= s.cutoff() {
			break
		}
		for t := range excess {
			excess[t] = start[t] + p.excess[t]
		}
		total := s.leastOf(n+1, excess, loss)
		if total >= s.cutoff() {
			continue
		}
		slot := s.next.find(excess)
		at := s.next.slots[slot]
		if at >= 0 && s.next.loss[at] <= loss {
			continue
		}
		s.trail = append(s.trail, link{parent: before, plan: int32(m)})
		here := int32(len(s.trail) - 1)
		if at >= 0 {
			s.next.loss[at], s.next.total[at], s.next.link[at] = loss, total, here
		} else {
			s.next.put(slot, excess, loss, total, here)
		}
		s.offer(excess, loss, here)
	}
}

// cutoff is the loss from which on nothing is of interest.
func (s *coreSearch) cutoff() float64 { return min(s.lossLimit, s.best-s.in.Precision) }

// leastOf bounds the loss of every solution that continues a state before job n.
func (s *coreSearch) leastOf(n int, excess []int32, loss float64) float64 {
	loss += s.ahead.rest[n]
	for t, e := range excess {
		loss += s.ahead.after[n][t].value(int(e))
	}
	return loss
}

// offer considers the solution that gives all jobs to come their best plans.
func (s *coreSearch) offer(excess []int32, loss float64, at int32) {
	for t, e := range excess {
		loss += s.tables[t].best.value(s.free[t] - int(e))
	}
	if loss < s.cutoff() {
		s.best, s.bestLink = loss, at
		s.bestExcess = append(s.bestExcess[:0], excess...)
	}
}

// solution returns the plan of the least loss found.
func (s *coreSearch) solution() *model.Plan {
	p := s.base.Clone()
	// The trail tells the plans from the last job chosen back to the first.
	depth := 0
	for at := s.bestLink; at >= 0; at = s.trail[at].parent {
		depth++
	}
	for at := s.bestLink; at >= 0; at = s.trail[at].parent {
		depth--
		j := &s.jobs[depth]
		copy(p.Of(j.job), j.plans[s.trail[at].plan].chosen)
	}
	for t, table := range s.tables {
		excess := s.free[t]
		if s.bestExcess != nil {
			excess -= int(s.bestExcess[t])
		}
		table.complete(p, t, excess)
	}
	return p
}

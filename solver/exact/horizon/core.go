package horizon

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The core search.
//
// The core problem contains the columns that remain after reduced-cost fixing. In terms of losses
// (reduced costs) at prices lambda, choose a column per finishing job to minimize
//
//	sum of their losses + sum_t D_t(free_t - excess_t),
//
// where excess_t is the number of nodes of the chosen plans in step t minus the nodes of the best
// plans, free_t is the number of nodes that the best plans of all jobs leave free, and D_t are the
// step tables. The method is dynamic programming over the jobs. The state is the vector of excess
// nodes. A beam limits the number of states, and the look-ahead gives a lower bound for each state.
// The search records the smallest bound of the states that the beam drops. The result is therefore
// exact: either the smallest loss, or a loss with a lower bound. (Core: Pisinger, "A minimal
// algorithm for the multiple-choice knapsack problem" (1995).)

// coreJob is a finishing job with more than one column.
type coreJob struct {
	job   int
	plans []column
}

// coreSearch searches the core problem of an instance at given prices.
type coreSearch struct {
	in     *model.Instance
	prices []float64
	// base is the best plan of every job at the prices.
	base      *model.Plan
	free      []int
	jobs      []coreJob
	tables    []*stepTable
	lookAhead *lookAhead
	// lossLimit is the loss that a solution has to stay below.
	lossLimit float64
	memory    *Memory

	// until is the count of work at which the search stops; 0 means never.
	until int

	current, next beam
	links         []link
	best          float64 // smallest loss found
	bestLink      int32
	bestExcess    []int32
	dropped       float64 // smallest bound of the states that the beam dropped
}

// Memory is the scratch memory of a search. The next search reuses it.
type Memory struct {
	Instance model.Memory
	knapsack knapsack
	rollout  []float64 // of the rollout
	// The core search uses the fields below.
	columns               enumerator
	options               []option
	tables, after, before cellMemory
}

// link is a choice that leads to a state, with the link of the state before it.
type link struct {
	parent int32
	plan   int32
}

// maxColumns returns the maximum number of columns of one core search. If there are more, the
// caller retries with a smaller lossLimit. The limits maxColumns, maxCells and maxLinks trade the
// size of the gaps that a core search closes for memory, and scale with the number of jobs because
// the instance itself does so. Together they take up to 30 MB of the 32 MiB of a search. With a
// quarter of maxColumns, BenchmarkSolve (go test ./solver/exact -run '^$' -bench Solve/sizes=8) does not
// prove 200 jobs within 1 s of CPU time, and with a quarter of maxLinks it does not prove 3,000 jobs.
func maxColumns(in *model.Instance) int { return 50_000 + len(in.Jobs) }

// maxCells returns the maximum number of values in the step tables and in the look-ahead of one
// core search. If there are more, the caller retries with a smaller lossLimit. With half of it,
// BenchmarkLargePools (go test ./solver/exact -run '^$' -bench LargePools -benchtime 1x) loses 9
// proofs.
func maxCells(in *model.Instance) int { return 2_000_000 + 20*len(in.Jobs) }

// maxLinks is the maximum number of links. Beyond it the search stops and returns the bound that it
// has reached.
const maxLinks = 1_000_000

// newCoreSearch prepares the search for solutions that lose less than lossLimit. It returns nil if
// the core problem is too large, if the deadline has passed, or if the count of work reaches until
// (0 means never).
func newCoreSearch(clock *model.Clock, d *model.JobClasses, prices []float64, lossLimit float64, until int, memory *Memory) *coreSearch {
	in := d.In
	lists, byClass := make([][]column, len(in.Finishing)), make([][]column, len(d.All))
	e := &memory.columns
	e.reset(until, in.Effort.FirstVisits, len(d.All)+len(d.All)/8+64, in.Steps)
	total := 0
	var fitting []int
	for f := range in.Finishing {
		n := d.ClassOf[f]
		if byClass[n] == nil {
			class := &d.All[n]
			_, phi := class.Best(prices)
			if clock.Add(class.Len() * in.Steps) {
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
		if total += len(lists[f]); total > maxColumns(in) {
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
	if !s.buildBounds(clock) {
		return nil
	}
	return s
}

// buildBounds builds the step tables and the look-ahead. It returns false if they are too large or
// the deadline has passed.
func (s *coreSearch) buildBounds(clock *model.Clock) bool {
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
			if clock.Add(len(s.jobs[n].plans)) {
				return false
			}
		}
		if cells += (1 + 2*len(s.jobs)) * (high - low + 1); cells > maxCells(s.in) || clock.Add(4*(high-low+1)) {
			return false
		}
		table, filled := newStepTable(clock, s.in, t, s.prices[t], s.base,
			s.free[t]-high, s.free[t]-low, s.lossLimit, maxCells(s.in)-cells, s.memory)
		if table == nil {
			return false
		}
		cells += filled
		s.tables[t] = table
		last[t] = s.memory.tables.infinite(low, high)
		for x := range last[t].values {
			last[t].values[x] = table.best.value(s.free[t] - (low + x))
		}
		last[t] = last[t].trimmed()
	}
	s.lookAhead = newLookAhead(clock, s.jobs, last, s.lossLimit, s.until, s.memory)
	return s.lookAhead != nil
}

// prepare optionally tightens the look-ahead, and then may lower s.lossLimit. The argument proven
// is a lower bound on the loss of every solution. It returns false if the deadline passed
// meanwhile; run must not be called then.
func (s *coreSearch) prepare(clock *model.Clock, tighten bool, proven float64) bool {
	return !tighten || s.lookAhead.tighten(clock, s.until) && s.lowerLimit(clock, proven)
}

// run searches with a beam of the given width. It returns a lower bound on the loss of every
// solution, which is at most lossLimit. If it finds a solution that loses less than lossLimit,
// s.best is the loss of the solution.
func (s *coreSearch) run(clock *model.Clock, width int) float64 {
	steps := s.in.Steps
	excess := make([]int32, steps)
	s.current.reset(steps)
	s.links = s.links[:0]
	s.best, s.bestLink, s.bestExcess, s.dropped = math.Inf(1), -1, nil, math.Inf(1)
	total := s.lookAhead.lowerBound()
	if total >= s.lossLimit {
		return s.lossLimit
	}
	s.offer(excess, 0, -1)
	s.current.insert(s.current.find(excess), excess, 0, total, -1)
	for n := range s.jobs {
		s.next.reset(steps)
		for from := range s.current.size() {
			if clock.Past(s.until) || len(s.links) > maxLinks || clock.Add(4*len(s.jobs[n].plans)*steps) {
				return min(s.dropped, s.lossLimit, slices.Min(s.current.total))
			}
			s.expand(n, from, excess)
			if s.next.size() > 4*width {
				s.dropped = min(s.dropped, s.next.prune(clock, width))
			}
		}
		s.dropped = min(s.dropped, s.next.prune(clock, width))
		s.current, s.next = s.next, s.current
	}
	return min(s.dropped, s.best, s.lossLimit)
}

// lowerLimit lowers the limit to slightly above the bound of the tightened look-ahead. This bound
// is usually close to the optimum, and a smaller limit excludes more plans. The limit stays well
// above the proven loss and the rounding error, so that each search makes progress. The method
// returns false if the deadline passed meanwhile.
func (s *coreSearch) lowerLimit(clock *model.Clock, proven float64) bool {
	lossLimit := max(1.1*s.lookAhead.lowerBound(), 1.5*proven, s.in.Precision)
	if lossLimit >= s.lossLimit {
		return true
	}
	s.lossLimit, s.lookAhead.lossLimit = lossLimit, lossLimit
	return s.lookAhead.tighten(clock, s.until)
}

// expand adds the states to which the plans of job n lead from a state.
func (s *coreSearch) expand(n, from int, excess []int32) {
	start, lost, before := s.current.state(from), s.current.loss[from], s.current.link[from]
	if s.current.total[from] >= s.cutoff() {
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
		total := s.lowerBound(n+1, excess, loss)
		if total >= s.cutoff() {
			continue
		}
		slot := s.next.find(excess)
		at := s.next.slots[slot]
		if at >= 0 && s.next.loss[at] <= loss {
			continue
		}
		s.links = append(s.links, link{parent: before, plan: int32(m)})
		here := int32(len(s.links) - 1)
		if at >= 0 {
			s.next.loss[at], s.next.total[at], s.next.link[at] = loss, total, here
		} else {
			s.next.insert(slot, excess, loss, total, here)
		}
		s.offer(excess, loss, here)
	}
}

// cutoff returns the loss at and above which solutions are ignored.
func (s *coreSearch) cutoff() float64 { return min(s.lossLimit, s.best-s.in.Precision) }

// lowerBound returns a lower bound on the loss of every solution through a state before job n.
func (s *coreSearch) lowerBound(n int, excess []int32, loss float64) float64 {
	loss += s.lookAhead.rest[n]
	for t, e := range excess {
		loss += s.lookAhead.after[n][t].value(int(e))
	}
	return loss
}

// offer considers the solution in which all remaining jobs have their best plans.
func (s *coreSearch) offer(excess []int32, loss float64, at int32) {
	for t, e := range excess {
		loss += s.tables[t].best.value(s.free[t] - int(e))
	}
	if loss < s.cutoff() {
		s.best, s.bestLink = loss, at
		s.bestExcess = append(s.bestExcess[:0], excess...)
	}
}

// solution returns the plan with the smallest loss found.
func (s *coreSearch) solution() *model.Plan {
	p := s.base.Clone()
	// The links lead from the last job back to the first.
	depth := 0
	for at := s.bestLink; at >= 0; at = s.links[at].parent {
		depth++
	}
	for at := s.bestLink; at >= 0; at = s.links[at].parent {
		depth--
		j := &s.jobs[depth]
		copy(p.Of(j.job), j.plans[s.links[at].plan].chosen)
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

package exact

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// The core: the search over what survives.
//
// In terms of losses the problem at prices lambda reads: choose a surviving plan
// per finishing job so that
//
//	sum of their losses + sum_t D_t(free_t - extra_t)
//
// is least, where extra_t is what the chosen plans hold in step t beyond the best
// plans, free_t what the pool has there beyond everybody's best plans, and D_t the
// step tables. It is solved by dynamic programming over the jobs with the vector
// of extra nodes as state, a beam of bounded width, and a bound that looks ahead:
// let m_(j,t)(e) be the least loss of job j's plans with e extra nodes in step t;
// since a plan loses at least the sum over t of any split of its loss,
//
//	E_(j,t)(a) = min_e [ m_(j,t)(e) / T + E_(j+1,t)(a + e) ],   E_(end,t)(a) = D_t(free_t - a)
//
// summed over t bounds what the remaining jobs and the step tables still lose in
// state a. What the beam drops is remembered by its bound, so that the outcome is
// exact either way: a least loss, or a least loss with a lower bound on it.
// (Core: Pisinger, "A minimal algorithm for the multiple-choice knapsack problem"
// (1995). Bounding by a relaxed dynamic programme per row: Marsten and Morin, "A
// hybrid approach to discrete mathematical programming" (1978).)

// coreJob is a finishing job with more than one surviving plan.
type coreJob struct {
	job   int
	plans []survivor
}

// coreSearch searches one box at given prices.
type coreSearch struct {
	in     *instance
	prices []float64
	base   plan // everybody's best plan at the prices
	free   []int
	jobs   []coreJob
	tables []*stepTable
	ahead  [][]series // E by job and step
	limit  float64    // loss that a solution must stay below

	now, next beam
	trail     []link
	best      float64 // least loss found
	bestLink  int32
	bestExtra []int32
	dropped   float64 // least bound of what the beam dropped
}

// link is a choice on the way to a state.
type link struct {
	parent int32
	plan   int32
}

// Limits of one search; beyond them it is given up for a smaller limit on the loss.
const (
	maxSurvivorsPerJob = 20_000
	maxSurvivors       = 200_000
	maxCells           = 20_000_000
)

// newCoreSearch prepares the search for solutions of the box that lose less than
// limit. It returns nil if there is too much to search.
func newCoreSearch(ctx context.Context, d *dual, b *box, prices []float64, limit float64) *coreSearch {
	in := d.in
	s := &coreSearch{
		in: in, prices: prices, base: newPlan(in), free: make([]int, in.steps), limit: limit,
		best: math.Inf(1), bestLink: -1, dropped: math.Inf(1),
	}
	used := make([]int, in.steps)
	separableBase(in, prices, s.base, used)
	var e enumerator
	total := 0
	for f, i := range in.finishing {
		if ctx.Err() != nil {
			return nil
		}
		_, phi := d.bestColumn(f, prices)
		plans, ok := e.list(&in.jobs[i], prices, b.allowedFor(f, in.steps), phi, limit, maxSurvivorsPerJob)
		if total += len(plans); !ok || len(plans) == 0 || total > maxSurvivors {
			return nil
		}
		j := &in.jobs[i]
		copy(s.base[i], plans[0].picks)
		for t, k := range s.base[i] {
			used[t] += int(j.sizes[k])
		}
		for n := range plans {
			plans[n].extra = make([]int32, in.steps)
			for t, k := range plans[n].picks {
				plans[n].extra[t] = j.sizes[k] - j.sizes[s.base[i][t]]
			}
		}
		if len(plans) > 1 {
			s.jobs = append(s.jobs, coreJob{job: i, plans: plans})
		}
	}
	for t := range s.free {
		s.free[t] = in.nodes - used[t]
	}
	slices.SortStableFunc(s.jobs, func(a, b coreJob) int { return cmp.Compare(len(b.plans), len(a.plans)) })
	if !s.lookAhead(ctx) {
		return nil
	}
	return s
}

// lookAhead builds the step tables and E. It returns false if they are too large or
// ctx ends.
func (s *coreSearch) lookAhead(ctx context.Context) bool {
	steps, jobs := s.in.steps, len(s.jobs)
	s.ahead = make([][]series, jobs+1)
	s.tables = make([]*stepTable, steps)
	for n := range s.ahead {
		s.ahead[n] = make([]series, steps)
	}
	cells := 0
	for t := range steps {
		// The extra nodes of the first n jobs lie between low[n] and high[n].
		low, high := make([]int, jobs+1), make([]int, jobs+1)
		for n, c := range s.jobs {
			lo, hi := c.plans[0].extra[t], c.plans[0].extra[t]
			for _, p := range c.plans {
				lo, hi = min(lo, p.extra[t]), max(hi, p.extra[t])
			}
			low[n+1], high[n+1] = low[n]+int(lo), high[n]+int(hi)
		}
		table := newStepTable(ctx, s.in, t, s.prices[t], s.base, s.free[t]-high[jobs], s.free[t]-low[jobs], s.limit, maxCells)
		if table == nil {
			return false
		}
		s.tables[t] = table
		last := series{low: low[jobs], at: make([]float64, high[jobs]-low[jobs]+1)}
		for x := range last.at {
			last.at[x] = table.best.value(s.free[t] - (last.low + x))
		}
		s.ahead[jobs][t] = last.trimmed()
		for n := jobs - 1; n >= 0; n-- {
			if cells += high[n] - low[n] + 1; cells > maxCells || ctx.Err() != nil {
				return false
			}
			s.ahead[n][t] = ahead(s.ahead[n+1][t], leastByExtra(s.jobs[n].plans, t), steps, low[n], high[n], s.limit)
		}
	}
	return true
}

// leastByExtra returns the least loss among the plans for every number of extra
// nodes in step t, plans being by rising loss.
func leastByExtra(plans []survivor, t int) []choice {
	var least []choice
	for _, p := range plans {
		extra := int(p.extra[t])
		if !slices.ContainsFunc(least, func(c choice) bool { return c.extra == extra }) {
			least = append(least, choice{loss: p.loss, extra: extra})
		}
	}
	return least
}

// ahead returns E of one job and step from E of the next job.
func ahead(next series, choices []choice, steps, low, high int, limit float64) series {
	sum := series{low: low, at: make([]float64, high-low+1)}
	for x := range sum.at {
		least := math.Inf(1)
		for _, c := range choices {
			least = min(least, c.loss/float64(steps)+next.value(low+x+c.extra))
		}
		if least >= limit {
			least = math.Inf(1)
		}
		sum.at[x] = least
	}
	return sum.trimmed()
}

// beam is a set of states: vectors of extra nodes with the least loss that leads
// there.
type beam struct {
	steps int
	extra []int32 // steps per state
	loss  []float64
	bound []float64
	link  []int32
	// slots is an open-addressing hash table of states by their extra nodes, -1
	// where empty.
	slots []int32
}

func (b *beam) size() int { return len(b.loss) }

func (b *beam) state(n int) []int32 { return b.extra[n*b.steps : (n+1)*b.steps] }

// reset empties the beam.
func (b *beam) reset(steps int) {
	b.steps = steps
	b.extra, b.loss, b.bound, b.link = b.extra[:0], b.loss[:0], b.bound[:0], b.link[:0]
	if b.slots == nil {
		b.slots = make([]int32, 1024)
	}
	for n := range b.slots {
		b.slots[n] = -1
	}
}

// find returns the slot of the state with the given extra nodes, or the empty slot
// where it belongs.
func (b *beam) find(extra []int32) int {
	h := uint64(14695981039346656037)
	for _, e := range extra {
		h = (h ^ uint64(uint32(e))) * 1099511628211
		h ^= h >> 29
	}
	mask := len(b.slots) - 1
	slot := int(h) & mask
	for b.slots[slot] >= 0 && !slices.Equal(b.state(int(b.slots[slot])), extra) {
		slot = (slot + 1) & mask
	}
	return slot
}

// put adds a state that is not there yet in the slot that find returned.
func (b *beam) put(slot int, extra []int32, loss, bound float64, link int32) {
	b.slots[slot] = int32(b.size())
	b.extra = append(b.extra, extra...)
	b.loss = append(b.loss, loss)
	b.bound = append(b.bound, bound)
	b.link = append(b.link, link)
	if 2*b.size() > len(b.slots) {
		b.rehash(2 * len(b.slots))
	}
}

// rehash rebuilds the hash table with the given number of slots.
func (b *beam) rehash(slots int) {
	if slots != len(b.slots) {
		b.slots = make([]int32, slots)
	}
	for n := range b.slots {
		b.slots[n] = -1
	}
	for n := range b.size() {
		b.slots[b.find(b.state(n))] = int32(n)
	}
}

// keep keeps the width states of least bound and returns the least bound of the
// others, +Inf if there are none.
func (b *beam) keep(width int) float64 {
	if b.size() <= width {
		return math.Inf(1)
	}
	order := make([]int32, b.size())
	for n := range order {
		order[n] = int32(n)
	}
	slices.SortFunc(order, func(x, y int32) int {
		if c := cmp.Compare(b.bound[x], b.bound[y]); c != 0 {
			return c
		}
		return slices.Compare(b.state(int(x)), b.state(int(y)))
	})
	least := b.bound[order[width]]
	kept := beam{steps: b.steps, slots: b.slots}
	for _, n := range order[:width] {
		kept.extra = append(kept.extra, b.state(int(n))...)
		kept.loss = append(kept.loss, b.loss[n])
		kept.bound = append(kept.bound, b.bound[n])
		kept.link = append(kept.link, b.link[n])
	}
	*b = kept
	b.rehash(len(b.slots))
	return least
}

// run searches with a beam of the given width. It returns a lower bound on the
// loss of every solution of the box, at most limit; if a solution that loses less
// than limit was found, s.best is its loss.
func (s *coreSearch) run(ctx context.Context, width int) float64 {
	steps := s.in.steps
	extra := make([]int32, steps)
	s.now.reset(steps)
	s.trail = s.trail[:0]
	if bound := s.boundOf(0, extra, 0); bound < s.limit {
		s.offer(extra, 0, -1)
		s.now.put(s.now.find(extra), extra, 0, bound, -1)
	}
	for n := range s.jobs {
		s.next.reset(steps)
		// Looked at often enough that ctx is never overrun by much.
		every := max(1, 4096/len(s.jobs[n].plans))
		for from := range s.now.size() {
			if from%every == 0 && ctx.Err() != nil {
				return min(s.dropped, s.limit, slices.Min(s.now.bound))
			}
			s.expand(n, from, extra)
			if s.next.size() > 8*width {
				s.dropped = min(s.dropped, s.next.keep(width))
			}
		}
		s.dropped = min(s.dropped, s.next.keep(width))
		s.now, s.next = s.next, s.now
	}
	return min(s.dropped, s.best, s.limit)
}

// expand adds the states that job n's plans lead to from a state.
func (s *coreSearch) expand(n, from int, extra []int32) {
	start, lost, before := s.now.state(from), s.now.loss[from], s.now.link[from]
	if s.now.bound[from] >= s.cutoff() {
		return
	}
	for choice := range s.jobs[n].plans {
		p := &s.jobs[n].plans[choice]
		loss := lost + p.loss
		if loss >= s.cutoff() {
			break
		}
		for t := range extra {
			extra[t] = start[t] + p.extra[t]
		}
		bound := s.boundOf(n+1, extra, loss)
		if bound >= s.cutoff() {
			continue
		}
		slot := s.next.find(extra)
		at := s.next.slots[slot]
		if at >= 0 && s.next.loss[at] <= loss {
			continue
		}
		s.trail = append(s.trail, link{parent: before, plan: int32(choice)})
		here := int32(len(s.trail) - 1)
		if at >= 0 {
			s.next.loss[at], s.next.bound[at], s.next.link[at] = loss, bound, here
		} else {
			s.next.put(slot, extra, loss, bound, here)
		}
		s.offer(extra, loss, here)
	}
}

// cutoff is the loss from which on nothing is of interest.
func (s *coreSearch) cutoff() float64 { return min(s.limit, s.best-s.in.precision) }

// boundOf bounds the loss of every solution that continues a state before job n.
func (s *coreSearch) boundOf(n int, extra []int32, loss float64) float64 {
	for t, e := range extra {
		loss += s.ahead[n][t].value(int(e))
	}
	return loss
}

// offer considers the solution that gives all jobs to come their best plans.
func (s *coreSearch) offer(extra []int32, loss float64, at int32) {
	for t, e := range extra {
		loss += s.tables[t].best.value(s.free[t] - int(e))
	}
	if loss < s.cutoff() {
		s.best, s.bestLink = loss, at
		s.bestExtra = append(s.bestExtra[:0], extra...)
	}
}

// solution returns the plan of the least loss found.
func (s *coreSearch) solution() plan {
	p := newPlan(s.in)
	for i := range p {
		copy(p[i], s.base[i])
	}
	// The trail tells the plans from the last job chosen back to the first.
	depth := 0
	for at := s.bestLink; at >= 0; at = s.trail[at].parent {
		depth++
	}
	for at := s.bestLink; at >= 0; at = s.trail[at].parent {
		depth--
		c := &s.jobs[depth]
		copy(p[c.job], c.plans[s.trail[at].plan].picks)
	}
	for t, table := range s.tables {
		extra := s.free[t]
		if s.bestExtra != nil {
			extra -= int(s.bestExtra[t])
		}
		table.complete(p, t, extra)
	}
	return p
}

package proof

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The look-ahead: what the jobs not yet decided still lose.
//
// In a state of the core search the finishing jobs from n on must still choose.
// Split every plan's loss over the steps: for any numbers u_(j,t)(e), one per job,
// step and excess nodes e that some plan holds there,
//
//	c_j = min over plans of  loss - sum_t u_(j,t)(e_t)
//
// is what the split leaves of job j's loss, and the choice falls apart into one
// knapsack per step, exactly solved by
//
//	E_(n,t)(a) = min_e [ u_(n,t)(e) + E_(n+1,t)(a + e) ],   E_(end,t)(a) = D_t(free_t - a),
//
// so that sum_(j>=n) c_j + sum_t E_(n,t)(a_t) bounds what is still lost in state a.
// (This is Lagrangian decomposition: Guignard and Kim, "Lagrangean decomposition"
// (1987).) To start with, u is the least loss of a plan with those excess nodes,
// divided by T. Sweeps then raise the bound by block
// coordinate ascent, job after job, forward and backward: with M_t(e) the best that
// the knapsack of step t does around job j if it holds e, the loss through one of its
// plans is
// q = loss + sum_t M_t(e_t), and
//
//	u_t(e) = min over plans with e of  q / (T+1)  -  M_t(e)
//
// shares what is known of q evenly between the T knapsacks and the job itself,
// which never lowers the bound. (Sequential message passing: Kolmogorov,
// "Convergent tree-reweighted message passing" (2006).) On the way, a plan whose q,
// with what the other jobs keep, reaches the limit can be in no better solution,
// and goes.

const (
	// maxSweeps limits the pairs of sweeps, sweepGain is the share of the limit
	// that a pair must add to the bound for another to follow.
	maxSweeps = 30
	sweepGain = 5e-3
	// maxSweepWork limits the additions of one sweep; a larger core is not swept.
	maxSweepWork = 20_000_000
)

// lookAhead bounds what the core search still loses from a state on.
type lookAhead struct {
	steps     int
	lossLimit float64
	jobs      []coreJob
	// levels[n][t] are the numbers of excess nodes among job n's plans in step t,
	// split[n][t] the u of each.
	levels [][][]int32
	split  [][][]float64
	kept   []float64 // c_j
	// low[n][t] and high[n][t] enclose the excess nodes of the jobs before n.
	low, high [][]int
	// after[n][t] is E_(n,t); before[n][t](a) is the least sum of u over the jobs
	// before n that hold a excess nodes together.
	after, before [][]series
	rest          []float64 // rest[n] is the sum of kept from n on, as of after[n]
	// closed is set when no plan of some job is left.
	closed bool

	memory *Memory
	around [][]float64 // scratch: M per step and excess
	least  [][]float64 // scratch: least q per step and excess
	seen   []int32     // scratch: levels
	losses []float64   // scratch: of each
}

// newLookAhead prepares the look-ahead over the jobs, whose plans are by rising
// loss; last[t] is D_t as a function of the excess nodes of all of them. It returns nil if time
// is up or the clock's work reaches until.
func newLookAhead(clock *model.Clock, jobs []coreJob, last []series, lossLimit float64, until int, memory *Memory) *lookAhead {
	steps := len(last)
	l := &lookAhead{
		steps: steps, lossLimit: lossLimit, jobs: jobs, memory: memory,
		levels: grid[[]int32](len(jobs), steps), split: grid[[]float64](len(jobs), steps),
		kept: make([]float64, len(jobs)), rest: make([]float64, len(jobs)+1),
		after: grid[series](len(jobs)+1, steps), before: grid[series](len(jobs)+1, steps),
		low: grid[int](len(jobs)+1, steps), high: grid[int](len(jobs)+1, steps),
		around: make([][]float64, steps), least: make([][]float64, steps),
	}
	l.enclose()
	for n := range jobs {
		for m, at := range grid[uint16](len(jobs[n].plans), steps) {
			jobs[n].plans[m].at = at
		}
		for t := range l.steps {
			l.index(n, t)
			if clock.Up(len(jobs[n].plans)*(1+len(l.levels[n][t])/4)) || clock.Past(until) {
				return nil
			}
		}
	}
	copy(l.after[len(jobs)], last)
	memory.after.Reset()
	for n := len(jobs) - 1; n >= 0; n-- {
		l.behind(n)
		if clock.Up(l.width(n)) || clock.Past(until) {
			return nil
		}
	}
	return l
}

// index lists job n's levels in step t, notes for each plan which of them it has,
// and starts the split with their least losses.
func (l *lookAhead) index(n, t int) {
	l.seen, l.losses = l.seen[:0], l.losses[:0]
	for m := range l.jobs[n].plans {
		p := &l.jobs[n].plans[m]
		at := 0
		for at < len(l.seen) && l.seen[at] != p.excess[t] {
			at++
		}
		if at == len(l.seen) {
			l.seen, l.losses = append(l.seen, p.excess[t]), append(l.losses, p.loss/float64(l.steps))
		}
		p.at[t] = uint16(at)
	}
	l.levels[n][t], l.split[n][t] = slices.Clone(l.seen), slices.Clone(l.losses)
}

// leastLoss returns a lower bound on what is lost from the start.
func (l *lookAhead) leastLoss() float64 {
	if l.closed {
		return math.Inf(1)
	}
	least := l.rest[0]
	for t := range l.after[0] {
		least += l.after[0][t].value(0)
	}
	return least
}

// work returns the additions of one sweep.
func (l *lookAhead) work() int {
	work := 0
	for n := range l.jobs {
		work += l.width(n)
	}
	return work
}

// width returns the additions of a sweep that job n takes.
func (l *lookAhead) width(n int) int {
	width := 0
	for t := range l.steps {
		width += len(l.levels[n][t]) * len(l.after[n+1][t].at)
	}
	return width
}

// sharpen sweeps until that stops paying off or the clock's work reaches until, 0 for
// never. It returns false if time was up in the
// middle of a sweep: the split is then no longer that of the functions made from it,
// and the look-ahead bounds nothing.
func (l *lookAhead) sharpen(clock *model.Clock, until int) bool {
	if l.work() > maxSweepWork {
		return true
	}
	for t := range l.before[0] {
		l.before[0][t] = series{at: []float64{0}}
	}
	for range maxSweeps {
		if clock.Past(until) {
			return true
		}
		before := l.leastLoss()
		l.memory.before.Reset()
		l.memory.after.Reset()
		for n := range l.jobs {
			if clock.Up(2*l.width(n) + len(l.jobs[n].plans)*l.steps) {
				return false
			}
			if l.share(n); l.closed {
				return true
			}
			l.ahead(n)
		}
		for n := len(l.jobs) - 1; n >= 0; n-- {
			if clock.Up(2*l.width(n) + len(l.jobs[n].plans)*l.steps) {
				return false
			}
			if l.share(n); l.closed {
				return true
			}
			l.behind(n)
		}
		if now := l.leastLoss(); now >= l.lossLimit || now-before < sweepGain*l.lossLimit {
			return true
		}
	}
	return true
}

// grid returns rows of equal length in one block of memory.
func grid[Item any](rows, length int) [][]Item {
	block, all := make([]Item, rows*length), make([][]Item, rows)
	for n := range all {
		all[n] = block[n*length:][:length:length]
	}
	return all
}

// enclose works out low and high.
func (l *lookAhead) enclose() {
	for n, c := range l.jobs {
		for t := range l.steps {
			lo, hi := c.plans[0].excess[t], c.plans[0].excess[t]
			for _, p := range c.plans {
				lo, hi = min(lo, p.excess[t]), max(hi, p.excess[t])
			}
			l.low[n+1][t], l.high[n+1][t] = l.low[n][t]+int(lo), l.high[n][t]+int(hi)
		}
	}
}

// behind works out E of job n, and what is kept from it on, from those of the next job.
func (l *lookAhead) behind(n int) {
	l.rest[n] = l.rest[n+1] + l.kept[n]
	for t := range l.steps {
		l.after[n][t] = l.shifted(&l.memory.after, &l.after[n+1][t], n, t, -1, l.low[n][t], l.high[n][t])
	}
}

// ahead works out the least sum of u over the jobs up to n from that over the jobs before
// n.
func (l *lookAhead) ahead(n int) {
	for t := range l.steps {
		l.before[n+1][t] = l.shifted(&l.memory.before, &l.before[n][t], n, t, 1, l.low[n+1][t], l.high[n+1][t])
	}
}

// shifted returns the least of u of job n in step t plus a function shifted by its excess nodes,
// in the direction given, within [low, high].
func (l *lookAhead) shifted(memory *cellMemory, from *series, n, t, direction, low, high int) series {
	first, last := high+1, low-1
	for x, excess := range l.levels[n][t] {
		if !math.IsInf(l.split[n][t][x], 1) {
			shift := direction * int(excess)
			first, last = min(first, from.low+shift), max(last, from.high()+shift)
		}
	}
	first = max(first, low)
	sum := memory.infinite(first, max(first-1, min(last, high)))
	for x, excess := range l.levels[n][t] {
		addShiftedBelow(sum, from, direction*int(excess), l.split[n][t][x], math.Inf(1))
	}
	return sum.trimmed()
}

// share shares out anew what is known of job n, and drops its plans that reach the
// lossLimit.
func (l *lookAhead) share(n int) {
	plans := l.jobs[n].plans
	for t := range l.steps {
		l.around[t], l.least[t] = l.around[t][:0], l.least[t][:0]
		for _, excess := range l.levels[n][t] {
			l.around[t] = append(l.around[t], leastSum(&l.before[n][t], &l.after[n+1][t], int(excess)))
			l.least[t] = append(l.least[t], math.Inf(1))
		}
	}
	others := -l.kept[n]
	for _, kept := range l.kept {
		others += kept
	}
	left := 0
	for m := range plans {
		p := &plans[m]
		through := p.loss
		for t, at := range p.at {
			through += l.around[t][at]
		}
		if others+through >= l.lossLimit {
			continue
		}
		for t, at := range p.at {
			l.least[t][at] = min(l.least[t][at], through)
		}
		if left < m {
			plans[left] = *p
		}
		left++
	}
	if l.jobs[n].plans = plans[:left]; left == 0 {
		l.closed = true
		return
	}
	for t, least := range l.least {
		for x, through := range least {
			if l.split[n][t][x] = math.Inf(1); !math.IsInf(through, 1) {
				l.split[n][t][x] = through/float64(l.steps+1) - l.around[t][x]
			}
		}
	}
	l.keep(n)
}

// keep sets what the split leaves of job n's loss.
func (l *lookAhead) keep(n int) {
	l.kept[n] = math.Inf(1)
	for m := range l.jobs[n].plans {
		p := &l.jobs[n].plans[m]
		kept := p.loss
		for t, at := range p.at {
			kept -= l.split[n][t][at]
		}
		l.kept[n] = min(l.kept[n], kept)
	}
}

// leastSum returns the least a(x) + b(x + shift).
func leastSum(a, b *series, shift int) float64 {
	offset := a.low + shift - b.low
	start := max(0, -offset)
	end := min(len(a.at), len(b.at)-offset)
	least := math.Inf(1)
	if start >= end {
		return least
	}
	with := b.at[start+offset : end+offset]
	for x, value := range a.at[start:end] {
		if sum := value + with[x]; sum < least {
			least = sum
		}
	}
	return least
}

package horizon

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The look-ahead: a lower bound on the loss of the undecided jobs.
//
// In a state of the core search the finishing jobs from n on are undecided. Split the loss of every
// plan over the steps. For any numbers u_(j,t)(e), one per job, step and number of excess nodes e
// of a plan,
//
//	c_j = min over plans of  loss - sum_t u_(j,t)(e_t)
//
// is the part of the loss of job j that is not assigned to a step. The remaining problem separates
// into one knapsack per step, which is solved exactly by
//
//	E_(n,t)(a) = min_e [ u_(n,t)(e) + E_(n+1,t)(a + e) ],   E_(end,t)(a) = D_t(free_t - a),
//
// and sum_(j>=n) c_j + sum_t E_(n,t)(a_t) is a lower bound on the remaining loss of state a. (This
// is Lagrangian decomposition: Guignard and Kim, "Lagrangean decomposition" (1987).) Initially, u
// is the smallest loss of a plan with those excess nodes, divided by T. Sweeps then raise the bound
// by block coordinate ascent, job by job, forward and backward. Let M_t(e) be the smallest value of
// the knapsack of step t without job j, if job j has e excess nodes. The loss of a solution with a
// given plan of job j is at least q = loss + sum_t M_t(e_t), and
//
//	u_t(e) = min over plans with e of  q / (T+1)  -  M_t(e)
//
// divides q evenly between the T knapsacks and the job itself, which never lowers the bound.
// (Sequential message passing: Kolmogorov, "Convergent tree-reweighted message passing" (2006).) A
// plan is removed if its q plus the unassigned losses of the other jobs reaches the limit, because
// it cannot be in a better solution.

// sweepGain is the fraction of the limit by which a pair of sweeps has to raise the bound for another
// pair to follow. With 4 times the fraction BenchmarkHardEnd (go test ./solver/exact -run '^$' -bench
// HardEnd) takes 1.2 times the work.
const sweepGain = 5e-3

// lookAhead is a lower bound on the remaining loss of states of the core search.
type lookAhead struct {
	steps     int
	lossLimit float64
	jobs      []coreJob
	// levels[n][t] are the different numbers of excess nodes of the plans of job n in step t, and
	// split[n][t] the value u of each.
	levels [][][]int32
	split  [][][]float64
	kept   []float64 // c_j
	// low[n][t] and high[n][t] are the range of the excess nodes of the jobs before n.
	low, high [][]int
	// after[n][t] is E_(n,t). before[n][t](a) is the smallest sum of u over the jobs before n with
	// a excess nodes in total.
	after, before [][]series
	rest          []float64 // rest[n] is the sum of kept from n on
	// infeasible is set if no plan of some job remains.
	infeasible bool

	memory *Memory
	around [][]float64 // scratch: M per step and level
	least  [][]float64 // scratch: smallest q per step and level
	seen   []int32     // scratch: levels
	losses []float64   // scratch: smallest loss per level
}

// newLookAhead prepares the look-ahead over the jobs, whose plans are sorted by loss. last[t] is
// D_t as a function of the total excess nodes. It returns nil if the deadline has passed or the
// count of work reaches until.
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
	l.setRanges()
	for n := range jobs {
		for m, at := range grid[uint16](len(jobs[n].plans), steps) {
			jobs[n].plans[m].at = at
		}
		for t := range l.steps {
			l.index(n, t)
			if clock.Add(len(jobs[n].plans)*(1+len(l.levels[n][t])/4)) || clock.Past(until) {
				return nil
			}
		}
	}
	copy(l.after[len(jobs)], last)
	memory.after.Reset()
	for n := len(jobs) - 1; n >= 0; n-- {
		l.updateAfter(n)
		if clock.Add(l.jobWork(n)) || clock.Past(until) {
			return nil
		}
	}
	return l
}

// index lists the levels of job n in step t, sets the level of each plan, and initializes the
// split.
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

// lowerBound returns a lower bound on the loss of every solution.
func (l *lookAhead) lowerBound() float64 {
	if l.infeasible {
		return math.Inf(1)
	}
	least := l.rest[0]
	for t := range l.after[0] {
		least += l.after[0][t].value(0)
	}
	return least
}

// jobWork returns the number of additions of one sweep for job n.
func (l *lookAhead) jobWork(n int) int {
	width := 0
	for t := range l.steps {
		width += len(l.levels[n][t]) * len(l.after[n+1][t].values)
	}
	return width
}

// tighten sweeps until the improvement is small or the count of work reaches until (0 means never).
// It returns false if the deadline passed during a sweep. The split is then inconsistent with the
// functions computed from it, and the look-ahead must not be used.
func (l *lookAhead) tighten(clock *model.Clock, until int) bool {
	for t := range l.before[0] {
		l.before[0][t] = series{values: []float64{0}}
	}
	for {
		if clock.Past(until) {
			return true
		}
		before := l.lowerBound()
		l.memory.before.Reset()
		l.memory.after.Reset()
		for n := range l.jobs {
			if clock.Add(2*l.jobWork(n) + len(l.jobs[n].plans)*l.steps) {
				return false
			}
			l.redistribute(n)
			if l.infeasible {
				return true
			}
			l.updateBefore(n)
		}
		for n := len(l.jobs) - 1; n >= 0; n-- {
			if clock.Add(2*l.jobWork(n) + len(l.jobs[n].plans)*l.steps) {
				return false
			}
			l.redistribute(n)
			if l.infeasible {
				return true
			}
			l.updateAfter(n)
		}
		if now := l.lowerBound(); now >= l.lossLimit || !(now-before >= sweepGain*l.lossLimit) {
			return true
		}
	}
}

// grid returns rows of equal length in one block of memory.
func grid[Item any](rows, length int) [][]Item {
	block, all := make([]Item, rows*length), make([][]Item, rows)
	for n := range all {
		all[n] = block[n*length:][:length:length]
	}
	return all
}

// setRanges computes low and high.
func (l *lookAhead) setRanges() {
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

// updateAfter computes after and rest of job n from the next job.
func (l *lookAhead) updateAfter(n int) {
	l.rest[n] = l.rest[n+1] + l.kept[n]
	for t := range l.steps {
		l.after[n][t] = l.shifted(&l.memory.after, &l.after[n+1][t], n, t, -1, l.low[n][t], l.high[n][t])
	}
}

// updateBefore computes before of job n+1 from job n.
func (l *lookAhead) updateBefore(n int) {
	for t := range l.steps {
		l.before[n+1][t] = l.shifted(&l.memory.before, &l.before[n][t], n, t, 1, l.low[n+1][t], l.high[n+1][t])
	}
}

// shifted returns the minimum over the levels of job n in step t of u plus a function shifted by
// the excess nodes in the given direction, within [low, high].
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

// redistribute computes the split of job n anew, and removes its plans whose loss reaches
// lossLimit.
func (l *lookAhead) redistribute(n int) {
	plans := l.jobs[n].plans
	for t := range l.steps {
		l.around[t], l.least[t] = l.around[t][:0], l.least[t][:0]
		for _, excess := range l.levels[n][t] {
			l.around[t] = append(l.around[t], minSum(&l.before[n][t], &l.after[n+1][t], int(excess)))
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
		l.infeasible = true
		return
	}
	for t, least := range l.least {
		for x, through := range least {
			if l.split[n][t][x] = math.Inf(1); !math.IsInf(through, 1) {
				l.split[n][t][x] = through/float64(l.steps+1) - l.around[t][x]
			}
		}
	}
	l.updateKept(n)
}

// updateKept computes the part of the loss of job n that is not assigned to a step.
func (l *lookAhead) updateKept(n int) {
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

// minSum returns the minimum of a(x) + b(x + shift).
func minSum(a, b *series, shift int) float64 {
	offset := a.low + shift - b.low
	start := max(0, -offset)
	end := min(len(a.values), len(b.values)-offset)
	least := math.Inf(1)
	if start >= end {
		return least
	}
	with := b.values[start+offset : end+offset]
	for x, value := range a.values[start:end] {
		if sum := value + with[x]; sum < least {
			least = sum
		}
	}
	return least
}

package horizon

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Reduced-cost fixing: the plans of a finishing job that can improve the incumbent.
//
// At prices lambda the loss of a plan is its reduced cost phi - (u - lambda n). The objective of a
// solution is at most L(lambda) minus the losses of its plans. Therefore no better solution
// contains a plan whose loss is at least the bound minus the incumbent. The remaining plans are
// enumerated depth first. A table of the value-to-go prunes the enumeration. It has lookAheadCells
// intervals of the share served, and shares are rounded up. (In Dantzig-Wolfe decomposition this is
// route enumeration: Baldacci, Christofides and Mingozzi, "An exact algorithm for the vehicle
// routing problem based on the set partitioning formulation with additional cuts" (2008).)

const (
	// lookAheadCells is the number of intervals of the share served. It trades the time to fill the
	// table for the strength of pruning. Without the table BenchmarkSolve (go test ./solver/exact -run
	// '^$' -bench Solve/jobs=200) takes 20 times the CPU time.
	lookAheadCells = 256
	// visitsPerColumn limits the number of partial plans examined, as a multiple of the limit of
	// columns, because a search without a deadline has to end. With 1, BenchmarkSolve/jobs=200 is not proven.
	visitsPerColumn = 50
)

// column is a plan of a job and its loss.
type column struct {
	loss   float64
	chosen []uint8
	// excess is the number of nodes per step in addition to the best plan of the job.
	excess []int32
	// at is the index, per step, of excess among the different values in the step.
	at []uint16
}

// enumerator lists the columns of jobs. It owns its scratch memory.
type enumerator struct {
	// until is the count of work at which the enumeration stops; 0 means never.
	until int
	// firstVisits is the number of partial plans to examine before the table is filled.
	firstVisits int
	outlook     outlook
	// toGo[t] is an upper bound on the value-to-go from step t on, by the interval of the share.
	toGo   [][]float64
	chosen []uint8

	clock     *model.Clock
	j         *model.Job
	prices    []float64
	fitting   []int   // number of sizes that fit in each step
	threshold float64 // value that a plan has to exceed
	best      float64 // value of the best plan
	remaining int     // number of columns that may still be listed
	visits    int     // number of partial plans that may still be examined
	filled    bool    // whether toGo is filled
	// found contains the columns of all jobs. The columns of the current job start at index first.
	// The slice plans contains their sizes.
	found []column
	first int
	plans []uint8
}

// reset clears the enumerator and reserves memory for the given number of columns.
func (e *enumerator) reset(until, few, most, steps int) {
	e.until, e.firstVisits, e.first = until, few, 0
	e.found, e.plans = slices.Grow(e.found[:0], most), slices.Grow(e.plans[:0], most*steps)
}

// list returns the plans of a job that lose less than lossLimit, by increasing loss. The argument
// phi is the net value of the best plan at the prices. It returns false if there are more than
// limit plans, if the enumeration takes too much work, or if the deadline has passed. The result is
// memory of the enumerator and valid until reset.
func (e *enumerator) list(
	clock *model.Clock, j *model.Job, prices []float64, fitting []int, phi, lossLimit float64, limit int,
) ([]column, bool) {
	e.clock, e.j, e.prices, e.fitting, e.best, e.threshold = clock, j, prices, fitting, phi, phi-lossLimit
	e.outlook.fill(j, prices, fitting)
	e.chosen = slices.Grow(e.chosen[:0], len(prices))[:len(prices)]
	// Most jobs have few columns, and listing them takes less time than filling the table.
	e.start(limit, e.firstVisits, false)
	if e.visits < 0 && !clock.Add(2*len(prices)*len(j.Sizes)*lookAheadCells) {
		e.lookAhead()
		e.start(limit, visitsPerColumn*limit, true)
	}
	e.clock, e.j = nil, nil // The enumerator may outlive both.
	if e.remaining < 0 || e.visits < 0 || clock.Expired || clock.Past(e.until) {
		return nil, false
	}
	found := e.found[e.first:len(e.found):len(e.found)]
	e.first = len(e.found)
	slices.SortFunc(found, func(a, b column) int {
		if c := cmp.Compare(a.loss, b.loss); c != 0 {
			return c
		}
		return slices.Compare(a.chosen, b.chosen)
	})
	return found, true
}

// start lists the columns from the first step on.
func (e *enumerator) start(remaining, visits int, filled bool) {
	e.found, e.plans = e.found[:e.first], e.plans[:e.first*len(e.prices)]
	e.remaining, e.visits, e.filled = remaining, visits, filled
	e.extend(0, 0, 0)
}

// lookAhead fills the table of the value-to-go. Shares are rounded up to the end of their interval.
// The value-to-go never decreases with the share, so the table never underestimates.
func (e *enumerator) lookAhead() {
	steps := len(e.prices)
	for len(e.toGo) <= steps {
		e.toGo = append(e.toGo, make([]float64, lookAheadCells+1))
	}
	clear(e.toGo[steps])
	for t := steps - 1; t >= 0; t-- {
		shares := e.j.Shares(t)
		now, next := e.toGo[t], e.toGo[t+1]
		for cell := range now {
			now[cell] = math.Inf(-1)
		}
		for k := range e.fitting[t] {
			cost := e.cost(t, k)
			whole := e.j.Tail[t] - cost - e.outlook.minCost[t+1]
			for cell := range now {
				value := whole
				if share := float64(cell)/lookAheadCells + shares[k]; share < model.Finished {
					value = e.j.Gain[t]*share - cost + next[interval(share)]
				}
				now[cell] = max(now[cell], value)
			}
		}
	}
}

// interval returns the smallest interval whose end is at least the share.
func interval(share float64) int {
	return min(lookAheadCells, int(math.Ceil(share*lookAheadCells)))
}

// cost returns the price of the k-th size in step t. In the first step it includes Job.Cost.
func (e *enumerator) cost(t, k int) float64 {
	cost := e.prices[t] * float64(e.j.Sizes[k])
	if t == 0 {
		cost += e.j.Cost[k]
	}
	return cost
}

// extend lists the columns that begin with the first t chosen sizes, which serve the given share
// and have the given value.
func (e *enumerator) extend(t int, share, value float64) {
	steps := len(e.prices)
	e.visits--
	if e.remaining < 0 || e.visits < 0 || e.clock.Add(4*len(e.j.Sizes)) || e.clock.Past(e.until) {
		return
	}
	if t == steps {
		e.emit(value)
		return
	}
	if e.outlook.upperBound(e.j, t, share, value) <= e.threshold ||
		e.filled && value+e.toGo[t][interval(share)] <= e.threshold {
		return
	}
	shares := e.j.Shares(t)
	closing := math.Inf(-1) // largest value of a smaller size that finishes the job
	for k := range e.fitting[t] {
		e.chosen[t] = uint8(k)
		net, after := value-e.cost(t, k), share+shares[k]
		if after < model.Finished {
			e.extend(t+1, after, net+e.j.Gain[t]*after)
			continue
		}
		// A larger size that also finishes the job is useful only if its value before prices is
		// larger, for example because the job keeps its current size.
		gross := net + e.prices[t]*float64(e.j.Sizes[k])
		if gross <= closing {
			continue
		}
		closing = gross
		clear(e.chosen[t+1:])
		e.emit(net + e.j.Tail[t] - e.outlook.minCost[t+1])
	}
}

// emit lists the chosen plan if its value is large enough.
func (e *enumerator) emit(value float64) {
	if value <= e.threshold {
		return
	}
	e.remaining--
	if e.remaining < 0 {
		return
	}
	from := len(e.plans)
	e.plans = append(e.plans, e.chosen...)
	e.found = append(e.found, column{loss: max(0, e.best-value), chosen: e.plans[from:len(e.plans):len(e.plans)]})
}

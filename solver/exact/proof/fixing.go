package proof

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// Reduced-cost fixing: the plans of a finishing job that can still matter.
//
// At prices lambda the loss of a plan is phi - (u - lambda n), what the job gives
// up by it against its best plan. A solution's objective is at most L(lambda) less
// the losses of its plans, so a plan that loses as much as the bound exceeds the
// incumbent is in no better solution. The others are enumerated depth first, cut
// off by a table of the most that can still follow a step: the value-to-go at the
// ends of lookAheadCells intervals of the share served, each share rounded up.
// (Dantzig-Wolfe pricing calls this route enumeration: Baldacci, Christofides and
// Mingozzi, "An exact algorithm for the vehicle routing problem based on the set
// partitioning formulation with additional cuts" (2008).)

const (
	// lookAheadCells is the number of intervals of the share served.
	lookAheadCells = 256
	// visitsPerColumn limits the partial plans looked at per column there may be.
	visitsPerColumn = 50
)

// column is a plan of a job with its loss.
type column struct {
	loss   float64
	chosen []uint8
	// excess is the number of nodes it holds per step beyond the job's best plan.
	excess []int32
	// at is the position of each of excess among the numbers that occur in the step.
	at []uint16
}

// enumerator lists the columns of jobs. It owns scratch memory.
type enumerator struct {
	// until is the clock's count of work at which listing is given up, 0 for never.
	until int
	// few is how many partial plans are looked at before the table is filled.
	few     int
	outlook outlook
	// ahead[t] bounds what follows from step t on by the interval of the share.
	ahead  [][]float64
	chosen []uint8

	clock     *model.Clock
	j         *model.Job
	prices    []float64
	fitting   []int   // sizes that fit each step
	least     float64 // value that a plan must exceed
	most      float64 // value of the best plan
	remaining int     // columns that may still be listed
	visits    int     // partial plans that may still be looked at
	filled    bool    // whether ahead is
	// found are the columns of all jobs listed, those of this one from first on, and plans
	// what they choose, one after the other.
	found []column
	first int
	plans []uint8
}

// reset forgets what was listed, and makes room for most columns of the given number of steps.
func (e *enumerator) reset(until, few, most, steps int) {
	e.until, e.few, e.first = until, few, 0
	e.found, e.plans = slices.Grow(e.found[:0], most), slices.Grow(e.plans[:0], most*steps)
}

// list returns the plans of a job that lose less than lossLimit against the best plan,
// whose net value at the prices is phi, by rising loss. It returns false if there are
// more than remaining, if finding them takes too long, or if time is up. What they are in is
// memory of the enumerator until reset.
func (e *enumerator) list(clock *model.Clock, j *model.Job, prices []float64, fitting []int, phi, lossLimit float64, remaining int) ([]column, bool) {
	e.clock, e.j, e.prices, e.fitting, e.most, e.least = clock, j, prices, fitting, phi, phi-lossLimit
	e.outlook.fill(j, prices, fitting)
	e.chosen = slices.Grow(e.chosen[:0], len(prices))[:len(prices)]
	// Most jobs have few columns, found sooner than the table could be filled.
	e.start(remaining, e.few, false)
	if e.visits < 0 && !clock.Up(2*len(prices)*len(j.Sizes)*lookAheadCells) {
		e.lookAhead()
		e.start(remaining, visitsPerColumn*remaining, true)
	}
	e.clock, e.j = nil, nil // It may outlive them.
	if e.remaining < 0 || e.visits < 0 || clock.Ended || clock.Past(e.until) {
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

// lookAhead fills the table of the most that can follow. Served shares are rounded
// up to the end of their interval; what follows never falls with the share, so the
// table never falls short of the truth.
func (e *enumerator) lookAhead() {
	steps := len(e.prices)
	for len(e.ahead) <= steps {
		e.ahead = append(e.ahead, make([]float64, lookAheadCells+1))
	}
	clear(e.ahead[steps])
	for t := steps - 1; t >= 0; t-- {
		shares := e.j.Shares(t)
		now, next := e.ahead[t], e.ahead[t+1]
		for cell := range now {
			now[cell] = math.Inf(-1)
		}
		for k := range e.fitting[t] {
			cost := e.cost(t, k)
			whole := e.j.Tail[t] - cost - e.outlook.least[t+1]
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

// interval returns the interval whose end is not below the share.
func interval(share float64) int {
	return min(lookAheadCells, int(math.Ceil(share*lookAheadCells)))
}

// cost returns the price of the k-th size in step t and, in the first step, its cost.
func (e *enumerator) cost(t, k int) float64 {
	cost := e.prices[t] * float64(e.j.Sizes[k])
	if t == 0 {
		cost += e.j.Cost[k]
	}
	return cost
}

// extend lists the columns that begin with the first t sizes chosen, which serve
// share and have value.
func (e *enumerator) extend(t int, share, value float64) {
	steps := len(e.prices)
	if e.visits--; e.remaining < 0 || e.visits < 0 || e.clock.Up(4*len(e.j.Sizes)) || e.clock.Past(e.until) {
		return
	}
	if t == steps {
		e.emit(value)
		return
	}
	if e.outlook.most(e.j, t, share, value) <= e.least ||
		e.filled && value+e.ahead[t][interval(share)] <= e.least {
		return
	}
	shares := e.j.Shares(t)
	closing := math.Inf(-1) // best value of a smaller size that finishes the job
	for k := range e.fitting[t] {
		e.chosen[t] = uint8(k)
		net, after := value-e.cost(t, k), share+shares[k]
		if after < model.Finished {
			e.extend(t+1, after, net+e.j.Gain[t]*after)
			continue
		}
		// A larger size that finishes the job too is of use only where it gains
		// more, as a size kept is.
		gross := net + e.prices[t]*float64(e.j.Sizes[k])
		if gross <= closing {
			continue
		}
		closing = gross
		clear(e.chosen[t+1:])
		e.emit(net + e.j.Tail[t] - e.outlook.least[t+1])
	}
}

// emit lists the plan in chosen if its value is large enough.
func (e *enumerator) emit(value float64) {
	if value <= e.least {
		return
	}
	if e.remaining--; e.remaining < 0 {
		return
	}
	from := len(e.plans)
	e.plans = append(e.plans, e.chosen...)
	e.found = append(e.found, column{loss: max(0, e.most-value), chosen: e.plans[from:len(e.plans):len(e.plans)]})
}

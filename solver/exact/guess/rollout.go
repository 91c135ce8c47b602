package guess

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The rollout: a good plan from any prices.
//
// At prices lambda a job that has been served the share s of its demand by the start
// of step t can still add
//
//	V_t(s) = max over sizes k of  gain_t s' - lambda_t n_k + V_(t+1)(s'),
//	s'     = min(1, s + share_k),
//
// kept at the ends of rolloutCells intervals of the share and interpolated between
// them. From the first step to the last, the nodes of each step are then given out by
// an exact knapsack over all jobs, a job's size having the value gain_t s' +
// V_(t+1)(s') at the share s that it was really served. Prices only say what the
// future is like; in the step itself they play no part. The plan is always legal and
// fills every step, and jobs that are equal are told apart by what they were served.
// (Bertsekas, "Rollout Algorithms for Discrete Optimization" (2013).)

const (
	// rolloutCells is the number of intervals of the share served.
	rolloutCells = 64
	// MaxRolloutWork limits the operations of one rollout.
	MaxRolloutWork = 4_000_000
)

// Chooser solves the knapsack of a step.
type Chooser interface {
	model.Knapsack
	// Choose returns the options chosen for a capacity that the smallest ones fit, by item,
	// in memory that is used again; false if time is up.
	Choose(clock *model.Clock, capacity int, precision float64) ([]uint8, bool)
}

// Rollout makes plans from prices.
type Rollout struct {
	in *model.Instance
	// classOf is the class of each finishing job, classes one job of each.
	classOf []int
	classes []int
	// ahead holds V of every class and step, the ends of the intervals one after the other.
	ahead    *[]float64
	knapsack Chooser
	served   []float64
}

// NewRollout returns a rollout that solves steps by the knapsack, and works in ahead.
func NewRollout(clock *model.Clock, in *model.Instance, k Chooser, ahead *[]float64) *Rollout {
	r := &Rollout{in: in, knapsack: k, ahead: ahead, served: make([]float64, len(in.Finishing))}
	r.classOf, r.classes = in.Classes(clock, in.Finishing)
	return r
}

// Work estimates the operations of one rollout.
func (r *Rollout) Work() int {
	work := 0
	for _, i := range r.classes {
		work += len(r.in.Jobs[i].Sizes) * rolloutCells
	}
	for i := range r.in.Jobs {
		work += 8 * len(r.in.Jobs[i].Sizes)
	}
	return work * r.in.Steps
}

// Plan returns a legal plan made from prices, nil if time is up before there is one.
func (r *Rollout) Plan(clock *model.Clock, prices []float64) *model.Plan {
	return r.PlanAt(clock, func(n, t, k int) float64 { return prices[t] * float64(r.in.Jobs[r.classes[n]].Sizes[k]) })
}

// PlanAt returns a legal plan made from what the k-th size costs a job of the n-th class
// in step t.
func (r *Rollout) PlanAt(clock *model.Clock, cost func(n, t, k int) float64) *model.Plan {
	rows := len(r.classes) * (r.in.Steps + 1) * (rolloutCells + 1)
	*r.ahead = slices.Grow((*r.ahead)[:0], rows)[:rows]
	for n, i := range r.classes {
		if !r.lookAhead(clock, n, &r.in.Jobs[i], cost) {
			return nil
		}
	}
	clear(r.served)
	p := model.NewPlan(r.in)
	for t := range r.in.Steps {
		r.options(clock, t)
		choices, ok := r.knapsack.Choose(clock, r.in.Capacity[t], r.in.Precision/float64(r.in.Steps))
		if !ok {
			return p // the steps to come keep their smallest sizes
		}
		for n, i := range r.in.Separable {
			p.Of(i)[t] = choices[n]
		}
		for f, i := range r.in.Finishing {
			k := choices[len(r.in.Separable)+f]
			p.Of(i)[t] = k
			r.served[f] = min(1, r.served[f]+r.in.Jobs[i].Shares(t)[k])
		}
	}
	return p
}

// lookAhead fills V of the n-th class. It returns false if time is up.
func (r *Rollout) lookAhead(clock *model.Clock, n int, j *model.Job, costOf func(n, t, k int) float64) bool {
	const width = rolloutCells + 1
	steps := r.in.Steps
	clear(r.after(n, steps))
	for t := steps - 1; t > 0; t-- {
		if clock.Add(2 * width * len(j.Sizes)) {
			return false
		}
		now, next := r.after(n, t), r.after(n, t+1)
		for k, share := range j.Shares(t)[:r.in.Fitting(j, t)] {
			cost, gain := costOf(n, t, k), j.Gain[t]
			whole, part := cellsOf(share)
			finished := gain + next[rolloutCells] - cost
			open := rolloutCells - whole // A job that was served less does not finish.
			ahead := next[whole:]
			for cell, from := range ahead[:open] {
				served := float64(cell)/rolloutCells + share
				value := gain*served + from + part*(ahead[cell+1]-from) - cost
				if k == 0 || value > now[cell] {
					now[cell] = value
				}
			}
			for cell := open; cell < width; cell++ {
				if k == 0 || finished > now[cell] {
					now[cell] = finished
				}
			}
		}
	}
	return true
}

// after returns V of the n-th class from step t on.
func (r *Rollout) after(n, t int) []float64 {
	const width = rolloutCells + 1
	return (*r.ahead)[(n*(r.in.Steps+1)+t)*width:][:width]
}

// cellsOf splits a share into whole intervals and a part of one.
func cellsOf(share float64) (whole int, part float64) {
	if share >= 1 {
		return rolloutCells, 0
	}
	whole = int(share * rolloutCells)
	return whole, share*rolloutCells - float64(whole)
}

// options sets up the knapsack of a step: the separable jobs, then the finishing ones
// at what they were served.
func (r *Rollout) options(clock *model.Clock, t int) {
	in := r.in
	in.SeparableItems(clock, r.knapsack, t)
	for f, i := range in.Finishing {
		j := &in.Jobs[i]
		next := r.after(r.classOf[f], t+1)
		shares := j.Shares(t)
		for k, nodes := range j.Sizes[:in.Fitting(j, t)] {
			served := min(1, r.served[f]+shares[k])
			at, part := cellsOf(served)
			value := j.Gain[t]*served + next[at]
			if part > 0 {
				value += part * (next[at+1] - next[at])
			}
			if t == 0 {
				value -= j.Cost[k]
			}
			r.knapsack.Option(nodes, value)
			if r.served[f] >= model.Finished {
				break // it holds its smallest size
			}
		}
		r.knapsack.Item()
	}
}

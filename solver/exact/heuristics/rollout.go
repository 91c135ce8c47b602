package heuristics

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// The rollout: a plan from any prices, step by step.
//
// At prices lambda, the value-to-go of a job that has been served the share s of its demand by the
// start of step t is
//
//	V_t(s) = max over sizes k of  gain_t s' - lambda_t n_k + V_(t+1)(s'),
//	s'     = min(1, s + share_k).
//
// It is tabulated at the ends of rolloutCells intervals of the share, with linear interpolation.
// From the first step to the last, an exact knapsack over all jobs allocates the nodes of the step.
// The value of a size is gain_t s' + V_(t+1)(s') at the share s that the job has actually been
// served. Prices only approximate the future; the knapsack of the current step does not use them.
// The plan is always legal and uses every step fully, and identical jobs can be served differently.
// (Bertsekas, "Rollout Algorithms for Discrete Optimization" (2013).)

// rolloutCells is the number of intervals of the share served. With 16, BenchmarkSizePrices (go test
// ./solver/exact -run '^$' -bench SizePrices -benchtime 1x) loses a proof of a hyperparameter sweep, and
// with 256, BenchmarkInstances takes 1.2 times the CPU time.
const rolloutCells = 64

// Chooser solves the knapsack of a step.
type Chooser interface {
	model.Knapsack
	// Choose returns the chosen option of each item, in reused memory, for a capacity that the
	// smallest options fit. It returns false if the deadline has passed.
	Choose(clock *model.Clock, capacity int, precision float64) ([]uint8, bool)
}

// Rollout derives plans from prices.
type Rollout struct {
	in *model.Instance
	// classOf is the class of each finishing job, and classes contains one job per class.
	classOf []int
	classes []int
	// toGo contains the table of V of every class and step.
	toGo     *[]float64
	knapsack Chooser
	served   []float64
}

// NewRollout returns a rollout that solves steps with the knapsack k and stores tables in toGo.
func NewRollout(clock *model.Clock, in *model.Instance, k Chooser, toGo *[]float64) *Rollout {
	r := &Rollout{in: in, knapsack: k, toGo: toGo, served: make([]float64, len(in.Finishing))}
	r.classOf, r.classes = in.Classes(clock, in.Finishing)
	return r
}

// Work estimates the number of operations of one rollout.
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

// Plan returns a legal plan derived from node prices, or nil if the deadline has passed.
func (r *Rollout) Plan(clock *model.Clock, prices []float64) *model.Plan {
	return r.PlanAt(clock, func(n, t, k int) float64 { return prices[t] * float64(r.in.Jobs[r.classes[n]].Sizes[k]) })
}

// PlanAt returns a legal plan derived from the cost of the k-th size for a job of the n-th class in
// step t, or nil if the deadline has passed.
func (r *Rollout) PlanAt(clock *model.Clock, cost func(n, t, k int) float64) *model.Plan {
	rows := len(r.classes) * (r.in.Steps + 1) * (rolloutCells + 1)
	*r.toGo = slices.Grow((*r.toGo)[:0], rows)[:rows]
	for n, i := range r.classes {
		if !r.fillToGo(clock, n, &r.in.Jobs[i], cost) {
			return nil
		}
	}
	clear(r.served)
	p := model.NewPlan(r.in)
	for t := range r.in.Steps {
		r.setItems(clock, t)
		choices, ok := r.knapsack.Choose(clock, r.in.Capacity[t], r.in.Precision/float64(r.in.Steps))
		if !ok {
			return p // the remaining steps keep the smallest sizes
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

// fillToGo computes V of the n-th class. It returns false if the deadline has passed.
func (r *Rollout) fillToGo(clock *model.Clock, n int, j *model.Job, costOf func(n, t, k int) float64) bool {
	const width = rolloutCells + 1
	steps := r.in.Steps
	clear(r.toGoFrom(n, steps))
	for t := steps - 1; t > 0; t-- {
		if clock.Add(2 * width * len(j.Sizes)) {
			return false
		}
		now, next := r.toGoFrom(n, t), r.toGoFrom(n, t+1)
		for k, share := range j.Shares(t)[:r.in.Fitting(j, t)] {
			cost, gain := costOf(n, t, k), j.Gain[t]
			whole, part := splitShare(share)
			finished := gain + next[rolloutCells] - cost
			open := rolloutCells - whole // A job with a smaller share does not finish.
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

// toGoFrom returns the table of V of the n-th class from step t on.
func (r *Rollout) toGoFrom(n, t int) []float64 {
	const width = rolloutCells + 1
	return (*r.toGo)[(n*(r.in.Steps+1)+t)*width:][:width]
}

// splitShare returns the number of whole intervals in a share and the remaining fraction of an
// interval.
func splitShare(share float64) (whole int, part float64) {
	if share >= 1 {
		return rolloutCells, 0
	}
	whole = int(share * rolloutCells)
	return whole, share*rolloutCells - float64(whole)
}

// setItems sets up the knapsack of a step: the separable jobs, then the finishing jobs at their
// shares served.
func (r *Rollout) setItems(clock *model.Clock, t int) {
	in := r.in
	in.SeparableItems(clock, r.knapsack, t)
	for f, i := range in.Finishing {
		j := &in.Jobs[i]
		next := r.toGoFrom(r.classOf[f], t+1)
		shares := j.Shares(t)
		for k, nodes := range j.Sizes[:in.Fitting(j, t)] {
			served := min(1, r.served[f]+shares[k])
			at, part := splitShare(served)
			value := j.Gain[t]*served + next[at]
			if part > 0 {
				value += part * (next[at+1] - next[at])
			}
			if t == 0 {
				value -= j.Cost[k]
			}
			r.knapsack.Option(nodes, value)
			if r.served[f] >= model.Finished {
				break // a finished job has its smallest size
			}
		}
		r.knapsack.Item()
	}
}

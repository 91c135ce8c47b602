package exact

import (
	"github.com/elastalloc/elastalloc/solver"
)

// instance is a problem in the units of the search: work as shares of a job's
// demand, sizes by their position in the job's list.
//
// Equal plans are told apart by a tie cost that is taken off the objective: per
// job tieUnit * ([first-step nodes != current] * (N+1) + first-step nodes), which
// orders plans of equal objective by changed jobs first and nodes now second. All
// tie costs together are at most tieShare of what the jobs could be worth, far
// below what counts as proven optimal, so that one search does both.
type instance struct {
	nodes int
	steps int
	jobs  []job
	// separable and finishing split the jobs: a job that cannot finish within the
	// horizon even on its fastest sizes is a sum of independent steps.
	separable []int
	finishing []int
	// worth is what the jobs are worth together if each had the pool for itself.
	worth float64
	// tieUnit and tieTotal are the tie cost of one node and the most that all tie
	// costs can come to.
	tieUnit, tieTotal float64
	// precision is the difference in objective below which two plans are equal.
	precision float64
}

// job is an admitted job in the units of the search.
type job struct {
	weight float64
	sizes  []int32
	// first and later are the shares of the demand served per size in the first
	// and in every later step.
	first, later []float64
	// tie is the tie cost per size in the first step.
	tie []float64
}

const (
	// tieShare bounds all tie costs together, as a share of instance.worth.
	tieShare = 1e-11
	// noiseShare is the rounding noise of a sum of plan values, as a share of
	// instance.worth.
	noiseShare = 1e-15
	// finished is the share of its demand from which on a job is done; the
	// difference to 1 absorbs the rounding of sums of shares.
	finished = 1 - 1e-12
)

// newInstance converts a problem.
func newInstance(p *solver.Problem) *instance {
	in := &instance{nodes: p.Nodes, steps: p.Steps, jobs: make([]job, len(p.Jobs))}
	for i := range p.Jobs {
		from := &p.Jobs[i]
		j := &in.jobs[i]
		j.weight = from.Weight
		j.sizes = make([]int32, len(from.Sizes))
		block := make([]float64, 3*len(from.Sizes))
		j.first, j.later, j.tie = block[:len(j.sizes)], block[len(j.sizes):2*len(j.sizes)], block[2*len(j.sizes):]
		mostFirst, mostLater := 0.0, 0.0
		for k, nodes := range from.Sizes {
			j.sizes[k] = int32(nodes)
			j.first[k] = from.FirstStepWork[k] / from.Demand
			j.later[k] = from.StepWork[k] / from.Demand
			mostFirst, mostLater = max(mostFirst, j.first[k]), max(mostLater, j.later[k])
		}
		if mostFirst+float64(p.Steps-1)*mostLater < 1 {
			in.separable = append(in.separable, i)
		} else {
			in.finishing = append(in.finishing, i)
		}
		share := mostFirst
		for range p.Steps {
			in.worth += j.weight * min(1, share)
			share += mostLater
		}
	}
	in.setTies(p)
	return in
}

// setTies sets the tie cost of every size and the precision of the search.
func (in *instance) setTies(p *solver.Problem) {
	// A job contributes at most one change and its largest size, all jobs together
	// at most the pool.
	units := float64(len(in.jobs)*(in.nodes+1) + in.nodes)
	in.tieTotal = tieShare * in.worth
	if in.tieTotal == 0 {
		in.tieTotal = tieShare // jobs without weight still change as little as can be
	}
	in.tieUnit = in.tieTotal / max(1, units)
	in.precision = max(in.tieUnit/4, noiseShare*in.worth)
	for i := range in.jobs {
		j := &in.jobs[i]
		for k, nodes := range j.sizes {
			cost := float64(nodes)
			if int(nodes) != p.Jobs[i].Current {
				cost += float64(in.nodes + 1)
			}
			j.tie[k] = in.tieUnit * cost
		}
	}
}

// shares returns the shares of the job's demand served per size in step t.
func (j *job) shares(t int) []float64 {
	if t == 0 {
		return j.first
	}
	return j.later
}

// value returns what a plan, given as a position in sizes per step, is worth in
// the search: weighted progress less tie cost.
func (j *job) value(picks []uint8) float64 {
	share, value := 0.0, 0.0
	for t, k := range picks {
		share = min(1, share+j.shares(t)[k])
		value += share
	}
	return j.weight*value - j.tie[picks[0]]
}

// tieCost returns the tie cost of a whole plan.
func (in *instance) tieCost(plan [][]uint8) float64 {
	cost := 0.0
	for i := range in.jobs {
		cost += in.jobs[i].tie[plan[i][0]]
	}
	return cost
}

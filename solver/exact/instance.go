package exact

import (
	"cmp"
	"errors"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver"
)

// instance is a problem in the units of the search: work as shares of a job's
// demand, sizes by their position in the job's list.
//
// Equal plans are told apart by a tie cost that is taken off the objective: per
// job tieUnit * ([first-step nodes != current] * (N+1) + first-step nodes), which
// orders plans of equal objective by changed jobs first and nodes now second. All
// tie costs together are at most tieShare of the objective's scale, far below what counts as proven optimal, so that one search does both.
type instance struct {
	nodes int
	steps int
	// free is the number of nodes left when every job holds its smallest size.
	free int
	jobs []job
	// separable and finishing split the jobs: a job that cannot finish within the
	// horizon even on its fastest sizes is a sum of independent steps.
	separable []int
	finishing []int
	// weightUnit is the largest weight. The search has weights as shares of it, since
	// scaling all weights alike changes no decision.
	weightUnit float64
	// worth is a crude upper bound on the objective.
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
	// tieShare bounds all tie costs together, as a share of the objective's scale.
	tieShare = 1e-11
	// noiseShare is the rounding noise of a sum of plan values, as a share of
	// instance.worth.
	noiseShare = 1e-15
	// finished is the share of its demand from which on a job is done; the
	// difference to 1 absorbs the rounding of sums of shares.
	finished = 1 - 1e-12
)

// errInfeasible is returned for a problem that admission cannot have made.
var errInfeasible = errors.New("the smallest sizes of all jobs together exceed the pool")

// newInstance converts a problem.
func newInstance(p *solver.Problem) (*instance, error) {
	in := &instance{nodes: p.Nodes, steps: p.Steps, jobs: make([]job, len(p.Jobs))}
	for i := range p.Jobs {
		in.weightUnit = max(in.weightUnit, p.Jobs[i].Weight)
	}
	// A size that does not fit beside everybody else's smallest size is never used.
	free := p.Nodes
	for i := range p.Jobs {
		free -= p.Jobs[i].Sizes[0]
	}
	if free < 0 {
		return nil, errInfeasible
	}
	for i := range p.Jobs {
		from := &p.Jobs[i]
		usable := sort.SearchInts(from.Sizes, from.Sizes[0]+free+1)
		j := &in.jobs[i]
		if from.Weight > 0 {
			j.weight = from.Weight / in.weightUnit
		}
		j.sizes = make([]int32, usable)
		block := make([]float64, 3*usable)
		j.first, j.later, j.tie = block[:usable], block[usable:2*usable], block[2*usable:]
		for k := range j.sizes {
			j.sizes[k] = int32(from.Sizes[k])
			j.first[k] = from.FirstStepWork[k] / from.Demand
			j.later[k] = from.StepWork[k] / from.Demand
		}
		if slices.Max(j.first)+float64(p.Steps-1)*slices.Max(j.later) < finished {
			in.separable = append(in.separable, i)
		} else {
			in.finishing = append(in.finishing, i)
		}
	}
	in.free = free
	in.worth = in.appraise()
	in.setTies(p, in.worth)
	return in, nil
}

// size returns the number of sizes over all jobs and steps.
func (in *instance) size() int {
	sizes := 0
	for i := range in.jobs {
		sizes += len(in.jobs[i].sizes)
	}
	return sizes * in.steps
}

// appraise returns an upper bound on the objective that is within a small factor
// of it: every job has its smallest size, and they share the free node-steps as in
// a fractional knapsack, each worth what it gains alone in the pool, at no more per
// node-step than its best size brings.
func (in *instance) appraise() float64 {
	type lot struct{ gain, nodeSteps float64 }
	var lots []lot
	total := 0.0
	for i := range in.jobs {
		j := &in.jobs[i]
		least := j.progress(in.steps, j.first[0], j.later[0])
		total += j.weight * least
		gain := j.weight * (j.progress(in.steps, slices.Max(j.first), slices.Max(j.later)) - least)
		perNode := 0.0
		for k := 1; k < len(j.sizes); k++ {
			perNode = max(perNode, max(j.first[k], j.later[k])/float64(j.sizes[k]-j.sizes[0]))
		}
		if gain > 0 {
			lots = append(lots, lot{gain, gain / (j.weight * float64(in.steps) * perNode)})
		}
	}
	slices.SortStableFunc(lots, func(a, b lot) int { return cmp.Compare(b.gain/b.nodeSteps, a.gain/a.nodeSteps) })
	left := float64(in.free) * float64(in.steps)
	for _, l := range lots {
		if l.nodeSteps >= left {
			return total + l.gain*left/l.nodeSteps
		}
		total, left = total+l.gain, left-l.nodeSteps
	}
	return total
}

// progress returns the progress summed over the steps of a job that serves the
// given shares in the first and in every later step.
func (j *job) progress(steps int, first, later float64) float64 {
	sum, share := 0.0, first
	for range steps {
		sum += min(1, share)
		share += later
	}
	return sum
}

// setTies sets the tie cost of every size and the precision of the search for an
// objective of about the given scale.
func (in *instance) setTies(p *solver.Problem, scale float64) {
	if scale == 0 {
		scale = 1 // jobs that are worth nothing still change as little as can be
	}
	// A job contributes at most one change and its largest size, all jobs together
	// at most the pool.
	units := float64(len(in.jobs)*(in.nodes+1) + in.nodes)
	in.tieTotal = tieShare * scale
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

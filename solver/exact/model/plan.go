package model

import (
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/problem"
)

// Plan is a size index per job and step.
type Plan struct {
	steps int
	sizes []uint8 // steps per job
}

// NewPlan returns the plan in which every job has its smallest size.
func NewPlan(in *Instance) *Plan { return &Plan{in.Steps, make([]uint8, len(in.Jobs)*in.Steps)} }

// Of returns the size indices of a job by step. The caller may set them.
func (p *Plan) Of(job int) []uint8 { return p.sizes[job*p.steps : (job+1)*p.steps] }

// Clone returns a copy of the plan.
func (p *Plan) Clone() *Plan { return &Plan{p.steps, slices.Clone(p.sizes)} }

// PlanOf converts a plan of the problem to a legal plan of the search. A number of nodes that is
// not a size is replaced by the next smaller size, or the smallest one. If the nodes exceed the
// capacity, the jobs with the most nodes in addition to their smallest size are reduced. PlanOf
// returns nil if the plan has a different number of jobs or steps.
func (in *Instance) PlanOf(plan problem.Plan) *Plan {
	if len(plan) != len(in.Jobs) {
		return nil
	}
	p := NewPlan(in)
	free := slices.Clone(in.Free)
	for i := range plan {
		if len(plan[i]) != in.Steps {
			return nil
		}
		sizes := in.Jobs[i].Sizes
		for t, option := range plan[i] {
			k, legal := slices.BinarySearch(sizes, option.Nodes)
			if !legal {
				k = max(0, k-1)
			}
			p.Of(i)[t] = uint8(k)
			free[t] -= int(sizes[k] - sizes[0])
		}
	}
	if len(in.Groups) > 0 {
		free[0] += in.ShrinkGroups(p)
	}
	for t := range free {
		if free[t] < 0 {
			in.shrink(p, t, -free[t], in.EveryJob())
		}
	}
	return p
}

// EveryJob returns the indices of all jobs.
func (in *Instance) EveryJob() []int {
	all := in.Memory.Ints.Take(len(in.Jobs))
	for i := range all {
		all[i] = i
	}
	return all
}

// shrink removes at least the given number of nodes from the given jobs in step t, starting with
// the jobs that have the most nodes in addition to their smallest size. It returns the number of
// nodes removed.
func (in *Instance) shrink(p *Plan, t, nodes int, jobs []int) (taken int) {
	// Each number has the nodes of a job in its upper half and its position in the lower half.
	// slices.SortStableFunc would take a twentieth of the CPU time of BenchmarkDecision, 1,000 jobs.
	order := in.Memory.Ints.Take(len(jobs))[:0]
	for n, i := range jobs {
		if k := p.Of(i)[t]; k > 0 {
			order = append(order, n-int(in.Jobs[i].Sizes[k]-in.Jobs[i].Sizes[0])<<32)
		}
	}
	slices.Sort(order)
	for n := range order {
		order[n] = jobs[uint32(order[n])]
	}
	for taken < nodes {
		for _, i := range order {
			if taken >= nodes {
				break
			}
			if k := p.Of(i)[t]; k > 0 {
				taken += int(in.Jobs[i].Sizes[k] - in.Jobs[i].Sizes[k-1])
				p.Of(i)[t]--
			}
		}
	}
	return taken
}

// Value returns the objective of a plan minus its tie cost, and the sum of the magnitudes of its
// terms. It does not stop at the deadline.
func (in *Instance) Value(clock *Clock, p *Plan) (total, magnitude float64) {
	for i := range in.Jobs {
		j := &in.Jobs[i]
		value, cost := j.Value(p.Of(i)), j.Cost[p.Of(i)[0]]
		total, magnitude = total+value, magnitude+math.Abs(value+cost)+math.Abs(cost)
		clock.Add(in.Steps)
	}
	if len(in.Groups) > 0 {
		short := in.shortfall(p)
		total, magnitude = total-short, magnitude+short
	}
	return total, magnitude
}

// Legal reports whether a plan respects the capacity of the pool and the limits of groups.
func (in *Instance) Legal(p *Plan) bool {
	free := slices.Clone(in.Capacity)
	for i := range in.Jobs {
		for t, k := range p.Of(i) {
			free[t] -= int(in.Jobs[i].Sizes[k])
		}
	}
	if slices.Min(free) < 0 {
		return false
	}
	if len(in.Groups) == 0 {
		return true
	}
	for g, nodes := range in.GroupNodes(p) {
		if nodes > in.Groups[g].Limit {
			return false
		}
	}
	return true
}

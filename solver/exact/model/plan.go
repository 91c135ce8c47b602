package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/problem"
)

// Plan is a size per job and step, by position in the job's sizes; nil is no plan.
type Plan struct {
	steps int
	sizes []uint8 // steps per job
}

// NewPlan returns the plan in which every job holds its smallest size.
func NewPlan(in *Instance) *Plan { return &Plan{in.Steps, make([]uint8, len(in.Jobs)*in.Steps)} }

// Of returns the sizes of a job, which may be set.
func (p *Plan) Of(job int) []uint8 { return p.sizes[job*p.steps : (job+1)*p.steps] }

// Clone returns a copy.
func (p *Plan) Clone() *Plan { return &Plan{p.steps, slices.Clone(p.sizes)} }

// PlanOf returns a plan of the problem in the units of the search, made legal: a size
// that is not becomes the next smaller one, or the smallest, and where that takes more
// nodes than there are, the jobs that hold most beyond their smallest size give some
// back. It returns nil for a plan of other jobs or steps.
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
		for t, held := range plan[i] {
			k, legal := slices.BinarySearch(sizes, held.Nodes)
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

// EveryJob returns the positions of all jobs.
func (in *Instance) EveryJob() []int {
	all := in.Memory.Ints.Take(len(in.Jobs))
	for i := range all {
		all[i] = i
	}
	return all
}

// shrink takes at least this many nodes from the given jobs in step t, those first that hold
// most beyond their smallest size, and returns how many it took.
func (in *Instance) shrink(p *Plan, t, nodes int, jobs []int) (taken int) {
	beyond := func(i int) int32 { return in.Jobs[i].Sizes[p.sizes[i*p.steps+t]] - in.Jobs[i].Sizes[0] }
	order := in.Memory.Ints.Take(len(jobs))[:0]
	for _, i := range jobs {
		if p.Of(i)[t] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(beyond(b), beyond(a)) })
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

// Value returns the objective of a plan less its tie cost, whatever the time, and the sum
// of the magnitudes of what it is made of, some of which may cancel out.
func (in *Instance) Value(clock *Clock, p *Plan) (total, magnitude float64) {
	for i := range in.Jobs {
		j := &in.Jobs[i]
		value, cost := j.Value(p.Of(i)), j.Cost[p.Of(i)[0]]
		total, magnitude = total+value, magnitude+math.Abs(value+cost)+math.Abs(cost)
		clock.Up(in.Steps)
	}
	if len(in.Groups) > 0 {
		short := in.shortfall(p)
		total, magnitude = total-short, magnitude+short
	}
	return total, magnitude
}

// Legal reports whether a plan keeps to the pool and to the limits of groups.
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

package exact

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// plan is a size per job and step, by position in the job's sizes.
type plan [][]uint8

// newPlan returns the plan in which every job holds its smallest size.
func newPlan(in *instance) plan {
	block := make([]uint8, len(in.jobs)*in.steps)
	p := make(plan, len(in.jobs))
	for i := range p {
		p[i], block = block[:in.steps:in.steps], block[in.steps:]
	}
	return p
}

// planOf returns a plan of the problem in the units of the search, made legal: a size
// that is not becomes the next smaller one, or the smallest, and where that takes more
// nodes than there are, the jobs that hold most beyond their smallest size give some
// back. It returns nil for a plan of other jobs or steps.
func (in *instance) planOf(nodes solver.Plan) plan {
	if len(nodes) != len(in.jobs) {
		return nil
	}
	p := newPlan(in)
	free := slices.Clone(in.free)
	for i := range p {
		if len(nodes[i]) != in.steps {
			return nil
		}
		sizes := in.jobs[i].sizes
		for t, held := range nodes[i] {
			k, legal := slices.BinarySearch(sizes, int32(min(held, math.MaxInt32)))
			if !legal {
				k = max(0, k-1)
			}
			p[i][t] = uint8(k)
			free[t] -= int(sizes[k] - sizes[0])
		}
	}
	if len(in.groups) > 0 {
		free[0] += in.shrinkGroups(p)
	}
	for t := range free {
		if free[t] < 0 {
			in.shrink(p, t, -free[t], in.everyJob())
		}
	}
	return p
}

// everyJob returns the positions of all jobs.
func (in *instance) everyJob() []int {
	all := make([]int, len(in.jobs))
	for i := range all {
		all[i] = i
	}
	return all
}

// shrink takes at least this many nodes from the given jobs in step t, those first that hold
// most beyond their smallest size, and returns how many it took.
func (in *instance) shrink(p plan, t, nodes int, jobs []int) (taken int) {
	beyond := func(i int) int32 { return in.jobs[i].sizes[p[i][t]] - in.jobs[i].sizes[0] }
	var order []int
	for _, i := range jobs {
		if p[i][t] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(beyond(b), beyond(a)) })
	for taken < nodes {
		for _, i := range order {
			if taken >= nodes {
				break
			}
			if k := p[i][t]; k > 0 {
				taken += int(in.jobs[i].sizes[k] - in.jobs[i].sizes[k-1])
				p[i][t]--
			}
		}
	}
	return taken
}

// value returns the objective of a plan less its tie cost, whatever the time, and the sum
// of the magnitudes of what it is made of, some of which may cancel out.
func (in *instance) value(c *clock, p plan) (total, magnitude float64) {
	for i := range p {
		j := &in.jobs[i]
		value, cost := j.value(p[i]), j.cost[p[i][0]]
		total, magnitude = total+value, magnitude+math.Abs(value+cost)+math.Abs(cost)
		c.up(in.steps)
	}
	if len(in.groups) > 0 {
		short := in.shortfall(p)
		total, magnitude = total-short, magnitude+short
	}
	return total, magnitude
}

// legal reports whether a plan keeps to the pool and to the limits of groups.
func (in *instance) legal(p plan) bool {
	for t, capacity := range in.capacity {
		held := 0
		for i := range p {
			held += int(in.jobs[i].sizes[p[i][t]])
		}
		if held > capacity {
			return false
		}
	}
	if len(in.groups) == 0 {
		return true
	}
	for g, nodes := range in.groupNodes(p) {
		if nodes > in.groups[g].Limit {
			return false
		}
	}
	return true
}

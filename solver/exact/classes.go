package exact

import (
	"math"
	"math/bits"
	"slices"
)

// classes tells which of the given jobs are equal to the search: of equal gains, sizes,
// shares and costs in one group. It returns the class of each, and one job of each class,
// whatever the time.
func (in *instance) classes(c *clock, jobs []int) (classOf, classes []int) {
	classOf = make([]int, len(jobs))
	// An open-addressing hash table of classes, -1 where empty.
	table := make([]int32, 1<<bits.Len(uint(2*len(jobs))))
	for slot := range table {
		table[slot] = -1
	}
	mask := len(table) - 1
	for n, i := range jobs {
		j := &in.jobs[i]
		hash := uint64(len(j.sizes)) ^ uint64(j.group)<<32
		for k := range j.sizes {
			hash = (hash ^ math.Float64bits(j.later[k]) ^ math.Float64bits(j.cost[k])<<1) * 1099511628211
			hash ^= hash >> 29
		}
		slot := int(hash) & mask
		for table[slot] >= 0 && !j.equals(&in.jobs[classes[table[slot]]]) {
			slot = (slot + 1) & mask
		}
		if table[slot] < 0 {
			table[slot] = int32(len(classes))
			classes = append(classes, i)
		}
		classOf[n] = int(table[slot])
		c.up(4 * len(j.sizes))
	}
	return classOf, classes
}

// order gives the rows of a plan to equal jobs in an order of their own, the largest
// sizes first, so that the plan does not depend on the way the search took.
func (in *instance) order(c *clock, p plan) {
	classOf, classes := in.classes(c, in.everyJob())
	members := make([][]int, len(classes))
	for i, class := range classOf {
		members[class] = append(members[class], i)
	}
	for _, equal := range members {
		if len(equal) < 2 {
			continue
		}
		rows := make([][]uint8, len(equal))
		for n, i := range equal {
			rows[n] = p[i]
		}
		slices.SortStableFunc(rows, func(a, b []uint8) int { return slices.Compare(b, a) })
		for n, i := range equal {
			p[i] = rows[n]
		}
	}
}

// trim takes nodes that bring nothing from the finishing jobs in later steps, such as
// those beyond what finishes a job.
func (in *instance) trim(p plan) {
	for _, i := range in.finishing {
		j := &in.jobs[i]
		value := j.value(p[i])
		for t := 1; t < in.steps; t++ {
			held := p[i][t]
			for k := range held {
				if p[i][t] = k; j.value(p[i]) >= value {
					break
				}
				p[i][t] = held
			}
		}
	}
}

// equals reports whether two jobs are equal to the search.
func (j *job) equals(other *job) bool {
	return j.group == other.group && slices.Equal(j.sizes, other.sizes) && slices.Equal(j.later, other.later) && slices.Equal(j.first, other.first) &&
		slices.Equal(j.cost, other.cost) && slices.Equal(j.gain, other.gain)
}

// similar reports whether two jobs differ at most in their first step.
func (j *job) similar(other *job) bool {
	return slices.Equal(j.sizes, other.sizes) && slices.Equal(j.later, other.later) && slices.Equal(j.gain, other.gain)
}

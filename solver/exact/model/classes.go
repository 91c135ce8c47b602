package model

import (
	"math"
	"math/bits"
	"slices"
)

// Classes partitions the given jobs into classes of identical jobs: jobs with equal gains, sizes,
// shares, costs and group. It returns the class of each job, and one job per class. It does not
// stop at the deadline.
func (in *Instance) Classes(clock *Clock, jobs []int) (classOf, classes []int) {
	classOf, classes = in.Memory.Ints.Take(len(jobs)), in.Memory.Ints.Take(len(jobs))[:0]
	// Open-addressing hash table of classes; -1 marks an empty slot.
	slots := in.Memory.slots.Take(1 << bits.Len(uint(2*len(jobs))))
	for slot := range slots {
		slots[slot] = -1
	}
	mask := len(slots) - 1
	for n, i := range jobs {
		j := &in.Jobs[i]
		hash := uint64(len(j.Sizes)) ^ uint64(j.Group)<<32
		for k := range j.Sizes {
			hash = (hash ^ math.Float64bits(j.Later[k]) ^ math.Float64bits(j.Cost[k])<<1) * 1099511628211
			hash ^= hash >> 29
		}
		slot := int(hash) & mask
		for slots[slot] >= 0 && !j.equals(&in.Jobs[classes[slots[slot]]]) {
			slot = (slot + 1) & mask
		}
		if slots[slot] < 0 {
			slots[slot] = int32(len(classes))
			classes = append(classes, i)
		}
		classOf[n] = int(slots[slot])
		clock.Add(4 * len(j.Sizes))
	}
	return classOf, classes
}

// Order sorts the rows of a plan within each class of identical jobs, by decreasing sizes. The plan
// is then independent of the path of the search.
func (in *Instance) Order(clock *Clock, p *Plan) {
	classOf, classes := in.Classes(clock, in.EveryJob())
	if len(classes) == len(in.Jobs) {
		return
	}
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
			rows[n] = slices.Clone(p.Of(i))
		}
		slices.SortStableFunc(rows, func(a, b []uint8) int { return slices.Compare(b, a) })
		for n, i := range equal {
			copy(p.Of(i), rows[n])
		}
	}
}

// Trim reduces the sizes of finishing jobs in later steps if that does not lower the value, for
// example after a job has finished.
func (in *Instance) Trim(p *Plan) {
	for _, i := range in.Finishing {
		j := &in.Jobs[i]
		value := j.Value(p.Of(i))
		for t := 1; t < in.Steps; t++ {
			current := p.Of(i)[t]
			for k := range current {
				if p.Of(i)[t] = k; j.Value(p.Of(i)) >= value {
					break
				}
				p.Of(i)[t] = current
			}
		}
	}
}

// equals reports whether two jobs are identical for the search.
func (j *Job) equals(other *Job) bool {
	return j.Group == other.Group && slices.Equal(j.Sizes, other.Sizes) &&
		slices.Equal(j.Later, other.Later) && slices.Equal(j.First, other.First) &&
		slices.Equal(j.Cost, other.Cost) && slices.Equal(j.Gain, other.Gain)
}

// similar reports whether two jobs differ at most in their first step.
func (j *Job) similar(other *Job) bool {
	return slices.Equal(j.Sizes, other.Sizes) && slices.Equal(j.Later, other.Later) && slices.Equal(j.Gain, other.Gain)
}

package exact

import (
	"math"
	"slices"
)

// classes tells which finishing jobs are equal to the search: of equal gains, sizes,
// shares and costs. It returns the class of each finishing job and one job of each
// class.
func (in *instance) classes() (classOf, classes []int) {
	classOf = make([]int, len(in.finishing))
	byHash := make(map[uint64][]int)
	for f, i := range in.finishing {
		j := &in.jobs[i]
		hash := uint64(len(j.sizes))
		for k := range j.sizes {
			hash = (hash ^ math.Float64bits(j.later[k])) * 1099511628211
			hash = (hash ^ math.Float64bits(j.cost[k])) * 1099511628211
		}
		class := -1
		for _, n := range byHash[hash] {
			if j.equals(&in.jobs[classes[n]]) {
				class = n
				break
			}
		}
		if class < 0 {
			class = len(classes)
			classes = append(classes, i)
			byHash[hash] = append(byHash[hash], class)
		}
		classOf[f] = class
	}
	return classOf, classes
}

// equals reports whether two jobs are equal to the search.
func (j *job) equals(other *job) bool {
	return slices.Equal(j.sizes, other.sizes) && slices.Equal(j.later, other.later) && slices.Equal(j.first, other.first) &&
		slices.Equal(j.cost, other.cost) && slices.Equal(j.gain, other.gain)
}

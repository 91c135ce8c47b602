package model

import "github.com/elastalloc/elastalloc/solver"

// SizeSet is a set of a job's sizes, a bit for each position in its list.
type SizeSet uint64

// The largest position is that of solver.MaxSizes legal sizes behind size 0. A sizeSet
// without a bit for it does not compile.
const _ SizeSet = 1 << solver.MaxSizes

// SmallestSizes returns the set of the first n sizes.
func SmallestSizes(n int) SizeSet { return 1<<n - 1 }

// Has reports whether the k-th size is in the set.
func (s SizeSet) Has(k int) bool { return s&(1<<k) != 0 }

// Split returns the sizes of the set before the k-th and the others.
func (s SizeSet) Split(k int) (low, high SizeSet) {
	return s & SmallestSizes(k), s &^ SmallestSizes(k)
}

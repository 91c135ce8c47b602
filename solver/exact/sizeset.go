package exact

import "github.com/elastalloc/elastalloc/solver"

// sizeSet is a set of a job's sizes, a bit for each position in its list.
type sizeSet uint64

// The largest position is that of solver.MaxSizes legal sizes behind size 0. A sizeSet
// without a bit for it does not compile.
const _ sizeSet = 1 << solver.MaxSizes

// smallestSizes returns the set of the first n sizes.
func smallestSizes(n int) sizeSet { return 1<<n - 1 }

// has reports whether the k-th size is in the set.
func (s sizeSet) has(k int) bool { return s&(1<<k) != 0 }

// split returns the sizes of the set before the k-th and the others.
func (s sizeSet) split(k int) (low, high sizeSet) {
	return s & smallestSizes(k), s &^ smallestSizes(k)
}

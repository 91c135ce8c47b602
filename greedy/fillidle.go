package greedy

import "github.com/elastalloc/elastalloc/solver"

// FillIdle returns the nodes of every job of a valid snapshot at a regular time,
// between scaling moments: running jobs keep what they hold, legal or not, and
// the jobs of the queue, in order, take their largest legal size that the idle
// nodes allow, up to the first that does not fit now. A job whose smallest size
// exceeds the whole pool is passed over, since it would block the queue for ever.
//
// Where the pool shrank below what the running jobs hold, those listed last lose
// their nodes until the rest fits, and then no job is started.
func FillIdle(s *solver.Snapshot) []int {
	nodes := make([]int, len(s.Jobs))
	idle := s.TotalNodes
	for i := range s.Jobs {
		nodes[i] = s.Jobs[i].CurrentNodes
		idle -= nodes[i]
	}
	if idle < 0 {
		for i := len(nodes) - 1; idle < 0; i-- {
			idle += nodes[i]
			nodes[i] = 0
		}
		return nodes
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		sizes := job.LegalSizes()
		if !job.Queued() || sizes[0] > s.TotalNodes {
			continue
		}
		size := largestWithin(sizes, idle)
		if size == 0 {
			break
		}
		nodes[i] = size
		idle -= size
	}
	return nodes
}

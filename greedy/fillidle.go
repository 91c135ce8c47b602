package greedy

import "github.com/elastalloc/elastalloc/solver"

// FillIdle returns the nodes of every job of a valid snapshot at a regular time,
// between scaling moments: running jobs keep what they hold, legal or not, and
// the jobs of the queue, in order, take their largest legal size that the idle
// nodes and the limits of their groups allow, up to the first that does not fit the pool
// now; one that does not fit the limit of a group keeps those of that group behind it. A job
// whose smallest size exceeds the whole pool or a limit is passed over, since it would block
// the queue for ever.
//
// Where the pool shrank below what the running jobs hold, those listed last lose
// their nodes until the rest fits, and then no job is started. Where the limit of a group
// shrank, the same is done to its jobs.
func FillIdle(s *solver.Snapshot) []int {
	nodes := make([]int, len(s.Jobs))
	room, group := solver.SnapshotRoom(s)
	for i := range s.Jobs {
		nodes[i] = s.Jobs[i].CurrentNodes
		room.Take(group(i), nodes[i])
	}
	shrunk := room.Idle < 0
	for i := len(nodes) - 1; i >= 0; i-- {
		if nodes[i] > 0 && room.For(group(i)) < 0 {
			room.CloseFor(group(i), 0)
			room.Take(group(i), -nodes[i])
			nodes[i] = 0
		}
	}
	if shrunk {
		return nodes
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		sizes := job.LegalSizes()
		if !job.Queued() || sizes[0] > min(s.TotalNodes, room.Limit(group(i))) || room.Closed(group(i)) {
			continue
		}
		if room.Within(group(i)) < sizes[0] {
			room.CloseFor(group(i), sizes[0])
			continue
		}
		size := largestWithin(sizes, room.For(group(i)))
		if size == 0 {
			break
		}
		nodes[i] = size
		room.Take(group(i), size)
	}
	return nodes
}

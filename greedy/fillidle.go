package greedy

import (
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// FillIdle returns the option of every job of a valid snapshot at a regular time, between two
// decisions. Running jobs keep their nodes, legal or not. Queued jobs, in order, get their largest
// legal size that the idle nodes and the limits of their groups allow, on the node type on which
// they are fastest. The first queued job that does not fit the pool now blocks the queue. A job that
// does not fit the limit of a group blocks the queue of that group. A job whose smallest size exceeds
// the whole pool or a limit is skipped.
//
// If the pool has fewer nodes than the running jobs occupy, a running job that does not fit together
// with those before it loses its nodes, and no job is started. The same applies to the jobs of a
// group whose limit is too small.
func FillIdle(s *snapshot.Snapshot) []snapshot.Option {
	options := make([]snapshot.Option, len(s.Jobs))
	room, group := problem.SnapshotHeadroom(s)
	shrunk := false
	for i := range s.Jobs {
		current := s.Current(i)
		switch {
		case current.IsZero():
		case int(current.Nodes) <= room.MaxNodes(group(i), int(current.Type)):
			options[i] = current
			room.Allocate(group(i), current)
		default:
			shrunk = shrunk || int(current.Nodes) > room.FreeOfType(int(current.Type))
			room.BlockGroups(group(i), int(current.Nodes))
		}
	}
	if shrunk {
		return options
	}
	for i := range s.Jobs {
		if !s.Jobs[i].Queued() || !s.Fits(i) || room.BlockedByLimit(group(i), s.SmallestSize(i)) {
			continue
		}
		if options[i] = room.LargestOption(s, i, group(i)); options[i].IsZero() {
			break
		}
		room.Allocate(group(i), options[i])
	}
	return options
}

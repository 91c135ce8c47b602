package greedy

import (
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// FillIdle returns the option of every job of a valid snapshot at a regular time, between
// scaling moments: running jobs keep what they hold, legal or not, and the jobs of the queue,
// in order, take their largest legal size that the idle nodes and the limits of their groups
// allow, of the type where they are then fastest, up to the first that does not fit the pool
// now; one that does not fit the limit of a group keeps those of that group behind it. A job
// whose smallest size exceeds the whole pool or a limit is passed over, since it would block
// the queue for ever.
//
// Where the pool shrank below what the running jobs hold, one that no longer fits beside those
// before it loses its nodes, and then no job is started. Where the limit of a group shrank, the
// same is done to its jobs.
func FillIdle(s *snapshot.Snapshot) []snapshot.Option {
	options := make([]snapshot.Option, len(s.Jobs))
	room, group := problem.SnapshotRoom(s)
	shrunk := false
	for i := range s.Jobs {
		held := s.Current(i)
		switch {
		case held.IsZero():
		case int(held.Nodes) <= room.For(group(i), int(held.Type)):
			options[i] = held
			room.Take(group(i), held)
		default:
			shrunk = shrunk || int(held.Nodes) > room.Of(int(held.Type))
			room.CloseFor(group(i), int(held.Nodes))
		}
	}
	if shrunk {
		return options
	}
	for i := range s.Jobs {
		if !s.Jobs[i].Queued() || !s.Fits(i) || room.Limited(group(i), s.SmallestSize(i)) {
			continue
		}
		if options[i] = room.Largest(s, i, group(i)); options[i].IsZero() {
			break
		}
		room.Take(group(i), options[i])
	}
	return options
}

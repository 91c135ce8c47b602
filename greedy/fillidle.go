package greedy

import (
	"iter"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// FillIdle returns the option of every job of a valid snapshot at a regular time, between two
// decisions. Running jobs keep their nodes, legal or not. Queued jobs, in order, get their largest
// legal size that the idle nodes and the limits of their groups allow, on the node type on which
// they are fastest. The first queued job that does not fit the pool or a size limit now blocks the
// queue. A job that does not fit the limit of a group blocks the queue of that group. A job whose
// smallest size exceeds the whole pool or a limit is skipped.
//
// If the pool or a size limit has fewer nodes than the running jobs occupy, a running job that does not
// fit together with those before it loses its nodes, and no job is started. The same applies to the jobs of a
// group whose limit is too small. Jobs that have used their restart budgets precede other running jobs.
func FillIdle(s *solver.Snapshot) []solver.Option {
	options := make([]solver.Option, len(s.Jobs))
	room, member := problem.SnapshotHeadroom(s)
	shrunk := false
	for i := range exhaustedFirst(s) {
		switch current, job := s.Current(i), member(i); {
		case current.IsZero():
		case room.Fits(job, current):
			options[i] = current
			room.Allocate(job, current)
		default:
			shrunk = shrunk || !room.FitsRows(job, current)
			room.BlockGroups(job.Group, int(current.Nodes))
		}
	}
	if shrunk {
		return options
	}
	empty, _ := problem.SnapshotHeadroom(s)
	var smallest []solver.Option
	for i := range s.Jobs {
		job := member(i)
		if !s.Jobs[i].Queued() || room.Blocked(job.Group) {
			continue
		}
		if smallest = empty.SmallestOptions(s, i, smallest); len(smallest) == 0 || room.StoppedByGroup(job, smallest) {
			continue
		}
		if options[i] = room.LargestOption(s, i, job); options[i].IsZero() {
			break
		}
		room.Allocate(job, options[i])
	}
	return options
}

// exhaustedFirst yields the positions of all jobs, first those that have used their restart budgets.
func exhaustedFirst(s *solver.Snapshot) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, exhausted := range []bool{true, false} {
			for i := range s.Jobs {
				if s.UsedRestartBudget(i) == exhausted && !yield(i) {
					return
				}
			}
		}
	}
}

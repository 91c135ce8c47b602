package solver

import "slices"

// WaitReason is why a job holds no nodes; "" where it holds some.
type WaitReason string

// The reasons.
const (
	// WaitNoRoom means that not even the job's smallest size fits beside what goes before
	// it.
	WaitNoRoom WaitReason = "no-room"
	// WaitBehind means that the job stands behind one that has no room, which no job
	// passes.
	WaitBehind WaitReason = "behind"
	// WaitNeverFits means that the job's smallest size exceeds the pool.
	WaitNeverFits WaitReason = "never-fits"
	// WaitGroupLimit means that the limit of the job's group leaves it no room.
	WaitGroupLimit WaitReason = "group-limit"
	// WaitNotWorthIt means that the optimiser had better use for the nodes.
	WaitNotWorthIt WaitReason = "not-worth-it"
)

// explainWaits says of every job without nodes why. rooms are, by job, the nodes that an
// optimiser could have given it, and negative where it had no say. Jobs over which it had
// none wait in line: the first of them, running jobs before the queue, has no room, and
// the others are behind it.
func (d *Decision) explainWaits(s *Snapshot, rooms []int) {
	blocker := ""
	explain := func(queued bool) {
		for i := range s.Jobs {
			job, a := &s.Jobs[i], &d.Allocations[i]
			if a.Nodes > 0 || job.Queued() != queued {
				continue
			}
			switch smallest := job.smallestSize(); {
			case !job.fits(s.TotalNodes):
				a.WaitReason = WaitNeverFits
			case rooms[i] >= smallest:
				a.WaitReason = WaitNotWorthIt
			case rooms[i] >= 0:
				a.WaitReason = WaitNoRoom
			case blocker == "":
				a.WaitReason, blocker = WaitNoRoom, job.ID
			default:
				a.WaitReason, a.BehindJobID = WaitBehind, blocker
			}
		}
	}
	explain(false)
	explain(true)
}

// rooms returns, by job of a snapshot, how many nodes an optimiser of p could give it
// beside all other jobs' smallest sizes, and -1 for a job that is not in p.
func (p *Problem) rooms(s *Snapshot) []int {
	free := slices.Min(p.Capacity)
	for i := range p.Jobs {
		free -= p.Jobs[i].Sizes[0]
	}
	rooms := noRooms(s)
	for i := range p.Jobs {
		rooms[p.Jobs[i].Index] = free + p.Jobs[i].Sizes[0]
	}
	return rooms
}

// noRooms are the rooms where no optimiser had a say.
func noRooms(s *Snapshot) []int { return slices.Repeat([]int{-1}, len(s.Jobs)) }

package decision

import (
	"cmp"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

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
	// WaitSizeLimit means that a size limit, not the pool, leaves no nodes for the job.
	WaitSizeLimit WaitReason = "size-limit"
)

// reach is what was within the reach of a job.
type reach struct {
	// pool is how many nodes of the pool an optimiser could have given the job, negative
	// where it had no say. Of several types it is MaxNodes, or 0 where none has enough.
	pool int
	// limits is how many nodes the limits of its groups left it, NoLimit without any.
	limits int
}

// explainWaits says of every job without nodes why. Jobs over which an optimiser had no say
// wait in line: running jobs that lost their nodes have no room, and so has the first of the
// queue if there are none of these; all others are behind the first that has no room. Behind one
// that only the limit of a group stops are only those of that group.
func (d *Decision) explainWaits(s *snapshot.Snapshot, p *problem.Problem, reaches []reach) {
	left := d.room(s, p)
	blocker, blockers := "", make(map[int]string) // of all, and by group
	explain := func(queued bool) {
		for i := range s.Jobs {
			job, a := &s.Jobs[i], &d.Allocations[i]
			if a.Nodes > 0 || job.Queued() != queued {
				continue
			}
			switch smallest := s.SmallestSize(i); {
			case !s.Fits(i):
				a.WaitReason = WaitNeverFits
			case reaches[i].limits < smallest:
				a.WaitReason = WaitGroupLimit
				if reaches[i].pool < 0 {
					block(p, left, p.JobGroup(i), smallest, job.ID, blockers)
				}
			case reaches[i].pool >= smallest:
				a.WaitReason = WaitNotWorthIt
				if d.atLimit(left, p.JobGroup(i), smallest) {
					a.WaitReason = WaitGroupLimit
				}
			case reaches[i].pool >= 0:
				a.WaitReason = WaitNoRoom
			case !queued:
				a.WaitReason, blocker = WaitNoRoom, cmp.Or(blocker, job.ID)
			default:
				if a.BehindJobID = behind(left, p.JobGroup(i), blockers); a.BehindJobID == "" {
					a.BehindJobID = blocker
				}
				if a.WaitReason = WaitBehind; a.BehindJobID == "" {
					a.WaitReason, blocker = WaitNoRoom, job.ID
				}
			}
		}
	}
	explain(false)
	explain(true)
}

// room returns what a decision leaves of the pool and of the limits of its groups.
func (d *Decision) room(s *snapshot.Snapshot, p *problem.Problem) *problem.Headroom {
	left := p.SnapshotHeadroom(s)
	for i := range s.Jobs {
		left.Allocate(p.JobGroup(i), s.Option(d.Allocations[i].NodeType, d.Allocations[i].Nodes))
	}
	return left
}

// atLimit reports whether a limit keeps a job of a group from its smallest size: the
// decision leaves more of the pool than of the limit, or the limit has a price.
func (d *Decision) atLimit(left *problem.Headroom, group, smallest int) bool {
	if within := left.FreeInGroup(group); within >= smallest {
		return false
	} else if within < left.Idle {
		return true
	}
	for g, nodes := range left.FreeInGroups(group) {
		if nodes < smallest && g < len(d.Report.Groups) && d.Report.Groups[g].Price > 0 {
			return true
		}
	}
	return false
}

// block records that a job of the given smallest size blocks the queues of the groups whose
// limits leave it no room.
func block(p *problem.Problem, left *problem.Headroom, group, smallest int, id string, blockers map[int]string) {
	for g, nodes := range left.FreeInGroups(group) {
		if nodes < smallest && smallest <= p.Groups[g].Limit && blockers[g] == "" {
			blockers[g] = id
		}
	}
}

// behind returns the job that blocks the queue of a group, "" if none does.
func behind(left *problem.Headroom, group int, blockers map[int]string) string {
	for g := range left.FreeInGroups(group) {
		if blockers[g] != "" {
			return blockers[g]
		}
	}
	return ""
}

// reachOf returns what an optimizer of p could give every job of a snapshot in addition to the
// smallest sizes of all other jobs.
func reachOf(s *snapshot.Snapshot, p *problem.Problem) []reach {
	room := p.HeadroomAtMinimum()
	reaches := make([]reach, len(s.Jobs))
	for i := range reaches {
		reaches[i] = reach{pool: -1, limits: room.FreeInGroup(p.JobGroup(i))}
	}
	for i := range p.Jobs {
		job, r := &p.Jobs[i], &reaches[p.Jobs[i].Index]
		if r.pool = room.Idle + int(job.Options[0].Nodes); p.TypeNodes != nil {
			r.pool = 0
			for _, option := range job.Options {
				if !option.IsZero() && int(option.Nodes) <= room.FreeAfterRelease(p.FeasibleOptions[i], option) {
					r.pool = snapshot.MaxNodes
				}
			}
		}
		if r.limits != problem.NoLimit {
			r.limits += int(job.Options[0].Nodes)
		}
	}
	return reaches
}

// reach returns what a decision in which no optimiser had a say leaves every job. One that
// lost its nodes in a group that held more than its limit lost them to the limit, even if
// its jobs gave up more than they had to.
func (d *Decision) reach(s *snapshot.Snapshot, p *problem.Problem) []reach {
	left, before := d.room(s, p), p.SnapshotHeadroom(s)
	for i := range s.Jobs {
		before.Allocate(p.JobGroup(i), s.Current(i))
	}
	reaches := make([]reach, len(s.Jobs))
	for i := range reaches {
		reaches[i] = reach{pool: -1, limits: left.FreeInGroup(p.JobGroup(i))}
		if !s.Jobs[i].Queued() && before.Idle >= 0 && before.FreeInGroup(p.JobGroup(i)) < 0 {
			reaches[i].limits = 0
		}
	}
	return reaches
}

package solver

import "cmp"

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
func (d *Decision) explainWaits(s *Snapshot, p *Problem, reaches []reach) {
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
					left.blocks(p.group(i), smallest, job.ID, blockers)
				}
			case reaches[i].pool >= smallest:
				a.WaitReason = WaitNotWorthIt
				if d.atLimit(left, p.group(i), smallest) {
					a.WaitReason = WaitGroupLimit
				}
			case reaches[i].pool >= 0:
				a.WaitReason = WaitNoRoom
			case !queued:
				a.WaitReason, blocker = WaitNoRoom, cmp.Or(blocker, job.ID)
			default:
				if a.BehindJobID = left.behind(p.group(i), blockers); a.BehindJobID == "" {
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
func (d *Decision) room(s *Snapshot, p *Problem) *Room {
	left := p.room(s)
	for i := range s.Jobs {
		left.Take(p.group(i), s.Option(d.Allocations[i].NodeType, d.Allocations[i].Nodes))
	}
	return left
}

// atLimit reports whether a limit keeps a job of a group from its smallest size: the
// decision leaves more of the pool than of the limit, or the limit has a price.
func (d *Decision) atLimit(left *Room, group, smallest int) bool {
	if within := left.Within(group); within >= smallest {
		return false
	} else if within < left.Idle {
		return true
	}
	for g := group; g >= 0; g = left.groups[g].Parent {
		if left.left[g] < smallest && g < len(d.Report.Groups) && d.Report.Groups[g].Price > 0 {
			return true
		}
	}
	return false
}

// blocks notes that a job of the given smallest size blocks the queues of the groups whose
// limits leave it no room.
func (r *Room) blocks(group, smallest int, id string, blockers map[int]string) {
	for g := group; g >= 0; g = r.groups[g].Parent {
		if r.left[g] < smallest && smallest <= r.groups[g].Limit && blockers[g] == "" {
			blockers[g] = id
		}
	}
}

// behind returns the job that blocks the queue of a group, "" where none does.
func (r *Room) behind(group int, blockers map[int]string) string {
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if blockers[g] != "" {
			return blockers[g]
		}
	}
	return ""
}

// LeastRoom returns the room that is left where all jobs hold as little as they must.
func (p *Problem) LeastRoom() *Room {
	room := p.Room()
	for i := range p.Jobs {
		room.Take(p.Jobs[i].Group, p.Least(i))
	}
	return room
}

// Least returns the option of job i of a plan in which all hold as little as they must.
func (p *Problem) Least(i int) Option {
	if p.Start != nil {
		return p.Start[i]
	}
	return p.Jobs[i].Sizes[0]
}

// Beside returns what is left of the type of an option to a job that holds another one.
func (r *Room) Beside(held, option Option) int {
	left := r.Of(int(option.Type))
	if held.Type == option.Type {
		left += int(held.Nodes)
	}
	return left
}

// reach returns what an optimiser of p could give every job of a snapshot beside all
// other jobs' smallest sizes.
func (p *Problem) reach(s *Snapshot) []reach {
	room := p.LeastRoom()
	reaches := make([]reach, len(s.Jobs))
	for i := range reaches {
		reaches[i] = reach{pool: -1, limits: room.Within(p.group(i))}
	}
	for i := range p.Jobs {
		job, r := &p.Jobs[i], &reaches[p.Jobs[i].Index]
		if r.pool = room.Idle + int(job.Sizes[0].Nodes); p.TypeNodes != nil {
			r.pool = 0
			for _, option := range job.Sizes {
				if !option.IsZero() && int(option.Nodes) <= room.Beside(p.Start[i], option) {
					r.pool = MaxNodes
				}
			}
		}
		if r.limits != NoLimit {
			r.limits += int(job.Sizes[0].Nodes)
		}
	}
	return reaches
}

// reach returns what a decision in which no optimiser had a say leaves every job. One that
// lost its nodes in a group that held more than its limit lost them to the limit, even if
// its jobs gave up more than they had to.
func (d *Decision) reach(s *Snapshot, p *Problem) []reach {
	left, before := d.room(s, p), p.room(s)
	for i := range s.Jobs {
		before.Take(p.group(i), s.Current(i))
	}
	reaches := make([]reach, len(s.Jobs))
	for i := range reaches {
		reaches[i] = reach{pool: -1, limits: left.Within(p.group(i))}
		if !s.Jobs[i].Queued() && before.Idle >= 0 && before.Within(p.group(i)) < 0 {
			reaches[i].limits = 0
		}
	}
	return reaches
}

package report

import (
	"cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// availability is the number of nodes that were available to a job.
type availability struct {
	// pool is the number of nodes that an optimizer could have allocated to the job. It is negative
	// if no optimizer decided on the job. With node types or size limits, it is MaxNodes, or 0 if no
	// option of the job fits.
	pool int
	// limitedByGroup reports whether the limits of its groups left too few nodes for its smallest size on any
	// node type on which it would fit.
	limitedByGroup bool
	// sizeLimited reports whether the nodes suffice for the smallest size and a size limit does not.
	sizeLimited bool
	// fitsWithoutExhausted reports whether the smallest size fits without the jobs that have used their
	// restart budgets.
	fitsWithoutExhausted bool
}

// explainWaits sets the wait reason of every job without nodes. Jobs on which no optimizer decided form a
// queue. Running jobs that lost their nodes do not fit. If there are none, the first queued job does
// not fit. All other jobs are behind the first job that does not fit. If only the limit of a group
// stops a job, only the jobs of that group are behind it.
func explainWaits(d *solver.Decision, s *solver.Snapshot, p *problem.Problem, available []availability) {
	left, empty := headroom(d, s, p), p.SnapshotHeadroom(s)
	limits := groupLimits{s: s, p: p, empty: empty}
	blocker, blockers := "", make(map[int]string) // of all jobs, and by group
	explain := func(queued bool) {
		for i := range s.Jobs {
			job, a := &s.Jobs[i], &d.Allocations[i]
			if a.Nodes > 0 || job.Queued() != queued {
				continue
			}
			switch smallest := s.SmallestSize(i); {
			case !s.Fits(i):
				a.WaitReason = solver.WaitNeverFits
			case !empty.FitsSmallest(s, i): // It blocks no other job.
				a.WaitReason = solver.WaitSizeLimit
			case available[i].limitedByGroup:
				a.WaitReason = solver.WaitGroupLimit
				if available[i].pool < 0 {
					block(p, left, p.JobGroup(i), smallest, job.ID, blockers)
				}
			case available[i].pool >= smallest:
				a.WaitReason = solver.WaitNotWorthIt
				if atLimit(d, left, p.JobGroup(i), smallest) || left.FitsSmallest(s, i) && limits.stop(i, left) {
					a.WaitReason = solver.WaitGroupLimit
				} else if left.SizeLimited(s, i) {
					a.WaitReason = solver.WaitSizeLimit
				}
			case available[i].pool >= 0 && available[i].fitsWithoutExhausted && job.NeverStarted():
				a.WaitReason = solver.WaitRestartBudget
			case available[i].pool >= 0:
				a.WaitReason = noRoom(available[i])
			case !queued:
				a.WaitReason, blocker = noRoom(available[i]), cmp.Or(blocker, job.ID)
			default:
				if a.BehindJobID = behind(left, p.JobGroup(i), blockers); a.BehindJobID == "" {
					a.BehindJobID = blocker
				}
				if a.WaitReason = solver.WaitBehind; a.BehindJobID == "" {
					a.WaitReason, blocker = noRoom(available[i]), job.ID
				}
			}
		}
	}
	explain(false)
	explain(true)
}

// groupLimits determines whether the limits of groups leave too few nodes for jobs.
type groupLimits struct {
	s     *solver.Snapshot
	p     *problem.Problem // has the groups
	empty *problem.Headroom
	// smallest are the smallest sizes of a job by node type.
	smallest []solver.Option
}

// stop reports whether the limits of its groups leave too few nodes for job i.
func (l *groupLimits) stop(i int, left *problem.Headroom) bool {
	if len(l.p.Groups) == 0 {
		return false
	}
	l.smallest = l.empty.SmallestOptions(l.s, i, l.smallest)
	_, limited := left.LimitedByGroup(l.p.Member(l.s, i), l.smallest)
	return limited
}

// noRoom returns the reason of a job whose smallest size does not fit.
func noRoom(a availability) solver.WaitReason {
	if a.sizeLimited {
		return solver.WaitSizeLimit
	}
	return solver.WaitNoRoom
}

// headroom returns the headroom of the pool after the decision.
func headroom(d *solver.Decision, s *solver.Snapshot, p *problem.Problem) *problem.Headroom {
	left := p.SnapshotHeadroom(s)
	for i := range s.Jobs {
		left.Allocate(p.Member(s, i), s.Option(d.Allocations[i].NodeType, d.Allocations[i].Nodes))
	}
	return left
}

// atLimit reports whether a group limit prevents a job from getting its smallest size: the limit leaves
// fewer nodes than the pool, or the limit has a price.
func atLimit(d *solver.Decision, left *problem.Headroom, group, smallest int) bool {
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

// block records that the job with the given id blocks the queues of the groups whose limits leave fewer
// nodes than its smallest size.
func block(p *problem.Problem, left *problem.Headroom, group, smallest int, id string, blockers map[int]string) {
	for g, nodes := range left.FreeInGroups(group) {
		if nodes < smallest && smallest <= p.Groups[g].Limit && blockers[g] == "" {
			blockers[g] = id
		}
	}
}

// behind returns the id of the job that blocks the queue of a group, "" if there is none.
func behind(left *problem.Headroom, group int, blockers map[int]string) string {
	for g := range left.FreeInGroups(group) {
		if blockers[g] != "" {
			return blockers[g]
		}
	}
	return ""
}

// availableTo returns the nodes that an optimizer of p could allocate to each job of a snapshot in
// addition to the minimums of all other jobs.
func availableTo(s *solver.Snapshot, p *problem.Problem) []availability {
	headroom, withoutExhausted := p.HeadroomAtMinimum(), (*problem.Headroom)(nil)
	for i := range p.Jobs {
		if p.Jobs[i].Exhausted {
			if withoutExhausted == nil {
				withoutExhausted = p.HeadroomAtMinimum()
			}
			withoutExhausted.Release(p.Jobs[i].Member, p.MinOption(i))
		}
	}
	available, limits := make([]availability, len(s.Jobs)), groupLimits{s: s, p: p, empty: p.SnapshotHeadroom(s)}
	for i := range available {
		available[i] = availability{pool: -1, limitedByGroup: limits.stop(i, headroom), sizeLimited: headroom.SizeLimited(s, i)}
		available[i].fitsWithoutExhausted = withoutExhausted != nil && withoutExhausted.FitsSmallest(s, i) && !limits.stop(i, withoutExhausted)
	}
	for i := range p.Jobs {
		job, r := &p.Jobs[i], &available[p.Jobs[i].Index]
		headroom.Release(job.Member, p.MinOption(i))
		r.limitedByGroup = limits.stop(job.Index, headroom)
		if r.pool = headroom.Idle; p.Rows != nil {
			r.pool = 0
			for _, option := range job.Options {
				if !option.IsZero() && headroom.Fits(job.Member, option) {
					r.pool = solver.MaxNodes
				}
			}
		}
		headroom.Allocate(job.Member, p.MinOption(i))
	}
	return available
}

// availableNow returns the nodes that a decision without an optimizer leaves to each job. If a group
// exceeded its limit before, its jobs lost their nodes because of the limit, even if they released more
// nodes than necessary.
func availableNow(d *solver.Decision, s *solver.Snapshot, p *problem.Problem) []availability {
	left, before := headroom(d, s, p), p.SnapshotHeadroom(s)
	for i := range s.Jobs {
		before.Allocate(p.Member(s, i), s.Current(i))
	}
	available, limits := make([]availability, len(s.Jobs)), groupLimits{s: s, p: p, empty: p.SnapshotHeadroom(s)}
	for i := range available {
		available[i] = availability{pool: -1, limitedByGroup: limits.stop(i, left), sizeLimited: left.SizeLimited(s, i)}
		if !s.Jobs[i].Queued() && before.Idle >= 0 && before.FreeInGroup(p.JobGroup(i)) < 0 {
			available[i].limitedByGroup = true
		}
	}
	return available
}

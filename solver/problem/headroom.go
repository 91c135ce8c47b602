package problem

import (
	"iter"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Headroom tracks the free nodes of a pool, per node type and per group limit, while nodes are
// allocated to jobs one after the other. If there are no groups, the group arguments of its methods
// are ignored.
type Headroom struct {
	// Idle is the number of free nodes of the pool. It is negative if more nodes are allocated than
	// the pool has.
	Idle      int
	typeFree  []int // free nodes of each type; nil if all nodes are alike
	groups    []AdmittedGroup
	groupFree []int // free nodes of the limit of each group, NoLimit if it has none
	blocked   []bool
}

// NewHeadroom returns the headroom of an unallocated pool. types are the numbers of nodes of each
// type, nil if all nodes are alike.
func NewHeadroom(nodes int, types []int, groups []AdmittedGroup) *Headroom {
	r := &Headroom{Idle: nodes, typeFree: slices.Clone(types), groups: groups, groupFree: make([]int, len(groups)), blocked: make([]bool, len(groups))}
	for g := range groups {
		r.groupFree[g] = groups[g].Limit
	}
	return r
}

// Headroom returns the headroom of the unallocated pool in the step with the fewest nodes.
func (p *Problem) Headroom() *Headroom {
	return NewHeadroom(slices.Min(p.Capacity), p.TypeNodes, p.Groups)
}

// SnapshotHeadroom returns the headroom of the unallocated pool of a valid snapshot. It also returns
// a function that returns the group of a job by its position in the snapshot.
func SnapshotHeadroom(s *snapshot.Snapshot) (headroom *Headroom, group func(int) int) {
	p := GroupsOf(s)
	return p.SnapshotHeadroom(s), p.JobGroup
}

// SnapshotHeadroom returns the headroom of the unallocated pool of a snapshot. p has its groups.
func (p *Problem) SnapshotHeadroom(s *snapshot.Snapshot) *Headroom {
	return NewHeadroom(s.TotalNodes, s.TypeNodes(), p.Groups)
}

// Allocate allocates an option to a job of a group.
func (r *Headroom) Allocate(group int, option snapshot.Option) { r.allocate(group, option, 1) }

// Release releases the option of a job of a group.
func (r *Headroom) Release(group int, option snapshot.Option) { r.allocate(group, option, -1) }

func (r *Headroom) allocate(group int, option snapshot.Option, times int) {
	nodes := times * int(option.Nodes)
	r.Idle -= nodes
	if r.typeFree != nil {
		r.typeFree[option.Type] -= nodes
	}
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if r.groupFree[g] != NoLimit {
			r.groupFree[g] -= nodes
		}
	}
}

// FreeOfType returns the number of free nodes of a type, or of the pool if all nodes are alike.
func (r *Headroom) FreeOfType(nodeType int) int {
	if r.typeFree == nil {
		return r.Idle
	}
	return r.typeFree[nodeType]
}

// FreeInGroup returns the number of nodes that the limits of a group and its ancestors leave, NoLimit
// if there is no limit. It is negative if a limit is exceeded.
func (r *Headroom) FreeInGroup(group int) int {
	smallest := NoLimit
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		smallest = min(smallest, r.groupFree[g])
	}
	return smallest
}

// MaxNodes returns the maximum number of nodes of a type that can be allocated to a job of a group.
func (r *Headroom) MaxNodes(group, nodeType int) int {
	return min(r.FreeOfType(nodeType), r.FreeInGroup(group))
}

// LargestOption returns the fastest option of job i of a snapshot among the largest legal sizes that
// fit on each node type. It returns no nodes if no size fits.
func (r *Headroom) LargestOption(s *snapshot.Snapshot, i, group int) (option snapshot.Option) {
	fastest := 0.0
	for _, l := range s.Places(i, nil) {
		sizes := l.AppendSizes(nil)
		n := sort.SearchInts(sizes, r.MaxNodes(group, l.Type)+1)
		if n == 0 {
			continue
		}
		if speed := l.Factor * speedOf(l.Job, float64(sizes[n-1])); speed > fastest {
			option, fastest = snapshot.NewOption(l.Type, sizes[n-1]), speed
		}
	}
	return option
}

// SmallestLimit returns the smallest limit of a group and its ancestors, NoLimit if there is none.
func (r *Headroom) SmallestLimit(group int) int {
	smallest := NoLimit
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		smallest = min(smallest, r.groups[g].Limit)
	}
	return smallest
}

// Exceeded reports whether more nodes are allocated than the pool has or a limit allows.
func (r *Headroom) Exceeded() bool {
	return r.Idle < 0 || len(r.typeFree) > 0 && slices.Min(r.typeFree) < 0 || len(r.groupFree) > 0 && slices.Min(r.groupFree) < 0
}

// BlockGroups blocks the group and those of its ancestors whose limits leave fewer than the given
// nodes. Queued jobs of a blocked group wait, because jobs of one queue do not overtake each other.
func (r *Headroom) BlockGroups(group, nodes int) {
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if r.groupFree[g] < nodes {
			r.blocked[g] = true
		}
	}
}

// Blocked reports whether BlockGroups has blocked a group or one of its ancestors.
func (r *Headroom) Blocked(group int) bool {
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if r.blocked[g] {
			return true
		}
	}
	return false
}

// BlockedByLimit reports whether a job of the given smallest size cannot start because its group is
// blocked or because a limit leaves too few nodes. In the second case it blocks the group for the
// following jobs, except if the job exceeds the limit by itself.
func (r *Headroom) BlockedByLimit(group, smallest int) bool {
	if r.Blocked(group) {
		return true
	}
	if r.FreeInGroup(group) >= smallest {
		return false
	}
	if smallest <= r.SmallestLimit(group) {
		r.BlockGroups(group, smallest)
	}
	return true
}

// FreeInGroups yields the group and its ancestors, each with the number of nodes that its limit
// leaves.
func (r *Headroom) FreeInGroups(group int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
			if !yield(g, r.groupFree[g]) {
				return
			}
		}
	}
}

// firstGroup returns the group, -1 if there are no groups.
func (r *Headroom) firstGroup(group int) int {
	if len(r.groups) == 0 {
		return -1
	}
	return group
}

// HeadroomAtMinimum returns the headroom if every job gets its minimum, see MinOption.
func (p *Problem) HeadroomAtMinimum() *Headroom {
	headroom := p.Headroom()
	for i := range p.Jobs {
		headroom.Allocate(p.Jobs[i].Group, p.MinOption(i))
	}
	return headroom
}

// MinOption returns the minimum of job i. The minimums of all jobs are a legal step of a plan.
func (p *Problem) MinOption(i int) snapshot.Option {
	if p.FeasibleOptions != nil {
		return p.FeasibleOptions[i]
	}
	return p.Jobs[i].Options[0]
}

// FreeAfterRelease returns the number of free nodes of the type of an option after a job has released
// its current option.
func (r *Headroom) FreeAfterRelease(current, option snapshot.Option) int {
	free := r.FreeOfType(int(option.Type))
	if current.Type == option.Type {
		free += int(current.Nodes)
	}
	return free
}

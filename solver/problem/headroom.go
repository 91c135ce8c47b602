package problem

import (
	"iter"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Headroom is what jobs that take nodes one after the other leave of a pool and of the limits
// of its groups. Where there are no groups, those of jobs are not looked at.
type Headroom struct {
	// Idle is what is left of the pool; it is negative while jobs hold more than it has.
	Idle      int
	typeFree  []int // what is left of each type; nil where the nodes are alike
	groups    []AdmittedGroup
	groupFree []int // of each group's limit
	blocked   []bool
}

// NewHeadroom returns the room of a pool of the given nodes and of groups, before any job
// takes some. types are the nodes of each type, nil where they are alike.
func NewHeadroom(nodes int, types []int, groups []AdmittedGroup) *Headroom {
	r := &Headroom{Idle: nodes, typeFree: slices.Clone(types), groups: groups, groupFree: make([]int, len(groups)), blocked: make([]bool, len(groups))}
	for g := range groups {
		r.groupFree[g] = groups[g].Limit
	}
	return r
}

// Headroom returns the room of the step of least nodes before any job takes some.
func (p *Problem) Headroom() *Headroom {
	return NewHeadroom(slices.Min(p.Capacity), p.TypeNodes, p.Groups)
}

// SnapshotHeadroom returns the room of the pool and the groups of a valid snapshot before any
// job takes some, and what tells the group of a job by its position.
func SnapshotHeadroom(s *snapshot.Snapshot) (room *Headroom, group func(int) int) {
	p := GroupsOf(s)
	return p.SnapshotHeadroom(s), p.JobGroup
}

// SnapshotHeadroom returns the room of a snapshot whose groups p has, before any job takes some.
func (p *Problem) SnapshotHeadroom(s *snapshot.Snapshot) *Headroom {
	return NewHeadroom(s.TotalNodes, s.TypeNodes(), p.Groups)
}

// Allocate gives the nodes of an option to a job of a group.
func (r *Headroom) Allocate(group int, option snapshot.Option) { r.allocate(group, option, 1) }

// Release takes the nodes of an option back from a job of a group.
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

// FreeOfType returns what is left of the nodes of a type, or of the pool where they are alike.
func (r *Headroom) FreeOfType(nodeType int) int {
	if r.typeFree == nil {
		return r.Idle
	}
	return r.typeFree[nodeType]
}

// FreeInGroup returns what is left of the limits that a job of a group counts towards, NoLimit
// where there are none. It is negative while jobs exceed one.
func (r *Headroom) FreeInGroup(group int) int {
	least := NoLimit
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		least = min(least, r.groupFree[g])
	}
	return least
}

// MaxNodes returns the most nodes of a type that a job of a group can take.
func (r *Headroom) MaxNodes(group, nodeType int) int {
	return min(r.FreeOfType(nodeType), r.FreeInGroup(group))
}

// LargestOption returns the option to hold the largest legal size of job i of a snapshot that there
// is room for, on nodes of the type where it is then fastest. It returns no nodes if there is
// room for none.
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

// SmallestLimit returns the least limit that a job of a group counts towards, NoLimit where there
// are none.
func (r *Headroom) SmallestLimit(group int) int {
	least := NoLimit
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		least = min(least, r.groups[g].Limit)
	}
	return least
}

// Exceeded reports whether jobs hold more than the pool has or a limit allows.
func (r *Headroom) Exceeded() bool {
	return r.Idle < 0 || len(r.typeFree) > 0 && slices.Min(r.typeFree) < 0 || len(r.groupFree) > 0 && slices.Min(r.groupFree) < 0
}

// BlockGroups closes every group whose limit leaves a job of the given group less than so
// many nodes: jobs of one queue do not pass each other.
func (r *Headroom) BlockGroups(group, nodes int) {
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if r.groupFree[g] < nodes {
			r.blocked[g] = true
		}
	}
}

// Blocked reports whether BlockGroups has closed a group, or one that it is part of.
func (r *Headroom) Blocked(group int) bool {
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if r.blocked[g] {
			return true
		}
	}
	return false
}

// BlockedByLimit reports whether the limit of a group keeps a job of this smallest size from
// starting, or one before it that it has kept: it then keeps those of that group behind it,
// but for a job that never fits.
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

// FreeInGroups yields the groups that a job of a group counts towards, its own first, each with what
// is left of its limit.
func (r *Headroom) FreeInGroups(group int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
			if !yield(g, r.groupFree[g]) {
				return
			}
		}
	}
}

// firstGroup returns the group, -1 where there are none.
func (r *Headroom) firstGroup(group int) int {
	if len(r.groups) == 0 {
		return -1
	}
	return group
}

// HeadroomAtMinimum returns the room that is left where all jobs hold as little as they must.
func (p *Problem) HeadroomAtMinimum() *Headroom {
	room := p.Headroom()
	for i := range p.Jobs {
		room.Allocate(p.Jobs[i].Group, p.MinOption(i))
	}
	return room
}

// MinOption returns the option of job i of a plan in which all hold as little as they must.
func (p *Problem) MinOption(i int) snapshot.Option {
	if p.FeasibleOptions != nil {
		return p.FeasibleOptions[i]
	}
	return p.Jobs[i].Options[0]
}

// FreeAfterRelease returns what is left of the type of an option to a job that holds another one.
func (r *Headroom) FreeAfterRelease(held, option snapshot.Option) int {
	left := r.FreeOfType(int(option.Type))
	if held.Type == option.Type {
		left += int(held.Nodes)
	}
	return left
}

package problem

import (
	"iter"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Room is what jobs that take nodes one after the other leave of a pool and of the limits
// of its groups. Where there are no groups, those of jobs are not looked at.
type Room struct {
	// Idle is what is left of the pool; it is negative while jobs hold more than it has.
	Idle   int
	types  []int // what is left of each type; nil where the nodes are alike
	groups []AdmittedGroup
	left   []int // of each group's limit
	closed []bool
}

// NewRoom returns the room of a pool of the given nodes and of groups, before any job
// takes some. types are the nodes of each type, nil where they are alike.
func NewRoom(nodes int, types []int, groups []AdmittedGroup) *Room {
	r := &Room{Idle: nodes, types: slices.Clone(types), groups: groups, left: make([]int, len(groups)), closed: make([]bool, len(groups))}
	for g := range groups {
		r.left[g] = groups[g].Limit
	}
	return r
}

// Room returns the room of the step of least nodes before any job takes some.
func (p *Problem) Room() *Room { return NewRoom(slices.Min(p.Capacity), p.TypeNodes, p.Groups) }

// SnapshotRoom returns the room of the pool and the groups of a valid snapshot before any
// job takes some, and what tells the group of a job by its position.
func SnapshotRoom(s *snapshot.Snapshot) (room *Room, group func(int) int) {
	p := GroupsOf(s)
	return p.RoomFor(s), p.JobGroup
}

// RoomFor returns the room of a snapshot whose groups p has, before any job takes some.
func (p *Problem) RoomFor(s *snapshot.Snapshot) *Room {
	return NewRoom(s.TotalNodes, s.TypeNodes(), p.Groups)
}

// Take gives the nodes of an option to a job of a group.
func (r *Room) Take(group int, option snapshot.Option) { r.take(group, option, 1) }

// GiveBack takes the nodes of an option back from a job of a group.
func (r *Room) GiveBack(group int, option snapshot.Option) { r.take(group, option, -1) }

func (r *Room) take(group int, option snapshot.Option, times int) {
	nodes := times * int(option.Nodes)
	r.Idle -= nodes
	if r.types != nil {
		r.types[option.Type] -= nodes
	}
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if r.left[g] != NoLimit {
			r.left[g] -= nodes
		}
	}
}

// Of returns what is left of the nodes of a type, or of the pool where they are alike.
func (r *Room) Of(nodeType int) int {
	if r.types == nil {
		return r.Idle
	}
	return r.types[nodeType]
}

// Within returns what is left of the limits that a job of a group counts towards, NoLimit
// where there are none. It is negative while jobs exceed one.
func (r *Room) Within(group int) int {
	least := NoLimit
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		least = min(least, r.left[g])
	}
	return least
}

// For returns the most nodes of a type that a job of a group can take.
func (r *Room) For(group, nodeType int) int { return min(r.Of(nodeType), r.Within(group)) }

// Largest returns the option to hold the largest legal size of job i of a snapshot that there
// is room for, on nodes of the type where it is then fastest. It returns no nodes if there is
// room for none.
func (r *Room) Largest(s *snapshot.Snapshot, i, group int) (option snapshot.Option) {
	fastest := 0.0
	for _, l := range s.Places(i, nil) {
		sizes := l.AppendSizes(nil)
		n := sort.SearchInts(sizes, r.For(group, l.Type)+1)
		if n == 0 {
			continue
		}
		if speed := l.Factor * speedOf(l.Job, float64(sizes[n-1])); speed > fastest {
			option, fastest = snapshot.NewOption(l.Type, sizes[n-1]), speed
		}
	}
	return option
}

// Limit returns the least limit that a job of a group counts towards, NoLimit where there
// are none.
func (r *Room) Limit(group int) int {
	least := NoLimit
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		least = min(least, r.groups[g].Limit)
	}
	return least
}

// Exceeded reports whether jobs hold more than the pool has or a limit allows.
func (r *Room) Exceeded() bool {
	return r.Idle < 0 || len(r.types) > 0 && slices.Min(r.types) < 0 || len(r.left) > 0 && slices.Min(r.left) < 0
}

// CloseFor closes every group whose limit leaves a job of the given group less than so
// many nodes: jobs of one queue do not pass each other.
func (r *Room) CloseFor(group, nodes int) {
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if r.left[g] < nodes {
			r.closed[g] = true
		}
	}
}

// Closed reports whether CloseFor has closed a group, or one that it is part of.
func (r *Room) Closed(group int) bool {
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if r.closed[g] {
			return true
		}
	}
	return false
}

// Limited reports whether the limit of a group keeps a job of this smallest size from
// starting, or one before it that it has kept: it then keeps those of that group behind it,
// but for a job that never fits.
func (r *Room) Limited(group, smallest int) bool {
	if r.Closed(group) {
		return true
	}
	if r.Within(group) >= smallest {
		return false
	}
	if smallest <= r.Limit(group) {
		r.CloseFor(group, smallest)
	}
	return true
}

// Limits yields the groups that a job of a group counts towards, its own first, each with what
// is left of its limit.
func (r *Room) Limits(group int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for g := r.first(group); g >= 0; g = r.groups[g].Parent {
			if !yield(g, r.left[g]) {
				return
			}
		}
	}
}

// first returns the group, -1 where there are none.
func (r *Room) first(group int) int {
	if len(r.groups) == 0 {
		return -1
	}
	return group
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
func (p *Problem) Least(i int) snapshot.Option {
	if p.Start != nil {
		return p.Start[i]
	}
	return p.Jobs[i].Sizes[0]
}

// Beside returns what is left of the type of an option to a job that holds another one.
func (r *Room) Beside(held, option snapshot.Option) int {
	left := r.Of(int(option.Type))
	if held.Type == option.Type {
		left += int(held.Nodes)
	}
	return left
}

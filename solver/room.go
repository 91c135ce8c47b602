package solver

import "slices"

// Room is what jobs that take nodes one after the other leave of a pool and of the limits
// of its groups. Where there are no groups, those of jobs are not looked at.
type Room struct {
	// Idle is what is left of the pool; it is negative while jobs hold more than it has.
	Idle   int
	groups []AdmittedGroup
	left   []int // of each group's limit
	closed []bool
}

// NewRoom returns the room of a pool of the given nodes and of groups, before any job
// takes some.
func NewRoom(nodes int, groups []AdmittedGroup) *Room {
	r := &Room{Idle: nodes, groups: groups, left: make([]int, len(groups)), closed: make([]bool, len(groups))}
	for g := range groups {
		r.left[g] = groups[g].Limit
	}
	return r
}

// SnapshotRoom returns the room of the pool and the groups of a valid snapshot before any
// job takes some, and what tells the group of a job by its position.
func SnapshotRoom(s *Snapshot) (room *Room, group func(int) int) {
	p := groupsOf(s)
	return NewRoom(s.TotalNodes, p.Groups), p.group
}

// Take gives nodes to a job of a group, or takes them back where they are negative.
func (r *Room) Take(group, nodes int) {
	r.Idle -= nodes
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if r.left[g] != NoLimit {
			r.left[g] -= nodes
		}
	}
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

// For returns the most nodes that a job of a group can take.
func (r *Room) For(group int) int { return min(r.Idle, r.Within(group)) }

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
func (r *Room) Exceeded() bool { return r.Idle < 0 || len(r.left) > 0 && slices.Min(r.left) < 0 }

// CloseFor closes every group whose limit leaves a job of the given group less than so
// many nodes: jobs of one queue do not pass each other.
func (r *Room) CloseFor(group, nodes int) {
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if r.left[g] < nodes {
			r.closed[g] = true
		}
	}
}

// Closed reports whether a job of the given group has to wait because a group was closed.
func (r *Room) Closed(group int) bool {
	for g := r.first(group); g >= 0; g = r.groups[g].Parent {
		if r.closed[g] {
			return true
		}
	}
	return false
}

// first returns the group, -1 where there are none.
func (r *Room) first(group int) int {
	if len(r.groups) == 0 {
		return -1
	}
	return group
}

package audit

import (
	"math"
	"slices"
)

// Groups whose rows are coupled. If there are several node types or size limits, every limit and every floor of a
// group is a row, like a size limit. A member of the group counts with its nodes in a limit. In a floor it counts with
// what is missing to its largest size, so that more nodes leave more of the row, and what the row lacks costs the
// quota price.

// groupRow is a limit or the floor of a group.
type groupRow struct {
	group    int
	nodeType int // the type that a limit counts, or anyType
	floor    bool
}

const anyType = -1

// isIn reports whether a job is in a group or in a group below it.
func (s *snapshot) isIn(j *job, group int) bool {
	for g := range s.withAncestors(j.group) {
		if g == group {
			return true
		}
	}
	return false
}

// addGroupRows adds a row for each limit of a group that can bind and for each floor, if rows are coupled. The floors
// must be known.
func (m *model) addGroupRows() {
	if !m.coupled() {
		return
	}
	reach := make([][]int, len(m.groups)) // the largest sizes of the members together, by type and of any
	for g := range reach {
		reach[g] = make([]int, len(m.nodes)+1)
	}
	for i := range m.members {
		j := &m.members[i]
		for g := range m.withAncestors(j.group) {
			reach[g][len(m.nodes)] += slices.Max(j.sizes)
			for _, p := range j.profiles {
				reach[g][p.nodeType] += slices.Max(p.sizes)
			}
		}
	}
	add := func(r groupRow, nodes int) {
		m.capacity, m.groupRows = append(m.capacity, nodes), append(m.groupRows, r)
	}
	for g := range m.groups {
		of := &m.groups[g]
		if of.limit < reach[g][len(m.nodes)] {
			add(groupRow{group: g, nodeType: anyType}, of.limit)
		}
		for _, l := range of.typeLimits {
			if l.available < reach[g][l.nodeType] {
				add(groupRow{group: g, nodeType: l.nodeType}, l.available)
			}
		}
		if m.floors[g] > 0 {
			add(groupRow{group: g, nodeType: anyType, floor: true}, math.MaxInt32)
		}
	}
}

// floorOf returns the row of a floor, or nil if a row is none.
func (m *model) floorOf(t int) *groupRow {
	if n := t - len(m.nodes) - len(m.rowLimits); m.coupled() && n >= 0 && m.groupRows[n].floor {
		return &m.groupRows[n]
	}
	return nil
}

// usageIn returns how many of some nodes of a job on a type count in a row after those of the types.
func (m *model) usageIn(t int, j *job, nodeType, nodes int) int {
	n := t - len(m.nodes)
	if n < len(m.rowLimits) {
		return m.rowLimits[n].usage(j, nodeType, nodes)
	}
	r := &m.groupRows[n-len(m.rowLimits)]
	if (r.nodeType == anyType || r.nodeType == nodeType) && m.isIn(j, r.group) {
		return nodes
	}
	return 0
}

// consumption returns how much of a row the n-th size of a member takes.
func (m *model) consumption(j *member, t, n int) int {
	if at := t - len(m.nodes); m.coupled() && at >= 0 && at < len(m.rowLimits) {
		return j.inPieces(j.sizes[n], m.rowLimits[at].size)
	}
	if m.floorOf(t) == nil {
		return j.sizes[n]
	}
	return j.sizes[slices.Max(j.usable[t])] - j.sizes[n] // 0 for members of other groups.
}

// withFloor returns the table of a row by the nodes that are available to its layer. If the row is a floor, what is
// left is the nodes of its group.
func (s *search) withFloor(t int, y *layer, table []int64) []int64 {
	r := s.floorOf(t)
	if r == nil {
		return table
	}
	for n := range table {
		best := int64(infeasible)
		for used := range n + 1 {
			// A shortage that costs more than all plans are worth is in no better plan.
			v, cost := y.at(y.from+used), s.shortageCost(r.group, n-used)
			if v != infeasible && cost < 4<<valueBits {
				best = max(best, v-cost)
			}
		}
		if n > 0 {
			best = max(best, table[n-1])
		}
		s.spend(n)
		table[n] = best
	}
	return table
}

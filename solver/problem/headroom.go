package problem

import (
	"iter"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver"
)

// Member identifies the bounds that count the nodes of a job in addition to the capacity.
type Member struct {
	// Group is the position of the job's group in Problem.Groups. It is ignored if there are no
	// groups.
	Group int
	// PieceNodes is Job.PieceNodes, which determines the size limits that count an option.
	PieceNodes int
}

// Headroom tracks the free nodes of a pool, per row and per group limit, while nodes are allocated to
// jobs one after the other. If there are no groups, the group arguments of its methods are ignored.
type Headroom struct {
	// Idle is the number of free nodes of the pool. It is negative if more nodes are allocated than
	// the pool has.
	Idle      int
	rows      solver.Rows // with the free nodes of each row
	groups    []AdmittedGroup
	groupFree []int // free nodes of the limit of each group, NoLimit if it has none
	// typeFree has the free nodes of the limits of each group, by node type. It is nil for a group without
	// limits per type.
	typeFree [][]int
	blocked  []bool
}

// NewHeadroom returns the headroom of an unallocated pool. Nil rows mean that the capacity is the only
// row.
func NewHeadroom(nodes int, rows solver.Rows, groups []AdmittedGroup) *Headroom {
	if rows == nil {
		rows = solver.PoolRow(nodes)
	}
	r := &Headroom{
		Idle: nodes, rows: slices.Clone(rows), groups: groups, groupFree: make([]int, len(groups)),
		typeFree: make([][]int, len(groups)), blocked: make([]bool, len(groups)),
	}
	for g := range groups {
		r.groupFree[g], r.typeFree[g] = groups[g].Limit, slices.Clone(groups[g].TypeLimits)
	}
	return r
}

// Headroom returns the headroom of the unallocated pool in the step with the fewest nodes.
func (p *Problem) Headroom() *Headroom {
	return NewHeadroom(slices.Min(p.Capacity), p.Rows, p.Groups)
}

// SnapshotHeadroom returns the headroom of the unallocated pool of a valid snapshot. It also returns
// a function that returns the bounds of a job by its position in the snapshot.
func SnapshotHeadroom(s *solver.Snapshot) (headroom *Headroom, member func(int) Member) {
	p := GroupsOf(s)
	return p.SnapshotHeadroom(s), func(i int) Member { return p.Member(s, i) }
}

// SnapshotHeadroom returns the headroom of the unallocated pool of a snapshot. p has its groups.
func (p *Problem) SnapshotHeadroom(s *solver.Snapshot) *Headroom {
	return NewHeadroom(s.TotalNodes, s.Rows(), p.Groups)
}

// Allocate allocates an option to a job.
func (r *Headroom) Allocate(job Member, option solver.Option) { r.allocate(job, option, 1) }

// Release releases the option of a job.
func (r *Headroom) Release(job Member, option solver.Option) { r.allocate(job, option, -1) }

func (r *Headroom) allocate(job Member, option solver.Option, times int) {
	nodes := times * int(option.Nodes)
	r.Idle -= nodes
	counting := r.rows.Counting(option, job.PieceNodes)
	for n := range counting {
		counting[n].Nodes -= times * counting[n].Count(option, job.PieceNodes)
	}
	for g := r.firstGroup(job.Group); g >= 0; g = r.groups[g].Parent {
		if r.groupFree[g] != NoLimit {
			r.groupFree[g] -= nodes
		}
		if free := r.typeFree[g]; len(free) > 0 && free[option.Type] != NoLimit {
			free[option.Type] -= nodes
		}
	}
}

// FreeOfType returns the number of free nodes of a type, or of the pool if all nodes are alike.
func (r *Headroom) FreeOfType(nodeType int) int { return r.rows.Of(nodeType)[0].Nodes }

// Fits reports whether an option of a job fits into all rows and group limits that count it.
func (r *Headroom) Fits(job Member, option solver.Option) bool {
	return r.FitsRows(job, option) && r.fitsGroups(job, option)
}

// fitsGroups reports whether an option of a job fits into all group limits that count it.
func (r *Headroom) fitsGroups(job Member, option solver.Option) bool {
	return int(option.Nodes) <= min(r.FreeInGroup(job.Group), r.freeOfTypeInGroup(job.Group, int(option.Type)))
}

// FitsRows reports whether an option of a job fits into all rows that count it.
func (r *Headroom) FitsRows(job Member, option solver.Option) bool {
	return r.rows.Fit(option, job.PieceNodes)
}

// FitsSmallest reports whether the smallest size of job i of a snapshot fits into the rows on any node
// type.
func (r *Headroom) FitsSmallest(s *solver.Snapshot, i int) bool {
	return s.FitsRows(i, r.rows)
}

// SizeLimited reports whether the capacity suffices for the smallest size of job i of a snapshot on some
// node type and size limits do not.
func (r *Headroom) SizeLimited(s *solver.Snapshot, i int) bool {
	return len(s.SizeLimits) > 0 && !r.FitsSmallest(s, i) &&
		slices.ContainsFunc(s.Places(i, nil), func(l solver.Place) bool { return l.Smallest() <= r.FreeOfType(l.Type) })
}

// Excess returns the number of nodes by which the bounds that count an allocated option of a job are
// exceeded: the maximum over its rows and groups, at most 0 if none is exceeded.
func (r *Headroom) Excess(job Member, option solver.Option) int {
	free := min(r.FreeInGroup(job.Group), r.freeOfTypeInGroup(job.Group, int(option.Type)))
	for _, row := range r.rows.Counting(option, job.PieceNodes) {
		free = min(free, row.Nodes)
	}
	return -free
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

// freeOfTypeInGroup returns the number of nodes of a type that the limits per type of a group and its ancestors
// leave, NoLimit if there is none. It is negative if one is exceeded.
func (r *Headroom) freeOfTypeInGroup(group, nodeType int) int {
	smallest := NoLimit
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if free := r.typeFree[g]; free != nil {
			smallest = min(smallest, free[nodeType])
		}
	}
	return smallest
}

// MaxNodes returns the maximum number of nodes of a type that can be allocated to a job. It is
// negative if the capacity of the type or a group limit is exceeded.
func (r *Headroom) MaxNodes(job Member, nodeType int) int {
	rows := r.rows.Of(nodeType)
	most := min(rows[0].Nodes, r.FreeInGroup(job.Group), r.freeOfTypeInGroup(job.Group, nodeType))
	for _, row := range rows[1:] {
		if job.PieceNodes > 0 && job.PieceNodes < row.Size {
			break
		}
		largest := max(0, row.Nodes)
		remainder := largest
		if job.PieceNodes > 0 {
			remainder %= job.PieceNodes
		}
		if remainder < row.Size { // A remainder below the size does not count.
			largest += row.Size - 1 - remainder
		}
		most = min(most, largest)
	}
	return most
}

// LargestOption returns the fastest option of job i of a snapshot among the largest legal sizes that
// fit on each node type. It returns no nodes if no size fits.
func (r *Headroom) LargestOption(s *solver.Snapshot, i int, job Member) (option solver.Option) {
	fastest := 0.0
	for _, l := range s.Places(i, nil) {
		sizes := l.AppendSizes(nil)
		n := sort.SearchInts(sizes, r.MaxNodes(job, l.Type)+1)
		if n == 0 {
			continue
		}
		if speed := l.Factor * speedOf(l.Job, float64(sizes[n-1])); speed > fastest {
			option, fastest = solver.NewOption(l.Type, sizes[n-1]), speed
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
	return slices.ContainsFunc(r.rows, func(row solver.Row) bool { return row.Nodes < 0 }) ||
		len(r.groupFree) > 0 && slices.Min(r.groupFree) < 0 ||
		slices.ContainsFunc(r.typeFree, func(free []int) bool { return free != nil && slices.Min(free) < 0 })
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

// SmallestOptions returns the smallest size of job i of a snapshot on each node type whose rows have enough
// nodes for it. It uses the memory of to.
func (r *Headroom) SmallestOptions(s *solver.Snapshot, i int, to []solver.Option) []solver.Option {
	to = to[:0]
	for _, l := range s.Places(i, nil) {
		if option := solver.NewOption(l.Type, l.Smallest()); r.rows.Fit(option, s.Jobs[i].PieceNodes) {
			to = append(to, option)
		}
	}
	return to
}

// LimitedByGroup reports whether the limits of its groups prevent a job from running although the rows have
// enough free nodes, or leave fewer nodes than its smallest size. smallest are the smallest sizes of the job on
// its node types. nodes is the number of nodes that the limits of its groups, of all types, would have to leave.
// It is 0 if these limits do not matter: the job exceeds one by itself, or limits per type prevent it.
func (r *Headroom) LimitedByGroup(job Member, smallest []solver.Option) (nodes int, limited bool) {
	free, most, least, onRows := r.FreeInGroup(job.Group), r.SmallestLimit(job.Group), NoLimit, NoLimit
	rowsFit := false
	for _, option := range smallest {
		size, fitsRows := int(option.Nodes), r.FitsRows(job, option)
		rowsFit = rowsFit || fitsRows
		if fitsRows && r.fitsGroups(job, option) {
			return 0, false
		}
		if size > r.smallestTypeLimit(job.Group, int(option.Type)) {
			continue
		}
		least = min(least, size)
		if size > free && fitsRows && size <= r.freeOfTypeInGroup(job.Group, int(option.Type)) {
			onRows = min(onRows, size)
		}
	}
	switch {
	case least > free:
		nodes = least
	case rowsFit:
		nodes = onRows
	default:
		return 0, least == NoLimit
	}
	if nodes > most || nodes == NoLimit {
		nodes = 0
	}
	return nodes, true
}

// smallestTypeLimit returns the smallest limit of a group and its ancestors on nodes of a type, NoLimit if there is
// none.
func (r *Headroom) smallestTypeLimit(group, nodeType int) int {
	smallest := NoLimit
	for g := r.firstGroup(group); g >= 0; g = r.groups[g].Parent {
		if limits := r.groups[g].TypeLimits; limits != nil {
			smallest = min(smallest, limits[nodeType])
		}
	}
	return smallest
}

// StoppedByGroup reports whether LimitedByGroup is the case. It blocks the groups whose limits leave too few
// nodes for the following jobs.
func (r *Headroom) StoppedByGroup(job Member, smallest []solver.Option) bool {
	nodes, limited := r.LimitedByGroup(job, smallest)
	if nodes > 0 {
		r.BlockGroups(job.Group, nodes)
	}
	return limited
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
		headroom.Allocate(p.Jobs[i].Member, p.MinOption(i))
	}
	return headroom
}

// MinOption returns the minimum of job i. The minimums of all jobs are a legal step of a plan.
func (p *Problem) MinOption(i int) solver.Option {
	if p.FeasibleOptions != nil {
		return p.FeasibleOptions[i]
	}
	return p.Jobs[i].Options[0]
}

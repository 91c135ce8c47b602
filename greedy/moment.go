package greedy

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// moment is a scaling moment: who holds what while the cases change it.
type moment struct {
	jobs []solver.AdmittedJob
	// start is a legal choice where there are node types, else nil.
	start []int
	// nodes is what each job holds, as an option; those that hold some are training.
	nodes []int
	// room is what the pool and the limits of groups have left, negative while they are too
	// small.
	room *solver.Room
	// queue are the jobs that wait for nodes, in order, without those that exceed the
	// pool.
	queue []int
}

// newMoment brings every running job to a legal size: the largest that is not
// above what it holds, or its smallest where it holds less than that.
func newMoment(p *solver.Problem) *moment {
	pool := slices.Min(p.Capacity)
	m := &moment{jobs: p.Jobs, start: p.Start, nodes: make([]int, len(p.Jobs)), room: p.Room()}
	for i := range p.Jobs {
		job := &p.Jobs[i]
		most := min(pool, m.room.Limit(job.Group))
		if job.SmallestTrainingSize() > most && (job.Queued() || job.Sizes[0] == 0) {
			continue // It gets nothing, and blocks no other.
		}
		if job.Queued() {
			m.queue = append(m.queue, i)
			continue
		}
		legal := largestWithin(job.Sizes, job.Current)
		if legal == 0 {
			legal = smallestAbove(job.Sizes, job.Current)
		}
		m.give(i, legal) // None where it does not run on the type that it holds.
	}
	return m
}

// shrink makes the running jobs fit a pool, and limits of groups, below what they hold. The
// job with the longest training time that can be halved is halved, repeatedly. If that is not
// enough, the same goes for jobs that can only be brought to their smallest size, such as from
// 4 to 3 nodes. If that is not enough either, those that may hold none and no longer fit beside
// the ones before them lose their nodes; then the queue, or that of the group, has to wait.
func (m *moment) shrink() {
	if !m.illegal() {
		return
	}
	byTrainingTime := m.training(func(a, b *solver.AdmittedJob) int { return compareTrainingTime(b, a) })
	for _, lower := range []func(int) int{m.halved, m.smallest} {
		for _, i := range byTrainingTime {
			for m.over(i) && lower(i) < m.nodes[i] {
				m.give(i, lower(i))
			}
		}
	}
	m.pause()
	if m.start != nil && m.illegal() { // Some job has to move.
		m.queue = nil
		for i, option := range m.start {
			m.give(i, option)
		}
	}
}

// pause takes the nodes of jobs that may hold none where the pool or a limit is too small for
// all: in order, each keeps its nodes that fits beside those before it.
func (m *moment) pause() {
	if !m.room.Exceeded() {
		return
	}
	held := slices.Clone(m.nodes)
	mayPause := func(i int) bool { return held[i] > 0 && m.jobs[i].Sizes[0] == 0 }
	for i := range held {
		if mayPause(i) {
			m.give(i, 0)
		}
	}
	for i, option := range held {
		nodes, on := solver.OptionNodes(option), solver.OptionType(option)
		switch group := m.jobs[i].Group; {
		case !mayPause(i):
		case nodes <= m.room.For(group, on):
			m.give(i, option)
		default:
			if nodes > m.room.Of(on) {
				m.queue = nil
			}
			m.room.CloseFor(group, nodes)
		}
	}
}

// over reports whether the pool or a limit is too small for those that hold nodes, job i
// among them.
func (m *moment) over(i int) bool {
	return m.room.For(m.jobs[i].Group, solver.OptionType(m.nodes[i])) < 0
}

// illegal reports whether jobs hold more than there is, or a running one none that must.
func (m *moment) illegal() bool {
	for i := range m.start {
		if job := &m.jobs[i]; m.nodes[i] == 0 && !job.Queued() && job.Sizes[0] != 0 {
			return true
		}
	}
	return m.room.Exceeded()
}

// allocate applies the paper's four cases. The state that the moment begins with
// decides which: nothing is halved for the queue in a moment that had idle nodes.
// But if the queue runs empty in case 1, the nodes still idle are those of case 2; so are
// those that only limits of groups keep from the queue.
func (m *moment) allocate() {
	switch {
	case m.room.Idle > 0:
		if m.startQueue() {
			m.scaleUp()
		}
	case len(m.queue) > 0:
		m.makeRoom()
	default:
		// Case 4: no idle nodes and no queue, so nothing changes.
	}
}

// startQueue is case 1, idle nodes and a queue: the job at the front takes as many
// nodes as it can, repeatedly. A job that does not fit the pool blocks those behind it, one
// that does not fit the limit of a group those of that group. It reports whether it came to
// the end of the queue.
func (m *moment) startQueue() bool {
	for len(m.queue) > 0 {
		front := m.queue[0]
		job := &m.jobs[front]
		if !m.limited(job) {
			size := m.most(job)
			if size == 0 {
				return false
			}
			m.give(front, size)
		}
		m.queue = m.queue[1:]
	}
	return true
}

// limited reports whether the limit of a group keeps a job of the queue from starting.
func (m *moment) limited(job *solver.AdmittedJob) bool {
	return m.room.Limited(job.Group, job.SmallestTrainingSize())
}

// scaleUp is case 2, idle nodes and no queue: the job with the shortest training
// time scales up as far as it can, then the next.
func (m *moment) scaleUp() {
	for _, i := range m.training(compareTrainingTime) {
		if m.room.Idle == 0 {
			return
		}
		m.give(i, largestWithin(m.jobs[i].Sizes, m.nodes[i]+m.room.For(m.jobs[i].Group, solver.OptionType(m.nodes[i]))))
	}
}

// makeRoom is case 3, a queue and no idle nodes: the job with the longest training
// time that frees enough for the front job's smallest size is halved, and the front job takes
// as many of those nodes as it can. That happens once in a moment. Jobs that the limit of a
// group keeps from starting are passed over.
func (m *moment) makeRoom() {
	for len(m.queue) > 0 && m.limited(&m.jobs[m.queue[0]]) {
		m.queue = m.queue[1:]
	}
	if len(m.queue) == 0 {
		return
	}
	front := &m.jobs[m.queue[0]]
	longest := -1
	for i := range m.jobs {
		if m.nodes[i]-m.halved(i) < smallestOn(front, solver.OptionType(m.nodes[i])) {
			continue
		}
		if longest < 0 || compareTrainingTime(&m.jobs[longest], &m.jobs[i]) < 0 {
			longest = i
		}
	}
	if longest < 0 {
		return
	}
	m.give(longest, m.halved(longest))
	m.give(m.queue[0], m.most(front))
	m.queue = m.queue[1:]
}

// give sets a job's nodes and takes the difference out of the room.
func (m *moment) give(i, nodes int) {
	m.room.GiveBack(m.jobs[i].Group, m.nodes[i])
	m.room.Take(m.jobs[i].Group, nodes)
	m.nodes[i] = nodes
}

// most returns the option of a job of the queue that there is room for: the most nodes or,
// where there are types, the fastest.
func (m *moment) most(job *solver.AdmittedJob) int {
	if m.start == nil {
		return largestWithin(job.Sizes, m.room.For(job.Group, 0))
	}
	best, fastest := 0, 0.0
	for n, option := range job.Sizes {
		if speed := job.StepWork[n]; speed > fastest && solver.OptionNodes(option) <= m.room.Of(solver.OptionType(option)) {
			best, fastest = option, speed
		}
	}
	return best
}

// halved returns the largest legal size that is at most half of what a job holds,
// or what it holds if no size is that small.
func (m *moment) halved(i int) int {
	nodes := solver.OptionNodes(m.nodes[i])
	if half := largestWithin(m.jobs[i].Sizes, m.nodes[i]-nodes+nodes/2); half > 0 {
		return half
	}
	return m.nodes[i]
}

// smallest returns the smallest size at which a job trains on the nodes that it holds.
func (m *moment) smallest(i int) int { return smallestAbove(m.jobs[i].Sizes, m.nodes[i]) }

// training returns the jobs that hold nodes in the given order, ties in that of
// the snapshot.
func (m *moment) training(compare func(a, b *solver.AdmittedJob) int) []int {
	var list []int
	for i, nodes := range m.nodes {
		if nodes > 0 {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b int) int {
		return cmp.Or(compare(&m.jobs[a], &m.jobs[b]), cmp.Compare(a, b))
	})
	return list
}

// compareTrainingTime is the one place that says what jobs are ranked by.
func compareTrainingTime(a, b *solver.AdmittedJob) int {
	return cmp.Compare(a.TrainingTime, b.TrainingTime)
}

// largestWithin returns the largest of ascending options that is of the same type as limit and
// not above it, or 0.
func largestWithin(sizes []int, limit int) int {
	n, exact := slices.BinarySearch(sizes, limit)
	switch {
	case exact:
		return limit
	case n == 0 || solver.OptionType(sizes[n-1]) != solver.OptionType(limit):
		return 0
	default:
		return sizes[n-1]
	}
}

// smallestAbove returns the smallest of ascending options of the same type as another one
// that holds nodes, or 0.
func smallestAbove(sizes []int, option int) int {
	least := option - solver.OptionNodes(option) + 1
	if n, _ := slices.BinarySearch(sizes, least); n < len(sizes) && solver.OptionType(sizes[n]) == solver.OptionType(option) {
		return sizes[n]
	}
	return 0
}

// smallestOn returns the smallest size of a job on nodes of a type, solver.MaxNodes where it
// has none.
func smallestOn(job *solver.AdmittedJob, nodeType int) int {
	if size := smallestAbove(job.Sizes, solver.OptionOf(nodeType, 1)); size > 0 {
		return solver.OptionNodes(size)
	}
	return solver.MaxNodes
}

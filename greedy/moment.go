package greedy

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// moment is a scaling moment: who holds what while the cases change it.
type moment struct {
	jobs []problem.AdmittedJob
	// start is a legal choice where there are node types, else nil.
	start []snapshot.Option
	// held is the option of each job; those that hold nodes are training.
	held []snapshot.Option
	// room is what the pool and the limits of groups have left, negative while they are too
	// small.
	room *problem.Room
	// queue are the jobs that wait for nodes, in order, without those that exceed the
	// pool.
	queue []int
}

// newMoment brings every running job to a legal size: the largest that is not
// above what it holds, or its smallest where it holds less than that.
func newMoment(p *problem.Problem) *moment {
	pool := slices.Min(p.Capacity)
	m := &moment{jobs: p.Jobs, start: p.Start, held: make([]snapshot.Option, len(p.Jobs)), room: p.Room()}
	for i := range p.Jobs {
		job := &p.Jobs[i]
		most := min(pool, m.room.Limit(job.Group))
		if job.SmallestTrainingSize() > most && (job.Queued() || job.Sizes[0].IsZero()) {
			continue // It gets nothing, and blocks no other.
		}
		if job.Queued() {
			m.queue = append(m.queue, i)
			continue
		}
		legal := largestWithin(job.Sizes, job.Current)
		if legal.IsZero() {
			legal = smallestOfType(job.Sizes, job.Current.Type)
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
	byTrainingTime := m.training(func(a, b *problem.AdmittedJob) int { return compareTrainingTime(b, a) })
	for _, lower := range []func(int) snapshot.Option{m.halved, m.smallest} {
		for _, i := range byTrainingTime {
			for m.over(i) && lower(i).Nodes < m.held[i].Nodes {
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
	held := slices.Clone(m.held)
	mayPause := func(i int) bool { return !held[i].IsZero() && m.jobs[i].Sizes[0].IsZero() }
	for i := range held {
		if mayPause(i) {
			m.give(i, snapshot.Option{})
		}
	}
	for i, option := range held {
		nodes, on := int(option.Nodes), int(option.Type)
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
	return m.room.For(m.jobs[i].Group, int(m.held[i].Type)) < 0
}

// illegal reports whether jobs hold more than there is, or a running one none that must.
func (m *moment) illegal() bool {
	for i := range m.start {
		if job := &m.jobs[i]; m.held[i].IsZero() && !job.Queued() && !job.Sizes[0].IsZero() {
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
			if size.IsZero() {
				return false
			}
			m.give(front, size)
		}
		m.queue = m.queue[1:]
	}
	return true
}

// limited reports whether the limit of a group keeps a job of the queue from starting.
func (m *moment) limited(job *problem.AdmittedJob) bool {
	return m.room.Limited(job.Group, job.SmallestTrainingSize())
}

// scaleUp is case 2, idle nodes and no queue: the job with the shortest training
// time scales up as far as it can, then the next.
func (m *moment) scaleUp() {
	for _, i := range m.training(compareTrainingTime) {
		if m.room.Idle == 0 {
			return
		}
		most := m.held[i]
		most.Nodes += int32(m.room.For(m.jobs[i].Group, int(most.Type)))
		m.give(i, largestWithin(m.jobs[i].Sizes, most))
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
		if m.held[i].Nodes-m.halved(i).Nodes < smallestOn(front, m.held[i].Type) {
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

// give sets what a job holds and takes the difference out of the room.
func (m *moment) give(i int, option snapshot.Option) {
	m.room.GiveBack(m.jobs[i].Group, m.held[i])
	m.room.Take(m.jobs[i].Group, option)
	m.held[i] = option
}

// most returns the option of a job of the queue that there is room for: the most nodes or,
// where there are types, the fastest.
func (m *moment) most(job *problem.AdmittedJob) (best snapshot.Option) {
	if m.start == nil {
		return largestWithin(job.Sizes, snapshot.NewOption(0, m.room.For(job.Group, 0)))
	}
	fastest := 0.0
	for n, option := range job.Sizes {
		if speed := job.StepWork[n]; speed > fastest && int(option.Nodes) <= m.room.Of(int(option.Type)) {
			best, fastest = option, speed
		}
	}
	return best
}

// halved returns the largest legal size that is at most half of what a job holds,
// or what it holds if no size is that small.
func (m *moment) halved(i int) snapshot.Option {
	most := m.held[i]
	most.Nodes /= 2
	if half := largestWithin(m.jobs[i].Sizes, most); !half.IsZero() {
		return half
	}
	return m.held[i]
}

// smallest returns the smallest size at which a job trains on the nodes that it holds.
func (m *moment) smallest(i int) snapshot.Option {
	return smallestOfType(m.jobs[i].Sizes, m.held[i].Type)
}

// training returns the jobs that hold nodes in the given order, ties in that of
// the snapshot.
func (m *moment) training(compare func(a, b *problem.AdmittedJob) int) []int {
	var list []int
	for i, option := range m.held {
		if !option.IsZero() {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b int) int {
		return cmp.Or(compare(&m.jobs[a], &m.jobs[b]), cmp.Compare(a, b))
	})
	return list
}

// compareTrainingTime is the one place that says what jobs are ranked by.
func compareTrainingTime(a, b *problem.AdmittedJob) int {
	return cmp.Compare(a.TrainingTime, b.TrainingTime)
}

// largestWithin returns the largest of ascending options that is of the same type as limit and
// not above it, or no nodes.
func largestWithin(sizes []snapshot.Option, limit snapshot.Option) snapshot.Option {
	n, exact := slices.BinarySearchFunc(sizes, limit, snapshot.Option.Compare)
	switch {
	case exact:
		return limit
	case n == 0 || sizes[n-1].Type != limit.Type:
		return snapshot.Option{}
	default:
		return sizes[n-1]
	}
}

// smallestOfType returns the smallest of ascending options to hold nodes of a type, or no nodes.
func smallestOfType(sizes []snapshot.Option, nodeType int32) snapshot.Option {
	n, _ := slices.BinarySearchFunc(sizes, snapshot.Option{Type: nodeType, Nodes: 1}, snapshot.Option.Compare)
	if n < len(sizes) && sizes[n].Type == nodeType {
		return sizes[n]
	}
	return snapshot.Option{}
}

// smallestOn returns the smallest number of nodes of a type that a job trains on,
// snapshot.MaxNodes if it has none.
func smallestOn(job *problem.AdmittedJob, nodeType int32) int32 {
	if size := smallestOfType(job.Sizes, nodeType); !size.IsZero() {
		return size.Nodes
	}
	return snapshot.MaxNodes
}

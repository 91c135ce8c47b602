package greedy

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// allocation is the state of a decision while the paper's cases change it.
type allocation struct {
	jobs []problem.AdmittedJob
	// start is a legal allocation if the problem has rows, otherwise nil.
	start []solver.Option
	// allocated is the option of each job.
	allocated []solver.Option
	// typed reports whether the pool has several node types.
	typed bool
	// room is the free capacity of the rows and of the limits of groups, negative while they are
	// exceeded.
	room *problem.Headroom
	// queue are the positions of the waiting jobs, in order, without jobs that exceed the pool.
	queue []int
}

// newAllocation returns the current allocation with legal sizes. A running job gets its largest size
// that is at most its current size or, if there is none, its smallest size.
func newAllocation(p *problem.Problem) *allocation {
	empty := p.Headroom()
	a := &allocation{
		jobs: p.Jobs, start: p.FeasibleOptions, typed: p.Rows.Typed(), allocated: make([]solver.Option, len(p.Jobs)), room: p.Headroom(),
	}
	for i := range p.Jobs {
		job := &p.Jobs[i]
		fits := slices.ContainsFunc(job.Options, func(o solver.Option) bool { return !o.IsZero() && empty.Fits(job.Member, o) })
		if !fits && (job.Queued() || job.Options[0].IsZero()) {
			continue // It gets no nodes and does not block the queue.
		}
		if job.Queued() {
			a.queue = append(a.queue, i)
			continue
		}
		legal := largestWithin(job.Options, job.Current)
		if legal.IsZero() {
			legal = smallestOfType(job.Options, job.Current.Type)
		}
		a.allocate(i, legal) // No nodes if it does not run on its current type.
	}
	return a
}

// shrink makes the running jobs fit the pool and the limits of groups. It halves the job with the
// longest training time that can be halved, repeatedly. If that is not enough, it reduces jobs to
// their smallest size, for example from 4 to 3 nodes. If that is not enough either, jobs that may be
// paused and do not fit together with the jobs before them lose their nodes, and the queue of the
// pool or of the group waits.
func (a *allocation) shrink() {
	if !a.illegal() {
		return
	}
	byTrainingTime := a.training(func(a, b *problem.AdmittedJob) int { return compareTrainingTime(b, a) })
	for _, lower := range []func(int) solver.Option{a.halved, a.smallest} {
		for _, i := range byTrainingTime {
			for a.over(i) && lower(i).Nodes < a.allocated[i].Nodes {
				a.allocate(i, lower(i))
			}
		}
	}
	a.pause()
	if a.start != nil && a.illegal() { // A job must move to another node type.
		a.queue = nil
		for i, option := range a.start {
			a.allocate(i, option)
		}
	}
}

// pause pauses jobs if the pool or a limit is exceeded. In order, a job that may be paused keeps its
// nodes if it fits together with the jobs before it.
func (a *allocation) pause() {
	if !a.room.Exceeded() {
		return
	}
	before := slices.Clone(a.allocated)
	mayPause := func(i int) bool { return !before[i].IsZero() && a.jobs[i].Options[0].IsZero() }
	for i := range before {
		if mayPause(i) {
			a.allocate(i, solver.Option{})
		}
	}
	for i, option := range before {
		switch job := a.jobs[i].Member; {
		case !mayPause(i):
		case a.room.Fits(job, option):
			a.allocate(i, option)
		default:
			if !a.room.FitsRows(job, option) {
				a.queue = nil
			}
			a.room.BlockGroups(job.Group, int(option.Nodes))
		}
	}
}

// over reports whether a row or a limit that counts job i is exceeded.
func (a *allocation) over(i int) bool { return a.room.Excess(a.jobs[i].Member, a.allocated[i]) > 0 }

// illegal reports whether a row or a limit is exceeded, or a running job that must not be paused
// has no nodes.
func (a *allocation) illegal() bool {
	for i := range a.start {
		if job := &a.jobs[i]; a.allocated[i].IsZero() && !job.Queued() && !job.Options[0].IsZero() {
			return true
		}
	}
	return a.room.Exceeded()
}

// applyCases applies the paper's four cases. The initial state selects the case: no job is halved for
// the queue if there were idle nodes. If the queue becomes empty in case 1, case 2 follows with the
// nodes that are still idle, and so it does if only limits of groups block the queue.
func (a *allocation) applyCases() {
	switch {
	case a.room.Idle > 0:
		if a.startQueue() {
			a.scaleUp()
		}
	case len(a.queue) > 0:
		a.halveForQueue()
	default:
		// Case 4: no idle nodes and no queue, so nothing changes.
	}
}

// startQueue is case 1, idle nodes and a queue: the first job of the queue gets as many nodes as
// possible, repeatedly. A job that does not fit the rows blocks the queue, and a job that does not fit
// the limit of a group blocks the queue of that group. startQueue reports whether it reached the end
// of the queue.
func (a *allocation) startQueue() bool {
	for len(a.queue) > 0 {
		front := a.queue[0]
		job := &a.jobs[front]
		if !a.limited(job) {
			size := a.best(job)
			if size.IsZero() {
				return false
			}
			a.allocate(front, size)
		}
		a.queue = a.queue[1:]
	}
	return true
}

// limited reports whether the limit of a group prevents a queued job from starting.
func (a *allocation) limited(job *problem.AdmittedJob) bool {
	if a.room.Blocked(job.Group) {
		return true
	}
	var smallest []solver.Option
	for n, option := range job.Options {
		if !option.IsZero() && (n == 0 || job.Options[n-1].IsZero() || job.Options[n-1].Type != option.Type) {
			smallest = append(smallest, option)
		}
	}
	return a.room.StoppedByGroup(job.Member, smallest)
}

// scaleUp is case 2, idle nodes and no queue: jobs scale up as far as possible, in ascending order of
// their training times.
func (a *allocation) scaleUp() {
	for _, i := range a.training(compareTrainingTime) {
		if a.room.Idle == 0 {
			return
		}
		on := int(a.allocated[i].Type)
		a.allocate(i, solver.Option{})
		a.allocate(i, largestWithin(a.jobs[i].Options, solver.NewOption(on, a.room.MaxNodes(a.jobs[i].Member, on))))
	}
}

// halveForQueue is case 3, a queue and no idle nodes. Of the jobs whose half is enough for the smallest
// size of the first queued job, the job with the longest training time is halved, and the queued job
// gets as many of the nodes as possible. This happens once per decision. Jobs that the limit of a
// group prevents from starting are skipped.
func (a *allocation) halveForQueue() {
	for len(a.queue) > 0 && a.limited(&a.jobs[a.queue[0]]) {
		a.queue = a.queue[1:]
	}
	if len(a.queue) == 0 {
		return
	}
	front := &a.jobs[a.queue[0]]
	isEnough := func(i int) bool { // Size limits may count the queued job and not the halved one.
		before := a.allocated[i]
		a.allocate(i, a.halved(i))
		defer a.allocate(i, before)
		return !a.best(front).IsZero()
	}
	longest := -1
	for i := range a.jobs {
		if a.allocated[i].Nodes-a.halved(i).Nodes < smallestOn(front, a.allocated[i].Type) {
			continue
		}
		if (longest < 0 || compareTrainingTime(&a.jobs[longest], &a.jobs[i]) < 0) && isEnough(i) {
			longest = i
		}
	}
	if longest < 0 {
		return
	}
	a.allocate(longest, a.halved(longest))
	a.allocate(a.queue[0], a.best(front))
	a.queue = a.queue[1:]
}

// allocate sets the option of a job and updates the room.
func (a *allocation) allocate(i int, option solver.Option) {
	a.room.Release(a.jobs[i].Member, a.allocated[i])
	a.room.Allocate(a.jobs[i].Member, option)
	a.allocated[i] = option
}

// best returns the best option of a queued job that fits: the one with the most nodes or, if there are
// node types, the fastest one.
func (a *allocation) best(job *problem.AdmittedJob) (option solver.Option) {
	if !a.typed {
		return largestWithin(job.Options, solver.NewOption(0, a.room.MaxNodes(job.Member, 0)))
	}
	fastest := 0.0
	for n, size := range job.Options {
		if speed := job.StepWork[n]; speed > fastest && a.room.Fits(job.Member, size) {
			option, fastest = size, speed
		}
	}
	return option
}

// halved returns the largest legal option that is at most half of the option of a job, or the option
// of the job if there is none.
func (a *allocation) halved(i int) solver.Option {
	limit := a.allocated[i]
	limit.Nodes /= 2
	if half := largestWithin(a.jobs[i].Options, limit); !half.IsZero() {
		return half
	}
	return a.allocated[i]
}

// smallest returns the smallest option of a job on its node type.
func (a *allocation) smallest(i int) solver.Option {
	return smallestOfType(a.jobs[i].Options, a.allocated[i].Type)
}

// training returns the jobs with nodes in the given order. Ties are in the order of the snapshot.
func (a *allocation) training(compare func(a, b *problem.AdmittedJob) int) []int {
	var list []int
	for i, option := range a.allocated {
		if !option.IsZero() {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(i, j int) int {
		return cmp.Or(compare(&a.jobs[i], &a.jobs[j]), cmp.Compare(i, j))
	})
	return list
}

// compareTrainingTime compares jobs in the order in which the rules rank them.
func compareTrainingTime(a, b *problem.AdmittedJob) int {
	return cmp.Compare(a.TrainingTime, b.TrainingTime)
}

// largestWithin returns the largest of ascending options that has the type of limit and is at most
// limit, or no nodes.
func largestWithin(sizes []solver.Option, limit solver.Option) solver.Option {
	n, exact := slices.BinarySearchFunc(sizes, limit, solver.Option.Compare)
	switch {
	case exact:
		return limit
	case n == 0 || sizes[n-1].Type != limit.Type:
		return solver.Option{}
	default:
		return sizes[n-1]
	}
}

// smallestOfType returns the smallest of ascending options on a node type, or no nodes.
func smallestOfType(sizes []solver.Option, nodeType int32) solver.Option {
	n, _ := slices.BinarySearchFunc(sizes, solver.Option{Type: nodeType, Nodes: 1}, solver.Option.Compare)
	if n < len(sizes) && sizes[n].Type == nodeType {
		return sizes[n]
	}
	return solver.Option{}
}

// smallestOn returns the smallest number of nodes of a job on a node type, solver.MaxNodes if it has
// none.
func smallestOn(job *problem.AdmittedJob, nodeType int32) int32 {
	if size := smallestOfType(job.Options, nodeType); !size.IsZero() {
		return size.Nodes
	}
	return solver.MaxNodes
}

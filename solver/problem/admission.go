package problem

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Admission is who gets nodes when the minimums of all jobs do not fit.
type Admission string

// The admissions. FIFO is the paper's model made feasible; the others go beyond it.
// Under each, a job whose smallest legal size exceeds the pool blocks no other.
const (
	// AdmissionFIFO admits running jobs first, then the queue in order, stopping
	// at the first whose smallest legal size does not fit.
	AdmissionFIFO Admission = "fifo"
	// AdmissionOptimized admits running jobs likewise and every queued job, and
	// adds size 0 to every queued job's sizes: the optimiser may leave it waiting.
	AdmissionOptimized Admission = "optimized"
	// AdmissionPreemptive admits every job and adds size 0 to every job's sizes:
	// the optimiser may also take a running job to 0.
	AdmissionPreemptive Admission = "preemptive"
	// AdmissionStartFirst admits every job. A running job that has not trained yet keeps at
	// least its smallest legal size, as far as there is room. Then jobs that never started get
	// at least theirs, in order until the first that no longer fits beside those before it, if
	// they displace no running job that is as short; every other job may go to 0.
	AdmissionStartFirst Admission = "start-first"
)

// Admissions returns all admissions.
func Admissions() []Admission {
	return []Admission{AdmissionFIFO, AdmissionOptimized, AdmissionPreemptive, AdmissionStartFirst}
}

// admission is a job of the snapshot that takes part in the model.
type admission struct {
	index   int
	mayWait bool
	// holds is the option at which all jobs that may not wait fit together.
	option snapshot.Option
}

// admit returns the jobs of a snapshot, whose groups p has, that are admitted, in the order
// of the snapshot.
func (p *Problem) admit(s *snapshot.Snapshot, o *Options) []admission {
	m := &minimums{s: s, p: p, headroom: p.SnapshotHeadroom(s), assigned: make([]snapshot.Option, len(s.Jobs))}
	who, queue := o.Admission, false
	switch who {
	case AdmissionPreemptive:
	case AdmissionStartFirst:
		m.keepStarting()
		m.startNew()
	case AdmissionFIFO, AdmissionOptimized:
		if queue = m.keepRunning(); queue && who == AdmissionFIFO {
			m.startQueue()
		}
	}

	list := make([]admission, 0, len(s.Jobs))
	for i := range s.Jobs {
		mayWait := who == AdmissionPreemptive || who == AdmissionStartFirst ||
			who == AdmissionOptimized && queue && s.Jobs[i].Queued() && !m.headroom.Blocked(p.JobGroup(i))
		if !m.assigned[i].IsZero() || mayWait {
			list = append(list, admission{index: i, mayWait: m.assigned[i].IsZero(), option: m.assigned[i]})
		}
	}
	return list
}

// minimums gives jobs at least their smallest sizes, one after the other.
type minimums struct {
	s        *snapshot.Snapshot
	p        *Problem // has the groups
	headroom *Headroom
	assigned []snapshot.Option
	places   []snapshot.Place
}

// fitting yields, in order, the jobs of a kind that the pool could hold at all, each with its
// group and its smallest size. places are then those of the job.
func (m *minimums) fitting(kind func(*snapshot.Job) bool) iter.Seq2[int, groupNodes] {
	return func(yield func(int, groupNodes) bool) {
		for i := range m.s.Jobs {
			if !kind(&m.s.Jobs[i]) {
				continue
			}
			m.places = m.s.Places(i, m.places)
			if m.places[0].Fits() && !yield(i, groupNodes{m.p.JobGroup(i), m.places[0].Smallest()}) {
				return
			}
		}
	}
}

// groupNodes is the group of a job and the nodes that it needs at least.
type groupNodes struct{ group, smallest int }

// admit gives job i its smallest size and reports whether the pool has room for it.
func (m *minimums) admit(i, group int) bool {
	option := m.smallestOption(i, m.headroom)
	if option.IsZero() {
		return false
	}
	m.assign(i, group, option)
	return true
}

// assign gives job i an option.
func (m *minimums) assign(i, group int, option snapshot.Option) {
	m.headroom.Allocate(group, option)
	m.assigned[i] = option
}

// keepRunning has running jobs keep their smallest sizes, where the pool or a limit shrank
// those that still fit beside the ones before them. It reports whether the pool has room for
// all: no queued job is admitted past one that lost its nodes, nor one of a group past one
// that lost them to the limit of the group.
func (m *minimums) keepRunning() bool {
	all := true
	for i, needs := range m.fitting(func(j *snapshot.Job) bool { return !j.Queued() }) {
		switch {
		case m.headroom.FreeInGroup(needs.group) < needs.smallest:
			m.headroom.BlockedByLimit(needs.group, needs.smallest) // This closes the group.
		case !m.admit(i, needs.group):
			all = false
		}
	}
	return all
}

// startQueue starts the queue in order up to the first job that the pool has no room for. One
// that the limit of its group has no room for blocks those of that group only.
func (m *minimums) startQueue() {
	for i, needs := range m.fitting((*snapshot.Job).Queued) {
		if !m.headroom.BlockedByLimit(needs.group, needs.smallest) && !m.admit(i, needs.group) {
			return
		}
	}
}

// keepStarting has running jobs that have not trained yet keep their smallest sizes, as far as
// there is room: a restart that is broken off was for nothing.
func (m *minimums) keepStarting() {
	for i, needs := range m.fitting(func(j *snapshot.Job) bool { return !j.Queued() && j.TrainingTime == 0 }) {
		if needs.smallest <= m.headroom.FreeInGroup(needs.group) {
			m.admit(i, needs.group)
		}
	}
}

// startNew starts jobs that never started in order up to the first that the pool has no room
// for beside those that got nodes already. It passes over a job that the limit of its group has
// no room for, and one that would displace a running job with no more left than it has.
func (m *minimums) startNew() {
	running := m.displaceable()
	for i, needs := range m.fitting((*snapshot.Job).NeverStarted) {
		if m.headroom.FreeInGroup(needs.group) < needs.smallest {
			continue
		}
		option := m.smallestOption(i, m.headroom)
		if option.IsZero() {
			return
		}
		if running.fits(m, i, option) {
			m.assign(i, needs.group, option)
		}
	}
}

// smallestOption returns the smallest size of job i, whose places m has, on nodes of the type that it
// holds or, where a room has too few of those, of the one with most nodes left, the first of
// equals. It returns no nodes if none has room.
func (m *minimums) smallestOption(i int, room *Headroom) (option snapshot.Option) {
	held, most := m.s.Current(i), 0
	for n := range m.places {
		l := &m.places[n]
		left := room.FreeOfType(l.Type)
		if left < l.Smallest() {
			continue
		}
		if !held.IsZero() && l.Type == int(held.Type) {
			return snapshot.NewOption(l.Type, l.Smallest())
		}
		if left > most {
			option, most = snapshot.NewOption(l.Type, l.Smallest()), left
		}
	}
	return option
}

// remainingWork returns the work that job i has left by its weight, in seconds on one of its mean nodes:
// a job that starts with an option restarts first.
func (m *minimums) remainingWork(i int, option snapshot.Option, places []snapshot.Place) float64 {
	job, rho := &m.s.Jobs[i], 1.0
	if len(m.s.NodeTypes) > 0 {
		on, _ := newScalingSummary(places, nil)
		rho = on.rho
	}
	demand := m.p.Demands[i]
	if !option.IsZero() && job.RestartTime > 0 {
		demand += job.RestartTime.Seconds() * m.s.Speed(i, option)
	}
	return demand / rho / job.WeightOrDefault()
}

// displaceable are the running jobs that fit the pool and hold no minimum yet.
type displaceable struct {
	jobs []displaceableJob
	// sizes are, for each node type, the smallest sizes of all jobs that run on it.
	sizes []int
	// sums are, for each node type, the sums of the smallest sizes of the first of the jobs by
	// left: of none, of the first, and so on. They are nil until some new job does not fit
	// beside all jobs, since most decisions need no order.
	sums [][]int
}

type displaceableJob struct {
	index         int
	option        snapshot.Option // its smallest size
	remainingWork float64
}

// displaceable returns the running jobs that a new job may displace. Those that have no minimum
// when this is called have none later, since only jobs that never started get one.
func (m *minimums) displaceable() *displaceable {
	d := &displaceable{sizes: make([]int, max(1, len(m.s.NodeTypes)))}
	pool := m.p.SnapshotHeadroom(m.s)
	for i := range m.fitting(func(j *snapshot.Job) bool { return !j.Queued() }) {
		if m.assigned[i].IsZero() {
			option := m.smallestOption(i, pool)
			d.jobs = append(d.jobs, displaceableJob{index: i, option: option})
			d.sizes[option.Type] += int(option.Nodes)
		}
	}
	return d
}

// fits reports whether an option of job i, whose places m has, fits beside the smallest
// sizes of the running jobs with no more left than it has. Of several node types, those that
// the job runs on count.
func (d *displaceable) fits(m *minimums, i int, option snapshot.Option) bool {
	room, all := -int(option.Nodes), 0
	for n := range m.places {
		room += m.headroom.FreeOfType(m.places[n].Type)
		all += d.sizes[m.places[n].Type]
	}
	if all <= room {
		return true
	}
	d.sort(m)
	left := m.remainingWork(i, option, m.places)
	shorter := sort.Search(len(d.jobs), func(n int) bool { return d.jobs[n].remainingWork > left })
	for n := range m.places {
		room -= d.sums[m.places[n].Type][shorter]
	}
	return room >= 0
}

// sort orders the jobs by left and adds up their sizes, once.
func (d *displaceable) sort(m *minimums) {
	if d.sums != nil {
		return
	}
	var places []snapshot.Place
	for n := range d.jobs {
		job := &d.jobs[n]
		places = m.s.Places(job.index, places)
		job.remainingWork = m.remainingWork(job.index, snapshot.Option{}, places)
	}
	slices.SortFunc(d.jobs, func(a, b displaceableJob) int { return cmp.Compare(a.remainingWork, b.remainingWork) })
	for g := range d.sizes {
		sum := 0
		sums := append(make([]int, 0, len(d.jobs)+1), sum)
		for _, job := range d.jobs {
			if int(job.option.Type) == g {
				sum += int(job.option.Nodes)
			}
			sums = append(sums, sum)
		}
		d.sums = append(d.sums, sums)
	}
}

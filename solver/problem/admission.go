package problem

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/elastalloc/elastalloc/solver"
)

// admission is an admitted job of the snapshot.
type admission struct {
	index int
	// exhausted reports that the job has no choice of waiting because it has used its restart budget.
	mayWait, exhausted bool
	// option is the minimum of the job, no nodes if mayWait. The minimums of all jobs fit together.
	option solver.Option
}

// admit returns the admitted jobs in the order of the snapshot. p has the groups of the snapshot.
func (p *Problem) admit(s *solver.Snapshot, o *solver.Options) []admission {
	m := &minimums{s: s, p: p, pool: p.SnapshotHeadroom(s), headroom: p.SnapshotHeadroom(s), assigned: make([]solver.Option, len(s.Jobs))}
	who, queue := o.Admission, false
	switch who {
	case solver.AdmissionPreemptive:
		m.keepExhausted()
	case solver.AdmissionStartFirst:
		m.keepExhausted()
		m.keepStarting()
		m.startNew()
	case solver.AdmissionFIFO, solver.AdmissionOptimized:
		if queue = m.keepRunning(); queue && who == solver.AdmissionFIFO {
			m.startQueue()
		}
	}

	list := make([]admission, 0, len(s.Jobs))
	for i := range s.Jobs {
		mayWait := who == solver.AdmissionPreemptive || who == solver.AdmissionStartFirst ||
			who == solver.AdmissionOptimized && queue && s.Jobs[i].Queued() && !m.headroom.Blocked(p.JobGroup(i))
		if !m.assigned[i].IsZero() || mayWait {
			_, exhausted := m.exhausted[i]
			list = append(list, admission{index: i, mayWait: m.assigned[i].IsZero(), exhausted: exhausted, option: m.assigned[i]})
		}
	}
	return list
}

// minimums assigns jobs their smallest sizes one after the other.
type minimums struct {
	s        *solver.Snapshot
	p        *Problem  // has the groups
	pool     *Headroom // of the unallocated pool
	headroom *Headroom
	assigned []solver.Option
	// exhausted has the minimums that keepExhausted assigned.
	exhausted map[int]solver.Option
	places    []solver.Place
	smallest  []solver.Option
}

// fitting yields the selected jobs that fit into the rows of an unallocated pool, in the order of the snapshot.
// It sets places to the node types of the yielded job, and smallest to its smallest sizes on the types on which
// it fits.
func (m *minimums) fitting(selected func(*solver.Job) bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range m.s.Jobs {
			if !selected(&m.s.Jobs[i]) {
				continue
			}
			m.places = m.s.Places(i, m.places)
			m.smallest = m.smallest[:0]
			for n := range m.places {
				option := solver.NewOption(m.places[n].Type, m.places[n].Smallest())
				if m.pool.rows.Fit(option, m.s.Jobs[i].PieceNodes) {
					m.smallest = append(m.smallest, option)
				}
			}
			if len(m.smallest) > 0 && !yield(i) {
				return
			}
		}
	}
}

func running(j *solver.Job) bool { return !j.Queued() }

// stoppedByGroup reports whether the limits of its groups stop job i, see Headroom.StoppedByGroup.
func (m *minimums) stoppedByGroup(i int) bool {
	return m.headroom.StoppedByGroup(m.p.Member(m.s, i), m.smallest)
}

// admit assigns job i its smallest size and reports whether it fits.
func (m *minimums) admit(i int) bool {
	option := m.smallestOption(i, m.headroom)
	if option.IsZero() {
		return false
	}
	m.assign(i, option)
	return true
}

// assign allocates an option to job i.
func (m *minimums) assign(i int, option solver.Option) {
	m.headroom.Allocate(m.p.Member(m.s, i), option)
	m.assigned[i] = option
}

// keepRunning assigns running jobs their smallest sizes, as far as the pool and the group limits
// allow. It reports whether the pool has enough nodes for all of them. Otherwise no queued job is
// admitted, because it would pass a running job that lost its nodes. If a running job exceeds the
// limit of its group, no queued job of that group is admitted.
func (m *minimums) keepRunning() bool {
	all := true
	for i := range m.fitting(running) {
		if !m.stoppedByGroup(i) && !m.admit(i) {
			all = false
		}
	}
	return all
}

// startQueue assigns queued jobs their smallest sizes in order, up to the first that does not fit
// into the pool. A job that exceeds the limit of its group blocks only the jobs of that group.
func (m *minimums) startQueue() {
	for i := range m.fitting((*solver.Job).Queued) {
		if !m.headroom.Blocked(m.p.JobGroup(i)) && !m.stoppedByGroup(i) && !m.admit(i) {
			return
		}
	}
}

// keepExhausted assigns the jobs that have used their restart budgets their smallest sizes, if these fit
// together. Otherwise any of the jobs may be paused.
func (m *minimums) keepExhausted() {
	restarted := func(j *solver.Job) bool { return len(j.RecentRestarts) > 0 }
	room, exhausted := m.p.SnapshotHeadroom(m.s), make(map[int]solver.Option)
	for i := range m.fitting(restarted) {
		if !m.s.UsedRestartBudget(i) {
			continue
		}
		member := m.p.Member(m.s, i)
		if exhausted[i] = m.smallestOption(i, m.pool); !room.Fits(member, exhausted[i]) {
			return
		}
		room.Allocate(member, exhausted[i])
	}
	m.exhausted = exhausted
	for i, option := range exhausted {
		m.assign(i, option)
	}
}

// keepStarting assigns running jobs that have not trained yet their smallest sizes, as far as they
// fit. Preempting such a job would waste its startup.
func (m *minimums) keepStarting() {
	starting := func(j *solver.Job) bool { return running(j) && j.TrainingTime == 0 }
	for i := range m.fitting(starting) {
		if m.assigned[i].IsZero() {
			m.admit(i)
		}
	}
}

// startNew assigns jobs that never started their smallest sizes in order, up to the first that does
// not fit into the free nodes of the rows. It skips a job that exceeds the limit of its group, and a
// job that would displace a running job with at most the same remaining work.
func (m *minimums) startNew() {
	running := m.displaceable()
	for i := range m.fitting((*solver.Job).NeverStarted) {
		if m.stoppedByGroup(i) {
			continue
		}
		option := m.smallestOption(i, m.headroom)
		if option.IsZero() {
			return
		}
		if running.fits(m, i, option) {
			m.assign(i, option)
		}
	}
}

// smallestOption returns the smallest size of job i, whose node types are in m.places. It prefers the
// current node type of the job, then the type with the most free nodes, then the first type. It
// returns no nodes if the job fits on no type. Group limits do not count in the unallocated pool.
func (m *minimums) smallestOption(i int, free *Headroom) (option solver.Option) {
	current, largest, member := m.s.Current(i), 0, m.p.Member(m.s, i)
	for n := range m.places {
		l := &m.places[n]
		smallest := solver.NewOption(l.Type, l.Smallest())
		if !free.FitsRows(member, smallest) || free != m.pool && !free.fitsGroups(member, smallest) {
			continue
		}
		if !current.IsZero() && smallest.Type == current.Type {
			return smallest
		}
		if nodes := free.FreeOfType(l.Type); nodes > largest {
			option, largest = smallest, nodes
		}
	}
	return option
}

// remainingWork returns the remaining work of job i divided by its weight, in seconds on one node of
// its mean type. If option is not zero, it includes the restart of the job with that option.
func (m *minimums) remainingWork(i int, option solver.Option, places []solver.Place) float64 {
	job, meanSpeed := &m.s.Jobs[i], 1.0
	if len(m.s.NodeTypes) > 0 {
		on, _ := newScalingSummary(places, nil)
		meanSpeed = on.meanSpeed
	}
	demand := m.p.Demands[i]
	if !option.IsZero() && job.RestartTime > 0 {
		demand += job.RestartTime.Seconds() * m.s.Speed(i, option)
	}
	return demand / meanSpeed / job.WeightOrDefault()
}

// displaceable is the set of running jobs that fit into the pool and have no minimum.
type displaceable struct {
	jobs []displaceableJob
	// sizes has the sums of the smallest sizes of the jobs as Row.Nodes.
	sizes solver.Rows
	// sums has the prefix sums of the smallest sizes, per row, in the order of remaining work. It is
	// nil until a new job does not fit in addition to all jobs, because most decisions do not need the
	// order.
	sums [][]int
}

type displaceableJob struct {
	index         int
	option        solver.Option // its smallest size
	remainingWork float64
}

// displaceable returns the running jobs that have no minimum. A running job without a minimum gets
// none later, because only jobs that never started do.
func (m *minimums) displaceable() *displaceable {
	d := &displaceable{sizes: m.noNodes()}
	for i := range m.fitting(running) {
		if m.assigned[i].IsZero() {
			job := displaceableJob{index: i, option: m.smallestOption(i, m.pool)}
			d.jobs = append(d.jobs, job)
			job.addTo(d.sizes, m.s)
		}
	}
	return d
}

// noNodes returns the rows with 0 nodes each.
func (m *minimums) noNodes() solver.Rows {
	rows := slices.Clone(m.pool.rows)
	for n := range rows {
		rows[n].Nodes = 0
	}
	return rows
}

// addTo adds the smallest size of the job to the rows that count it.
func (j *displaceableJob) addTo(rows solver.Rows, s *solver.Snapshot) {
	counting := rows.Counting(j.option, s.Jobs[j.index].PieceNodes)
	for n := range counting {
		counting[n].Nodes += counting[n].Count(j.option, s.Jobs[j.index].PieceNodes)
	}
}

// fits reports whether an option of job i fits in addition to the smallest sizes of the running jobs
// that have at most the same remaining work. Of the capacities, those of all node types that the job
// runs on count together. They are in m.places.
func (d *displaceable) fits(m *minimums, i int, option solver.Option) bool {
	if m.fitsBeside(i, option, d.sizes) {
		return true
	}
	d.sort(m)
	work := m.remainingWork(i, option, m.places)
	shorter := sort.Search(len(d.jobs), func(n int) bool { return d.jobs[n].remainingWork > work })
	sizes := m.noNodes()
	for n := range sizes {
		sizes[n].Nodes = d.sums[n][shorter]
	}
	return m.fitsBeside(i, option, sizes)
}

// fitsBeside reports whether an option of job i fits into the free nodes in addition to the given sizes.
func (m *minimums) fitsBeside(i int, option solver.Option, sizes solver.Rows) bool {
	free, pieceNodes := 0, m.s.Jobs[i].PieceNodes
	for n := range m.places {
		on := m.places[n].Type
		free += m.headroom.FreeOfType(on) - sizes.Of(on)[0].Nodes
	}
	if free < int(option.Nodes) {
		return false
	}
	taken := sizes.Counting(option, pieceNodes)
	for n, row := range m.headroom.rows.Counting(option, pieceNodes)[1:] {
		if row.Count(option, pieceNodes) > row.Nodes-taken[1+n].Nodes {
			return false
		}
	}
	return true
}

// sort orders the jobs by remaining work and sets sums, once.
func (d *displaceable) sort(m *minimums) {
	if d.sums != nil {
		return
	}
	var places []solver.Place
	for n := range d.jobs {
		job := &d.jobs[n]
		places = m.s.Places(job.index, places)
		job.remainingWork = m.remainingWork(job.index, solver.Option{}, places)
	}
	slices.SortFunc(d.jobs, func(a, b displaceableJob) int { return cmp.Compare(a.remainingWork, b.remainingWork) })
	d.sums = make([][]int, len(d.sizes))
	sizes := m.noNodes()
	add := func() {
		for n, row := range sizes {
			d.sums[n] = append(d.sums[n], row.Nodes)
		}
	}
	add()
	for n := range d.jobs {
		d.jobs[n].addTo(sizes, m.s)
		add()
	}
}

// withoutRestarts returns the options of a job that has used its restart budget: no nodes, if it may wait,
// and the sizes up to its current size on its node type. If its minimum is on another type, it may have to
// move. It then has all options on other types in addition.
func withoutRestarts(options []solver.Option, current, minimum solver.Option) []solver.Option {
	mayMove := !minimum.IsZero() && minimum.Type != current.Type
	return slices.DeleteFunc(options, func(o solver.Option) bool {
		if o.IsZero() {
			return false
		}
		return o.Type == current.Type && o.Nodes > current.Nodes || o.Type != current.Type && !mayMove
	})
}

package solver

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
	// AdmissionStartFirst admits every job. Those that never started get at least
	// their smallest legal size, in order until the first that no longer fits beside those
	// before it; every other job may go to 0.
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
	holds int
}

// admit returns the jobs of a snapshot, whose groups p has, that are admitted, in the order
// of the snapshot.
func (p *Problem) admit(s *Snapshot, who Admission) []admission {
	m := &minimums{s: s, p: p, room: p.room(s), holds: make([]int, len(s.Jobs))}
	switch who {
	case AdmissionPreemptive:
	case AdmissionStartFirst:
		m.passing = true
		m.fit((*Job).NeverStarted)
	case AdmissionFIFO, AdmissionOptimized:
		// Where the pool shrank below the running jobs' minimums, the running jobs listed
		// last are preempted until the others fit; no queued job is then admitted
		// past them. The same goes for a group and its limit.
		all := m.fit(func(j *Job) bool { return !j.Queued() })
		if all && who == AdmissionFIFO {
			m.fit((*Job).Queued)
		}
	}

	list := make([]admission, 0, len(s.Jobs))
	for i := range s.Jobs {
		mayWait := who == AdmissionPreemptive || who == AdmissionStartFirst ||
			who == AdmissionOptimized && s.Jobs[i].Queued()
		if m.holds[i] > 0 || mayWait {
			list = append(list, admission{index: i, mayWait: m.holds[i] == 0, holds: m.holds[i]})
		}
	}
	return list
}

// minimums gives jobs at least their smallest sizes, one after the other.
type minimums struct {
	s     *Snapshot
	p     *Problem // has the groups
	room  *Room
	holds []int // the option of each job, 0 for none
	// passing says that a job may pass others of its group that its limit has no room for.
	passing bool
	places  []place
}

// fit gives jobs of a kind their smallest sizes, in order up to the first that the pool has no
// room for; one that exceeds the whole pool is passed over, and one that the limit of a group
// has no room for blocks those of that group only. It reports whether it came to the end.
func (m *minimums) fit(kind func(*Job) bool) bool {
	for i := range m.s.Jobs {
		job := &m.s.Jobs[i]
		if !kind(job) {
			continue
		}
		m.places = m.s.places(i, m.places)
		smallest, group := m.places[0].smallest(), m.p.group(i)
		if !m.places[0].fits() || m.passing && smallest > m.room.Within(group) || !m.passing && m.room.Limited(group, smallest) {
			continue
		}
		option := m.place(i)
		if option == 0 {
			return false
		}
		m.room.Take(group, option)
		m.holds[i] = option
	}
	return true
}

// place returns the smallest size of job i on nodes of the type that it holds or, where those
// have no room, of the one with most nodes left, the first of equals; 0 where none has room.
func (m *minimums) place(i int) int {
	held := OptionType(m.s.Current(i))
	option, most := 0, 0
	for n := range m.places {
		l := &m.places[n]
		left := m.room.Of(l.nodeType)
		if left < l.smallest() {
			continue
		}
		if !m.s.Jobs[i].Queued() && l.nodeType == held {
			return OptionOf(l.nodeType, l.smallest())
		}
		if left > most {
			option, most = OptionOf(l.nodeType, l.smallest()), left
		}
	}
	return option
}

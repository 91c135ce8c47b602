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
	// their smallest legal size, in order until the first that no longer fits the
	// whole pool beside those before it; every other job may go to 0.
	AdmissionStartFirst Admission = "start-first"
)

// Admissions returns all admissions.
func Admissions() []Admission {
	return []Admission{AdmissionFIFO, AdmissionOptimized, AdmissionPreemptive, AdmissionStartFirst}
}

// admittedIndex is a job of the snapshot that takes part in the model.
type admittedIndex struct {
	index   int
	mayWait bool
}

// admit returns the jobs of a snapshot, whose groups p has, that are admitted, in the order
// of the snapshot.
func (p *Problem) admit(s *Snapshot, admission Admission) []admittedIndex {
	m := &minimums{s: s, p: p, room: NewRoom(s.TotalNodes, p.Groups), holds: make([]bool, len(s.Jobs))}
	switch admission {
	case AdmissionStartFirst:
		m.passing = true
		m.fit((*Job).NeverStarted)
	case AdmissionFIFO, AdmissionOptimized:
		// Where the pool shrank below the running jobs' minimums, the running jobs listed
		// last are preempted until the others fit; no queued job is then admitted
		// past them. The same goes for a group and its limit.
		all := m.fit(func(j *Job) bool { return !j.Queued() })
		if all && admission == AdmissionFIFO {
			m.fit((*Job).Queued)
		}
	case AdmissionPreemptive:
	}

	var list []admittedIndex
	for i := range s.Jobs {
		mayWait := admission == AdmissionPreemptive || admission == AdmissionStartFirst ||
			admission == AdmissionOptimized && s.Jobs[i].Queued()
		if m.holds[i] || mayWait {
			list = append(list, admittedIndex{index: i, mayWait: !m.holds[i]})
		}
	}
	return list
}

// minimums gives jobs at least their smallest sizes, one after the other.
type minimums struct {
	s     *Snapshot
	p     *Problem // has the groups
	room  *Room
	holds []bool
	// passing says that a job may pass others of its group that its limit has no room for.
	passing bool
}

// fit marks those jobs of a kind whose smallest sizes fit, in order up to the first that
// the pool has no room for; one that exceeds the whole pool is passed over. A job that
// the limit of a group has no room for blocks no others than those of that group. It reports
// whether it came to the end.
func (m *minimums) fit(kind func(*Job) bool) bool {
	for i := range m.s.Jobs {
		job := &m.s.Jobs[i]
		if !kind(job) {
			continue
		}
		smallest, group := job.smallestSize(), m.p.group(i)
		if smallest > m.s.TotalNodes || m.room.Closed(group) {
			continue
		}
		if smallest > m.room.Within(group) {
			if !m.passing && smallest <= m.room.Limit(group) {
				m.room.CloseFor(group, smallest)
			}
			continue
		}
		if smallest > m.room.Idle {
			return false
		}
		m.room.Take(group, smallest)
		m.holds[i] = true
	}
	return true
}

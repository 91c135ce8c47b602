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

// admit returns the admitted jobs in the order of the snapshot.
func admit(s *Snapshot, admission Admission) []admittedIndex {
	holds := make([]bool, len(s.Jobs)) // at least its smallest size
	switch admission {
	case AdmissionStartFirst:
		fit(s, holds, s.TotalNodes, (*Job).NeverStarted)
	case AdmissionFIFO, AdmissionOptimized:
		// Where the pool shrank below the running jobs' minimums, the running jobs listed
		// last are preempted until the others fit; no queued job is then admitted
		// past them.
		free, all := fit(s, holds, s.TotalNodes, func(j *Job) bool { return !j.Queued() })
		if all && admission == AdmissionFIFO {
			fit(s, holds, free, (*Job).Queued)
		}
	case AdmissionPreemptive:
	}

	var list []admittedIndex
	for i := range s.Jobs {
		mayWait := admission == AdmissionPreemptive || admission == AdmissionStartFirst ||
			admission == AdmissionOptimized && s.Jobs[i].Queued()
		if holds[i] || mayWait {
			list = append(list, admittedIndex{index: i, mayWait: !holds[i]})
		}
	}
	return list
}

// fit marks those jobs of a kind whose smallest sizes fit the free nodes, in order up to
// the first that does not; one that exceeds the whole pool is passed over. It returns
// the nodes then free, and whether it came to the end.
func fit(s *Snapshot, holds []bool, free int, kind func(*Job) bool) (left int, all bool) {
	for i := range s.Jobs {
		job := &s.Jobs[i]
		if !kind(job) {
			continue
		}
		smallest := job.smallestSize()
		if smallest > s.TotalNodes {
			continue
		}
		if smallest > free {
			return free, false
		}
		free -= smallest
		holds[i] = true
	}
	return free, true
}

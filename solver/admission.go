package solver

// Admission is who gets nodes when the minimums of all jobs do not fit.
type Admission string

// The admissions. FIFO is the paper's model made feasible; the other two go
// beyond it.
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
)

// admittedIndex is a job of the snapshot that takes part in the model.
type admittedIndex struct {
	index   int
	mayWait bool
}

// admit returns the admitted jobs in the order of the snapshot. Where the pool
// shrank below the running jobs' minimums, the running jobs listed last are
// preempted until the others fit; under FIFO nobody from the queue is then
// admitted past them.
func admit(s *Snapshot, admission Admission) []admittedIndex {
	admitted := make([]bool, len(s.Jobs))
	free := s.TotalNodes
	blocked := false
	pass := func(queued bool) {
		for i := range s.Jobs {
			job := &s.Jobs[i]
			if job.Queued() != queued || blocked {
				continue
			}
			smallest := job.LegalSizes()[0]
			if smallest > free {
				blocked = true
				continue
			}
			free -= smallest
			admitted[i] = true
		}
	}
	pass(false)
	pass(true)

	var list []admittedIndex
	for i := range s.Jobs {
		switch {
		case admission == AdmissionPreemptive:
			list = append(list, admittedIndex{index: i, mayWait: true})
		case admission == AdmissionOptimized && s.Jobs[i].Queued():
			list = append(list, admittedIndex{index: i, mayWait: true})
		case admitted[i]:
			list = append(list, admittedIndex{index: i})
		}
	}
	return list
}

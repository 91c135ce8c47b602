package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Placer places jobs on the machines of a pool. The nodes of the pool are units of the machines, such
// as GPUs. A Placer has no state and may be used by concurrent runs.
type Placer interface {
	// Place returns the units of each job by machine. Jobs in kept keep their machines. Of the other
	// jobs, those whose units do not change keep theirs if possible. Place returns a *NoPlaceError if it
	// finds no placement.
	Place(kept, jobs []PlacedJob) ([]map[string]int, error)
}

// PlacedJob is a job to be placed.
type PlacedJob struct {
	ID string
	// Nodes is the number of nodes that the job is to have.
	Nodes int
	// On has the units that the job occupies now, by machine.
	On map[string]int
}

// NoPlaceError means that there is no placement of the jobs with at least Size nodes.
type NoPlaceError struct{ Size int }

// Error describes the error.
func (e *NoPlaceError) Error() string {
	return fmt.Sprintf("the machines have no place for all jobs of at least %d nodes", e.Size)
}

// place places the active jobs. If a decision has no placement, place reduces jobs in to until it has.
// A job that moves to other machines restarts.
func (s *simulation) place(snapshot *solver.Snapshot, to []allocation) error {
	if s.config.Placer == nil {
		return nil
	}
	for reduced := false; ; reduced = true {
		var kept, jobs []PlacedJob
		var placing []*simulatedJob
		for n, i := range s.active {
			job := &s.jobs[i]
			placed := PlacedJob{ID: job.ID, Nodes: to[n].nodes, On: job.on}
			if s.config.NeverMove && placed.Nodes > 0 && placed.Nodes == job.nodes {
				kept = append(kept, placed)
			} else {
				jobs, placing = append(jobs, placed), append(placing, job)
			}
		}
		on, err := s.config.Placer.Place(kept, jobs)
		var none *NoPlaceError
		if errors.As(err, &none) && reduceJob(snapshot, to, none.Size) {
			continue
		}
		if err != nil {
			return err
		}
		for k, job := range placing {
			if job.nodes > 0 && job.nodes == jobs[k].Nodes && !maps.Equal(on[k], job.on) {
				job.changeMachines(s.now)
			}
			job.on = on[k]
		}
		if reduced {
			s.unplaced++
		}
		return nil
	}
}

// reduceJob reduces the allocation of a growing job to its next smaller size, which is at least its
// current nodes. Of the jobs with at least size nodes, it is a job with the fewest nodes, the last one
// in the order of submission. If there is none, all other jobs keep their current nodes. reduceJob
// reports whether it changed anything.
func reduceJob(snapshot *solver.Snapshot, to []allocation, size int) bool {
	smallest := -1
	for n := range to {
		if nodes := to[n].nodes; nodes > snapshot.Jobs[n].CurrentNodes && nodes >= size && (smallest < 0 || nodes <= to[smallest].nodes) {
			smallest = n
		}
	}
	if smallest >= 0 {
		sizes := snapshot.Jobs[smallest].LegalSizes()
		to[smallest].nodes = append([]int{0}, sizes...)[slices.Index(sizes, to[smallest].nodes)]
		return true
	}
	changed := false // Only if the sizes do not divide each other.
	for n := range to {
		if current := snapshot.Jobs[n].CurrentNodes; to[n].nodes != current {
			to[n].nodes, changed = current, true
		}
	}
	return changed
}

// changeMachines restarts the job on other machines.
func (j *simulatedJob) changeMachines(now time.Duration) {
	j.placementMoves++
	j.noteRestart()
	if j.restart > 0 {
		j.trainOn(0)
		j.growsAt = now + j.restart
	}
}

// checkMachines returns an error if the policy does not support the size limits, or if the machines have
// no place for a job alone.
func (w *Workload) checkMachines(policy *Policy, config *Config) error {
	progress := policy.Options().Objective == solver.ObjectiveProgress
	switch {
	case !config.onMachines() || policy.Name == RecordedPolicy:
		return nil
	case policy.Partitioned:
		return fmt.Errorf("the policy %s does not support machines", policy.Name)
	case len(config.SizeLimits) > 0 && progress:
		return fmt.Errorf("the policy %s does not support size limits", policy.Name)
	case len(config.SizeLimits) > 0 && len(config.Groups) > 0:
		return errors.New("size limits and teams are both set; must be one of the two")
	case config.Placer == nil:
		return nil
	}
	placeable := make(map[int]bool)
	for i := range w.Jobs {
		job := &w.Jobs[i]
		size := job.minSize()
		if policy.FixedSize {
			size = job.atMost(min(job.RequestedNodes, config.available()))
		}
		if placeable[size] {
			continue
		}
		if _, err := config.Placer.Place(nil, []PlacedJob{{ID: job.ID, Nodes: size}}); err != nil {
			return fmt.Errorf("job %q of %s has at least %d nodes under the policy %s: %w", job.ID, w.Name, size, policy.Name, err)
		}
		placeable[size] = true
	}
	return nil
}

// Sizes returns the legal sizes of all jobs, in ascending order.
func (w *Workload) Sizes() []int {
	var sizes []int
	for i := range w.Jobs {
		sizes = append(sizes, w.Jobs[i].job("").LegalSizes()...)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

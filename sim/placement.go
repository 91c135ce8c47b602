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
	// Nodes is the number of nodes that the job is to have, and NodeType their type, "" in a pool without
	// node types.
	Nodes    int
	NodeType string
	// On has the units that the job occupies now, by machine. It is empty if they are of another type.
	On map[string]int
}

// NoPlaceError means that there is no placement of the jobs with at least Size nodes of a type.
type NoPlaceError struct {
	Size int
	// NodeType is "" in a pool without node types.
	NodeType string
}

// Error describes the error.
func (e *NoPlaceError) Error() string {
	return fmt.Sprintf("the machines have no place for all jobs of at least %d nodes%s", e.Size, allocation{nodeType: e.NodeType}.ofType())
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
			placed := PlacedJob{ID: job.ID, Nodes: to[n].nodes, NodeType: to[n].nodeType, On: job.on}
			if placed.NodeType != job.nodeType {
				placed.On = nil
			}
			if s.config.NeverMove && job.has(to[n]) {
				kept = append(kept, placed)
			} else {
				jobs, placing = append(jobs, placed), append(placing, job)
			}
		}
		on, err := s.config.Placer.Place(kept, jobs)
		var none *NoPlaceError
		if errors.As(err, &none) && reduceJob(snapshot, to, *none) {
			continue
		}
		if err != nil {
			return err
		}
		for k, job := range placing {
			if job.has(allocation{jobs[k].Nodes, jobs[k].NodeType}) && !maps.Equal(on[k], job.on) {
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

// has reports whether the job has nodes, and they are the given ones.
func (j *simulatedJob) has(to allocation) bool {
	return to.nodes > 0 && to == allocation{j.nodes, j.nodeType}
}

// reduceJob reduces the allocation of a growing job to its next smaller size, which is at least its
// current nodes. A job that changes its type counts as one without nodes. Of the jobs with at least the
// size and of the type of none, it is a job with the fewest nodes, the last one in the order of submission. If
// there is none, all other jobs keep their current nodes. reduceJob reports whether it changed anything.
func reduceJob(snapshot *solver.Snapshot, to []allocation, none NoPlaceError) bool {
	smallest := -1
	for n := range to {
		job, nodes := &snapshot.Jobs[n], to[n].nodes
		grows := nodes > job.CurrentNodes || nodes > 0 && to[n].nodeType != job.CurrentNodeType
		if grows && nodes >= none.Size && to[n].nodeType == none.NodeType && (smallest < 0 || nodes <= to[smallest].nodes) {
			smallest = n
		}
	}
	if smallest >= 0 {
		sizes := sizesOn(&snapshot.Jobs[smallest], snapshot.NodeTypes, none.NodeType)
		if at := slices.Index(sizes, to[smallest].nodes); at > 0 {
			to[smallest].nodes = sizes[at-1]
		} else {
			to[smallest] = allocation{}
		}
		return true
	}
	changed := false // Only if the sizes do not divide each other.
	for n := range to {
		job := &snapshot.Jobs[n]
		current := allocation{job.CurrentNodes, job.CurrentNodeType}
		if to[n] != current {
			to[n], changed = current, true
		}
	}
	return changed
}

// sizesOn returns the legal sizes of a job on a node type, "" in a pool without node types.
func sizesOn(job *solver.Job, types []solver.NodeType, nodeType string) []int {
	if at := slices.IndexFunc(types, func(t solver.NodeType) bool { return t.ID == nodeType }); at >= 0 {
		there, _, _ := job.ForType(&types[at])
		return there.LegalSizes()
	}
	return job.LegalSizes()
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

// checkMachines returns an error if the machines have no place for a job alone.
func (w *Workload) checkMachines(config *Config) error {
	if config.Placer == nil {
		return nil
	}
	placeable := make(map[allocation]error)
	place := func(to allocation) error {
		if _, known := placeable[to]; !known {
			_, placeable[to] = config.Placer.Place(nil, []PlacedJob{{ID: "job", Nodes: to.nodes, NodeType: to.nodeType}})
		}
		return placeable[to]
	}
	for i := range w.Jobs {
		job := &w.Jobs[i]
		smallest := []allocation{{nodes: job.minSize()}}
		switch {
		case len(config.NodeTypes) > 0:
			smallest = job.smallestOnTypes(config.NodeTypes)
		case config.FixedSize:
			smallest[0].nodes = job.atMost(min(job.RequestedNodes, config.available()))
		}
		if !slices.ContainsFunc(smallest, func(to allocation) bool { return place(to) == nil }) {
			return fmt.Errorf("job %q of %s has at least %d nodes under the policy %s: %w",
				job.ID, w.Name, smallest[0].nodes, config.Name, place(smallest[0]))
		}
	}
	return nil
}

// SizesOn returns the sizes of all jobs in a pool of a node type, in ascending order.
func (w *Workload) SizesOn(t solver.NodeType) []int {
	var sizes []int
	for i := range w.Jobs {
		spec := w.Jobs[i].SnapshotJob()
		for _, phase := range w.Jobs[i].phases() {
			spec.Speeds = phase.Speeds
			for option := range optionsOf(spec, []solver.NodeType{t}) {
				sizes = append(sizes, option.nodes)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
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

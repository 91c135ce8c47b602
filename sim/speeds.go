package sim

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Speeds contains the measured training speeds of applications by their names.
type Speeds map[string]*Application

// Application contains the training speeds of the jobs of an application.
type Application struct {
	// Phases are consecutive parts of the work of a job. The Until of the last one is 1.
	Phases []Phase
	// RestartTime is the time without progress after every resize.
	RestartTime time.Duration
}

// Phase is a part of the work of a job with constant speeds.
type Phase struct {
	// Until is the share of the work at which the phase is complete, in (0, 1].
	Until float64
	// Speeds are the speeds on each node type that the job can use.
	Speeds []solver.TypeSpeed
}

// largest returns the largest size that the application runs on.
func (a *Application) largest() int {
	largest := 0
	for _, speed := range a.Phases[0].Speeds {
		largest = max(largest, slices.Max(speed.AllowedNodes))
	}
	return largest
}

// aloneOnTypes returns the completion time of the job alone in a pool of node types.
func (j *WorkloadJob) aloneOnTypes(types []solver.NodeType) time.Duration {
	times := make(map[allocation]float64)
	spec, begin := j.SnapshotJob(), time.Duration(0)
	for _, phase := range j.phases() {
		spec.Speeds = phase.Speeds
		end := min(Scale(j.Demand, phase.Until), j.Work)
		for option, speed := range optionsOf(spec, types) {
			times[option] += (end - begin).Seconds() / speed
		}
		begin = end
	}
	least := math.Inf(1)
	for _, seconds := range times {
		least = min(least, seconds)
	}
	return WholeSeconds(Scale(time.Second, least))
}

// optionsOf yields the legal allocations of a job in a pool of node types, and its speeds on them
// relative to one reference node.
func optionsOf(job solver.Job, types []solver.NodeType) iter.Seq2[allocation, float64] {
	return func(yield func(allocation, float64) bool) {
		for n := range types {
			there, factor, runs := job.ForType(&types[n])
			if !runs {
				continue
			}
			for _, size := range there.LegalSizes() {
				if size <= types[n].Nodes && !yield(allocation{size, types[n].ID}, factor*there.Speed(size)) {
					return
				}
			}
		}
	}
}

// smallestOnTypes returns the smallest size of the job on each node type that it fits.
func (j *WorkloadJob) smallestOnTypes(types []solver.NodeType) []allocation {
	var smallest []allocation
	for option := range optionsOf(j.SnapshotJob(), types) {
		if n := len(smallest); n == 0 || smallest[n-1].nodeType != option.nodeType {
			smallest = append(smallest, option)
		}
	}
	return smallest
}

// FitsTypes reports whether a size of the job fits a node type.
func (j *WorkloadJob) FitsTypes(types []solver.NodeType) bool {
	return len(j.smallestOnTypes(types)) > 0
}

// phases returns the Phases of the job, one phase of all its work if it has none.
func (j *WorkloadJob) phases() []Phase {
	if len(j.Phases) == 0 {
		return []Phase{{Until: 1, Speeds: j.SnapshotJob().Speeds}}
	}
	return j.Phases
}

// phaseEnd returns the work at which phase n of the job is complete.
func (j *WorkloadJob) phaseEnd(n int) time.Duration { return Scale(j.Demand, j.Phases[n].Until) }

// MinSpeed and MaxSpeed limit the speeds of a job. No ratio of two speeds exceeds solver.MaxSpeed.
const (
	MinSpeed = 1e-4
	MaxSpeed = 1e5
)

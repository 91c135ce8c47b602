package sim

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Speeds are how fast applications train on kinds of nodes, by the name of the application.
type Speeds map[string]*Application

// Application is how fast the jobs of an application train.
type Application struct {
	// Phases are the parts of a job's work, in their order; the last ends at 1.
	Phases []Phase
	// RestartTime is how long its jobs make no progress after a change of their nodes.
	RestartTime time.Duration
}

// Phase is a part of a job's work in which its speeds do not change.
type Phase struct {
	// Until is the share of the work at which it ends.
	Until float64
	// Speeds are those on every node type that the job runs on.
	Speeds []solver.TypeSpeed
}

// Cover returns an error if an application of the trace has no speeds; nil speeds cover all.
func (s Speeds) Cover(t Trace) error {
	for i := range t {
		if name := t[i].Application; s != nil && name != "" && s[name] == nil {
			return fmt.Errorf("job %q has the %s %q, of which there are no speeds", t[i].ID, columnApplication, name)
		}
	}
	return nil
}

// largest returns the largest size that the application runs on.
func (a *Application) largest() int {
	largest := 0
	for _, speed := range a.Phases[0].Speeds {
		largest = max(largest, slices.Max(speed.AllowedNodes))
	}
	return largest
}

// aloneOnTypes returns how long the job takes alone in a pool of node types.
func (j *WorkloadJob) aloneOnTypes(types []solver.NodeType) time.Duration {
	times := make(map[holding]float64)
	told, begin := j.Told(), time.Duration(0)
	phases := j.Phases
	if len(phases) == 0 {
		phases = []Phase{{Until: 1, Speeds: told.Speeds}}
	}
	for _, phase := range phases {
		told.Speeds = phase.Speeds
		end := min(scale(j.Demand, phase.Until), j.Work)
		for option, speed := range optionsOf(told, types) {
			times[option] += (end - begin).Seconds() / speed
		}
		begin = end
	}
	least := math.Inf(1)
	for _, seconds := range times {
		least = min(least, seconds)
	}
	return wholeSeconds(scale(time.Second, least))
}

// optionsOf yields the nodes that a job may hold in a pool of node types, and its speed on
// them relative to one reference node.
func optionsOf(job solver.Job, types []solver.NodeType) iter.Seq2[holding, float64] {
	return func(yield func(holding, float64) bool) {
		for n := range types {
			there, factor, runs := job.On(&types[n])
			if !runs {
				continue
			}
			for _, size := range there.LegalSizes() {
				if size <= types[n].Nodes && !yield(holding{size, types[n].ID}, factor*there.Speed(size)) {
					return
				}
			}
		}
	}
}

// phaseEnd returns the work at which a phase of the job ends.
func (j *WorkloadJob) phaseEnd(n int) time.Duration { return scale(j.Demand, j.Phases[n].Until) }

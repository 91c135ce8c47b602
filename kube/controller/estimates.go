package controller

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/world"
)

// maxSampleAge is the age after which a sample of a remaining time is removed.
const maxSampleAge = 24 * time.Hour

// estimates contains what the loop knows about the remaining times of jobs. world.Observe reads it.
type estimates struct {
	samples   map[types.NamespacedName]world.Sample // results of the pool's RemainingQuery
	completed eta.Estimator                         // work of completed jobs
	running   map[types.UID]time.Duration           // work done by running jobs at the last observation
}

// add adds new samples, and removes samples that are too old.
func (e *estimates) add(samples map[types.NamespacedName]world.Sample, now time.Time) {
	if e.samples == nil {
		e.samples = make(map[types.NamespacedName]world.Sample)
	}
	maps.Copy(e.samples, samples)
	maps.DeleteFunc(e.samples, func(_ types.NamespacedName, s world.Sample) bool { return now.Sub(s.Time) > maxSampleAge })
}

// observe records the work of jobs that completed since the last observation.
func (e *estimates) observe(w *world.ClusterState) {
	running := make(map[types.UID]time.Duration, len(w.Jobs))
	for _, j := range w.Jobs {
		work, ran := e.running[j.UID]
		switch {
		case !j.Shape.Finished:
			running[j.UID] = j.WorkDone()
		case ran && j.Shape.Completed: // A job that failed or was deleted does not show how much work a job has.
			e.completed.Completed(eta.Job{WorkDone: work})
		}
	}
	e.running = running
}

package elastalloc_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// Scenarios of docs/evaluation/sequences.md, in which runs used to make no progress.

// streamOfSmallJobs has one elastic job of 10 h on 8 nodes, and a job of 5 min on one node every 15 min.
func streamOfSmallJobs() *openWorld {
	w := newOpenWorld(8)
	w.add("elastic", 0, 4, 8, 36_000*math.Pow(8, math.Log2(1.6)))
	w.addStream(900, 300)
	return w
}

// flappingNode has one elastic job of 10 h on 8 nodes, of which one is away for 5 of every 20 min.
func flappingNode() *openWorld {
	w := newOpenWorld(8)
	w.add("elastic", 0, 4, 8, 36_000*math.Pow(8, math.Log2(1.6)))
	for at := 900.0; at < tenDays; at += 1200 {
		w.capacities = append(w.capacities, capacity{at, 7}, capacity{at + 300, 8})
	}
	return w
}

// wholePool has a rigid job of 9.8 h on all 8 nodes, and a job of 5 min on one node every 15 min.
func wholePool() *openWorld {
	w := newOpenWorld(8)
	w.add("rigid", 0, 8, 8, 35_156*math.Pow(8, math.Log2(1.6)))
	w.addStream(900, 300)
	return w
}

const tenDays = 864_000.0

func newOpenWorld(nodes int) *openWorld {
	w := &openWorld{capacities: []capacity{{0, nodes}}}
	w.interval, w.onEvent, w.countsLoading = 300, callAllocate, true
	return w
}

// add adds a job with sizes from smallest to largest and the given work in seconds on one node.
func (w *openWorld) add(id string, submit float64, smallest, largest int, work float64) *loopJob {
	j := &loopJob{Job: solver.Job{ID: id, MinNodes: smallest, MaxNodes: largest, Scaling: solver.Scaling{DoublingEfficiency: 0.8}}, submit: submit, work: work}
	w.jobs = append(w.jobs, j)
	return j
}

// addStream adds a job on one node at fixed intervals for ten days.
func (w *openWorld) addStream(interval, work float64) {
	for at := interval; at < tenDays; at += interval {
		w.add(fmt.Sprint("small-", at), at, 1, 1, work)
	}
}

// TestOpenWorldScenarios runs the scenarios under all admissions and both objectives. The first job must complete
// within a stated time. With -v, the test prints the table of docs/evaluation/sequences.md.
func TestOpenWorldScenarios(t *testing.T) {
	t.Parallel()
	allocator := newAllocator(t, elastalloc.Options{}).Allocator
	for _, test := range []struct {
		name     string
		world    func() *openWorld
		restart  time.Duration
		most     float64 // completion time in seconds
		excluded solver.Admission
	}{
		{"stream of small jobs", streamOfSmallJobs, 10 * time.Minute, 90_000, ""},
		{"flapping node", flappingNode, 15 * time.Minute, 90_000, ""},
		{"whole pool", wholePool, 10 * time.Minute, 90_000, solver.AdmissionOptimized},
	} {
		for _, objective := range []solver.Objective{solver.ObjectiveTotalTime, solver.ObjectiveProgress} {
			for _, admission := range solver.Admissions() {
				for _, forgets := range []bool{true, false} {
					w := test.world()
					w.allocator, w.options, w.forgets = allocator, solver.Options{Objective: objective, Admission: admission}, forgets
					first := w.jobs[0]
					first.RestartTime = test.restart
					err := w.runFor(t.Context(), tenDays, func(j *loopJob) bool { return j == first })
					ends := "does not complete"
					if first.end > 0 {
						ends = fmt.Sprintf("completes after %.0f s", first.end)
					}
					t.Logf("%s, %s, %s, recent_restarts %t: %s, %d resizes, %.0f%% of the node time in restarts",
						test.name, objective, admission, !forgets, ends, first.resizes, 100*w.restartShare())
					if err != nil {
						t.Error(err)
					}
					if forgets || admission == test.excluded {
						continue
					}
					if err := w.checkRestarts(first); err != nil {
						t.Error(err)
					}
					if first.end == 0 || first.end > test.most {
						t.Errorf("%s, %s, %s: the first job %s; must complete within %.0f s", test.name, objective, admission, ends, test.most)
					}
				}
			}
		}
	}
}

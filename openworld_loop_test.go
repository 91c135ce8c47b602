package elastalloc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// openWorld is a closed loop in which jobs keep arriving and the pool changes. It runs for a fixed time.
type openWorld struct {
	closedLoop
	// capacities are the sizes of the pool from given times on, in order. The first is at time 0.
	capacities []capacity
	// forced has the values of onNodes at which a job that had used its restart budget was paused, by id.
	forced map[string][]float64
}

type capacity struct {
	from  float64
	nodes int
}

// The restart budget: at most restartBudget restarts within budgetWindow restart times of time with nodes.
const (
	restartBudget = 3
	budgetWindow  = 12
)

// recentRestarts returns the times with nodes since the last restarts, newest first.
func (j *loopJob) recentRestarts() (since []time.Duration) {
	for n := len(j.restarts) - 1; n >= max(0, len(j.restarts)-restartBudget); n-- {
		since = append(since, duration(j.onNodes-j.restarts[n]))
	}
	return since
}

// runFor runs the cluster until the given time, or until the selected jobs have completed.
func (w *openWorld) runFor(ctx context.Context, until float64, selected func(*loopJob) bool) error {
	w.forced = make(map[string][]float64)
	for _, j := range w.jobs {
		j.left = j.work
	}
	decideAt, event, at := 0.0, false, 0
	for w.now < until && slices.ContainsFunc(w.jobs, func(j *loopJob) bool { return j.end == 0 && selected(j) }) {
		for ; at < len(w.capacities) && w.capacities[at].from <= w.now; at++ {
			w.pool.TotalNodes, event, decideAt = w.capacities[at].nodes, true, w.now
		}
		active := w.active()
		action := callNothing
		if event {
			action = w.onEvent
		}
		if w.now >= decideAt {
			action, decideAt = callAllocate, w.now+w.interval
		}
		if err := w.decideOnce(ctx, active, action); err != nil {
			return fmt.Errorf("%v after the start: %w", duration(w.now), err)
		}
		next := min(until, w.next(active, decideAt))
		if at < len(w.capacities) {
			next = min(next, w.capacities[at].from)
		}
		event = w.advance(active, next)
	}
	return nil
}

// decideOnce makes a decision, checks it and applies it.
func (w *openWorld) decideOnce(ctx context.Context, active []*loopJob, action eventAction) error {
	if len(active) == 0 || action != callAllocate {
		return nil
	}
	s := w.snapshot(active)
	d, err := w.allocator.Allocate(ctx, s, w.options)
	if err == nil {
		err = errors.Join(w.checkLegal(active, s, d), w.checkBudget(active, s, d))
	}
	if err != nil {
		return err
	}
	w.apply(active, d)
	return nil
}

// usedBudget reports whether a decision must not restart a job of a snapshot by choice.
func usedBudget(job *solver.Job) bool {
	return job.CurrentNodes > 0 && slices.Contains(job.LegalSizes(), job.CurrentNodes) && job.RestartTime > 0 &&
		len(job.RecentRestarts) == restartBudget && job.RecentRestarts[restartBudget-1] < budgetWindow*job.RestartTime
}

// checkBudget returns an error if a job that has used its restart budget grows, or if it is paused although
// the jobs like it fit the pool. It applies to pools of identical nodes without groups.
func (w *openWorld) checkBudget(active []*loopJob, s *solver.Snapshot, d solver.Decision) error {
	needed := 0
	for n := range s.Jobs {
		keeps := w.options.Admission == solver.AdmissionFIFO || w.options.Admission == solver.AdmissionOptimized
		if job := &s.Jobs[n]; job.CurrentNodes > 0 && (keeps || usedBudget(job)) && job.MinNodes <= s.TotalNodes {
			needed += job.LegalSizes()[0]
		}
	}
	for n, j := range active {
		if !usedBudget(&s.Jobs[n]) {
			continue
		}
		switch nodes := d.Allocations[n].Nodes; {
		case nodes > j.current.nodes:
			return fmt.Errorf("job %s has used its restart budget and grows from %d to %d nodes", j.ID, j.current.nodes, nodes)
		case nodes == 0 && needed <= s.TotalNodes:
			return fmt.Errorf("job %s has used its restart budget and is paused", j.ID)
		case nodes == 0:
			w.forced[j.ID] = append(w.forced[j.ID], j.onNodes)
		}
	}
	return nil
}

// checkRestarts returns an error if a job has more restarts within budgetWindow restart times of time with
// nodes than proven: restartBudget plus its number of legal sizes minus 1, and that number again for each
// time that it was paused although it had used its budget.
func (w *openWorld) checkRestarts(j *loopJob) error {
	window, sizes := budgetWindow*j.RestartTime.Seconds(), len(j.LegalSizes())
	for first, from := range j.restarts {
		within := func(times []float64) (count int) {
			for _, at := range times {
				if at >= from && at < from+window-1e-6 {
					count++
				}
			}
			return count
		}
		if got, most := within(j.restarts[first:]), restartBudget+sizes-1+sizes*within(w.forced[j.ID]); got > most {
			return fmt.Errorf("job %s restarts %d times within %v s with nodes; must be at most %d", j.ID, got, window, most)
		}
	}
	return nil
}

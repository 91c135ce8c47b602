package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/internal/recording"
)

// JobEstimate contains the errors of the remaining ETAs of a completed job.
type JobEstimate struct {
	// Group is the team of the job, "" for unknown.
	Group string
	// First is ln(actual / estimated) of the remaining work at the first observation. Halfway is the
	// same value after half of this work. A positive value means that the ETA was too short. Completion
	// times are known only to the next snapshot.
	First, Halfway float64
	// Work is the total work of the job. It is 0 if the job started before the recording and its
	// scheduler does not set work_done.
	Work time.Duration
}

// CallerETAs contains the estimates of one caller, or an error if they cannot be evaluated.
type CallerETAs struct {
	Caller string
	Jobs   []JobEstimate
	Err    error
}

// ETAsOf reads a recording and returns the estimates of the given callers, by default all callers of
// Allocate. Each caller is a separate cluster.
func ETAsOf(read Reader, callers []string) ([]CallerETAs, error) {
	of := make(map[string]*callLog)
	for _, caller := range callers {
		of[caller] = newCallLog(caller)
	}
	readErrors, err := read(func(e recording.Entry) error {
		if len(callers) == 0 && e.Method == "Allocate" && of[e.Caller] == nil {
			of[e.Caller] = newCallLog(e.Caller)
		}
		if c := of[e.Caller]; c != nil {
			c.add(&e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(callers) == 0 {
		callers = slices.Sorted(maps.Keys(of))
	}
	estimate := make([]CallerETAs, len(callers))
	for i, caller := range callers {
		estimate[i].Caller = caller
		r, err := of[caller].replay(readErrors, Options{})
		if err != nil {
			estimate[i].Err = fmt.Errorf("calls of %q: %w", caller, err)
			continue
		}
		estimate[i].Jobs = r.jobEstimates()
	}
	return estimate, nil
}

// jobEstimates returns the estimates of completed jobs in the order of completion.
func (r *Replay) jobEstimates() []JobEstimate {
	var tracks []*track
	for _, t := range r.tracks {
		if t.fate == fateCompleted {
			tracks = append(tracks, t)
		}
	}
	endOf := func(t *track) time.Duration { return t.work.Recorded[len(t.work.Recorded)-1].At }
	slices.SortStableFunc(tracks, func(a, b *track) int { return cmp.Compare(endOf(a), endOf(b)) })
	estimate := make([]JobEstimate, len(tracks))
	for i, t := range tracks {
		estimate[i] = JobEstimate{
			Group: t.work.Group,
			First: logRatio(t.work.Work, t.work.UserEstimate), Halfway: logRatio(t.work.Work-t.work.Work/2, t.estimateAt(t.work.Work/2)),
		}
		if before := t.work.History; before.Work > 0 || before.Nodes == 0 && before.Trained == 0 {
			estimate[i].Work = t.work.History.Work + t.work.Work
		}
	}
	return estimate
}

// estimateAt returns the estimate of the remaining work after the given work.
func (t *track) estimateAt(served time.Duration) time.Duration {
	estimate := t.work.UserEstimate - served
	for _, later := range t.work.ETAUpdates {
		if later.Served <= served {
			estimate = later.ETA - (served - later.Served)
		}
	}
	return estimate
}

// logRatio returns ln(took / estimate), with both at least 1 s.
func logRatio(took, estimate time.Duration) float64 {
	return math.Log(max(took, time.Second).Seconds() / max(estimate, time.Second).Seconds())
}

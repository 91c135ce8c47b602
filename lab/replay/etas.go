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

// UserEstimate is what a scheduler told of the work of a job that ended, beside what it took.
type UserEstimate struct {
	// Group is the team that the job belongs to, "" where the scheduler tells none.
	Group string
	// First is ln(took / told) of what was left when the job first showed, and Halfway when half
	// of that was done: 0 for a right ETA, more for one too short. Ends are known no better
	// than to the next snapshot.
	First, Halfway float64
	// Work is all that the job did; 0 where it had begun before the recording and its scheduler
	// does not tell work_done.
	Work time.Duration
}

// CallerETAs is what one caller told, or why nothing can be said of it.
type CallerETAs struct {
	Caller string
	Jobs   []UserEstimate
	Err    error
}

// ETAsOf reads a recording and returns what each of some callers told, by default all that ask
// for decisions. Each is a cluster of its own.
func ETAsOf(read Reader, callers []string) ([]CallerETAs, error) {
	of := make(map[string]*calls)
	for _, caller := range callers {
		of[caller] = newCalls(caller)
	}
	cuts, err := read(func(e recording.Entry) error {
		if len(callers) == 0 && e.Method == "Allocate" && of[e.Caller] == nil {
			of[e.Caller] = newCalls(e.Caller)
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
	told := make([]CallerETAs, len(callers))
	for i, caller := range callers {
		told[i].Caller = caller
		r, err := of[caller].replay(cuts, Options{})
		if err != nil {
			told[i].Err = fmt.Errorf("calls of %q: %w", caller, err)
			continue
		}
		told[i].Jobs = r.toldETAs()
	}
	return told, nil
}

// toldETAs returns what was told of the jobs that ended, in the order of their ends.
func (r *Replay) toldETAs() []UserEstimate {
	var tracks []*track
	for _, t := range r.tracks {
		if t.fate == ended {
			tracks = append(tracks, t)
		}
	}
	endOf := func(t *track) time.Duration { return t.work.Recorded[len(t.work.Recorded)-1].At }
	slices.SortStableFunc(tracks, func(a, b *track) int { return cmp.Compare(endOf(a), endOf(b)) })
	told := make([]UserEstimate, len(tracks))
	for i, t := range tracks {
		told[i] = UserEstimate{
			Group: t.work.Group,
			First: offBy(t.work.Work, t.work.UserEstimate), Halfway: offBy(t.work.Work-t.work.Work/2, t.toldAt(t.work.Work/2)),
		}
		if before := t.work.History; before.Work > 0 || before.Nodes == 0 && before.Trained == 0 {
			told[i].Work = t.work.History.Work + t.work.Work
		}
	}
	return told
}

// toldAt returns what was told of the work left once the job had done some of it.
func (t *track) toldAt(served time.Duration) time.Duration {
	told := t.work.UserEstimate - served
	for _, later := range t.work.ETAUpdates {
		if later.Served <= served {
			told = later.ETA - (served - later.Served)
		}
	}
	return told
}

// offBy returns ln(took / told), each at least a second.
func offBy(took, told time.Duration) float64 {
	return math.Log(max(took, time.Second).Seconds() / max(told, time.Second).Seconds())
}

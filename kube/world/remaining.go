package world

import (
	"fmt"
	"time"
)

// Source is where the remaining time of a job is from.
type Source string

// The sources, best first.
const (
	SourceStatus    Source = "status"    // the job's own status
	SourceRemaining Source = "remaining" // the annotation of that name
	SourceProgress  Source = "progress"  // the annotation of that name
	SourceQuery     Source = "query"     // the pool's query
	SourceWork      Source = "work"      // declared work less what the job was seen to do
	SourceEnded     Source = "ended"     // what the jobs took that have ended
)

// Estimate is what is left of a job.
type Estimate struct {
	Remaining time.Duration // the run time on one node that is left now
	Source    Source
	Age       time.Duration // how long the job has held nodes since the source said so
	// Error is the standard deviation of the logarithm of what is left over what is told; 0 where
	// a source tells it.
	Error float64
}

// report is what a source says: at a time, the run time on one node that was left, or the
// share of the work that was done; nil is not known.
type report struct {
	source    Source
	at        time.Time
	remaining *time.Duration
	progress  *float64
	// atSize says that remaining was told as the time to the end with the nodes of then.
	atSize bool
}

// history is what the job has done: what its record says, carried on to now at the speed
// of the nodes that it holds.
type history struct {
	Record
	wishes *Wishes
	now    time.Time
	// restart is how long the job made no progress from Since on, and lost how long since
	// then no pod of it ran.
	restart, lost time.Duration
}

// newHistory continues a record. Without one the job is taken to have held its nodes ever
// since it started.
func newHistory(w *Wishes, r *Record, now, started, created time.Time, nodes int) history {
	if r == nil {
		r = &Record{Since: created, Nodes: nodes}
		if nodes > 0 && !started.IsZero() {
			r.Since = started
		}
	}
	h := history{Record: *r, wishes: w, now: now}
	if r.Trained.Duration > 0 && r.Nodes > 0 && r.Changed != nil && r.Changed.Equal(r.Since) {
		h.restart = w.Restart
	}
	return h
}

// held returns the time with running pods from a moment to now, as far as it is known.
func (h *history) held(from time.Time) time.Duration {
	if h.Nodes == 0 {
		return 0
	}
	if from.Before(h.Since) {
		from = h.Since
	}
	return max(0, h.now.Sub(from)-h.lost)
}

// worked returns the work, as run time on one node, from a moment to now.
func (h *history) worked(from time.Time) time.Duration {
	lost := max(0, h.restart-max(0, from.Sub(h.Since)))
	return times(max(0, h.held(from)-lost), h.wishes.Speed(h.Nodes))
}

// workDone returns all work up to now, trainedFor the time with nodes.
func (h *history) workDone() time.Duration   { return h.Done.Duration + h.worked(h.Since) }
func (h *history) trainedFor() time.Duration { return h.Trained.Duration + h.held(h.Since) }

// age returns how long the job has held nodes since a moment. What was before its last
// change counts as if it had held some all the time.
func (h *history) age(from time.Time) time.Duration {
	before := max(0, h.Since.Sub(from))
	if h.Trained.Duration == 0 {
		before = 0
	}
	return before + h.held(from)
}

// estimate returns what is left of the job: by the first report that is younger than a
// limit, else by what was known when its nodes last changed, else by its declared work.
func (h *history) estimate(reports []report, limit time.Duration) (Estimate, error) {
	var stale Source
	for _, r := range reports {
		switch e, ok := h.read(r); {
		case !ok:
		case e.Age > limit:
			stale = r.source
		default:
			return e, nil
		}
	}
	if h.Source != "" && h.Source != SourceWork {
		e := h.carriedOn()
		if e.Age <= limit {
			return e, nil
		}
		stale = e.Source
	}
	if h.wishes.Work > 0 {
		return Estimate{Remaining: h.wishes.Work - h.workDone(), Source: SourceWork, Age: h.held(h.Since)}, nil
	}
	if stale != "" {
		return Estimate{}, fmt.Errorf("what its %s said is older than %v, and no work is declared", stale, limit)
	}
	return Estimate{}, fmt.Errorf("no source tells its remaining time; annotate %s or %s", WorkAnnotation, RemainingAnnotation)
}

// carriedOn returns what was known when the nodes last changed, carried on to now.
func (h *history) carriedOn() Estimate {
	return Estimate{Remaining: h.Remaining.Duration - h.worked(h.Since), Source: h.Source, Age: h.Age.Duration + h.held(h.Since)}
}

// known reports whether the record has what a report says. What the job did since the report
// is known of the record only.
func (h *history) known(r report) bool {
	// The times of writes are to the second.
	return h.Source == r.source && h.Trained.Duration > 0 && !r.at.After(h.Since.Add(time.Second-h.Age.Duration))
}

// read returns what a report says of now, and false where it says nothing.
func (h *history) read(r report) (Estimate, bool) {
	e := Estimate{Source: r.source, Age: h.age(r.at)}
	switch {
	case r.remaining == nil && r.progress == nil:
		return e, false
	case h.known(r):
		return h.carriedOn(), true
	case r.remaining != nil && r.atSize && h.Changed != nil && r.at.Before(*h.Changed):
		return e, false // With how many nodes, nothing tells any more.
	case r.remaining != nil:
		e.Remaining = *r.remaining - h.worked(r.at)
	case h.wishes.Work > 0:
		e.Remaining = times(h.wishes.Work, 1-*r.progress) - h.worked(r.at)
	default:
		// As much work again for each share as it took so far.
		done := h.workDone() - h.worked(r.at)
		if done <= 0 || *r.progress <= 0 {
			return e, false
		}
		e.Remaining = times(done, 1 / *r.progress - 1) - h.worked(r.at)
	}
	return e, true
}

// times returns a multiple of a duration, at most the longest there is.
func times(d time.Duration, factor float64) time.Duration {
	product := float64(d) * factor
	if product > float64(maxDuration) {
		return maxDuration
	}
	return time.Duration(product)
}

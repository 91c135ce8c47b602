package world

import (
	"fmt"
	"time"
)

// Source is the source of a job's remaining time.
type Source string

// The sources in order of preference.
const (
	SourceStatus    Source = "status"    // the job's own status
	SourceRemaining Source = "remaining" // the annotation of that name
	SourceProgress  Source = "progress"  // the annotation of that name
	SourceQuery     Source = "query"     // the pool's query
	SourceWork      Source = "work"      // declared work minus observed work
	SourceCompleted Source = "ended"     // median work of completed jobs
)

// Estimate is an estimate of a job's remaining work.
type Estimate struct {
	Remaining time.Duration // remaining run time on one node
	Source    Source
	Age       time.Duration // time with nodes since the source reported
	// Error is the standard deviation of the logarithm of the actual over the estimated remaining time. It
	// is 0 if a source reported the remaining time.
	Error float64
}

// report is the report of a source: the run time on one node that was left at a time, or the completed
// fraction of the work. nil fields are unknown.
type report struct {
	source    Source
	at        time.Time
	remaining *time.Duration
	progress  *float64
	// atSize is true if remaining was derived from the time until completion at the size at that time.
	atSize bool
}

// history is the work of a job until now. It extrapolates the record at the speed of the current size.
type history struct {
	Record
	annotations *JobAnnotations
	now         time.Time
	// restart is the time after Since without progress. idle is the time since then without running pods.
	restart, idle time.Duration
}

// newHistory extrapolates a record. Without a record it assumes that the job has had its size since it
// started.
func newHistory(w *JobAnnotations, r *Record, now, started, created time.Time, nodes int, nodeType string) history {
	if r == nil {
		r = &Record{Since: created, Nodes: nodes, Type: nodeType}
		if nodes > 0 && !started.IsZero() {
			r.Since = started
		}
	}
	h := history{Record: *r, annotations: w, now: now}
	if r.Trained.Duration > 0 && r.Nodes > 0 && r.Changed != nil && r.Changed.Equal(r.Since) {
		h.restart = w.Restart
	}
	return h
}

// trainedSince returns the time with running pods between a time and now, as far as it is known.
func (h *history) trainedSince(from time.Time) time.Duration {
	if h.Nodes == 0 {
		return 0
	}
	if from.Before(h.Since) {
		from = h.Since
	}
	return max(0, h.now.Sub(from)-h.idle)
}

// worked returns the work between a time and now, as run time on one node.
func (h *history) worked(from time.Time) time.Duration {
	lost := max(0, h.restart-max(0, from.Sub(h.Since)))
	return times(max(0, h.trainedSince(from)-lost), h.annotations.SpeedOn(h.Nodes, h.Type))
}

// workDone returns all work until now, and trainedFor the time with nodes.
func (h *history) workDone() time.Duration   { return h.Done.Duration + h.worked(h.Since) }
func (h *history) trainedFor() time.Duration { return h.Trained.Duration + h.trainedSince(h.Since) }

// restarts returns the times with nodes since the last restarts of the job, newest first, if it has the given
// nodes from now on. A restart is a resize, or a start that is not the first one.
func (h *history) restarts(nodes int) []time.Duration {
	var restarts []time.Duration
	if nodes > 0 && nodes != h.Nodes && h.trainedFor() > 0 {
		restarts = append(restarts, 0)
	}
	for _, since := range h.Restarts {
		restarts = append(restarts, since.Duration+h.trainedSince(h.Since))
	}
	return restarts[:min(len(restarts), maxRestarts)]
}

// age returns the time with nodes since a time. It assumes that the job had nodes all the time before its
// last resize.
func (h *history) age(from time.Time) time.Duration {
	before := max(0, h.Since.Sub(from))
	if h.Trained.Duration == 0 {
		before = 0
	}
	return before + h.trainedSince(from)
}

// estimate returns the estimated remaining work of the job. It uses the first of these that exists: a report
// that is younger than limit, the estimate at the last resize, and the declared work. Without any it
// returns an error.
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
		e := h.extrapolated()
		if e.Age <= limit {
			return e, nil
		}
		stale = e.Source
	}
	if h.annotations.Work > 0 {
		return Estimate{Remaining: h.annotations.Work - h.workDone(), Source: SourceWork, Age: h.trainedSince(h.Since)}, nil
	}
	if stale != "" {
		return Estimate{}, fmt.Errorf("%s: its report is older than %v, and no work is declared", stale, limit)
	}
	return Estimate{}, fmt.Errorf("no source reports its remaining time; set the annotation %s or %s", WorkAnnotation, RemainingAnnotation)
}

// extrapolated returns the estimate at the last resize, extrapolated to now.
func (h *history) extrapolated() Estimate {
	return Estimate{Remaining: h.Remaining.Duration - h.worked(h.Since), Source: h.Source, Age: h.Age.Duration + h.trainedSince(h.Since)}
}

// known reports whether the record includes a report. Only the record has the work since that report.
func (h *history) known(r report) bool {
	// The API server stores times of writes in seconds.
	return h.Source == r.source && h.Trained.Duration > 0 && !r.at.After(h.Since.Add(time.Second-h.Age.Duration))
}

// read extrapolates a report to now. It returns false if the report cannot be used.
func (h *history) read(r report) (Estimate, bool) {
	e := Estimate{Source: r.source, Age: h.age(r.at)}
	switch {
	case r.remaining == nil && r.progress == nil:
		return e, false
	case h.known(r):
		return h.extrapolated(), true
	case r.remaining != nil && r.atSize && h.Changed != nil && r.at.Before(*h.Changed):
		return e, false // The size at the time of the report is unknown.
	case r.remaining != nil:
		e.Remaining = *r.remaining - h.worked(r.at)
	case h.annotations.Work > 0:
		e.Remaining = times(h.annotations.Work, 1-*r.progress) - h.worked(r.at)
	default:
		// Assume that the remaining fraction takes work in proportion to the completed fraction.
		done := h.workDone() - h.worked(r.at)
		if done <= 0 || *r.progress <= 0 {
			return e, false
		}
		e.Remaining = times(done, 1 / *r.progress - 1) - h.worked(r.at)
	}
	return e, true
}

// times multiplies a duration by a factor. The result is at most maxDuration.
func times(d time.Duration, factor float64) time.Duration {
	product := float64(d) * factor
	if product > float64(maxDuration) {
		return maxDuration
	}
	return time.Duration(product)
}

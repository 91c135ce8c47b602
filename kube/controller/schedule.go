package controller

import "time"

// outageCadences is the number of cadences after which missing nodes count as lost.
const outageCadences = 3

// schedule contains what determines when the next decision is due. Times are zero if there was no such event.
type schedule struct {
	cadence, debounce time.Duration // of the pool

	started, seen time.Time // first and last Reconcile
	attempted     time.Time // last attempt to decide
	failures      int       // consecutive failed attempts
	// changed is the time of the first change of the cluster since the last attempt, and trigger the one that it sets.
	changed time.Time
	trigger string
	outage  time.Time // start of the current outage
}

// rewind limits all times to now if the clock was set back, and reports whether it was.
func (s *schedule) rewind(now time.Time) bool {
	back := now.Before(s.seen)
	s.seen = now
	if back {
		for _, t := range []*time.Time{&s.started, &s.attempted, &s.changed, &s.outage} {
			if t.After(now) {
				*t = now
			}
		}
	}
	return back
}

// change schedules a decision after the debounce time, unless an earlier change has.
func (s *schedule) change(now time.Time, trigger string) {
	if s.changed.IsZero() {
		s.changed, s.trigger = now, trigger
	}
}

// retry schedules a decision after the debounce time from now, for whatever reason one was scheduled before.
func (s *schedule) retry(now time.Time) { s.changed, s.trigger = now, triggerRetry }

// lose schedules a decision at once, because nodes were lost.
func (s *schedule) lose(now time.Time) { s.changed, s.trigger = now.Add(-s.debounce), triggerLost }

// next returns the trigger and the time of the next decision in a phase. expires is the time at which the current decision
// expires.
func (s *schedule) next(in phase, now, expires time.Time) (trigger string, due time.Time) {
	due = s.due(in, now, expires)
	if early := s.changed.Add(s.debounce); in.debounced() && !s.changed.IsZero() && early.Before(due) {
		return s.trigger, early
	}
	return in.trigger(), due
}

// due returns the time of the next decision in a phase, without changes of the cluster. Every decision is due in finite
// time, so no phase is final.
func (s *schedule) due(in phase, now, expires time.Time) time.Time {
	switch in {
	case phaseRetrying:
		return s.attempted.Add(min(s.cadence, time.Second<<min(s.failures, 10)))
	case phaseAdopting:
		if end := s.started.Add(s.cadence); end.Before(expires) {
			return end
		}
		return expires
	case phaseSteady:
		return s.attempted.Add(s.cadence)
	default:
		return now
	}
}

// begin records an attempt to decide, which considers all changes until now.
func (s *schedule) begin(now time.Time) { s.attempted, s.changed = now, time.Time{} }

// end records the result of the attempt. The cadence starts here, so a slow decision is applied before the next one is due.
func (s *schedule) end(now time.Time, failed bool) {
	s.attempted = now
	s.failures++
	if !failed {
		s.failures = 0
	}
}

// lastsLong records an outage, and reports whether it has lasted so long that its nodes count as lost.
func (s *schedule) lastsLong(now time.Time) bool {
	if s.outage.IsZero() {
		s.outage = now
	}
	return now.Sub(s.outage) >= outageCadences*s.cadence
}

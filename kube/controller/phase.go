package controller

import "time"

// phase is the phase of a loop. It follows from the state of the cluster and from the decisions of this loop,
// so a new loop continues where the previous one stopped.
type phase string

const (
	phaseStarting phase = "starting" // this loop has not requested a decision
	phaseAdopting phase = "adopting" // the loop applies the decision of an earlier leader
	phaseRetrying phase = "retrying" // the last decision failed
	phaseStuck    phase = "stuck"    // the decision expired, and its waiting steps lack nodes
	phaseSteady   phase = "steady"   // the loop applies a decision, or has applied it
)

// condition is what determines the phase of a loop.
type condition struct {
	failed   bool // the last decision failed
	decided  bool // this loop has requested a decision
	applying bool // steps of a decision are left, it has not expired, and no step had a conflict
	stuck    bool // the decision expired with waiting steps that were not given up, and no node was lost now
}

// transition is a row of the transition table of a loop.
type transition struct {
	to   phase
	when func(condition) bool
	// trigger is the trigger of the next decision.
	trigger string
	// debounced is true if an event triggers the decision earlier, after the pool's Debounce.
	debounced bool
}

// transitions is the transition table. The phase is that of the first row whose condition is true, from any
// earlier phase. Every decision is due in finite time, so no phase is final.
func transitions() []transition {
	return []transition{
		{phaseRetrying, func(c condition) bool { return c.failed }, triggerRetry, false},
		{phaseAdopting, func(c condition) bool { return !c.decided && c.applying }, triggerStart, true},
		{phaseStarting, func(c condition) bool { return !c.decided }, triggerStart, false},
		{phaseStuck, func(c condition) bool { return c.stuck }, triggerStuck, false},
		{phaseSteady, func(condition) bool { return true }, triggerCadence, true},
	}
}

// next returns the transition for a condition.
func (c condition) next() transition {
	all := transitions()
	for _, row := range all[:len(all)-1] {
		if row.when(c) {
			return row
		}
	}
	return all[len(all)-1]
}

// due returns the time of the next decision in a phase, without events. expires is the time at which the
// current decision expires.
func (l *Loop) due(to phase, now, expires time.Time) time.Time {
	switch to {
	case phaseRetrying:
		return l.last.Add(min(l.pool.Cadence, time.Second<<min(l.failures, 10)))
	case phaseAdopting:
		if end := l.started.Add(l.pool.Cadence); end.Before(expires) {
			return end
		}
		return expires
	case phaseSteady:
		return l.last.Add(l.pool.Cadence)
	default:
		return now
	}
}

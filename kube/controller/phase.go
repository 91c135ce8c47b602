package controller

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

// phase returns the phase for a condition, from any earlier phase.
func (c condition) phase() phase {
	switch {
	case c.failed:
		return phaseRetrying
	case !c.decided && c.applying:
		return phaseAdopting
	case !c.decided:
		return phaseStarting
	case c.stuck:
		return phaseStuck
	default:
		return phaseSteady
	}
}

// trigger returns the trigger of the next decision if no event triggers it earlier.
func (p phase) trigger() string {
	switch p {
	case phaseRetrying:
		return triggerRetry
	case phaseStuck:
		return triggerStuck
	case phaseSteady:
		return triggerCadence
	default:
		return triggerStart
	}
}

// debounced reports whether an event triggers the next decision earlier, after the pool's Debounce.
func (p phase) debounced() bool { return p == phaseAdopting || p == phaseSteady }

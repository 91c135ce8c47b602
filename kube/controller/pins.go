package controller

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/world"
)

const (
	// maxConflicts is the number of conflicts in one decision after which a job is pinned.
	maxConflicts = 5
	// refusedPatience is the time for which refused writes are retried. For a few seconds after its start, an
	// API server may not know all roles, and may use an old version of an admission policy.
	refusedPatience = 30 * time.Second
	// refusedFor is the time after the first refusal until a new decision may restart refusedPatience. Without
	// it, decisions every few seconds would restart it each time.
	refusedFor = 2 * time.Minute
)

// pins contains the jobs that are not resized for a while because writes to them failed. apply and commit record
// failures, and world.Observe reads byJob. A new loop has no pins, so it tries each write again.
type pins struct {
	byJob     map[types.UID]world.Pin
	conflicts map[types.UID]int       // conflicts of the current decision
	refusals  map[types.UID]time.Time // first refused write, if the last write was refused
}

// conflict records a write that failed with a conflict. Its step is planned again, up to maxConflicts times.
func (p *pins) conflict(job types.UID) {
	if p.conflicts[job]++; p.conflicts[job] >= maxConflicts {
		p.byJob[job] = world.Pin{Reason: world.Conflict, Message: "another writer keeps changing it"}
	}
}

// refusal records a refused write, and reports whether to retry it.
func (p *pins) refusal(job types.UID, now time.Time) (retry bool) {
	if p.refusals[job].IsZero() {
		p.refusals[job] = now
	}
	return now.Sub(p.refusals[job]) < refusedPatience
}

// refuse pins a job after refused writes.
func (p *pins) refuse(job types.UID, why string) {
	p.byJob[job] = world.Pin{Reason: world.Refused, Message: why, Until: p.refusals[job].Add(refusedFor)}
}

// decide starts a decision: it removes what is over.
func (p *pins) decide(now time.Time) {
	clear(p.conflicts)
	maps.DeleteFunc(p.refusals, func(_ types.UID, first time.Time) bool { return now.Sub(first) >= refusedFor })
	maps.DeleteFunc(p.byJob, func(_ types.UID, pin world.Pin) bool { return !now.Before(pin.Until) })
}

// rewind limits all pins to the next decision, because the clock was set back.
func (p *pins) rewind() {
	clear(p.refusals)
	for job, pin := range p.byJob {
		pin.Until = time.Time{}
		p.byJob[job] = pin
	}
}

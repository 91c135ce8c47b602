package controller

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/world"
)

const (
	// maxConflicts is the number of conflicts in one decision after which a job is pinned.
	maxConflicts = 5
	// refusedPatience is the time for which failed writes are retried. For a few seconds after its start, an
	// API server may not know all roles, and may use an old version of an admission policy.
	refusedPatience = 30 * time.Second
	// acceptedPatience is refusedPatience if writes on other jobs succeed, so that an API server that learns a role
	// between two writes does not have a job pinned.
	acceptedPatience = 5 * time.Second
	// refusedFor is the time from the first failed write until a new decision writes on the job again. It doubles
	// each time up to maxRefused.
	refusedFor = 2 * time.Minute
	maxRefused = time.Hour
)

// pins contains the jobs that are not resized for a while because writes to them failed. apply and commit record
// failures, and world.Observe reads byJob. A new loop has no pins, so it tries each write again.
type pins struct {
	byJob     map[types.UID]world.Pin
	conflicts map[types.UID]int // conflicts of the current decision
	refusals  map[types.UID]refusal
}

// refusal counts the failed writes on a job since the last successful resize.
type refusal struct {
	since   time.Time // first failed write since the last pin, zero if there is none
	earlier int       // pins
}

// conflict records a write that failed with a conflict. Its step is planned again, up to maxConflicts times.
func (p *pins) conflict(job types.UID) {
	p.conflicts[job]++
	if p.conflicts[job] >= maxConflicts {
		p.byJob[job] = world.Pin{Reason: world.Conflict, Message: "another writer keeps changing it"}
	}
}

// refusal records a failed write, and reports whether to retry it at once: for the given time, unless the job was
// pinned before.
func (p *pins) refusal(job types.UID, now time.Time, patience time.Duration) (retry bool) {
	r := p.refusals[job]
	if r.since.IsZero() {
		r.since = now
		p.refusals[job] = r
	}
	return r.earlier == 0 && now.Sub(r.since) < patience
}

// refuse pins a job after failed writes.
func (p *pins) refuse(job types.UID, why string) {
	r := p.refusals[job]
	p.byJob[job] = world.Pin{Reason: world.Refused, Message: why, Until: r.since.Add(min(maxRefused, refusedFor<<min(r.earlier, 10)))}
	p.refusals[job] = refusal{earlier: r.earlier + 1}
}

// decide starts a decision: it removes what is over.
func (p *pins) decide(now time.Time) {
	clear(p.conflicts)
	maps.DeleteFunc(p.byJob, func(_ types.UID, pin world.Pin) bool { return !now.Before(pin.Until) })
}

// retain removes the refusals of all other jobs.
func (p *pins) retain(jobs []*world.Job) {
	maps.DeleteFunc(p.refusals, func(uid types.UID, _ refusal) bool {
		return !slices.ContainsFunc(jobs, func(j *world.Job) bool { return j.UID == uid })
	})
}

// rewind limits all pins to the next decision, because the clock was set back.
func (p *pins) rewind() {
	clear(p.refusals)
	for job, pin := range p.byJob {
		pin.Until = time.Time{}
		p.byJob[job] = pin
	}
}

package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// ledger tracks the writes of a loop and the usage of nodes by jobs. It can be lost at any time.
type ledger struct {
	mu sync.Mutex
	// primed is true if the jobs were read from the API server after the last write with an unknown result:
	// a write by an earlier leader, or a write without a response.
	primed bool
	wrote  map[types.UID]*unstructured.Unstructured // results of writes, until the caches have them
	grew   map[types.UID]growth                     // jobs that grew and whose pods were not all observed yet
	uses   map[types.UID]*use                       // usage of nodes by job, observed at seen
	seen   time.Time

	conflicts map[types.UID]int       // conflicts of the current decision by job
	refusals  map[types.UID]time.Time // time of the first refused write by job
	pins      map[types.UID]world.Pin // jobs that are not resized until the next decision
	gangs     map[types.UID]time.Time // time at which jobs were pinned as gangs; remains across decisions
}

// growth is the size to which a job grew, and the time.
type growth struct {
	nodes int
	at    time.Time
}

func newLedger() *ledger {
	return &ledger{
		wrote: make(map[types.UID]*unstructured.Unstructured), grew: make(map[types.UID]growth), uses: make(map[types.UID]*use),
		conflicts: make(map[types.UID]int), refusals: make(map[types.UID]time.Time), pins: make(map[types.UID]world.Pin), gangs: make(map[types.UID]time.Time),
	}
}

// rewind limits all times to now if the clock was set back.
func (l *ledger) rewind(now time.Time) {
	l.seen = now
	clear(l.refusals)
	for uid := range l.gangs {
		l.gangs[uid] = now
	}
	for uid, g := range l.grew {
		l.grew[uid] = growth{g.nodes, now}
	}
	for _, u := range l.uses {
		u.short, u.at, u.CappedUntil, u.Cap, u.ConflictUntil = time.Time{}, now, time.Time{}, 0, time.Time{}
	}
}

// prime stores jobs that were read from the API server. Caches may lack the last writes of another leader, and
// writes whose response was lost.
func (l *ledger) prime(jobs []world.Object) {
	for _, job := range jobs {
		l.wrote[job.Job.GetUID()] = job.Job
		if job.Child != nil {
			l.wrote[job.Child.GetUID()] = job.Child
		}
	}
	l.primed = true
}

// newest returns a cached object, or the result of the loop's last write if the cache is older.
func (l *ledger) newest(cached *unstructured.Unstructured) *unstructured.Unstructured {
	ours := l.wrote[cached.GetUID()]
	if ours == nil {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), ours.GetResourceVersion()); err != nil || order < 0 {
		return ours
	}
	delete(l.wrote, cached.GetUID())
	return cached
}

// written stores the result of a write.
func (l *ledger) written(object *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote[object.GetUID()] = object
}

// failed notes that a write failed. Unless the API server rejected it, it may have been applied.
func (l *ledger) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.primed = l.primed && (refused(err) || apierrors.IsNotFound(err))
}

// resized notes that the loop resized a job to a number of nodes. more is true if the job grew.
func (l *ledger) resized(job types.UID, nodes int, more bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.refusals, job)
	if u := l.uses[job]; u != nil {
		u.given, u.at = nodes, now
	}
	if more {
		l.grew[job] = growth{nodes, now}
	}
}

// promised returns the number of nodes of jobs that grew and were then deleted. Their pods may still appear.
func (l *ledger) promised(w *world.ClusterState) int {
	for _, j := range w.Jobs {
		if _, grew := l.grew[j.UID]; grew && !j.Growing {
			delete(l.grew, j.UID)
		}
	}
	sum := 0
	for uid, g := range l.grew {
		switch {
		case w.Now.Sub(g.at) >= w.Pool.SettleTimeout:
			delete(l.grew, uid)
		case !slices.ContainsFunc(w.Jobs, func(j *world.Job) bool { return j.UID == uid }):
			sum += g.nodes
		}
	}
	return sum
}

// use is the observed usage of nodes by a job.
type use struct {
	world.Usage
	// since is the time since which the job has its size. idle is true if none of its pods ran at the last
	// observation.
	since time.Time
	idle  bool
	// short is the time since which fewer pods run than requested, zero if all run. tries counts the caps since
	// the job last used all requested nodes. requested is the size at the last cap.
	short            time.Time
	tries, requested int
	// accepting is the number of accepting nodes of the pool when the job was capped.
	accepting int
	// given is the size that the loop last wrote, -1 if another writer changed it. at is the time of the write.
	given int
	at    time.Time
}

// maxCapped is the maximum time for which a job is capped. maxForeign is the maximum time for which a job is
// pinned because another writer resizes it, or because the API server refuses to resize it as a gang.
const (
	maxCapped  = time.Hour
	maxForeign = 24 * time.Hour
)

// brokenTimeouts is the number of settle timeouts after which a pod that has a node and cannot run counts as
// broken for good. A shorter outage of an image registry does not count.
const brokenTimeouts = 10

// observe updates the usage of nodes by jobs, and returns the jobs that have just been found not to use their
// nodes.
func (l *ledger) observe(w *world.ClusterState) (unused []*world.Job) {
	passed := w.Now.Sub(l.seen)
	if l.seen.IsZero() {
		passed = 0
	}
	l.seen = w.Now
	uses := make(map[types.UID]*use, len(w.Jobs))
	for _, j := range w.Jobs {
		u := l.uses[j.UID]
		if u == nil {
			u = &use{given: -1}
		}
		uses[j.UID] = u
		if since := j.Since(); !since.Equal(u.since) {
			u.since, u.Idle = since, 0
		} else if u.idle {
			u.Idle += max(0, passed)
		}
		u.idle = j.Nodes() > 0 && j.Pods.Running == 0
		u.ObservedNodes = j.NodesInUse()
		u.countReverts(w, j)
		if l.short(w, j, u) {
			unused = append(unused, j)
		}
	}
	l.uses = uses
	return unused
}

// maxReverts is the number of resizes that another writer may revert before the job is pinned.
const maxReverts = 3

// countReverts counts a revert if the job no longer has the size that the loop wrote.
func (u *use) countReverts(w *world.ClusterState, j *world.Job) {
	switch {
	case u.given < 0:
	case j.Nodes() == u.given || j.Shape.Finished:
		if w.Now.Sub(u.at) > maxCapped {
			u.Reverted = 0
		}
	default:
		u.given = -1
		if u.Reverted++; u.Reverted >= maxReverts {
			u.ConflictUntil = w.Now.Add(backOff(w, u.Reverted-maxReverts, maxForeign))
		}
	}
}

// backOff returns the pin time of a job that was pinned a number of times before. It doubles each time up to limit.
func backOff(w *world.ClusterState, times int, limit time.Duration) time.Duration {
	return min(limit, max(w.Pool.MinInterval, w.Pool.SettleTimeout)<<min(times, 20))
}

// short caps a job that has not used its nodes for long, and reports whether it was not capped before.
func (l *ledger) short(w *world.ClusterState, j *world.Job, u *use) bool {
	requested, patience := j.Nodes(), w.Pool.SettleTimeout
	if j.Shape.Elsewhere {
		return false // Its pods may be in another cluster.
	}
	// A job that Kueue does not start, although it has a target, keeps nodes from other jobs as well.
	unstarted := j.Kueue && requested == 0 && j.Target > 0 && j.Resizable() && j.Record.Mode == plan.ModeApply
	if unstarted {
		requested, patience = j.Target, brokenTimeouts*patience
	}
	if !u.CappedUntil.IsZero() && w.Nodes.Accepting > u.accepting {
		// The pods may have lacked the nodes that were added since.
		u.CappedUntil, u.Cap, u.short = time.Time{}, 0, time.Time{}
	}
	// Pods that crash repeatedly run between crashes.
	if !j.LacksPods() && !unstarted && j.Pods.Broken == 0 {
		if u.short = (time.Time{}); requested >= u.requested {
			u.tries = 0
		}
		if w.Now.After(u.CappedUntil) || requested > u.Cap { // The job uses more nodes than the cap.
			u.CappedUntil, u.Cap = time.Time{}, 0
		}
		return false
	}
	if u.short.IsZero() || lacksNodes(w, j) {
		u.short = w.Now
	}
	used := j.Pods.Bound + j.Succeeded()
	if w.Now.Sub(u.short) >= brokenTimeouts*w.Pool.SettleTimeout {
		used -= j.Pods.Broken
	}
	if w.Pool.MaxNodes > w.Nodes.Accepting && j.Pods.Waiting > 0 {
		patience *= world.StartTimeouts
	}
	if w.Now.Sub(u.short) < patience || used >= requested {
		return false
	}
	found := u.CappedUntil.IsZero()
	if found {
		u.tries++
		u.accepting = w.Nodes.Accepting
	}
	u.Cap, u.requested = used, requested
	u.CappedUntil = w.Now.Add(backOff(w, u.tries-1, maxCapped))
	return found
}

// lacksNodes reports whether no node, or too few units, are free for the pods of a job that do not run. Then the job is not to
// blame, unless an autoscaler should add nodes for it.
func lacksNodes(w *world.ClusterState, j *world.Job) bool {
	scales := w.Pool.MaxNodes > w.Nodes.Accepting && j.Resizable()
	return w.Idle() < max(1, j.PerPod) && j.Pods.Broken == 0 && !scales
}

// known returns the observed usage by job.
func (l *ledger) known() map[types.UID]world.Usage {
	uses := make(map[types.UID]world.Usage, len(l.uses))
	for uid, u := range l.uses {
		uses[uid] = u.Usage
	}
	return uses
}

// pin pins a job until the next decision.
func (l *ledger) pin(job types.UID, reason world.Reason, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[job] = world.Pin{Reason: reason, Message: why}
}

// gang pins a job for maxForeign, because the API server refuses to resize a gang.
func (l *ledger) gang(job types.UID, why string, now time.Time) {
	l.pin(job, world.Gang, why)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gangs[job] = now
}

// conflict counts a write that failed with a conflict. Its step is planned again, up to maxConflicts times.
func (l *ledger) conflict(job types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conflicts[job]++; l.conflicts[job] >= maxConflicts {
		l.pins[job] = world.Pin{Reason: world.Conflict, Message: "another writer keeps changing it"}
	}
}

// mayRetry reports whether a job's writes have been refused for a short time only.
func (l *ledger) mayRetry(job types.UID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusals[job].IsZero() {
		l.refusals[job] = now
	}
	return now.Sub(l.refusals[job]) < refusedPatience
}

// waits reports whether the API server refuses writes to a job.
func (l *ledger) isRefused(job types.UID) bool { return !l.refusals[job].IsZero() }

// decide starts a decision: it removes pins and conflicts, except for recent refusals and gangs.
func (l *ledger) decide(now time.Time) {
	clear(l.conflicts)
	maps.DeleteFunc(l.refusals, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= refusedFor })
	maps.DeleteFunc(l.gangs, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= maxForeign })
	maps.DeleteFunc(l.pins, func(uid types.UID, pin world.Pin) bool {
		_, gang := l.gangs[uid]
		return !gang && (pin.Reason != world.Refused || !l.isRefused(uid))
	})
}

// forget removes objects of deleted jobs.
func (l *ledger) forget(jobs []*world.Job) {
	maps.DeleteFunc(l.wrote, func(uid types.UID, _ *unstructured.Unstructured) bool {
		return !slices.ContainsFunc(jobs, func(j *world.Job) bool {
			return j.UID == uid || j.Child != nil && j.Child.GetUID() == uid
		})
	})
}

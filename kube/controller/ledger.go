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

// ledger is what a loop knows of its writes, several of which may be under way. It can be lost.
type ledger struct {
	mu sync.Mutex
	// primed says that the jobs were read from the API server since anything was written
	// that the loop does not know of: by an earlier leader, or without an answer.
	primed bool
	wrote  map[types.UID]*unstructured.Unstructured // as they came back, until the caches have them
	grew   map[types.UID]growth                     // jobs made to grow whose pods have not been seen
	uses   map[types.UID]*use                       // how jobs use their nodes, as seen at a time
	seen   time.Time

	conflicts map[types.UID]int       // writes of the current decision that came too late
	refusals  map[types.UID]time.Time // since when the API server refuses writes to a job
	pins      map[types.UID]world.Pin // jobs that are left alone until the next decision
	gangs     map[types.UID]time.Time // since when jobs are pinned as gangs, which outlasts decisions
}

// growth is how many nodes a job was made to hold, and when.
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

// rewind begins to count anew where the clock was set back.
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

// prime takes jobs as the API server itself has them: caches may lack the last writes of
// another leader, and those whose answer was lost.
func (l *ledger) prime(jobs []world.Object) {
	for _, job := range jobs {
		l.wrote[job.Job.GetUID()] = job.Job
		if job.Child != nil {
			l.wrote[job.Child.GetUID()] = job.Child
		}
	}
	l.primed = true
}

// newest returns an object of a cache, or what the loop wrote where the cache lags behind.
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

// written notes how an object came back from a write.
func (l *ledger) written(object *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote[object.GetUID()] = object
}

// failed notes that a write failed. Unless the API server judged it, it may have been written.
func (l *ledger) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.primed = l.primed && (refused(err) || apierrors.IsNotFound(err))
}

// resized notes the nodes that a job was made to hold, and whether they are more.
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

// promised returns how many nodes jobs got that are gone now, and whose pods may be on their way.
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

// use is what is known of how a job uses its nodes.
type use struct {
	world.Usage
	// since is when it came to its nodes, and idle says that no pod of it ran when last seen.
	since time.Time
	idle  bool
	// short is since when fewer pods run than it asks for, and tries how often that was so for
	// long since it last used as many nodes as it asked for then.
	short        time.Time
	tries, asked int
	// accepting is the number of accepting nodes of the pool when the job was capped.
	accepting int
	// given is the size that the loop last wrote, -1 for none that stands, and at when.
	given int
	at    time.Time
}

// maxCapped is how long at most a job is given no more than it used, and maxForeign how long one
// is left alone that another writer resizes, or the API server does not let be resized.
const (
	maxCapped  = time.Hour
	maxForeign = 24 * time.Hour
)

// neverRuns is after how many settle timeouts a pod that has a node and cannot run is taken for
// one that never will: a registry may be away meanwhile.
const neverRuns = 10

// saw notes how the jobs use their nodes, and returns those that have just been found not to
// use them.
func (l *ledger) saw(w *world.ClusterState) (unused []*world.Job) {
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
		u.stands(w, j)
		if l.short(w, j, u) {
			unused = append(unused, j)
		}
	}
	l.uses = uses
	return unused
}

// mostUndone is how many changes of a job another writer may undo before the job is left alone.
const mostUndone = 3

// stands notes whether the size that the loop gave a job is still that.
func (u *use) stands(w *world.ClusterState, j *world.Job) {
	switch {
	case u.given < 0:
	case j.Nodes() == u.given || j.Shape.Finished:
		if w.Now.Sub(u.at) > maxCapped {
			u.Reverted = 0
		}
	default:
		u.given = -1
		if u.Reverted++; u.Reverted >= mostUndone {
			u.ConflictUntil = w.Now.Add(backOff(w, u.Reverted-mostUndone, maxForeign))
		}
	}
}

// backOff returns how long a job is left alone that was left alone this many times before.
func backOff(w *world.ClusterState, times int, most time.Duration) time.Duration {
	return min(most, max(w.Pool.MinInterval, w.Pool.SettleTimeout)<<min(times, 20))
}

// short reports whether a job has just been found not to use its nodes, and caps it.
func (l *ledger) short(w *world.ClusterState, j *world.Job, u *use) bool {
	asked, patience := j.Nodes(), w.Pool.SettleTimeout
	if j.Shape.Elsewhere {
		return false // Its pods need not be in this cluster.
	}
	// What Kueue is to start, and does not, keeps nodes from others as well.
	left := j.Kueue && asked == 0 && j.Target > 0 && j.Resizable() && j.Record.Mode == plan.ModeApply
	if left {
		asked, patience = j.Target, neverRuns*patience
	}
	if !u.CappedUntil.IsZero() && w.Nodes.Accepting > u.accepting {
		// Its pods may have lacked the nodes that came since.
		u.CappedUntil, u.Cap, u.short = time.Time{}, 0, time.Time{}
	}
	// Pods that crash again and again run in between.
	if !j.LacksPods() && !left && j.Pods.Broken == 0 {
		if u.short = (time.Time{}); asked >= u.asked {
			u.tries = 0
		}
		if w.Now.After(u.CappedUntil) || asked > u.Cap { // It uses more than that after all.
			u.CappedUntil, u.Cap = time.Time{}, 0
		}
		return false
	}
	if u.short.IsZero() || lacksNodes(w, j) {
		u.short = w.Now
	}
	used := j.Pods.Bound + j.Succeeded()
	if w.Now.Sub(u.short) >= neverRuns*w.Pool.SettleTimeout {
		used -= j.Pods.Broken
	}
	if w.Pool.MaxNodes > w.Nodes.Accepting && j.Pods.Waiting > 0 {
		patience *= neverRuns // An autoscaler takes minutes.
	}
	if w.Now.Sub(u.short) < patience || used >= asked {
		return false
	}
	found := u.CappedUntil.IsZero()
	if found {
		u.tries++
		u.accepting = w.Nodes.Accepting
	}
	u.Cap, u.asked = used, asked
	u.CappedUntil = w.Now.Add(backOff(w, u.tries-1, maxCapped))
	return found
}

// lacksNodes reports whether no node is left for pods of a job that do not run. That is no sign that it
// does not use its nodes, unless an autoscaler is to bring some.
func lacksNodes(w *world.ClusterState, j *world.Job) bool {
	scales := w.Pool.MaxNodes > w.Nodes.Accepting && j.Resizable()
	return w.Idle() <= 0 && j.Pods.Broken == 0 && !scales
}

// known returns how the jobs use their nodes.
func (l *ledger) known() map[types.UID]world.Usage {
	uses := make(map[types.UID]world.Usage, len(l.uses))
	for uid, u := range l.uses {
		uses[uid] = u.Usage
	}
	return uses
}

// pin leaves a job alone until the next decision.
func (l *ledger) pin(job types.UID, reason world.Reason, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[job] = world.Pin{Reason: reason, Message: why}
}

// gang leaves a job alone for long, as the API server does not let a gang's size change.
func (l *ledger) gang(job types.UID, why string, now time.Time) {
	l.pin(job, world.Gang, why)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gangs[job] = now
}

// conflict counts a write that came too late. Its step is planned again, a few times.
func (l *ledger) conflict(job types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conflicts[job]++; l.conflicts[job] >= maxConflicts {
		l.pins[job] = world.Pin{Reason: world.Conflict, Message: "another writer keeps changing it"}
	}
}

// mayPass reports whether a job's writes have been refused for a short time only.
func (l *ledger) mayPass(job types.UID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refusals[job].IsZero() {
		l.refusals[job] = now
	}
	return now.Sub(l.refusals[job]) < refusedPatience
}

// waits reports whether the API server refuses writes to a job.
func (l *ledger) waits(job types.UID) bool { return !l.refusals[job].IsZero() }

// decide begins a decision: what kept jobs from the last one is forgotten, but late refusals.
func (l *ledger) decide(now time.Time) {
	clear(l.conflicts)
	maps.DeleteFunc(l.refusals, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= refusedFor })
	maps.DeleteFunc(l.gangs, func(_ types.UID, since time.Time) bool { return now.Sub(since) >= maxForeign })
	maps.DeleteFunc(l.pins, func(uid types.UID, pin world.Pin) bool {
		_, gang := l.gangs[uid]
		return !gang && (pin.Reason != world.Refused || !l.waits(uid))
	})
}

// forget drops the objects of jobs that are gone.
func (l *ledger) forget(jobs []*world.Job) {
	maps.DeleteFunc(l.wrote, func(uid types.UID, _ *unstructured.Unstructured) bool {
		return !slices.ContainsFunc(jobs, func(j *world.Job) bool {
			return j.UID == uid || j.Child != nil && j.Child.GetUID() == uid
		})
	})
}

package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

const (
	// maxCapped is the maximum time for which a job is capped. maxForeign is the maximum time for which a job is
	// pinned because another writer resizes it, or because the API server refuses to resize it as a gang.
	maxCapped  = time.Hour
	maxForeign = 24 * time.Hour
	// brokenTimeouts is the number of settle timeouts after which a pod that has a node and cannot run counts as
	// broken for good. A shorter outage of an image registry does not count.
	brokenTimeouts = 10
	// maxReverts is the number of resizes that another writer may revert before the job is pinned.
	maxReverts = 3
)

// usageTracker tracks whether jobs use the nodes that the loop gave them. Loop.resized records resizes, and
// Loop.observe records the usage in each observed state. The next world.Observe reads the usage: it limits jobs
// to their caps, and does not resize jobs that another writer resizes. A new loop starts without caps.
type usageTracker struct {
	jobs map[types.UID]*jobUsage
	seen time.Time // last observation
}

// jobUsage is the usage of nodes by a job.
type jobUsage struct {
	world.Usage
	// sizedAt is the time since which the job has its size. idle is true if none of its pods ran at the last
	// observation.
	sizedAt time.Time
	idle    bool
	// shortSince is the time since which fewer pods run than requested, zero if all run.
	shortSince time.Time
	// caps counts the caps since the job last used all requested nodes. cappedSize and cappedAccepting are the
	// size of the job and the number of accepting nodes of the pool at the last cap.
	caps, cappedSize, cappedAccepting int
	// written is the size that the loop last wrote, -1 if another writer changed it; writtenAt is its time.
	written   int
	writtenAt time.Time
	// grewTo is the size to which the loop let the job grow at grewAt, zero once all its pods were observed.
	grewTo   int
	grewAt   time.Time
	grewType string // node type of grewTo
}

// resized records that the loop resized a job.
func (t *usageTracker) resized(job types.UID, nodes int, grew bool, now time.Time) {
	u := t.jobs[job]
	u.written, u.writtenAt = nodes, now
	if grew {
		u.grewTo, u.grewAt = nodes, now
	}
}

// observe updates the usage of nodes by jobs, and returns the jobs that have just been found not to use their
// nodes. It promises the nodes of jobs that were deleted while they grew.
func (t *usageTracker) observe(w *world.ClusterState) (unused []*world.Job) {
	jobs := make(map[types.UID]*jobUsage, len(w.Jobs))
	for _, j := range w.Jobs {
		u := t.jobs[j.UID]
		if u == nil {
			u = &jobUsage{written: -1}
		}
		jobs[j.UID] = u
		if since := j.Since(); !since.Equal(u.sizedAt) {
			u.sizedAt, u.Idle = since, 0
		} else if u.idle {
			u.Idle += max(0, w.Now.Sub(t.seen))
		}
		u.idle = j.Pods.Running == 0 // Another writer may have suspended the job, so that its record still has nodes.
		u.ObservedNodes = j.NodesInUse()
		if u.Lent = j.Pinned == world.Lending || u.Lent && j.LacksPods(); u.Lent {
			u.ObservedNodes = j.Pods.Bound // It did not lose the nodes that it lends.
		}
		if u.grewType = w.Typed(j); !j.Growing {
			u.grewTo = 0
		}
		u.countReverts(w, j)
		if u.updateCap(w, j) {
			unused = append(unused, j)
		}
	}
	for job, u := range t.jobs {
		if jobs[job] == nil && u.grewTo > 0 && w.Now.Sub(u.grewAt) < w.Pool.SettleTimeout {
			jobs[job] = u // Its pods may still appear.
			w.Promise(u.grewType, u.grewTo)
		}
	}
	t.jobs, t.seen = jobs, w.Now
	return unused
}

// countReverts counts a revert if the job no longer has the size that the loop wrote.
func (u *jobUsage) countReverts(w *world.ClusterState, j *world.Job) {
	switch {
	case u.written < 0:
	case j.Kueue && j.Nodes() == 0: // Kueue preempted the job, which reverts no resize.
		u.written = -1
	case j.Nodes() == u.written || j.Shape.Finished:
		if w.Now.Sub(u.writtenAt) > maxCapped {
			u.Reverted = 0
		}
	default:
		u.written, u.Stopped = -1, j.Nodes() == 0
		u.Reverted++
		if u.Reverted >= maxReverts {
			u.ConflictUntil = w.Now.Add(backOff(w, u.Reverted-maxReverts, maxForeign))
		}
	}
}

// updateCap caps a job that has not used its nodes for long at the nodes that it uses, and reports whether it was
// not capped before. The cap ends if nodes are added, or if all pods run and the cap has expired or was exceeded.
func (u *jobUsage) updateCap(w *world.ClusterState, j *world.Job) bool {
	if j.Shape.Elsewhere {
		return false // Its pods may be in another cluster.
	}
	// A job that Kueue does not start, although it has a target, keeps nodes from other jobs as well.
	unstarted := j.Kueue && j.Nodes() == 0 && j.Target > 0 && j.Resizable() && j.Record.Mode == plan.ModeApply
	requested := j.Nodes()
	if unstarted {
		requested = j.Target
	}
	if !u.CappedUntil.IsZero() && w.Nodes.Accepting > u.cappedAccepting {
		// The pods may have lacked the nodes that were added since.
		u.CappedUntil, u.Cap, u.shortSince = time.Time{}, 0, time.Time{}
	}
	// Pods that crash repeatedly run between crashes.
	if !j.LacksPods() && !unstarted && j.Pods.Broken == 0 {
		u.shortSince = time.Time{}
		if requested >= u.cappedSize {
			u.caps = 0
		}
		if w.Now.After(u.CappedUntil) || requested > u.Cap {
			u.CappedUntil, u.Cap = time.Time{}, 0
		}
		return false
	}
	if u.shortSince.IsZero() || lacksNodes(w, j) || j.Awaits != "" {
		u.shortSince = w.Now
		if j.Pinned == world.Lending && j.Pods.Waiting > 0 && w.Now.After(u.CappedUntil) {
			u.CappedUntil, u.Cap = time.Time{}, 0 // Its pods wait for the nodes that other jobs got.
		}
	}
	short := w.Now.Sub(u.shortSince)
	used := j.Pods.Bound + j.Done()
	if short >= brokenTimeouts*w.Pool.SettleTimeout {
		used -= j.Pods.Broken
	}
	if short < patience(w, j, unstarted) || used >= requested {
		return false
	}
	found := u.CappedUntil.IsZero()
	if found {
		u.caps++
		u.cappedAccepting = w.Nodes.Accepting
	}
	u.Cap, u.cappedSize = used, requested
	u.CappedUntil = w.Now.Add(backOff(w, u.caps-1, maxCapped))
	return found
}

// patience returns the time after which a job that does not use its nodes is capped. It is longer if Kueue may
// still start the job, and if an autoscaler may still add nodes for its pods.
func patience(w *world.ClusterState, j *world.Job, unstarted bool) time.Duration {
	patience := w.Pool.SettleTimeout
	if unstarted {
		patience *= brokenTimeouts
	}
	if w.MayScale() && j.Pods.Waiting > 0 {
		patience *= world.StartTimeouts
	}
	return patience
}

// lacksNodes reports whether no node, or too few units, are free for the pods of a job that do not run. Then the
// job is not to blame, unless an autoscaler should add nodes for it.
func lacksNodes(w *world.ClusterState, j *world.Job) bool {
	scales := w.MayScale() && j.Resizable()
	return w.IdleOf(w.Typed(j)) < max(1, j.PerPod) && j.Pods.Broken == 0 && !scales
}

// backOff returns the time of a cap or pin after a number of earlier ones. It doubles each time up to limit.
func backOff(w *world.ClusterState, earlier int, limit time.Duration) time.Duration {
	return min(limit, max(w.Pool.MinInterval, w.Pool.SettleTimeout)<<min(earlier, 20))
}

// byJob returns the observed usage by job.
func (t *usageTracker) byJob() map[types.UID]world.Usage {
	usage := make(map[types.UID]world.Usage, len(t.jobs))
	for job, u := range t.jobs {
		usage[job] = u.Usage
	}
	return usage
}

// rewind limits all times to now, because the clock was set back. Caps and pins end.
func (t *usageTracker) rewind(now time.Time) {
	for _, u := range t.jobs {
		u.writtenAt, u.grewAt = now, now
		u.shortSince, u.CappedUntil, u.Cap, u.ConflictUntil = time.Time{}, time.Time{}, 0, time.Time{}
	}
}

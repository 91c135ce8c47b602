// Package world turns what the cluster's API holds into what a pool looks like: its
// nodes, and its jobs with what they hold, may hold and still have to do. It is pure: the
// same objects at the same time give the same world.
package world

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// World is a pool at one moment.
type World struct {
	Now   time.Time
	Pool  config.Pool
	Apply bool // jobs may be resized; otherwise targets are recommendations
	Nodes NodeCounts
	// NodeStatuses are the states of the pool's nodes, and NodeHistory what the next observation has to
	// know of them.
	NodeStatuses []NodeStatus
	NodeHistory  map[string]NodeHistory
	PerNode      int64 // units that most nodes have
	// Missing is how many of the nodes that jobs use are neither accepting nor expected to be soon.
	Missing int
	// Outage is true while most nodes are not accepting, for whatever reason but foreign pods. No job is
	// paused then whose pods run.
	Outage bool
	Quotas map[string]int // of nodes for the pool's jobs, by ClusterQueue, where limited
	Jobs   []*Job         // those that end included, oldest first
}

// Job is a job of the pool.
type Job struct {
	// ID names the job: kind, namespace and name.
	ID     string
	UID    types.UID
	Kind   kinds.Kind
	Object *unstructured.Unstructured
	Child  *unstructured.Unstructured // the object that keeps the size for a kind that has one
	Shape  kinds.Shape
	Wishes
	Pods PodCounts
	Room int // on how many accepting nodes without one a pod of it may run, where some are to come
	Use  Use

	// Estimate is what is left to do; Trained and Waited are the time since its creation
	// with and without nodes.
	Estimate        Estimate
	Trained, Waited time.Duration
	Guessed         string // why the estimate is of the jobs that have ended, "" where it is not
	// Record is what the controller noted on it, or nil; Target is the size that it decided
	// on, and HasTarget whether it did.
	Record    *Record
	Target    int
	HasTarget bool
	// Pinned says why the job keeps what it holds and Why explains it; both are empty for a job
	// that may be resized.
	Pinned Reason
	Why    string
	// Kueue says that Kueue alone starts and suspends it, as a job of the ClusterQueue Queue. Ceiling,
	// where not 0, is the size that it must not exceed, since others wait there.
	Kueue   bool
	Queue   string
	Ceiling int
	Cooling bool // it was changed less than the pool's MinInterval ago, or has pods that leave
	// Growing jobs were changed less than the pool's SettleTimeout ago, and fewer pods than
	// they ask for have been seen since. Pods may come that are not counted once it shrinks.
	Growing bool
	// Transient is true while a job is Retained for nodes that have not been accepting for less than the
	// pool's NodeGracePeriod.
	Transient bool
	Unhealthy int // of its pods that are Away, on nodes that are not ready or lack units

	history    history
	retainedOn []NodeStatus // the nodes of its pods that are Away
}

// PodCounts are the pods of a job that have not ended and request the pool's unit.
type PodCounts struct {
	// Live pods are not being deleted, and Waiting ones of them have no node yet. Those on
	// nodes that are not accepting are Away instead, and of several on one node one is Live.
	Live, Waiting, Away int
	// Terminating pods still hold a node; Overdue ones of them have outlived their grace
	// period and the pool's SettleTimeout.
	Terminating, Overdue int
	// Running pods are not being deleted, on any node, and Done ones succeeded. Broken ones have a
	// node and cannot run on it, as without an image. Bound ones have a node, whether it accepts pods
	// or not, and have not succeeded; Seen are all of these.
	Running, Done, Broken, Bound, Seen int
	// Unschedulable is why one of those that wait does, as the scheduler says, and Trouble why one of
	// the broken ones is.
	Unschedulable, Trouble string
}

// Use is what was seen of how a job uses the nodes that it asks for. It can be lost: what the job
// uses then is seen anew.
type Use struct {
	// Had is on how many nodes its pods have been seen since it has its size, and Lost how long
	// none of them ran.
	Had  int
	Lost time.Duration
	// Until Capped the job gets no more than Cap nodes, as it did not use all of them for long.
	Capped time.Time
	Cap    int
	// Until Foreign it is left alone, as another writer undid several changes.
	Foreign time.Time
	Undone  int
}

// Reason is why a job is pinned, as events and metrics name it.
type Reason string

// The reasons.
const (
	BadAnnotations Reason = "BadAnnotations"
	Paused         Reason = "Paused"
	NotElastic     Reason = "NotElastic"
	NotWholeNodes  Reason = "NotWholeNodes"
	Elsewhere      Reason = "Elsewhere"
	NotAllowed     Reason = "NotAllowed"
	Owned          Reason = "Owned"
	KueueOwned     Reason = "KueueOwned"
	PastItsEnd     Reason = "PastItsEnd"
	Deleting       Reason = "Deleting"
	Stuck          Reason = "Stuck"
	Retained       Reason = "Retained"
	Completing     Reason = "Completing"
	Conflict       Reason = "Conflict"
	Refused        Reason = "Refused"
	Gang           Reason = "Gang"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		BadAnnotations, Paused, NotElastic, NotWholeNodes, Elsewhere, NotAllowed, Owned, KueueOwned,
		PastItsEnd, Deleting, Stuck, Retained, Completing, Conflict, Refused, Gang,
	}
}

// Nodes returns how many nodes the job asks for now: 0 while it is suspended.
func (j *Job) Nodes() int {
	if j.Shape.Suspended || j.Shape.Finished {
		return 0
	}
	return j.Shape.Size
}

// claims returns how many accepting nodes the job's pods hold or may get, those that leave apart.
// A pinned job's pods are left where they are: on nodes that are not accepting, or waiting for some
// that do not exist.
func (j *Job) claims() int {
	if j.Pinned == "" {
		return max(j.Nodes(), j.Pods.Live)
	}
	on := j.Pods.Live - j.Pods.Waiting
	if j.Capped() || j.Pinned == NotAllowed || j.Shape.Elsewhere {
		return on // What did not come for long, or will not, is not waited for.
	}
	return on + min(j.Room, j.ToCome())
}

// Succeeded returns how many of the job's pods have succeeded. They need no nodes any more.
func (j *Job) Succeeded() int { return max(j.Shape.Succeeded, j.Pods.Done) }

// ToCome returns how many pods of the job have no node yet.
func (j *Job) ToCome() int {
	on := j.Pods.Live - j.Pods.Waiting
	return max(j.Nodes()-j.Succeeded()-j.Pods.Away, j.Pods.Live) - on
}

// Held returns how many nodes the job holds or may get without another word of ours: what
// it asks for, or more while its pods leave.
func (j *Job) Held() int {
	if j.Pinned == Deleting && !j.Growing { // Its pods are not replaced.
		return j.Pods.Live + j.Pods.Terminating
	}
	return j.claims() + j.Pods.Terminating
}

// Keeps returns how many nodes the job holds once the pods that leave are gone, if they go in
// time.
func (j *Job) Keeps() int {
	if j.Pinned == Deleting {
		return j.Pods.Live + j.Pods.Overdue
	}
	return j.claims() + j.Pods.Overdue
}

// InUse returns how many of the nodes that the job asks for it has pods on, or was seen to have.
// What its record says is not asked: its user can write that.
func (j *Job) InUse() int { return min(j.Nodes(), max(j.Pods.Bound, j.Use.Had)) }

// Lost returns how many of the nodes that the job uses its pods are on no more.
func (j *Job) Lost() int {
	p := &j.Pods
	return max(0, j.InUse()-(p.Live-p.Waiting)-p.Away-p.Terminating-j.Succeeded())
}

// Unplaced returns how many of the nodes that the job keeps it has no pods on.
func (j *Job) Unplaced() int {
	if j.Pinned != "" {
		return j.Waits()
	}
	return max(0, j.claims()-(j.Pods.Live-j.Pods.Waiting))
}

// Waits returns how many nodes the job's pods wait for because another writer made, started or resized
// it. They take idle nodes, as all pods do, and nothing makes room for them.
func (j *Job) Waits() int {
	switch j.Pinned {
	case "":
		return j.Nodes() - j.InUse()
	case Deleting:
		return 0
	}
	return j.claims() - (j.Pods.Live - j.Pods.Waiting)
}

// Capped reports whether the job gets no more nodes than it was seen to use.
func (j *Job) Capped() bool { return !j.Use.Capped.IsZero() }

// May reports whether the job, its annotations apart, may have that many nodes: no more than it was
// seen to use, nor than its queue lets it have.
func (j *Job) May(nodes int) bool {
	return (!j.Capped() || nodes <= j.Use.Cap) && (j.Ceiling == 0 || nodes <= j.Ceiling)
}

// Short reports whether fewer pods of the job run, or are done, than it asks for.
func (j *Job) Short() bool { return j.Pods.Running+j.Succeeded() < j.Nodes() }

// MayPause reports whether the job may be paused: its kind allows it, and it is no outage or none of
// its pods runs.
func (w *World) MayPause(j *Job) bool {
	return !j.Shape.NoPause && (!w.Outage || j.Pods.Running == 0)
}

// Movable reports whether the job may be given other nodes.
func (j *Job) Movable() bool { return !j.Shape.Finished && j.Pinned == "" }

// Since returns when the job came to the nodes that it asks for, as far as is known.
func (j *Job) Since() time.Time { return j.history.Since }

// WorkDone returns what the job has done, as run time on one node, as far as it was seen.
func (j *Job) WorkDone() time.Duration { return j.history.workDone() }

// NeedsRecord reports whether what is noted on the job is not what it holds.
func (j *Job) NeedsRecord() bool { return j.Record == nil || j.Record.Nodes != j.Nodes() }

// NextRecord returns a record of the job as it is now, from when on it holds the given number of nodes.
// Where they differ from what it holds, now is when it was changed.
func (j *Job) NextRecord(nodes int, now time.Time) Record {
	var r Record
	if j.Record != nil {
		r = *j.Record
	}
	r.UID, r.Since, r.Nodes = j.UID, now.UTC().Truncate(time.Millisecond), nodes
	r.Done, r.Trained = rounded(j.history.workDone()), rounded(j.history.trainedFor())
	var told Estimate // Of a guess nothing is noted.
	if j.Guessed == "" {
		told = j.Estimate
	}
	r.Remaining, r.Source, r.Age = rounded(told.Remaining), told.Source, rounded(told.Age)
	if nodes != j.Nodes() {
		r.Changed = &r.Since
	}
	return r
}

// rounded returns a duration to the millisecond, as times are noted.
func rounded(d time.Duration) metav1.Duration {
	return metav1.Duration{Duration: d.Round(time.Millisecond)}
}

// Idle returns how many accepting nodes have no pod of the pool's jobs.
func (w *World) Idle() int {
	idle := w.Nodes.Accepting
	for _, j := range w.Jobs {
		idle -= j.Pods.Live - j.Pods.Waiting + j.Pods.Terminating
	}
	return idle
}

// Coming returns how many nodes an autoscaler is to bring beside those of the pool, for the pods of a
// decision on a pool of the given size. A node that leaves has no successor until it is gone.
func (w *World) Coming(decided int) int {
	return max(0, min(decided, w.Pool.MaxNodes)-w.Nodes.Accepting-w.Nodes.Expected-w.Nodes.Leaving)
}

// Free returns how many accepting nodes no job of the pool holds. Where nodes went or are yet to come
// it is less than 0.
func (w *World) Free() int {
	free := w.Nodes.Accepting - w.Nodes.Promised
	for _, j := range w.Jobs {
		free -= j.Held()
	}
	return free
}

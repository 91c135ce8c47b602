// Package world derives the state of a pool from the objects of the Kubernetes API: its nodes, and for
// each job the nodes that it occupies, its legal sizes, and its estimated remaining time. The package has
// no side effects: the same objects at the same time give the same state.
package world

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// StartTimeouts is the number of the pool's SettleTimeouts within which a new node is expected to accept pods.
// An autoscaler needs minutes to add a node.
const StartTimeouts = 10

// ClusterState is the state of one pool at the time Now.
type ClusterState struct {
	Now   time.Time
	Pool  config.Pool
	Apply bool // resize jobs; if false, targets are recommendations
	Nodes NodeCounts
	// TypeNodes are the counts by node type, without nodes of no type.
	TypeNodes map[string]NodeCounts
	// NodeStatuses are the states of the pool's nodes. NodeHistory is the input of the next observation.
	NodeStatuses []NodeStatus
	NodeHistory  map[string]NodeHistory
	PerNode      int64 // most common number of units per node
	// Missing is the number of nodes in use that are neither accepting nor expected to accept pods soon.
	Missing int
	// Outage is true while most nodes are not accepting for a reason other than foreign pods. During an
	// outage, jobs with running pods are not paused.
	Outage bool
	// Queues are the ClusterQueues and Cohorts of Kueue, as groups with limits for the pool's jobs, nil without Kueue.
	Queues []config.Group
	Jobs   []*Job // all jobs, oldest first, including jobs that are being deleted

	typeOfNode map[string]string // node types by the name of the node
}

// Job is a job of the pool. All its sizes and counts are numbers of nodes or, if the pool counts units, numbers
// of units.
type Job struct {
	// ID identifies the job as kind/namespace/name.
	ID     string
	UID    types.UID
	Kind   kinds.Kind
	Object *unstructured.Unstructured
	Child  *unstructured.Unstructured // the object that sets the size, nil if the job itself does
	Shape  kinds.Shape
	JobAnnotations
	Pods PodCounts
	// Kept has the number of nodes, or of units, that the job's live and overdue pods occupy on each accepting
	// node, by the node's name.
	Kept map[string]int
	// Leaving has the number of nodes, or of units, of the job's other terminating pods by the name of the node.
	Leaving map[string]int
	// Type is the node type that the pods of the job select, "" if they select none. Types are the types that a decision
	// may choose for the job. Both are empty in a pool of identical nodes.
	Type  string
	Types []string
	// TypeFixed is true if the API server has refused to change the node selector of a job of this pool that ran before.
	TypeFixed bool
	// SchedulableNodes is the number of accepting nodes that could run a pending pod of the job. It is 0
	// if the job has no pending pods.
	SchedulableNodes int
	Usage            Usage

	// Estimate is the estimated remaining work. Trained and Waited are the times with and without nodes
	// since the job was created.
	Estimate        Estimate
	Trained, Waited time.Duration
	// FallbackReason explains why the estimate is based on completed jobs; "" if it is not.
	FallbackReason string
	// Record is the record that the controller wrote on the job, or nil. Target is the size that it
	// decided on; it is valid if HasTarget is true. TargetType is the node type of the target.
	Record     *Record
	Target     int
	TargetType string
	HasTarget  bool
	// Awaits is the reason why the controller of the kind creates no pods yet, "" if it creates them.
	Awaits string
	// Pinned is the reason why the job is not resized, and Message explains it. Both are empty for a job
	// that may be resized.
	Pinned  Reason
	Message string
	// Kueue is true if only Kueue starts and suspends the job. Queue is the ClusterQueue of the job. The
	// size must not exceed Ceiling, because other workloads wait in that queue; 0 means no ceiling.
	Kueue   bool
	Queue   string
	Ceiling int
	// QueuedSizes are the legal sizes of an elastic job that waits for Kueue: its size, and all smaller ones in
	// Sizes. It is nil for all other jobs.
	QueuedSizes []int
	// Cooling is true if the job was resized less than the pool's MinInterval ago or has terminating pods.
	Cooling bool
	// Growing is true if the job was resized less than the pool's SettleTimeout ago and not all of its
	// pods have been observed yet. If it shrinks now, the missing pods may still be created.
	Growing bool
	// GrowsOnly is true if the job has pods on nodes whose drain is blocked. It may grow on other nodes, and must not
	// shrink or be paused. Message explains it.
	GrowsOnly bool
	// Transient is true if the job is Retained and all nodes concerned stopped accepting pods less than
	// the pool's NodeGracePeriod ago.
	Transient bool
	Unhealthy int // pods counted in Pods.Away whose node is not ready or lacks units

	history    history
	retainedOn []NodeStatus // nodes of the pods counted in Pods.Away
}

// PodCounts counts the pods of a job that request the pool's unit, each as PerPod.
type PodCounts struct {
	// Live counts pods that are not being deleted, on accepting nodes or without a node. Unless the pool
	// counts units, several pods on one node count once. Waiting counts the live pods without a node. Away counts pods on nodes that are
	// not accepting.
	Live, Waiting, Away int
	// Terminating counts pods that are being deleted and still occupy a node. Overdue counts terminating
	// pods that have exceeded their grace period plus the pool's SettleTimeout.
	Terminating, Overdue int
	// Running counts running pods that are not being deleted, on any node. Succeeded counts pods that have
	// succeeded. Broken counts pods that have a node but cannot run, such as pods without an image. Bound
	// counts pods with a node, accepting or not, that have not succeeded. Seen counts all pods.
	Running, Succeeded, Broken, Bound, Seen int
	// Unschedulable is the scheduler's message about a waiting pod. Trouble describes a broken pod.
	Unschedulable, Trouble string
	// Others counts running pods of the same object that do not request the unit or are not resized. Suspending
	// the job stops them, too. Reach is the smallest size that keeps all running pods, if the kind removes the
	// pods with the highest indexes first, and 0 otherwise. Failed is the time of the last failure of a pod.
	Others, Reach int
	Failed        time.Time
}

// Usage describes how a job uses the nodes that it requests, as the controller observed it. After a
// restart of the controller it is observed again.
type Usage struct {
	// ObservedNodes is the number of nodes on which pods were observed since the job has its current
	// size. Idle is the time during which none of the pods ran.
	ObservedNodes int
	Idle          time.Duration
	// Cap limits the job's nodes until CappedUntil, because it did not use all of its nodes for long.
	CappedUntil time.Time
	Cap         int
	// Lent is true from the time at which the job lends nodes until all its pods run.
	Lent bool
	// Until ConflictUntil the job is not resized, because another writer reverted several changes.
	// Reverted counts them. Stopped is true if the last of them was a start.
	ConflictUntil time.Time
	Reverted      int
	Stopped       bool
}

// Reason is the reason why a job is pinned, as events and metrics name it.
type Reason string

// The reasons why jobs are pinned. docs/reference/kubernetes.md describes them.
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
	Lending        Reason = "Lending"
	Conflict       Reason = "Conflict"
	Refused        Reason = "Refused"
	Gang           Reason = "Gang"
	NoType         Reason = "NoType"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		BadAnnotations, Paused, NotElastic, NotWholeNodes, Elsewhere, NotAllowed, Owned, KueueOwned,
		PastItsEnd, Deleting, Stuck, Retained, Completing, Lending, Conflict, Refused, Gang, NoType,
	}
}

// Nodes returns the number of nodes that the job requests now, 0 while it is suspended.
func (j *Job) Nodes() int {
	if j.Shape.Suspended || j.Shape.Finished {
		return 0
	}
	return j.Shape.Size
}

// claims returns the number of accepting nodes that the job's pods occupy or may get, without terminating
// pods. For a pinned job it does not count pods on nodes that are not accepting, nor pending pods
// without a node to run on.
func (j *Job) claims() int {
	if j.Pinned == "" {
		return max(j.Nodes()-j.Pods.Away, j.Pods.Live)
	}
	on := j.Pods.Live - j.Pods.Waiting
	if j.Capped() || j.Pinned == NotAllowed || j.Pinned == Lending || j.Shape.Elsewhere {
		return on // Its pending pods were missing for long, or will not be created for now.
	}
	return on + min(j.SchedulableNodes, j.PendingPods())
}

// Done returns the number of the job's pods that have succeeded or failed for good. They need no nodes.
func (j *Job) Done() int { return max(j.Shape.Done, j.Pods.Succeeded) }

// PendingPods returns the number of pods of the job that have no node yet.
func (j *Job) PendingPods() int {
	on := j.Pods.Live - j.Pods.Waiting
	return max(j.Nodes()-j.Done()-j.Pods.Away, j.Pods.Live) - on
}

// OccupiedNodes returns the number of nodes that the job occupies or may get without a further write: the
// requested nodes, and more while pods terminate.
func (j *Job) OccupiedNodes() int {
	if j.Pinned == Deleting && !j.Growing { // Its pods are not replaced.
		return j.Pods.Live + j.Pods.Terminating
	}
	return j.claims() + j.Pods.Terminating
}

// RetainedNodes returns the number of nodes that the job occupies once its terminating pods are gone.
// Overdue pods count, because they may not terminate.
func (j *Job) RetainedNodes() int {
	if j.Pinned == Deleting {
		return j.Pods.Live + j.Pods.Overdue
	}
	return j.claims() + j.Pods.Overdue
}

// AwaitedNodes returns the number of nodes that an autoscaler adds for the job if it is not resized. They are
// for pods of the job's size that RetainedNodes does not count, whether or not these pods exist.
func (j *Job) AwaitedNodes() int {
	granted := j.Nodes() - j.Done() - j.Pods.Away
	switch j.Pinned {
	case NotAllowed, Elsewhere, NotWholeNodes, Deleting, Lending:
		granted = 0
	}
	if j.Capped() || j.Shape.Elsewhere || j.Shape.Unit == 0 {
		granted = 0 // Its pending pods were missing for long, or need no nodes of the pool.
	}
	return max(0, max(granted, j.Pods.Live)+j.Pods.Overdue-j.RetainedNodes())
}

// NodesInUse returns the number of requested nodes on which the job has pods, or had pods when they were
// observed. It does not use the record, because users can write records.
func (j *Job) NodesInUse() int { return min(j.Nodes(), max(j.Pods.Bound, j.Usage.ObservedNodes)) }

// LostNodes returns the number of nodes in use that no longer have a pod of the job.
func (j *Job) LostNodes() int {
	p := &j.Pods
	return max(0, j.NodesInUse()-(p.Live-p.Waiting)-p.Away-p.Terminating-j.Done())
}

// UnplacedNodes returns the number of nodes that are reserved for the job and have no pod of it.
func (j *Job) UnplacedNodes() int {
	if j.Pinned != "" {
		return j.UnplannedNodes()
	}
	return max(0, j.claims()-(j.Pods.Live-j.Pods.Waiting))
}

// UnplannedNodes returns the number of nodes that the job's pods wait for because another writer created,
// started or resized the job. The pods can use idle nodes, but no decision frees nodes for them.
func (j *Job) UnplannedNodes() int {
	switch j.Pinned {
	case "":
		return j.Nodes() - j.NodesInUse()
	case Deleting:
		return 0
	}
	return j.claims() - (j.Pods.Live - j.Pods.Waiting)
}

// Capped reports whether the job is limited to the nodes that it was observed to use.
func (j *Job) Capped() bool { return !j.Usage.CappedUntil.IsZero() }

// AllowsSize reports whether the cap, the queue ceiling and the retained pods of the job allow a number of nodes. It
// does not check the annotations.
func (j *Job) AllowsSize(nodes int) bool {
	return (!j.Capped() || j.withinCap(nodes)) && (j.Ceiling == 0 || nodes <= j.Ceiling) && (!j.GrowsOnly || nodes >= j.Nodes())
}

// withinCap reports whether the cap of the job allows a number of nodes. If pods are missing, a smaller size must
// not stop pods that run.
func (j *Job) withinCap(nodes int) bool {
	return nodes <= j.Usage.Cap && (nodes >= j.Pods.Reach || !j.LacksPods())
}

// Returning reports whether the job lent nodes and gets them back, because its pods exist now.
func (j *Job) Returning() bool {
	return j.Usage.Lent && j.Resizable() && j.LacksPods() && !j.Capped()
}

// LacksPods reports whether the running and done pods of the job are fewer than its requested nodes.
func (j *Job) LacksPods() bool { return j.Pods.Running+j.Done() < j.Nodes() }

// MayPause reports whether the job may be paused: its kind must allow it, it must not wait for nodes that it
// lent, it must not have pods whose drain is blocked, and during an outage none of its pods may be running.
func (w *ClusterState) MayPause(j *Job) bool {
	return !j.Shape.NoPause && !j.GrowsOnly && !j.Returning() && (!w.Outage || j.Pods.Running == 0)
}

// PodsOf returns the number of pods that have the given size.
func (j *Job) PodsOf(size int) int { return size / max(1, j.PerPod) }

// Resizable reports whether the job may be resized.
func (j *Job) Resizable() bool { return !j.Shape.Finished && j.Pinned == "" }

// RemainingWork returns the estimated remaining work of the job, as run time on one node, at least 1 s. A job past
// its estimated completion counts as having a quarter of its completed work left.
func (j *Job) RemainingWork() time.Duration {
	if j.Estimate.Remaining > 0 {
		return max(time.Second, j.Estimate.Remaining)
	}
	return max(time.Second, j.WorkDone()/4)
}

// Since returns the time since which the job has had its current size, as far as it is known.
func (j *Job) Since() time.Time { return j.history.Since }

// WorkDone returns the observed work of the job, as run time on one node.
func (j *Job) WorkDone() time.Duration { return j.history.workDone() }

// RecentRestarts returns the times with nodes since the last restarts of the job, newest first.
func (j *Job) RecentRestarts() []time.Duration { return j.history.restarts(j.Nodes()) }

// NeedsRecord reports whether the record of the job is missing or has another size or node type than the job.
func (j *Job) NeedsRecord() bool {
	return j.Record == nil || j.Record.Nodes != j.Nodes() || j.Record.Type != j.Type
}

// NextRecord returns a record of the job at the time now, for a size of the given nodes from now on. If the
// size differs from the current one, Changed is set to now.
func (j *Job) NextRecord(nodes int, now time.Time) Record {
	var r Record
	if j.Record != nil {
		r = *j.Record
	}
	r.UID, r.Since, r.Nodes = j.UID, now.UTC().Truncate(time.Millisecond), nodes
	r.Type, r.Chosen = j.Type, r.Chosen && r.Type == j.Type
	r.Done, r.Trained = rounded(j.history.workDone()), rounded(j.history.trainedFor())
	r.Restarts = nil
	for _, since := range j.history.restarts(nodes) {
		r.Restarts = append(r.Restarts, rounded(since))
	}
	var reported Estimate // Estimates from completed jobs are not recorded.
	if j.FallbackReason == "" {
		reported = j.Estimate
	}
	r.Remaining, r.Source, r.Age = rounded(max(0, reported.Remaining)), reported.Source, rounded(reported.Age)
	if nodes != j.Nodes() {
		r.Changed = &r.Since
	}
	return r
}

// rounded rounds a duration to milliseconds, the precision of records.
func rounded(d time.Duration) metav1.Duration {
	return metav1.Duration{Duration: d.Round(time.Millisecond)}
}

// Idle returns the number of accepting nodes without a pod of the pool's jobs.
func (w *ClusterState) Idle() int {
	idle := w.Nodes.Accepting
	for _, j := range w.Jobs {
		idle -= j.Pods.Live - j.Pods.Waiting + j.Pods.Terminating
	}
	return idle
}

// QueueOf returns the group of a job's ClusterQueue, "" if no known ClusterQueue limits the job.
func (w *ClusterState) QueueOf(j *Job) string {
	name := queueGroup(j.Queue)
	if j.Queue == "" || !slices.ContainsFunc(w.Queues, func(g config.Group) bool { return g.Name == name }) {
		return ""
	}
	return name
}

// NodesToAdd returns the number of nodes that an autoscaler must add for a decision on the given number of
// nodes. It includes nodes that are starting. If the pool counts units, both are numbers of units, and those of
// whole nodes are added.
func (w *ClusterState) NodesToAdd(decided int) int {
	size := w.NodeSize()
	missing := decided - w.Nodes.Accepting - w.Nodes.Expected
	return min((max(0, missing)+size-1)/size*size, w.RoomToAdd())
}

// RoomToAdd returns the number of nodes, or of units, that an autoscaler may add, including nodes that are starting.
// Nodes that only retain pods, or that are unusable, are part of the pool and are replaced only once they are gone.
func (w *ClusterState) RoomToAdd() int {
	return max(0, w.Pool.MaxNodes-w.Nodes.Existing) * w.NodeSize()
}

// NodeSize returns the size of a node that an autoscaler adds: 1, or its units if the pool counts units. It is the
// most common size of the pool's nodes, or the largest request of a pod if the pool has no nodes.
func (w *ClusterState) NodeSize() int {
	if !w.Pool.CountsUnits() {
		return 1
	}
	size := int(w.PerNode)
	if size == 0 {
		for _, j := range w.Jobs {
			size = max(size, j.PerPod)
		}
	}
	return max(1, size)
}

// MayScale reports whether an autoscaler may add nodes until the pool has its maximum of accepting nodes.
func (w *ClusterState) MayScale() bool {
	accepting := 0
	for i := range w.NodeStatuses {
		if w.NodeStatuses[i].State == Accepting {
			accepting++
		}
	}
	return w.Pool.MaxNodes > accepting
}

// Free returns the number of accepting nodes that no job of the pool occupies. It is negative if nodes were
// lost or are still to be added.
func (w *ClusterState) Free() int {
	free := w.Nodes.Accepting - w.Nodes.Promised
	for _, j := range w.Jobs {
		free -= j.OccupiedNodes()
	}
	return free
}

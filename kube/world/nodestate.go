package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"
)

// NodeState says what a node of a pool is good for.
type NodeState string

// The states of a node.
const (
	// Accepting nodes are capacity: they take new pods of the pool's jobs.
	Accepting NodeState = "accepting"
	// Retaining nodes take no new pods. Their pods go on, and cost the pool no accepting node.
	Retaining NodeState = "retaining"
	// Gone nodes run nothing: for longer than the pool's NodeGracePeriod they have not been ready or
	// have not had the unit, and none of the pool's pods is left on them.
	Gone NodeState = "gone"
)

// NodeStates returns all states of a node.
func NodeStates() []NodeState { return []NodeState{Accepting, Retaining, Gone} }

// NodeReason says why a node is not accepting, as metrics and events name it.
type NodeReason string

// The reasons why a node is not accepting.
const (
	NotReady      NodeReason = "not_ready"
	Unallocatable NodeReason = "unallocatable" // none or not all of its units can be allocated
	Leaving       NodeReason = "leaving"       // an autoscaler or the cloud is about to remove it
	Cordoned      NodeReason = "cordoned"
	Tainted       NodeReason = "tainted" // with a taint that the pool's jobs do not tolerate
	Odd           NodeReason = "odd"     // it has more or fewer units than most nodes
	Foreign       NodeReason = "foreign" // it serves pods that are not of the pool's jobs
	Returning     NodeReason = "returning"
)

// NodeReasons returns all reasons why a node is not accepting.
func NodeReasons() []NodeReason {
	return []NodeReason{NotReady, Unallocatable, Leaving, Cordoned, Tainted, Odd, Foreign, Returning}
}

// NodeStatus is the state of a node, with its reason.
type NodeStatus struct {
	Node   *corev1.Node
	State  NodeState
	Reason NodeReason // empty if the node is accepting
	Why    string     // the reason in words
	// Transient is true while the node has not been accepting for less than the pool's NodeGracePeriod.
	Transient bool
}

// String describes the state, as in "node-3 retaining: cordoned".
func (s *NodeStatus) String() string {
	text := s.Node.Name + " " + string(s.State)
	if s.Why != "" {
		text += ": " + s.Why
	}
	return text
}

// NodeHistory is what earlier observations saw of a node.
type NodeHistory struct {
	Accepted time.Time // when it was last accepting, zero if it never was
	Refused  time.Time // when a condition of it last kept new pods away, zero if none did
}

// NodeCounts are numbers of nodes of a pool.
type NodeCounts struct {
	Accepting, Retaining, Gone int
	// Expected nodes are not accepting for less than the pool's NodeGracePeriod and have no pods.
	// Decisions count on them; pods are placed on them once they are accepting again.
	Expected int
	// Serving nodes are accepting, expected, or retain pods of the pool's jobs.
	Serving int
	// Leaving nodes are about to be removed by an autoscaler or the cloud.
	Leaving int
	// Promised nodes are accepting ones: jobs got them that are gone now, and whose pods may yet be seen.
	Promised int
}

// classify returns the state of a node: the only place that decides what a node is good for. It
// notes what the next observation has to know of the node.
func (o *observer) classify(node *corev1.Node) NodeStatus {
	s := NodeStatus{Node: node, State: Accepting}
	history := o.historyOf(node)
	s.Reason, s.Why = o.refusal(node)
	wait := o.Pool.NodeGracePeriod
	switch {
	case s.Reason != "":
		history.Refused = o.Now
	case o.returning(node, history):
		s.Reason, s.Why = Returning, "accepts pods again, for less than "+o.settlingTime().String()
		wait += o.settlingTime()
	default:
		history.Accepted = o.Now
	}
	o.world.NodeHistory[node.Name] = history
	s.Transient = s.Reason != "" && !history.Accepted.IsZero() && o.Now.Sub(history.Accepted) < wait
	if s.Reason == "" && o.foreign[node.Name] {
		s.Reason, s.Why = Foreign, "serves pods that request the unit and are not of the pool's jobs"
	}
	lost := s.Reason == NotReady || s.Reason == Unallocatable && amount(node.Status.Allocatable, o.unit()) <= 0
	switch {
	case s.Reason == "":
	case lost && !s.Transient && len(o.podsOn[node.Name]) == 0:
		s.State = Gone
	default:
		s.State = Retaining
	}
	return s
}

// refusal returns which condition of a node keeps new pods of the pool's jobs away, "" for none.
func (o *observer) refusal(node *corev1.Node) (NodeReason, string) {
	if !ready(node) {
		return NotReady, "not ready"
	}
	return o.refusalIfReady(node)
}

// refusalIfReady returns which condition beside readiness keeps new pods of the pool's jobs away from
// a node, "" for none.
func (o *observer) refusalIfReady(node *corev1.Node) (NodeReason, string) {
	allocatable, capacity := amount(node.Status.Allocatable, o.unit()), amount(node.Status.Capacity, o.unit())
	taint, tainted := o.untolerated(node)
	switch {
	case allocatable <= 0 || o.devices() && allocatable < capacity:
		return Unallocatable, fmt.Sprintf("%d of %d %s are allocatable", max(0, allocatable), max(capacity, o.world.PerNode), o.Pool.Unit)
	case node.DeletionTimestamp != nil:
		return Leaving, "being deleted"
	case leaving(node):
		return Leaving, "about to be removed"
	case node.Spec.Unschedulable:
		return Cordoned, "cordoned"
	case tainted:
		return Tainted, "taint " + taint + " is not tolerated"
	case o.devices() && allocatable != o.world.PerNode:
		return Odd, fmt.Sprintf("has %d %s; pool %s counts nodes of %d", allocatable, o.Pool.Unit, o.Pool.Name, o.world.PerNode)
	}
	return "", ""
}

// historyOf returns what is known of a node's past. A node itself reports since when it has not been
// ready, also to a controller that has just started.
func (o *observer) historyOf(node *corev1.Node) NodeHistory {
	h := o.NodeHistory[node.Name]
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	if h.Accepted.IsZero() && c != nil && c.Status != corev1.ConditionTrue && !o.isNew(node, c) {
		if other, _ := o.refusalIfReady(node); other == "" {
			h.Accepted = c.LastTransitionTime.Time
		}
	}
	// The clock may have been set back.
	for _, t := range []*time.Time{&h.Accepted, &h.Refused} {
		if t.After(o.Now) {
			*t = o.Now
		}
	}
	return h
}

// returnsFor is how many debounce times a node has to be well again before it accepts pods.
const returnsFor = 6

// settlingTime returns how long a node has to be well again before it accepts pods: it may fail again.
func (o *observer) settlingTime() time.Duration { return returnsFor * o.Pool.Debounce }

// isNew reports whether the readiness of a node changed soon after its creation.
func (o *observer) isNew(node *corev1.Node, ready *corev1.NodeCondition) bool {
	return ready.LastTransitionTime.Sub(node.CreationTimestamp.Time) < o.settlingTime()
}

// returning reports whether a node that did not take pods has been well for so short a time that it
// may fail again. New nodes take pods at once.
func (o *observer) returning(node *corev1.Node, h NodeHistory) bool {
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil && !o.isNew(node, c) {
		if since := o.Now.Sub(c.LastTransitionTime.Time); since >= 0 && since < o.settlingTime() {
			return true
		}
	}
	return !h.Accepted.IsZero() && !h.Refused.IsZero() && o.Now.Sub(h.Refused) < o.settlingTime()
}

// ready reports whether a node says that it is.
func ready(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// leaving reports whether an autoscaler or the cloud is about to take a node away.
func leaving(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "aws-node-termination-handler/spot-itn",
			"aws-node-termination-handler/asg-lifecycle-termination", "aws-node-termination-handler/rebalance-recommendation",
			"cloud.google.com/impending-node-termination", "kubernetes.azure.com/scheduledevent":
			return true
		}
	}
	return false
}

// untolerated returns a taint of a node that keeps pods of the pool's jobs away. A taint is tolerated
// if the configuration of the pool says so, if it is the usual one of the pool's unit, or if pods do:
// all that the pool's jobs have on this node, or on any. Admission plugins add tolerations to pods
// that neither the configuration nor the jobs show.
func (o *observer) untolerated(node *corev1.Node) (string, bool) {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if o.usual(taint) || tolerates(o.Pool.Tolerations, taint) ||
			o.podsTolerate(o.podsOn[node.Name], taint) || o.allPodsTolerate(taint) {
			continue
		}
		return taint.ToString(), true
	}
	return "", false
}

// usual reports whether a taint is of no interest: it only asks for other nodes, repeats what the node
// says elsewhere, or has the key that the admission plugin ExtendedResourceToleration makes pods that
// request the unit tolerate.
func (o *observer) usual(taint *corev1.Taint) bool {
	switch taint.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable:
		return true
	case o.Pool.Unit:
		return o.devices() && taint.Effect == corev1.TaintEffectNoSchedule
	}
	return taint.Effect == corev1.TaintEffectPreferNoSchedule
}

// podsTolerate reports whether there are pods and all of them tolerate a taint.
func (o *observer) podsTolerate(pods []*corev1.Pod, taint *corev1.Taint) bool {
	for _, pod := range pods {
		template := o.jobOf[pod.UID].Shape.Pod.Tolerations
		if !tolerates(pod.Spec.Tolerations, taint) && !tolerates(template, taint) {
			return false
		}
	}
	return len(pods) > 0
}

// allPodsTolerate reports whether the pool's jobs have pods on nodes and all of them tolerate a taint.
func (o *observer) allPodsTolerate(taint *corev1.Taint) bool {
	key := taint.ToString()
	tolerated, known := o.tolerated[key]
	if !known {
		tolerated = len(o.podsOn) > 0
		for _, pods := range o.podsOn {
			tolerated = tolerated && o.podsTolerate(pods, taint)
		}
		o.tolerated[key] = tolerated
	}
	return tolerated
}

// tolerates reports whether tolerations let a pod be placed in spite of a taint, and stay.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].TolerationSeconds == nil && tolerations[i].ToleratesTaint(klog.Background(), taint, false) {
			return true
		}
	}
	return false
}

// admits reports whether no taint of a node keeps new pods of a job away.
func (o *observer) admits(node *corev1.Node, j *Job) bool {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if !o.usual(taint) && !tolerates(j.Shape.Pod.Tolerations, taint) && !o.podsTolerate(o.podsOf[j], taint) {
			return false
		}
	}
	return true
}

// NodesBy returns how many nodes are not accepting for a reason.
func (w *World) NodesBy(reason NodeReason) int {
	n := 0
	for i := range w.NodeStatuses {
		if w.NodeStatuses[i].Reason == reason {
			n++
		}
	}
	return n
}

package world

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// NodeState describes whether a node of a pool accepts and keeps pods.
type NodeState string

// The states of a node.
const (
	// Accepting nodes count as capacity: they accept new pods of the pool's jobs.
	Accepting NodeState = "accepting"
	// Retaining nodes accept no new pods. Their pods continue to run and do not count against capacity.
	Retaining NodeState = "retaining"
	// Gone nodes have not been ready, or have not had the unit, for longer than the pool's NodeGracePeriod,
	// have no pods of the pool, and are not starting.
	Gone NodeState = "gone"
)

// NodeStates returns all states of a node.
func NodeStates() []NodeState { return []NodeState{Accepting, Retaining, Gone} }

// NodeReason is the reason why a node is not accepting, as metrics name it.
type NodeReason string

// The reasons why a node is not accepting.
const (
	NotReady      NodeReason = "not_ready"
	Unallocatable NodeReason = "unallocatable" // not all of its units are allocatable
	Leaving       NodeReason = "leaving"       // will be removed by an autoscaler or the cloud provider
	Cordoned      NodeReason = "cordoned"
	Tainted       NodeReason = "tainted"   // has a taint that the pool's jobs do not tolerate
	Odd           NodeReason = "odd"       // has more or fewer units than most nodes, or no node type
	Foreign       NodeReason = "foreign"   // runs pods that do not belong to the pool's jobs
	Returning     NodeReason = "returning" // healthy again for less than the settling time
)

// NodeReasons returns all reasons why a node is not accepting.
func NodeReasons() []NodeReason {
	return []NodeReason{NotReady, Unallocatable, Leaving, Cordoned, Tainted, Odd, Foreign, Returning}
}

// NodeStatus is the state of a node with its reason.
type NodeStatus struct {
	Node    *corev1.Node
	State   NodeState
	Reason  NodeReason // empty if the node is accepting
	Message string     // explanation of the reason
	// Transient is true while the node has not been accepting for less than the pool's NodeGracePeriod.
	Transient bool
	// Starting is true while the node may be starting: it is new, has never been accepting, and lacks
	// readiness, units or the removal of a taint, or has just got them.
	Starting bool
	// Size is the number of units of the node, or 1 if the pool counts nodes. Free is the part of it that is
	// capacity for decisions: without broken units and, on accepting nodes, units of other workloads; on nodes
	// that are expected to accept pods again, without units in use; on other nodes 0.
	Size, Free int
	// Type is the node type, "" if the node has the labels of no type or the pool has identical nodes.
	Type string
}

// String describes the state, as in "node-3 retaining: cordoned".
func (s *NodeStatus) String() string {
	text := s.Node.Name + " " + string(s.State)
	if s.Message != "" {
		text += ": " + s.Message
	}
	return text
}

// NodeHistory contains times of earlier observations of a node.
type NodeHistory struct {
	Accepted time.Time // last time at which it was accepting, zero if never
	Refused  time.Time // last time after Accepted at which a condition kept new pods away, zero if never
	Units    int64     // allocatable units at the time Accepted
	Since    time.Time // first time after Accepted at which it was not accepting, zero if it is accepting
}

// NodeCounts counts the nodes of a pool, or the units of its nodes if the pool counts units.
type NodeCounts struct {
	Accepting, Retaining, Gone int
	// Expected counts nodes without pods that stopped accepting pods less than the pool's NodeGracePeriod
	// ago. Decisions use them as capacity; pods are placed on them once they are accepting again.
	Expected int
	// Serving counts nodes that are accepting, expected, or retain pods of the pool's jobs.
	Serving int
	// Unusable counts other retaining nodes that are not starting. An autoscaler counts them as nodes of the
	// pool and does not replace them before they are gone.
	Unusable int
	// Existing counts the nodes that an autoscaler counts: all but those that are gone, and starting nodes that are not
	// expected. It is a number of nodes also if the pool counts units.
	Existing int
	// Promised counts accepting nodes of jobs that were deleted while they grew. Their pods may still appear.
	Promised int
}

// classify returns the state of a node. No other code decides the state of a node. It also updates the
// history of the node for the next observation.
func (o *observer) classify(node *corev1.Node) NodeStatus {
	s := NodeStatus{Node: node, State: Accepting, Type: o.world.typeOfNode[node.Name]}
	history := o.historyOf(node)
	s.Reason, s.Message = o.refusal(node, history)
	wait := o.Pool.NodeGracePeriod
	switch {
	case s.Reason != "":
		if !history.Accepted.IsZero() { // A new node has never been accepting.
			history.Refused = o.Now
		}
	case o.returning(node, history):
		s.Reason, s.Message = Returning, "accepts pods again, for less than "+o.settlingTime().String()
		wait += o.settlingTime()
	default:
		history.Accepted, history.Units, history.Since = o.Now, amount(node.Status.Allocatable, o.unit()), time.Time{}
	}
	if s.Reason != "" && history.Since.IsZero() {
		history.Since = o.Now
	}
	o.world.NodeHistory[node.Name] = history
	s.Transient = s.Reason != "" && !history.Accepted.IsZero() && o.Now.Sub(history.Accepted) < wait
	if s.Reason == "" && o.foreign[node.Name] > 0 && !o.Pool.CountsUnits() {
		s.Reason, s.Message = Foreign, "runs pods that request the unit and do not belong to the pool's jobs"
	}
	s.Starting = o.starting(&s)
	lost := s.Reason == NotReady || s.Reason == Unallocatable && amount(node.Status.Allocatable, o.unit()) <= 0
	switch {
	case s.Reason == "":
	case lost && !s.Transient && !s.Starting && len(o.podsOn[node.Name]) == 0:
		s.State = Gone
	default:
		s.State = Retaining
	}
	o.setUnits(&s, history)
	return s
}

// setUnits sets the units of a node.
func (o *observer) setUnits(s *NodeStatus, history NodeHistory) {
	name := s.Node.Name
	s.Size, s.Free = 1, 1
	if o.Pool.CountsUnits() {
		allocatable := amount(s.Node.Status.Allocatable, o.unit())
		units := cmp.Or(history.Units, allocatable)
		s.Size = int(min(max(units, allocatable, o.capacity(s.Node)), kinds.MaxSize))
		s.Free = max(0, int(min(units-o.foreign[name], kinds.MaxSize)))
		if s.State == Accepting && s.Free < s.Size {
			s.Message = fmt.Sprintf("%d of %d %s are allocatable, %d in use by other workloads", allocatable, s.Size, o.Pool.Unit, o.foreign[name])
		}
	} else if o.foreign[name] > 0 {
		s.Free = 0
	}
	switch {
	case s.State == Accepting:
	case s.State == Retaining && s.Transient:
		s.Free = max(0, s.Free-o.inUse[name])
	default:
		s.Free = 0
	}
}

// capacity returns the units that a node has in good health, if it reports them.
func (o *observer) capacity(node *corev1.Node) int64 { return amount(node.Status.Capacity, o.unit()) }

// refusal returns the condition of a node that keeps new pods of the pool's jobs away, "" for none.
func (o *observer) refusal(node *corev1.Node, history NodeHistory) (NodeReason, string) {
	if !ready(node) {
		return NotReady, "not ready"
	}
	return o.refusalIfReady(node, history)
}

// refusalIfReady returns the condition other than readiness that keeps new pods of the pool's jobs away from
// a node, "" for none.
func (o *observer) refusalIfReady(node *corev1.Node, history NodeHistory) (NodeReason, string) {
	allocatable, capacity := amount(node.Status.Allocatable, o.unit()), o.capacity(node)
	taint, tainted := o.untolerated(node)
	switch {
	case o.Pool.CountsUnits() && allocatable < o.requested[node.Name]:
		return Unallocatable, fmt.Sprintf("%d %s are allocatable, and its pods use %d", max(0, allocatable), o.Pool.Unit, o.requested[node.Name])
	case allocatable <= 0 || o.lostUnits(allocatable, capacity, history):
		return Unallocatable, fmt.Sprintf("%d of %d %s are allocatable", max(0, allocatable), max(capacity, o.world.PerNode), o.Pool.Unit)
	case node.DeletionTimestamp != nil:
		return Leaving, "being deleted"
	case leaving(node):
		return Leaving, "will be removed soon"
	case node.Spec.Unschedulable:
		return Cordoned, "cordoned"
	case tainted:
		return Tainted, "taint " + taint + " is not tolerated"
	case len(o.Pool.NodeTypes) > 0 && o.world.typeOfNode[node.Name] == "":
		return Odd, fmt.Sprintf("has the labels of no node type of pool %s; must have those of one of %v", o.Pool.Name, o.Pool.TypeNames())
	case o.devices() && allocatable != o.world.PerNode && !o.Pool.CountsUnits():
		return Odd, fmt.Sprintf("has %d %s; nodes of pool %s must have %d", allocatable, o.Pool.Unit, o.Pool.Name, o.world.PerNode)
	}
	return "", ""
}

// lostUnits reports whether a node lost units and is not used for that reason. If the pool counts units, the
// node is used without them once they have been lost for the pool's NodeGracePeriod.
func (o *observer) lostUnits(allocatable, capacity int64, history NodeHistory) bool {
	if o.Pool.CountsUnits() {
		return allocatable < history.Units && o.Now.Sub(history.Accepted) < o.Pool.NodeGracePeriod
	}
	return o.devices() && allocatable < capacity
}

// historyOf returns the history of a node. If the controller has just started, it uses the transition time
// of the node's Ready condition.
func (o *observer) historyOf(node *corev1.Node) NodeHistory {
	h := o.NodeHistory[node.Name]
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	if h.Accepted.IsZero() && c != nil && c.Status != corev1.ConditionTrue && !o.isNew(node, c) {
		if other, _ := o.refusalIfReady(node, h); other == "" {
			h.Accepted = c.LastTransitionTime.Time
		}
	}
	// The clock may have been set back.
	for _, t := range []*time.Time{&h.Accepted, &h.Refused, &h.Since} {
		if t.After(o.Now) {
			*t = o.Now
		}
	}
	return h
}

// settlingDebounces is the settling time of nodes in debounce times.
const settlingDebounces = 6

// settlingTime returns how long a node must be healthy again before it counts as accepting. A node that has
// just recovered may fail again.
func (o *observer) settlingTime() time.Duration { return settlingDebounces * o.Pool.Debounce }

// isNew reports whether the readiness of a node changed soon after its creation.
func (o *observer) isNew(node *corev1.Node, ready *corev1.NodeCondition) bool {
	return ready.LastTransitionTime.Sub(node.CreationTimestamp.Time) < o.settlingTime()
}

// returning reports whether a node that did not accept pods has been healthy for less than the settling
// time. New nodes accept pods at once.
func (o *observer) returning(node *corev1.Node, h NodeHistory) bool {
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil && !o.isNew(node, c) {
		if since := o.Now.Sub(c.LastTransitionTime.Time); since >= 0 && since < o.settlingTime() {
			return true
		}
	}
	return !h.Accepted.IsZero() && !h.Refused.IsZero() && o.Now.Sub(h.Refused) < o.settlingTime()
}

// ready reports whether the Ready condition of a node is true.
func ready(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// leaving reports whether a taint announces that an autoscaler or the cloud provider will remove a node.
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

// untolerated returns a taint of a node that keeps pods of the pool's jobs away. A taint is tolerated if the
// pool's configuration tolerates it, if it is ignored, or if all pods of the pool's jobs on this node, or
// on all nodes, tolerate it. Pods are checked because admission plugins add tolerations to them that
// neither the configuration nor the jobs have.
func (o *observer) untolerated(node *corev1.Node) (string, bool) {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if o.ignored(node, taint) || tolerates(o.Pool.Tolerations, taint) ||
			o.podsTolerate(o.podsOn[node.Name], taint) || o.allPodsTolerate(taint) {
			continue
		}
		return taint.ToString(), true
	}
	return "", false
}

// ignored reports whether a taint of a node does not matter: it is only a preference, it repeats that the node is
// not ready, or its key is the unit, which the admission plugin ExtendedResourceToleration makes all pods
// that request the unit tolerate. A node that has become ready keeps the taints of a lost node until Kubernetes removes
// them: NoSchedule still keeps pods away, and the admission plugin DefaultTolerationSeconds makes all pods tolerate NoExecute.
func (o *observer) ignored(node *corev1.Node, taint *corev1.Taint) bool {
	switch taint.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return taint.Effect == corev1.TaintEffectNoExecute || !ready(node)
	case o.Pool.Unit:
		return o.devices() && taint.Effect == corev1.TaintEffectNoSchedule
	}
	return taint.Effect == corev1.TaintEffectPreferNoSchedule
}

// podsTolerate reports whether all pods tolerate a taint. It returns false if there are no pods.
func (o *observer) podsTolerate(pods []*corev1.Pod, taint *corev1.Taint) bool {
	for _, pod := range pods {
		template := o.jobOf[pod.UID].Shape.Pod.Tolerations
		if !tolerates(pod.Spec.Tolerations, taint) && !tolerates(template, taint) {
			return false
		}
	}
	return len(pods) > 0
}

// allPodsTolerate reports whether all pods of the pool's jobs that have a node tolerate a taint. It returns false if there are none.
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

// tolerates reports whether a pod with the tolerations can be placed on a node with a taint and is not evicted.
func tolerates(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].TolerationSeconds == nil && tolerations[i].ToleratesTaint(klog.Background(), taint, false) {
			return true
		}
	}
	return false
}

// admits reports whether new pods of a job tolerate all taints of a node.
func (o *observer) admits(node *corev1.Node, j *Job) bool {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if !o.ignored(node, taint) && !tolerates(j.Shape.Pod.Tolerations, taint) && !o.podsTolerate(o.podsOf[j], taint) {
			return false
		}
	}
	return true
}

// blockedDrain is the time after which the drain of a node that retains pods counts as blocked.
const blockedDrain = 30 * time.Minute

// drainBlocked reports whether a healthy node has retained its pods for so long that its drain seems to be blocked.
func (o *observer) drainBlocked(s *NodeStatus) bool {
	since := o.world.NodeHistory[s.Node.Name].Since
	return (s.Reason == Cordoned || s.Reason == Tainted) && !since.IsZero() && o.Now.Sub(since) >= blockedDrain
}

// NodesBy returns the number of nodes, or of their units, that are not accepting for a reason.
func (w *ClusterState) NodesBy(reason NodeReason) int {
	n := 0
	for i := range w.NodeStatuses {
		if w.NodeStatuses[i].Reason == reason {
			n += w.NodeStatuses[i].Size
		}
	}
	return n
}

package world_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestNodeState: whatever keeps new pods away, a node goes from accepting to retaining at once, is
// counted on for the grace period, and accepts pods again once it has been well for a while. Only one
// that is not ready or has no units is gone, later, and not before its pods.
func TestNodeState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		reason world.NodeReason
		late   world.NodeState // of an idle node, after the grace period
	}{
		"not ready": {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, world.NotReady, world.Gone},
		"no units":  {func(n *corev1.Node) { n.Status.Allocatable = nil }, world.Unallocatable, world.Gone},
		"negative": {
			func(n *corev1.Node) { n.Status.Allocatable[worldtest.Unit] = resource.MustParse("-1") }, world.Unallocatable, world.Gone,
		},
		"fewer units":   {func(n *corev1.Node) { n.Status.Allocatable[worldtest.Unit] = resource.MustParse("7") }, world.Odd, world.Retaining},
		"cordoned":      {func(n *corev1.Node) { n.Spec.Unschedulable = true }, world.Cordoned, world.Retaining},
		"tainted":       {taints("x", corev1.TaintEffectNoSchedule), world.Tainted, world.Retaining},
		"evicting":      {taints("x", corev1.TaintEffectNoExecute), world.Tainted, world.Retaining},
		"about to go":   {taints("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule), world.Leaving, world.Retaining},
		"a preference":  {taints("x", corev1.TaintEffectPreferNoSchedule), "", world.Accepting},
		"usual taint":   {taints(worldtest.Unit, corev1.TaintEffectNoSchedule), "", world.Accepting},
		"its own words": {taints(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), "", world.Accepting},
		// The scheduler uses the node again once Kubernetes has removed these taints.
		"just ready":      {taints(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), world.Tainted, world.Retaining},
		"just reachable":  {taints(corev1.TaintNodeUnreachable, corev1.TaintEffectNoSchedule), world.Tainted, world.Retaining},
		"just uncordoned": {taints(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), world.Tainted, world.Retaining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The pods of a are on the first two nodes, and the others are idle.
			c := worldtest.New(5, worldtest.Job("a", 2, map[string]string{"work": "1000h"}))
			var w *world.ClusterState
			look := func(after time.Duration) {
				c.Now = c.Now.Add(after)
				w = c.ClusterState()
				c.NodeHistory = w.NodeHistory
			}
			look(time.Hour)
			for _, i := range []int{0, 2} {
				test.change(c.Nodes[i])
			}
			if look(time.Second); w.NodeStatuses[0].Reason != test.reason || w.NodeStatuses[2].Reason != test.reason {
				t.Errorf("nodes are %v; want %q", w.NodeStatuses, test.reason)
			}
			bad := test.reason != ""
			check := func(what string, busy, idle world.NodeState, expected int) {
				t.Helper()
				if w.NodeStatuses[0].State != busy || w.NodeStatuses[2].State != idle || w.Nodes.Expected != expected {
					t.Errorf("%s: the node with a pod is %q, the idle one %q, %d expected; want %s, %s, %d",
						what, w.NodeStatuses[0].String(), w.NodeStatuses[2].String(), w.Nodes.Expected, busy, idle, expected)
				}
				if retained := w.Jobs[0].Pinned == world.Retained; retained != (busy == world.Retaining) {
					t.Errorf("%s: the job is pinned %q: %s", what, w.Jobs[0].Pinned, w.Jobs[0].Message)
				}
				if w.Missing != 0 {
					t.Errorf("%s: %d nodes are missing", what, w.Missing)
				}
			}
			if !bad {
				check("at once", world.Accepting, world.Accepting, 0)
				return
			}
			check("at once", world.Retaining, world.Retaining, 1)
			look(c.Pool.NodeGracePeriod - 2*time.Second)
			check("within the grace period", world.Retaining, world.Retaining, 1)
			look(2 * time.Second)
			check("after the grace period", world.Retaining, test.late, 0)
			for _, i := range []int{0, 2} {
				fresh := worldtest.Node(c.Nodes[i].Name)
				*c.Nodes[i] = *fresh
			}
			look(time.Second)
			check("well again", world.Retaining, world.Retaining, 1)
			look(time.Minute)
			check("well for a while", world.Accepting, world.Accepting, 0)
		})
	}
}

// taints returns a change that adds a taint to a node.
func taints(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
}

// TestNewNode checks that a node that becomes ready soon after it was created accepts pods from then on,
// although it was seen before it was ready.
func TestNewNode(t *testing.T) {
	t.Parallel()
	c := newNode()
	for second := range 120 {
		if second == 10 {
			c.Nodes[0].Status.Conditions[0] = corev1.NodeCondition{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.Now),
			}
		}
		w := c.ClusterState()
		if accepting := w.Nodes.Accepting == 1; accepting != (second >= 10) {
			t.Fatalf("after %d s it is %s; must be accepting after 10 s", second, w.NodeStatuses[0].String())
		}
		c.NodeHistory = w.NodeHistory
		c.Now = c.Now.Add(time.Second)
	}
}

// newNode returns a cluster with one node, which has just been created and is not ready.
func newNode() *worldtest.Cluster {
	c := worldtest.New(1)
	c.Now = c.Now.Add(time.Hour)
	node := c.Nodes[0]
	node.CreationTimestamp.Time = c.Now
	node.Status.Conditions[0] = corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: node.CreationTimestamp,
	}
	return c
}

// TestStartingNode checks that a new node is starting, and not gone, until a node must have started, and that
// starting nodes are no outage.
func TestStartingNode(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		late   world.NodeState
	}{
		"not ready": {func(*corev1.Node) {}, world.Gone},
		"no units":  {func(n *corev1.Node) { setReady(n); n.Status.Allocatable = nil }, world.Gone},
		"tainted": {func(n *corev1.Node) {
			setReady(n)
			taints("startup", corev1.TaintEffectNoSchedule)(n)
		}, world.Retaining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newNode()
			test.change(c.Nodes[0])
			starts := c.Now.Add(world.StartTimeouts * c.Pool.SettleTimeout)
			for ; c.Now.Before(starts.Add(time.Hour)); c.Now = c.Now.Add(time.Minute) {
				w := c.ClusterState()
				c.NodeHistory = w.NodeHistory
				want := test.late
				starting := c.Now.Before(starts)
				if starting {
					want = world.Retaining
				}
				if s := w.NodeStatuses[0]; s.State != want || s.Starting != starting || w.Outage == starting {
					t.Fatalf("%v before it must have started, it is %s, starting %v, outage %v; want %s",
						starts.Sub(c.Now), s.String(), s.Starting, w.Outage, want)
				}
			}
		})
	}
}

// setReady makes a node ready.
func setReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }

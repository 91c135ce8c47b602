package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// changeNode changes a node.
func (c *cluster) changeNode(name string, change func(*corev1.Node)) {
	c.t.Helper()
	var node corev1.Node
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Name: name}, &node); err != nil {
		c.t.Fatal(err)
	}
	change(&node)
	status := node.Status.DeepCopy()
	if err := c.client.Update(c.t.Context(), &node); err != nil {
		c.t.Fatal(err)
	}
	node.Status = *status
	if err := c.client.Status().Update(c.t.Context(), &node); err != nil {
		c.t.Fatal(err)
	}
}

// ready sets whether a node is ready, as its kubelet and the node lifecycle controller do.
func (c *cluster) ready(name string, status corev1.ConditionStatus) {
	c.t.Helper()
	c.changeNode(name, func(node *corev1.Node) {
		node.CreationTimestamp.Time = worldtest.Begin()
		if ready := &node.Status.Conditions[0]; ready.Status != status {
			ready.Status, ready.LastTransitionTime.Time = status, c.now
		}
	})
}

// listPods returns all pods.
func (c *cluster) listPods() []corev1.Pod {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.client.List(c.t.Context(), &pods); err != nil {
		c.t.Fatal(err)
	}
	return pods.Items
}

// nodesOf returns the nodes on which a job has pods, in order.
func (c *cluster) nodesOf(job string) []string {
	c.t.Helper()
	var names []string
	for _, pod := range c.listPods() {
		if pod.Labels["batch.kubernetes.io/job-name"] == job && pod.Spec.NodeName != "" {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return names
}

// idleNodes returns the nodes without pods, in order.
func (c *cluster) idleNodes() []string {
	c.t.Helper()
	var nodes corev1.NodeList
	if err := c.client.List(c.t.Context(), &nodes); err != nil {
		c.t.Fatal(err)
	}
	busy := make(map[string]bool)
	for _, pod := range c.listPods() {
		busy[pod.Spec.NodeName] = true
	}
	var names []string
	for _, node := range nodes.Items {
		if !busy[node.Name] {
			names = append(names, node.Name)
		}
	}
	return names
}

// evict deletes the pods on a node, as a drain does.
func (c *cluster) evict(node string) {
	c.t.Helper()
	for _, pod := range c.listPods() {
		if pod.Spec.NodeName == node {
			if err := c.client.Delete(c.t.Context(), &pod); client.IgnoreNotFound(err) != nil {
				c.t.Fatal(err)
			}
		}
	}
}

// passUntil makes passes until so much time has passed.
func (c *cluster) passUntil(d time.Duration) {
	c.t.Helper()
	for began := c.now; c.now.Sub(began) < d; {
		c.passes(1)
	}
}

// half returns two jobs that share a pool of 8 nodes.
func half() []*unstructured.Unstructured {
	const restart = "5m"
	return []*unstructured.Unstructured{
		worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "1-8", "restart": restart}),
		worldtest.Job("b", 4, map[string]string{"work": "1000h", "nodes": "1-8", "restart": restart}),
	}
}

// allocatable sets how much of the unit of a node can be allocated.
func allocatable(units string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Status.Allocatable[worldtest.Unit] = resource.MustParse(units) }
}

// taint adds a taint to a node.
func taint(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
	}
}

func cordon(node *corev1.Node) { node.Spec.Unschedulable = true }

// heal makes a node as it was at first.
func heal(node *corev1.Node) {
	node.Spec = corev1.NodeSpec{}
	node.Status.Allocatable = worldtest.Node("").Status.Allocatable
}

// cause is what keeps new pods from the first nodes of some jobs for a time.
type cause struct {
	change func(*corev1.Node) // nil if the nodes are not ready
	jobs   string
	nodes  int
	long   bool // an hour, and not 15 s
}

// changesNoJob checks that neither the cause nor its end resizes one of two jobs.
func (w cause) changesNoJob(t *testing.T) {
	t.Helper()
	c := newCluster(t, 8, half()...)
	c.passes(4)
	var affected []string
	for _, job := range w.jobs {
		affected = append(affected, c.nodesOf(string(job))...)
	}
	affected = affected[:w.nodes]
	for _, node := range affected {
		if w.change != nil {
			c.changeNode(node, w.change)
		} else {
			c.ready(node, corev1.ConditionUnknown)
		}
	}
	if w.long {
		c.step = time.Minute
		c.passUntil(time.Hour)
	} else {
		c.passUntil(15 * time.Second)
	}
	c.want(map[string]int{"a": 4, "b": 4})
	for _, node := range affected {
		c.changeNode(node, heal)
		c.ready(node, corev1.ConditionTrue)
	}
	c.step = time.Minute
	c.passUntil(30 * time.Minute)
	c.want(map[string]int{"a": 4, "b": 4})
	if n := c.count("changes_total", ""); n != 0 {
		t.Errorf("%v changes; want none", n)
	}
	if n := c.gauge("nodes", "accepting"); n != 8 {
		t.Errorf("%v nodes are accepting in the end; want 8", n)
	}
}

// TestNodeThatTakesNoPods: whatever keeps new pods from nodes on which pods run, for seconds or for
// hours, changes no job.
func TestNodeThatTakesNoPods(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Node){
		"no devices":           allocatable("0"),
		"fewer devices":        allocatable("7"),
		"not ready":            nil,
		"cordon":               cordon,
		"karpenter":            taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule),
		"cluster autoscaler":   taint("ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule),
		"maintenance":          taint("example.com/maintenance", corev1.TaintEffectNoSchedule),
		"eviction":             taint("example.com/broken", corev1.TaintEffectNoExecute),
		"several":              func(n *corev1.Node) { cordon(n); allocatable("0")(n) },
		"unreachable":          taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		"a preference":         taint("example.com/slow", corev1.TaintEffectPreferNoSchedule),
		"the taint of its GPU": taint(worldtest.Unit, corev1.TaintEffectNoSchedule),
	} {
		for nodes, jobs := range map[int]string{1: "b", 8: "ab"} {
			for _, long := range []bool{false, true} {
				t.Run(fmt.Sprint(name, " of ", nodes, " for long ", long), func(t *testing.T) {
					t.Parallel()
					cause{change, jobs, nodes, long}.changesNoJob(t)
				})
			}
		}
	}
}

// TestRollingPluginRestart removes the devices of each node for a while, one node after another.
func TestRollingPluginRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, half()...)
	c.passes(4)
	for i := range 8 {
		node := fmt.Sprintf("node-%03d", i)
		c.changeNode(node, allocatable("0"))
		c.passUntil(time.Duration(5+2*i) * time.Second)
		c.changeNode(node, allocatable("8"))
		c.step = time.Minute
		c.passUntil(20 * time.Minute)
		c.step = 5 * time.Second
	}
	if n := c.count("changes_total", ""); n != 0 {
		t.Errorf("%v changes; want none", n)
	}
	if posted := c.events(); posted != "" {
		t.Errorf("events are %s", posted)
	}
}

// TestBlipOfAnIdleNode: a decision made while an idle node is away for a short time counts on it.
func TestBlipOfAnIdleNode(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Node){
		"no devices": allocatable("0"), "cordon": cordon, "taint": taint("x", corev1.TaintEffectNoSchedule),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "4"}))
			c.passes(4)
			idle := c.idleNodes()
			c.changeNode(idle[0], change)
			c.submit("b", map[string]string{"work": "1000h", "nodes": "1,2,4", "restart": "5m"})
			c.passUntil(30 * time.Second)
			c.changeNode(idle[0], heal)
			c.passUntil(2 * time.Minute)
			c.want(map[string]int{"a": 4, "b": 4})
			if n := c.count("changes_total", ""); n != 1 {
				t.Errorf("%v changes; want the start alone", n)
			}
			// One that stays away is given up, and the job starts with what there is.
			c.end("b")
			c.passUntil(2 * time.Minute)
			c.changeNode(idle[0], change)
			c.submit("c", map[string]string{"work": "1000h", "nodes": "1,2,4", "restart": "5m"})
			c.passUntil(5 * time.Minute)
			c.want(map[string]int{"c": 2})
			if posted := c.events(); strings.Contains(posted, "Stuck") {
				t.Errorf("events are %s", posted)
			}
		})
	}
}

// TestToleratedTaints: taints that pods of the pool tolerate, by admission or by their template, take
// no node from it, whatever the configuration lists.
func TestToleratedTaints(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key       string
		tolerated bool // by the pods
		free      int
	}{
		"the unit's": {worldtest.Unit, false, 8}, "by admission": {"example.com/gpu", true, 8}, "by nobody": {"example.com/gpu", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "4"}))
			c.scales = true
			if test.tolerated {
				c.tolerations = []corev1.Toleration{{Key: test.key, Operator: corev1.TolerationOpExists}}
				c.evict(c.nodesOf("a")[0])
				for _, node := range c.nodesOf("a") {
					c.evict(node)
				}
				c.kubelet()
			}
			for i := range 8 {
				c.changeNode(fmt.Sprintf("node-%03d", i), taint(test.key, corev1.TaintEffectNoSchedule))
			}
			c.submit("b", map[string]string{"work": "1000h", "nodes": "1,2,4"})
			c.step = time.Minute
			c.passUntil(time.Hour)
			c.want(map[string]int{"a": 4, "b": min(4, test.free)})
			if n := c.gauge("nodes", "accepting"); int(n) != test.free {
				t.Errorf("%v nodes are accepting; want %d", n, test.free)
			}
		})
	}
}

// TestNodeThatIsRemoved: a node that is marked to be removed keeps its pods until they are evicted,
// then the job whose pod it was is resized once, and no other.
func TestNodeThatIsRemoved(t *testing.T) {
	t.Parallel()
	jobs := half()
	for _, job := range jobs {
		job.SetAnnotations(map[string]string{world.WorkAnnotation: "1000h", world.NodesAnnotation: "1,2,3,4", world.RestartAnnotation: "5m"})
	}
	c := newCluster(t, 8, jobs...)
	c.scales = true
	c.passes(4)
	removed := c.nodesOf("b")[0]
	c.changeNode(removed, taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule))
	c.passUntil(20 * time.Minute)
	c.want(map[string]int{"a": 4, "b": 4})
	c.evict(removed)
	c.passUntil(20 * time.Second)
	c.want(map[string]int{"a": 4, "b": 3})
	if err := c.client.Delete(t.Context(), worldtest.Node(removed)); err != nil {
		t.Fatal(err)
	}
	c.step = time.Minute
	c.passUntil(2 * time.Hour)
	c.want(map[string]int{"a": 4, "b": 3})
	if n := c.count("changes_total", ""); n != 1 {
		t.Errorf("%v changes; want one", n)
	}
}

// TestRetainedEvents checks that an event explains a job on a node that has not accepted pods for long, with the
// same reason as the metric and the documentation.
func TestRetainedEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, half()...)
	c.passes(4)
	node := c.nodesOf("b")[0]
	c.changeNode(node, cordon)
	c.passUntil(time.Minute)
	if posted := c.events(); posted != "" {
		t.Errorf("within the grace period events are %s", posted)
	}
	c.passUntil(20 * time.Minute)
	posted := c.events()
	for _, want := range []string{
		"Warning Retained keeps its 4 nodes: 1 of its pods run on nodes that accept no new pods (" + node + " retaining: cordoned)",
		"Normal Retaining cordoned (pool training)",
	} {
		if strings.Count(posted, want) != 1 {
			t.Errorf("events are %s; want one %q", posted, want)
		}
	}
	for state, want := range map[string]float64{"accepting": 7, "retaining": 1, "gone": 0} {
		if got := c.gauge("nodes", state); got != want {
			t.Errorf("%v nodes are %s; want %v", got, state, want)
		}
	}
}

// TestOutagePausesNobody: while most nodes take no pods, a job is not paused one of whose pods runs,
// though the others wait and another job would fit.
func TestOutagePausesNobody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cluster, string){
		"cordoned":  func(c *cluster, node string) { c.changeNode(node, cordon) },
		"not ready": func(c *cluster, node string) { c.ready(node, corev1.ConditionUnknown) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 6, worldtest.Job("rigid", 4, map[string]string{"work": "1000h", "nodes": "4"}))
			c.scales = true
			c.passes(4)
			c.submit("small", map[string]string{"work": "1h", "nodes": "1"})
			out := append(c.nodesOf("rigid")[1:], c.idleNodes()[0])
			for _, node := range out {
				change(c, node)
				c.evict(node)
			}
			c.step = time.Minute
			c.passUntil(3 * time.Hour)
			c.want(map[string]int{"rigid": 4})
			for _, node := range out {
				c.changeNode(node, heal)
				c.ready(node, corev1.ConditionTrue)
			}
			c.passUntil(2 * time.Hour)
			c.want(map[string]int{"rigid": 4, "small": 1})
			if n := c.count("changes_total", "preempt"); n != 0 {
				t.Errorf("%v pauses; want none: %s", n, c.events())
			}
		})
	}
}

// TestRetainedPodsCostNothing: the accepting nodes that a job on a cordoned node does not need are there
// for others.
func TestRetainedPodsCostNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "4"}),
		worldtest.Job("b", 3, map[string]string{"work": "1000h", "nodes": "3"}))
	c.passes(4)
	c.changeNode(c.nodesOf("b")[0], cordon)
	c.submit("c", map[string]string{"work": "1000h", "nodes": "1"})
	c.submit("d", map[string]string{"work": "1000h", "nodes": "1"})
	c.passUntil(10 * time.Minute)
	running := 0
	for _, name := range []string{"c", "d"} {
		n, _ := c.job(name)
		running += n
	}
	if c.want(map[string]int{"a": 4, "b": 3}); running != 1 {
		t.Errorf("%d of the jobs that wait have started; want one, on the idle node", running)
	}
}

// TestStartingNodesHaveNoEvents checks that a new node has an event only if it does not become ready.
func TestStartingNodesHaveNoEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, name := range []string{"ready-later", "never-ready"} {
		node := worldtest.Node(name)
		node.CreationTimestamp.Time = c.now
		node.Status.Conditions[0] = corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: node.CreationTimestamp,
		}
		if err := c.client.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	c.passUntil(5 * time.Minute)
	c.changeNode("ready-later", func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime.Time = corev1.ConditionTrue, c.now
	})
	if events := c.events(); events != "" {
		t.Errorf("events are %s; want none while nodes are starting", events)
	}
	c.passUntil(time.Hour)
	if events, want := c.events(), "Normal Gone not ready (pool training)"; events != want {
		t.Errorf("events are %q; want %q", events, want)
	}
}

// TestBlockedDrain checks that a job grows on other nodes if its pods remain on a node that is only cordoned or tainted,
// that it does not shrink, and that it keeps its size while the node may still be drained or is not healthy.
func TestBlockedDrain(t *testing.T) {
	t.Parallel()
	unready := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   int
	}{
		"cordoned":     {cordon, 8},
		"tainted":      {taint("maintenance", corev1.TaintEffectNoSchedule), 8},
		"will go soon": {taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule), 2},
		"not ready":    {unready, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 9, worldtest.Job("a", 2, map[string]string{"work": "1000h", "nodes": "1-8"}),
				worldtest.Job("full", 7, map[string]string{"work": "1000h", "nodes": "7"}))
			c.passes(4)
			node := c.nodesOf("a")[0]
			c.changeNode(node, test.change)
			c.end("full")
			c.step = time.Minute
			c.passUntil(25 * time.Minute)
			c.want(map[string]int{"a": 2})
			c.passUntil(40 * time.Minute)
			c.want(map[string]int{"a": test.want})
			c.submit("waits", map[string]string{"work": "1h", "nodes": "1"})
			c.passUntil(20 * time.Minute)
			if n, _ := c.job("a"); n < test.want || !slices.Contains(c.nodesOf("a"), node) {
				t.Errorf("a has %d nodes %v; want at least %d with %s", n, c.nodesOf("a"), test.want, node)
			}
			if posted := c.events(); strings.Count(posted, "Warning Retained keeps its") != 1 {
				t.Errorf("events are %s", posted)
			}
		})
	}
}

// TestLostNode: a node is lost once its pods are, and a decision is made at once that only changes the
// job whose pods they were. In an outage nothing is decided at first, and no job is paused whose pods
// run.
func TestLostNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "1-4"}),
		worldtest.Job("b", 4, map[string]string{"work": "1000h", "nodes": "1-4"}))
	c.scales = true
	c.passes(4)
	c.want(map[string]int{"a": 4, "b": 4})
	lost := c.nodesOf("b")[0]
	c.ready(lost, corev1.ConditionUnknown)
	c.passUntil(6 * time.Minute)
	c.want(map[string]int{"a": 4, "b": 4})
	c.evict(lost)
	c.passes(4)
	c.want(map[string]int{"a": 4, "b": 2})

	decided := c.decisions("decided")
	unreachable := append(c.nodesOf("a")[:3], c.nodesOf("b")...)
	for _, node := range unreachable {
		c.ready(node, corev1.ConditionUnknown)
	}
	c.passUntil(10 * time.Minute)
	if c.decisions("outage") == 0 || c.decisions("decided") != decided {
		t.Errorf("%v outages and %v decisions in an outage", c.decisions("outage"), c.decisions("decided")-decided)
	}
	c.passUntil(time.Hour)
	c.want(map[string]int{"a": 4, "b": 2})
	for _, node := range unreachable {
		c.evict(node)
	}
	c.passUntil(30 * time.Minute)
	if a, _ := c.job("a"); a == 0 {
		t.Error("a is paused, one of whose pods runs")
	}
}

// TestCordonUnderAPinnedJob cordons the nodes of a paused job. Other jobs keep theirs.
func TestCordonUnderAPinnedJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8,
		worldtest.Job("pinned", 4, map[string]string{"paused": "true"}),
		worldtest.Job("victim", 4, map[string]string{"work": "1000h", "nodes": "1-4"}),
	)
	c.passes(4)
	var pods corev1.PodList
	if err := c.client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].Labels["batch.kubernetes.io/job-name"] == "pinned" {
			c.changeNode(pods.Items[i].Spec.NodeName, func(node *corev1.Node) { node.Spec.Unschedulable = true })
		}
	}
	c.step = time.Minute
	c.passes(40)
	c.want(map[string]int{"victim": 4, "pinned": 4})
	if n := c.decisions("outage"); n != 0 {
		t.Errorf("%v outages; want none", n)
	}
}

// TestOddNode posts an event about a node with fewer devices than the others. The other nodes stay in use.
func TestOddNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 9, worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "4,8"}),
		worldtest.Job("short", 0, map[string]string{"work": "1h", "nodes": "4"}))
	var node corev1.Node // The only node without a pod.
	if err := c.client.Get(t.Context(), types.NamespacedName{Name: "node-000"}, &node); err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable[worldtest.Unit] = resource.MustParse("7")
	if err := c.client.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	c.passes(12)
	c.want(map[string]int{"long": 4, "short": 4})
	if posted := c.events(); strings.Count(posted, "Warning Retaining has 7 nvidia.com/gpu; nodes of pool training must have 8") != 1 {
		t.Errorf("events are %s", posted)
	}
}

// TestFlappingNode makes a node not ready and ready again. The job on it is not resized.
func TestFlappingNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 8, map[string]string{"work": "1000h", "nodes": "7,8"}))
	c.pool.MinInterval = 0
	c.start()
	c.passes(4)
	for range 10 {
		for _, ready := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue} {
			c.ready("node-000", ready)
			c.passUntil(20 * time.Second)
		}
	}
	if n := c.count("changes_total", ""); n != 0 {
		t.Errorf("%v resizes while a node was not ready at times; want none", n)
	}
	c.passUntil(2 * time.Minute)
	c.want(map[string]int{"a": 8})
}

package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// forge writes a record on a job according to which it had the given nodes.
func forge(c *worldtest.Cluster, name string, nodes int) {
	annotations := c.Jobs[name].GetAnnotations()
	annotations[world.DecisionAnnotation] = (&world.Record{UID: c.Jobs[name].GetUID(), Since: c.Now, Nodes: nodes}).String()
	c.Jobs[name].SetAnnotations(annotations)
}

// withPods gives a job another pod specification.
func withPods(job *unstructured.Unstructured, spec map[string]any) *unstructured.Unstructured {
	if err := unstructured.SetNestedMap(job.Object, spec, "spec", "template", "spec"); err != nil {
		panic(err)
	}
	return job
}

// untilDecision is the time from the troubles to the decision.
const untilDecision = 2 * time.Minute

// jobLabel is the label of a pod with the name of its Job, and otherPool is a node of another pool.
const (
	jobLabel  = "batch.kubernetes.io/job-name"
	otherPool = "node-of-another-pool"
)

// bystanders is a cluster with some jobs on healthy nodes, the bystanders, and with any other jobs and nodes.
type bystanders struct {
	*worldtest.Cluster
	names    []string // of the bystanders
	occupied int      // nodes of the bystanders
	nodes    int      // nodes of the pool without those that troubles add
	restart  bool     // the pods of all other jobs terminate
	// pending is the number of pods that may still be scheduled to nodes of the pool. It includes all running pods of
	// other jobs if they restart.
	pending int
}

// drawBystanders returns a pool with random bystanders that have just been resized, and a node of another pool.
func drawBystanders(t *rapid.T) *bystanders {
	c := &bystanders{nodes: rapid.IntRange(2, 24).Draw(t, "nodes")}
	var jobs []*unstructured.Unstructured
	for i := range rapid.IntRange(1, 5).Draw(t, "bystanders") {
		if size := rapid.IntRange(0, min(c.nodes-c.occupied, 6)).Draw(t, "size"); size > 0 {
			name := fmt.Sprintf("bystander-%d", i)
			c.occupied, c.names = c.occupied+size, append(c.names, name)
			jobs = append(jobs, worldtest.Job(name, size, map[string]string{"work": "1000h"}))
		}
	}
	c.Cluster = worldtest.New(c.nodes, jobs...)
	c.Nodes = append(c.Nodes, worldtest.Node(otherPool))
	c.Nodes[c.nodes].Labels = nil
	for _, job := range jobs {
		changed(c.Cluster, job.GetName(), int(job.Object["spec"].(map[string]any)["parallelism"].(int64)))
	}
	return c
}

// owns reports whether a pod belongs to a bystander.
func (c *bystanders) owns(pod *corev1.Pod) bool {
	return slices.Contains(c.names, pod.Labels[jobLabel])
}

// freeNode returns a node of the pool without pods, or "" if there is none.
func (c *bystanders) freeNode() string {
	for _, node := range c.Nodes[:c.nodes] {
		if len(podsOn(c.Cluster, node.Name)) == 0 {
			return node.Name
		}
	}
	return ""
}

// drawTrouble adds a random job that is not resized, with pods anywhere, or a random unusual node. It changes no node
// with a pod of a bystander.
func (c *bystanders) drawTrouble(t *rapid.T, i int) {
	name, size := fmt.Sprintf("trouble-%d", i), rapid.IntRange(1, 20).Draw(t, "size")
	kind := rapid.SampledFrom([]string{"cpu", "unschedulable", "too large", "waiting", "parts",
		"relabelled", "pinned", "liar", "foreign", "odd", "gone", "flapping"}).Draw(t, "kind")
	switch kind {
	case "odd", "gone", "flapping":
		n := worldtest.Node(name)
		c.makeUnusual(t, kind, n, i)
		c.Nodes = append(c.Nodes, n)
	case "foreign": // A pod without a job.
		if node := c.freeNode(); node != "" {
			c.Pods = append(c.Pods, worldtest.Pod(name, node, nil))
		}
	case "liar": // It has no pods, and its record claims nodes.
		c.Jobs[name] = worldtest.Job(name, rapid.SampledFrom([]int{0, size}).Draw(t, "requested"), map[string]string{"work": "1h"})
		forge(c.Cluster, name, 64)
	default:
		c.Jobs[name] = withPods(worldtest.Job(name, size, map[string]string{"paused": "true"}), podsOfKind(kind))
		if rapid.Bool().Draw(t, "forged") {
			forge(c.Cluster, name, rapid.IntRange(0, 64).Draw(t, "forged nodes"))
		}
		c.addPods(kind, name, size)
	}
}

// makeUnusual changes the node of the trouble with an index.
func (c *bystanders) makeUnusual(t *rapid.T, kind string, n *corev1.Node, trouble int) {
	switch kind {
	case "odd":
		n.Status.Allocatable[worldtest.Unit] = *resource.NewQuantity([]int64{1, 7, 16, 2, 3, 4}[trouble], resource.DecimalSI)
	case "gone":
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	case "flapping": // It became ready again some time before the decision.
		n.CreationTimestamp.Time = c.Now.Add(-time.Hour)
		back := rapid.SampledFrom([]time.Duration{time.Second, 59 * time.Second, time.Minute}).Draw(t, "back since")
		n.Status.Conditions[0].LastTransitionTime.Time = c.Now.Add(untilDecision - back)
	}
}

// podsOfKind returns the pod specification of a job of a kind.
func podsOfKind(kind string) map[string]any {
	switch kind {
	case "cpu":
		return worldtest.PodSpec(0)
	case "too large":
		return worldtest.PodSpec(16)
	case "parts":
		return worldtest.PodSpec(2)
	}
	spec := worldtest.PodSpec(worldtest.PerNode)
	if kind == "unschedulable" {
		spec["nodeSelector"] = map[string]any{"zone": "nowhere"}
	}
	return spec
}

// addPods adds the pods of a job of a kind. Its other pods are pending, unless they can never be scheduled.
func (c *bystanders) addPods(kind, job string, size int) {
	place := func(node string, units int64) {
		pod := worldtest.Pod(fmt.Sprintf("%s-%d", job, len(c.Pods)), node, map[string]string{jobLabel: job})
		pod.Spec.Containers[0].Resources.Requests[worldtest.Unit] = *resource.NewQuantity(units, resource.DecimalSI)
		c.Pods = append(c.Pods, pod)
	}
	nodes := 0 // nodes with pods that request units
	switch kind {
	case "cpu":
		for range size {
			place(otherPool, 0)
		}
		return
	case "unschedulable", "too large":
		return
	case "parts": // Several pods on one node, which count as one.
		if node := c.freeNode(); node != "" {
			nodes = 1
			for range min(4, size) {
				place(node, 2)
			}
		}
	case "relabelled":
		for ; nodes < size; nodes++ {
			place(otherPool, worldtest.PerNode)
		}
	case "pinned":
		for node := c.freeNode(); node != "" && nodes < size; node = c.freeNode() {
			place(node, worldtest.PerNode)
			nodes++
		}
	}
	c.pending += size
	if !c.restart {
		c.pending -= nodes
	}
}

// drawFailures makes random nodes without a bystander fail, with their pods.
func (c *bystanders) drawFailures(t *rapid.T) {
	for _, node := range c.Nodes {
		if pods := podsOn(c.Cluster, node.Name); len(pods) > 0 && c.owns(pods[len(pods)-1]) {
			continue
		}
		switch rapid.IntRange(0, 5).Draw(t, "failure") {
		case 0:
			node.Spec.Unschedulable = true
		case 1:
			node.Status.Conditions[0].Status = corev1.ConditionFalse
		case 2:
			node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
}

// terminateOthers starts the termination of all pods that belong to no bystander.
func (c *bystanders) terminateOthers() {
	for _, pod := range c.Pods {
		if !c.owns(pod) {
			pod.DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
		}
	}
}

// available counts the nodes by hand that can be available to a decision.
func (c *bystanders) available() (available int) {
	blocks := func(pod *corev1.Pod) bool {
		// Decisions wait for pods that terminate in time.
		terminates := pod.DeletionTimestamp != nil && !pod.DeletionTimestamp.Add(c.Pool.SettleTimeout).Before(c.Now)
		return !c.owns(pod) && (!terminates || pod.Labels == nil)
	}
	for _, node := range c.Nodes {
		ready := node.Status.Conditions[0]
		settled := ready.Status == corev1.ConditionTrue && c.Now.Sub(ready.LastTransitionTime.Time) >= time.Minute
		// A node that was ready a short time ago is expected to be ready again.
		expected := ready.Status != corev1.ConditionTrue && !node.CreationTimestamp.IsZero()
		if node.Labels != nil && (settled || expected) && !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 &&
			node.Status.Allocatable.Name(worldtest.Unit, resource.DecimalSI).Value() == worldtest.PerNode &&
			!slices.ContainsFunc(podsOn(c.Cluster, node.Name), blocks) {
			available++
		}
	}
	return available
}

// TestBystanders checks requests for a pool with bystanders on healthy nodes and any other jobs and nodes. A request
// has at least the nodes of the bystanders, their cooldown goes on, there is no outage, and no occupied node is
// available. No job costs the pool more nodes than its pods occupy or can still be scheduled to.
func TestBystanders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawBystanders(t)
		c.restart = rapid.Bool().Draw(t, "pods restart")
		for i := range rapid.IntRange(0, 6).Draw(t, "troubles") {
			c.drawTrouble(t, i)
		}
		c.drawFailures(t)
		if c.restart {
			c.terminateOthers()
		}
		c.Now = c.Now.Add(untilDecision)
		w := c.ClusterState()
		r := plan.Snapshot(w, "id", nil)
		total := r.Available()
		if total < c.occupied {
			t.Fatalf("the request has %d nodes, but bystanders occupy %d; nodes %+v", total, c.occupied, w.Nodes)
		}
		if err := plan.Outage(w, r); err != nil {
			t.Fatal(err)
		}
		for _, j := range w.Jobs {
			if slices.Contains(c.names, j.Object.GetName()) && (!j.Cooling || !j.Resizable()) {
				t.Fatalf("%s cools down: %t, pinned: %q", j.ID, j.Cooling, j.Message)
			}
		}
		available := c.available()
		if total > available {
			t.Fatalf("the request has %d nodes; at most %d are available", total, available)
		}
		if least := max(c.occupied, available-c.pending); total < least {
			t.Fatalf("the request has %d nodes; at most %d are available, of which %d may be reserved for pending pods",
				total, available, c.pending)
		}
	})
}

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

// drawTrouble adds a random job that is not resized, with pods anywhere, or random unusual nodes. It changes no node
// with a pod of a bystander. It returns the number of pods that may still be scheduled to nodes of the pool,
// including all running ones if pods may restart.
func drawTrouble(t *rapid.T, c *worldtest.Cluster, i int, restart bool, healthy func() string) (toCome int) {
	name, size := fmt.Sprintf("trouble-%d", i), rapid.IntRange(1, 20).Draw(t, "size")
	labels := map[string]string{"batch.kubernetes.io/job-name": name}
	place := func(node string, units int64) {
		c.Pods = append(c.Pods, worldtest.Pod(fmt.Sprintf("%s-%d", name, len(c.Pods)), node, labels))
		c.Pods[len(c.Pods)-1].Spec.Containers[0].Resources.Requests[worldtest.Unit] = *resource.NewQuantity(units, resource.DecimalSI)
	}
	add := func(spec map[string]any) {
		job := worldtest.Job(name, size, map[string]string{"paused": "true"})
		if spec != nil {
			withPods(job, spec)
		}
		c.Jobs[name] = job
		if rapid.Bool().Draw(t, "forged") {
			forge(c, name, rapid.IntRange(0, 64).Draw(t, "forged nodes"))
		}
	}
	selected := worldtest.PodSpec(worldtest.PerNode)
	selected["nodeSelector"] = map[string]any{"zone": "nowhere"}
	switch kind := rapid.SampledFrom([]string{"cpu", "unschedulable", "too large", "waiting", "parts",
		"relabelled", "pinned", "liar", "foreign", "odd", "gone", "flapping"}).Draw(t, "kind"); kind {
	case "cpu":
		add(worldtest.PodSpec(0))
		for range size {
			place("node-of-another-pool", 0)
		}
	case "unschedulable":
		add(selected)
	case "too large":
		add(worldtest.PodSpec(16))
	case "waiting":
		add(nil)
		toCome = size
	case "parts": // Several pods on one node.
		add(worldtest.PodSpec(2))
		toCome = size
		node := healthy()
		for i := range min(4, size) {
			if node != "" {
				place(node, 2)
				if i == 0 && !restart { // They count as one.
					toCome--
				}
			}
		}
	case "relabelled", "pinned":
		add(nil)
		toCome = size
		for range size {
			node := healthy()
			if kind == "relabelled" {
				node = "node-of-another-pool"
			}
			if node != "" {
				place(node, worldtest.PerNode)
				if !restart {
					toCome--
				}
			}
		}
	case "liar": // It has no pods, and its record claims nodes.
		c.Jobs[name] = worldtest.Job(name, rapid.SampledFrom([]int{0, size}).Draw(t, "asks"), map[string]string{"work": "1h"})
		forge(c, name, 64)
	case "foreign":
		if node := healthy(); node != "" {
			c.Pods = append(c.Pods, worldtest.Pod(name, node, nil))
		}
	case "odd":
		n := worldtest.Node(name)
		n.Status.Allocatable[worldtest.Unit] = *resource.NewQuantity([]int64{1, 7, 16, 2, 3, 4}[i], resource.DecimalSI)
		c.Nodes = append(c.Nodes, n)
	case "gone":
		n := worldtest.Node(name)
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
		c.Nodes = append(c.Nodes, n)
	case "flapping": // It became ready again some time before the decision.
		n := worldtest.Node(name)
		n.CreationTimestamp.Time = c.Now.Add(-time.Hour)
		back := rapid.SampledFrom([]time.Duration{time.Second, 59 * time.Second, time.Minute}).Draw(t, "back since")
		n.Status.Conditions[0].LastTransitionTime.Time = c.Now.Add(untilDecision - back)
		c.Nodes = append(c.Nodes, n)
	}
	return toCome
}

// untilDecision is how long after the troubles the decision is.
const untilDecision = 2 * time.Minute

// TestBystanders checks requests for a pool with bystanders on healthy nodes and any other jobs and nodes. A request
// has at least the nodes of the bystanders, their cooldown goes on, there is no outage, and no occupied node is
// available. No job costs the pool more nodes than its pods occupy or can still be scheduled to.
func TestBystanders(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 24).Draw(t, "nodes")
		left := nodes
		var jobs []*unstructured.Unstructured
		var victims []string
		for i := range rapid.IntRange(1, 5).Draw(t, "victims") {
			if size := rapid.IntRange(0, min(left, 6)).Draw(t, "size"); size > 0 {
				left -= size
				victims = append(victims, fmt.Sprintf("Job/default/victim-%d", i))
				jobs = append(jobs, worldtest.Job(fmt.Sprintf("victim-%d", i), size, map[string]string{"work": "1000h"}))
			}
		}
		c := worldtest.New(nodes, jobs...)
		held := nodes - left
		c.Nodes = append(c.Nodes, worldtest.Node("node-of-another-pool"))
		c.Nodes[nodes].Labels = nil
		for _, job := range jobs {
			changed(c, job.GetName(), int(job.Object["spec"].(map[string]any)["parallelism"].(int64)))
		}
		healthy := func() string {
			busy := make(map[string]bool)
			for _, pod := range c.Pods {
				busy[pod.Spec.NodeName] = true
			}
			for _, node := range c.Nodes[:nodes] {
				if !busy[node.Name] {
					return node.Name
				}
			}
			return ""
		}
		restart, toCome := rapid.Bool().Draw(t, "pods restart"), 0
		for i := range rapid.IntRange(0, 6).Draw(t, "troubles") {
			toCome += drawTrouble(t, c, i, restart, healthy)
		}
		// Nodes without a bystander fail, with their pods.
		onNode := make(map[string]string)
		for _, pod := range c.Pods {
			onNode[pod.Spec.NodeName] = pod.Labels["batch.kubernetes.io/job-name"]
		}
		for _, node := range c.Nodes {
			if slices.Contains(victims, "Job/default/"+onNode[node.Name]) {
				continue
			}
			switch rapid.IntRange(0, 5).Draw(t, "grief") {
			case 0:
				node.Spec.Unschedulable = true
			case 1:
				node.Status.Conditions[0].Status = corev1.ConditionFalse
			case 2:
				node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}}
			}
		}
		if restart {
			for _, pod := range c.Pods {
				if !slices.Contains(victims, "Job/default/"+pod.Labels["batch.kubernetes.io/job-name"]) {
					pod.DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
				}
			}
		}
		c.Now = c.Now.Add(untilDecision)
		w := c.ClusterState()
		r := plan.Snapshot(w, "id", nil)
		total := r.Available()
		if total < held {
			t.Fatalf("the request has %d nodes, but bystanders occupy %d; nodes %+v", total, held, w.Nodes)
		}
		if err := plan.Outage(w, r); err != nil {
			t.Fatal(err)
		}
		for _, j := range w.Jobs {
			if slices.Contains(victims, j.ID) && (!j.Cooling || !j.Resizable()) {
				t.Fatalf("%s cools down: %t, pinned: %q", j.ID, j.Cooling, j.Message)
			}
		}
		// The oracle counts nodes by hand.
		available := 0
		for _, node := range c.Nodes {
			ready := node.Status.Conditions[0]
			settled := ready.Status == corev1.ConditionTrue && c.Now.Sub(ready.LastTransitionTime.Time) >= time.Minute
			// One that was ready a short time ago is expected to be so again.
			expected := ready.Status != corev1.ConditionTrue && !node.CreationTimestamp.IsZero()
			free := node.Labels != nil && (settled || expected) && !node.Spec.Unschedulable &&
				len(node.Spec.Taints) == 0 && node.Status.Allocatable.Name(worldtest.Unit, resource.DecimalSI).Value() == worldtest.PerNode
			for _, pod := range c.Pods {
				// Pods that leave in time are waited for.
				late := pod.DeletionTimestamp != nil && !pod.DeletionTimestamp.Add(c.Pool.SettleTimeout).Before(c.Now)
				if pod.Spec.NodeName == node.Name &&
					!slices.Contains(victims, "Job/default/"+pod.Labels["batch.kubernetes.io/job-name"]) && (!late || pod.Labels == nil) {
					free = false
				}
			}
			if free {
				available++
			}
		}
		if total > available {
			t.Fatalf("the request has %d nodes; at most %d are available", total, available)
		}
		if least := max(held, available-toCome); total < least {
			t.Fatalf("the request has %d nodes; at most %d are available, of which %d may be reserved for pending pods", total, available, toCome)
		}
	})
}

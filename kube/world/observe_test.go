package world_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

func TestNodesThatCount(t *testing.T) {
	t.Parallel()
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := worldtest.Node(name)
		change(n)
		return n
	}
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: effect}} }
	}
	smallForeign, ended := worldtest.Pod("cpu", "good", nil), worldtest.Pod("ended", "good", nil)
	smallForeign.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	ended.Status.Phase = corev1.PodSucceeded
	in := world.Input{
		Now: worldtest.Begin(), Pool: worldtest.Pool(),
		Nodes: []*corev1.Node{
			worldtest.Node("good"),
			node("tolerated", func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			}),
			node("rather not", taint(corev1.TaintEffectPreferNoSchedule)),
			node("other pool", func(n *corev1.Node) { n.Labels = nil }),
			node("not ready", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
			node("no unit", func(n *corev1.Node) { n.Status.Allocatable = nil }),
			node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
			node("tainted", taint(corev1.TaintEffectNoSchedule)),
			node("evicted", taint(corev1.TaintEffectNoExecute)),
			worldtest.Node("foreign"),
		},
		Pods: []*corev1.Pod{worldtest.Pod("notebook", "foreign", nil), smallForeign, ended},
	}
	in.Pool.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	w := world.Observe(in)
	if want := (world.NodeCounts{Accepting: 3, Retaining: 4, Gone: 2, Serving: 3, Unusable: 4, Existing: 7}); w.Nodes != want {
		t.Errorf("nodes are %+v; want %+v", w.Nodes, want)
	}
	for reason, want := range map[world.NodeReason]int{
		world.NotReady: 1, world.Unallocatable: 1, world.Cordoned: 1, world.Tainted: 2, world.Foreign: 1,
	} {
		if got := w.NodesBy(reason); got != want {
			t.Errorf("%d nodes are %s; want %d", got, reason, want)
		}
	}
}

// TestFailedPodsThatLeave: training-operator makes pods anew below the index of a failed one that
// is not gone, so that one frees nothing yet.
func TestFailedPodsThatLeave(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int{"Job": 0, "PyTorchJob": 1} {
		c := worldtest.New(2)
		failed, leaving := worldtest.Pod("a-0", "node-000", nil), worldtest.Pod("a-1", "node-001", nil)
		leaving.DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
		for _, pod := range []*corev1.Pod{failed, leaving} {
			pod.Status.Phase = corev1.PodFailed
			pod.Labels = map[string]string{
				"batch.kubernetes.io/job-name":   "a",
				"training.kubeflow.org/job-name": "a", "training.kubeflow.org/replica-type": "worker",
			}
		}
		job := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": failed.Namespace}}}
		w := world.Observe(world.Input{
			Now: c.Now, Pool: c.Pool, Nodes: c.Nodes, Pods: []*corev1.Pod{failed, leaving},
			Jobs: []world.Object{{Kind: kinds.Named([]string{kind})[0], Job: job}}, ETAs: new(eta.Estimator),
		})
		if got := w.Jobs[0].Pods.Terminating; got != want {
			t.Errorf("%d pods of a %s occupy nodes until they terminate; want %d", got, kind, want)
		}
	}
}

func TestPodsThatHold(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "10h"}))
	c.Pods[0].DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
	c.Pods[1].Status.Phase = corev1.PodSucceeded
	stray := worldtest.Pod("a-stray", "node-007", c.Pods[2].Labels)
	stray.Namespace = "other" // Another job of that name.
	c.Pods = append(c.Pods, stray)
	w := c.ClusterState()
	if j := w.Jobs[0]; j.Pods.Live != 2 || j.Pods.Terminating != 1 || j.Pods.Overdue != 0 || j.OccupiedNodes() != 4 {
		t.Errorf("pods %+v occupy %d nodes; want 2 live, 1 terminating, and 4 nodes", j.Pods, j.OccupiedNodes())
	}
	if w.NodesBy(world.Foreign) != 1 || w.Free() != 7-4 {
		t.Errorf("%d foreign and %d free nodes; want 1 and 3", w.NodesBy(world.Foreign), w.Free())
	}
	c.Now = c.Now.Add(30*time.Second + c.Pool.SettleTimeout + time.Second)
	if j := c.ClusterState().Jobs[0]; j.Pods.Overdue != 1 {
		t.Errorf("%d pods are overdue; want 1", j.Pods.Overdue)
	}
	const years = 10 * 365 * 24 * time.Hour
	c.Pods[0].DeletionTimestamp, c.Pods[0].DeletionGracePeriodSeconds = &metav1.Time{Time: c.Now.Add(years)}, new(int64(years/time.Second))
	for wait, want := range map[time.Duration]int{
		kinds.MaxGrace + c.Pool.SettleTimeout: 0, kinds.MaxGrace + c.Pool.SettleTimeout + time.Second: 1,
	} {
		later := *c
		later.Now = c.Now.Add(wait)
		if j := later.ClusterState().Jobs[0]; j.Pods.Overdue != want {
			t.Errorf("%v after a deletion with a grace of years %d pods are overdue; want %d", wait, j.Pods.Overdue, want)
		}
	}
	c.Nodes[0].Spec.Unschedulable = true
	if j := c.ClusterState().Jobs[0]; j.Pods.Terminating != 0 {
		t.Errorf("%d pods terminate on nodes that count; want none", j.Pods.Terminating)
	}
}

// TestCooldown lasts while pods restart, and ends where nodes that are in use went.
// TestPendingPodOfCompletingJob checks that a pod that is created again may run on a node where another pod of its job
// has succeeded, so that this node is not free.
func TestPendingPodOfCompletingJob(t *testing.T) {
	t.Parallel()
	c := worldtest.New(3, worldtest.Job("a", 3, map[string]string{"work": "10h"}))
	c.Pods[0].Status.Phase, c.Pods[1].Status.Phase = corev1.PodSucceeded, corev1.PodSucceeded
	c.Nodes, c.Pods = c.Nodes[:2], c.Pods[:2]
	w := c.ClusterState()
	if j := w.Jobs[0]; j.Pinned != world.Completing || j.OccupiedNodes() != 1 || w.Free() != 1 {
		t.Errorf("the job is pinned as %q and occupies %d nodes, and %d are free; want Completing, 1 and 1",
			j.Pinned, j.OccupiedNodes(), w.Free())
	}
}

func TestCooldown(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}), worldtest.Job("b", 4, map[string]string{"work": "100h"}))
	c.Now = c.Now.Add(time.Hour)
	record := c.ClusterState().Jobs[0].NextRecord(4, c.Now)
	record.Changed = &record.Since
	annotations := c.Jobs["a"].GetAnnotations()
	annotations[world.DecisionAnnotation] = record.String()
	c.Jobs["a"].SetAnnotations(annotations)
	c.Now = c.Now.Add(time.Minute)
	for _, pod := range c.Pods {
		if pod.Labels["batch.kubernetes.io/job-name"] == "b" {
			pod.DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
		}
	}
	c.Reconcile()
	if j := c.ClusterState().Jobs[0]; !j.Cooling {
		t.Error("a job does not cool down while the pods of another one restart")
	}
	c.RemoveDeletedPods()
	c.Nodes = c.Nodes[:7]
	if j := c.ClusterState().Jobs[0]; j.Cooling {
		t.Error("a job cools down though a node of its pool went")
	}
}

// TestOrphans: pods that outlived a job of the same name belong to no job, and nothing deletes them.
func TestOrphans(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "10h"}))
	for _, node := range c.Nodes[4:6] {
		orphan := worldtest.Pod("orphan-"+node.Name, node.Name, map[string]string{"batch.kubernetes.io/job-name": "a"})
		orphan.OwnerReferences = nil
		c.Pods = append(c.Pods, orphan)
	}
	w := c.ClusterState()
	if j := w.Jobs[0]; j.Pods.Live != 4 || w.Nodes.Accepting != 6 || w.NodesBy(world.Foreign) != 2 || w.Free() != 2 {
		t.Errorf("the job has %d pods, of %d accepting and %d foreign nodes %d are free; want 4, 6, 2, 2",
			j.Pods.Live, w.Nodes.Accepting, w.NodesBy(world.Foreign), w.Free())
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	job := func(annotations map[string]string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		j := worldtest.Job("a", 2, annotations)
		if change != nil {
			change(j)
		}
		return j
	}
	work := map[string]string{"work": "10h"}
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(j *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(j.Object, value, path...); err != nil {
				t.Error(err)
			}
		}
	}
	tests := map[string]struct {
		job  *unstructured.Unstructured
		want world.Reason
		why  string
	}{
		"fine":           {job(work, nil), "", ""},
		"bad annotation": {job(map[string]string{"work": "10"}, nil), world.BadAnnotations, "elastalloc.dev/work"},
		"paused":         {job(map[string]string{"work": "10h", "paused": "true"}, nil), world.Paused, "paused"},
		"no work":        {job(nil, nil), "", ""},
		"work is done":   {job(map[string]string{"work": "1h"}, nil), world.PastItsEnd, "should have completed"},
		"not elastic":    {job(work, set(int64(9), "spec", "completions")), world.NotElastic, "completions 9"},
		"part of a node": {job(work, set(worldtest.PodSpec(4), "spec", "template", "spec")), world.NotWholeNodes, "request 4"},
		"more than one":  {job(work, set(worldtest.PodSpec(16), "spec", "template", "spec")), world.NotWholeNodes, "request 16"},
		"part of a JobSet": {job(work, func(j *unstructured.Unstructured) {
			controls := true
			j.SetOwnerReferences([]metav1.OwnerReference{{Kind: "JobSet", Name: "set", Controller: &controls}})
		}), world.Owned, "JobSet"},
		"of Kueue": {job(work, func(j *unstructured.Unstructured) {
			j.SetLabels(map[string]string{"kueue.x-k8s.io/queue-name": "q", world.PoolLabel: "training"})
		}), world.KueueOwned, "Kueue"},
		"being deleted": {job(work, func(j *unstructured.Unstructured) {
			j.SetDeletionTimestamp(&metav1.Time{Time: worldtest.Begin()})
		}), world.Deleting, "deleted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(4, test.job)
			c.Now = c.Now.Add(time.Hour)
			j := c.ClusterState().Jobs[0]
			if j.Pinned != test.want || !strings.Contains(j.Message, test.why) || j.Resizable() != (test.want == "") {
				t.Errorf("pinned %q: %s; want %q: %s", j.Pinned, j.Message, test.want, test.why)
			}
		})
	}
}

// TestPinsOfWaitingJobs checks that a job without nodes is decided, although with nodes it would keep them.
func TestPinsOfWaitingJobs(t *testing.T) {
	t.Parallel()
	later := worldtest.Begin().Add(24 * time.Hour)
	for name, test := range map[string]struct {
		work                string
		usage               world.Usage
		pin                 world.Pin
		running, incomplete world.Reason // with all pods, and with one of two pods
		waiting             world.Reason
		start               int // the only legal size of the waiting job
	}{
		"within its work": {work: "9h"},
		"past its end":    {work: "1h", running: world.PastItsEnd},
		"gang": {
			work: "9h", pin: world.Pin{Reason: world.Gang, Until: later}, running: world.Gang, incomplete: world.Gang, start: 2,
		},
		"reverted resizes": {
			work: "9h", usage: world.Usage{Reverted: 3, ConflictUntil: later}, running: world.Conflict, incomplete: world.Conflict, start: 2,
		},
		"reverted starts": {
			work: "9h", usage: world.Usage{Reverted: 3, ConflictUntil: later, Stopped: true},
			running: world.Conflict, incomplete: world.Conflict, waiting: world.Conflict,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(4, worldtest.Job("a", 2, map[string]string{"work": test.work}))
			c.Now = c.Now.Add(3 * time.Hour)
			look := func(suspended bool, pods int, want world.Reason, start int) {
				job := c.Jobs["a"].DeepCopy()
				_ = unstructured.SetNestedField(job.Object, suspended, "spec", "suspend")
				record := world.Record{UID: job.GetUID(), Since: worldtest.Begin(), Nodes: 2}
				if suspended {
					record = world.Record{UID: job.GetUID(), Since: c.Now, Done: metav1.Duration{Duration: 4 * time.Hour}}
				}
				job.SetAnnotations(map[string]string{world.WorkAnnotation: test.work, world.DecisionAnnotation: record.String()})
				in := world.Input{
					Now: c.Now, Pool: c.Pool, Nodes: c.Nodes, Pods: c.Pods[:pods], ETAs: new(eta.Estimator),
					Jobs:  []world.Object{{Kind: kinds.Named([]string{"Job"})[0], Job: job}},
					Usage: map[types.UID]world.Usage{job.GetUID(): test.usage}, Pins: map[types.UID]world.Pin{},
				}
				if test.pin.Reason != "" {
					in.Pins[job.GetUID()] = test.pin
				}
				j := world.Observe(in).Jobs[0]
				if j.Pinned != want || j.Shape.StartSize != start {
					t.Errorf("suspended %v, %d pods: pinned %q, start size %d; want %q, %d", suspended, pods, j.Pinned, j.Shape.StartSize, want, start)
				}
				if past := test.work == "1h"; past && suspended && j.RemainingWork() != time.Hour {
					t.Errorf("%v of its work remain after %v; want a quarter", j.RemainingWork(), j.WorkDone())
				}
			}
			look(false, 2, test.running, 0)
			look(false, 1, test.incomplete, 0)
			look(true, 0, test.waiting, test.start)
		})
	}
}

// TestKueueIsRecommendedTo: in recommend mode there is no second writer to fear.
func TestKueueIsRecommendedTo(t *testing.T) {
	t.Parallel()
	j := worldtest.Job("a", 2, map[string]string{"work": "10h"})
	j.SetLabels(map[string]string{"kueue.x-k8s.io/queue-name": "q", world.PoolLabel: "training"})
	in := world.Input{
		Now: worldtest.Begin(), Pool: worldtest.Pool(),
		Jobs: []world.Object{{Kind: kinds.Named([]string{"Job"})[0], Job: j}},
	}
	if got := world.Observe(in).Jobs[0]; !got.Resizable() {
		t.Errorf("pinned %q", got.Pinned)
	}
}

// TestOddNodes: a node with another number of devices than most is left out, and keeps no job
// from the others.
func TestOddNodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		nodes                []string
		accepting, odd, unit int
		pinned               string
	}{
		{[]string{"8", "8", "7"}, 2, 1, 8, ""},
		{[]string{"8", "8", "16"}, 2, 1, 8, ""},
		{[]string{"8", "7"}, 1, 1, 8, ""},
		{[]string{"16", "8"}, 1, 1, 8, ""}, // As its jobs request.
		{[]string{"16", "16", "8"}, 2, 1, 16, "its pods request 8 nvidia.com/gpu; must request a whole node of 16"},
	} {
		c := worldtest.New(len(test.nodes), worldtest.Job("a", 0, map[string]string{"work": "10h"}))
		for i, n := range test.nodes {
			c.Nodes[i].Status.Allocatable[worldtest.Unit] = resource.MustParse(n)
			c.Nodes[i].Status.Capacity = c.Nodes[i].Status.Allocatable.DeepCopy()
		}
		w := c.ClusterState()
		if w.Nodes.Accepting != test.accepting || w.NodesBy(world.Odd) != test.odd ||
			w.PerNode != int64(test.unit) || w.Jobs[0].Message != test.pinned {
			t.Errorf("%v: %+v of %d, job pinned %q", test.nodes, w.Nodes, w.PerNode, w.Jobs[0].Message)
		}
	}
}

// TestBrokenUnit: a node of which a device broke does not keep the pool's jobs from the others.
// Of processors each node reserves some for itself.
func TestBrokenUnit(t *testing.T) {
	t.Parallel()
	c := worldtest.New(3, worldtest.Job("a", 1, map[string]string{"work": "10h"}))
	for _, node := range c.Nodes {
		node.Status.Capacity = node.Status.Allocatable.DeepCopy()
	}
	c.Nodes[2].Status.Allocatable[worldtest.Unit] = resource.MustParse("7")
	w := c.ClusterState()
	if j := w.Jobs[0]; j.Pinned != "" || w.Nodes.Accepting != 2 || w.NodesBy(world.Unallocatable) != 1 {
		t.Errorf("pinned %q: %s; nodes %+v; want 2 that are accepting", j.Pinned, j.Message, w.Nodes)
	}
	c.Pool.Unit = "cpu"
	for _, node := range c.Nodes {
		node.Status.Capacity["cpu"], node.Status.Allocatable["cpu"] = resource.MustParse("96"), resource.MustParse("95")
	}
	if n := c.ClusterState().Nodes; n.Accepting != 3 {
		t.Errorf("nodes are %+v; want 3 that are accepting", n)
	}
}

package world_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// fromYAML returns an object.
func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return &object
}

// workload returns a Workload of a job, "" for a stranger's, that is admitted with some GPUs or waits.
func workload(t *testing.T, job string, admitted int64) *unstructured.Unstructured {
	t.Helper()
	object := fromYAML(t, `{metadata: {name: x, namespace: default, uid: other}, spec: {queueName: team}}`)
	if job != "" {
		_ = unstructured.SetNestedSlice(object.Object,
			[]any{map[string]any{"kind": "Job", "name": job, "uid": "uid-" + job, "controller": true}}, "metadata", "ownerReferences")
	}
	conditions := []any{map[string]any{"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}}
	if admitted > 0 {
		conditions = []any{map[string]any{"type": "QuotaReserved", "status": "True"}, map[string]any{"type": "Admitted", "status": "True"}}
		usage := []any{map[string]any{"name": "main", "resourceUsage": map[string]any{worldtest.Unit: admitted}}}
		_ = unstructured.SetNestedSlice(object.Object, usage, "status", "admission", "podSetAssignments")
		_ = unstructured.SetNestedField(object.Object, "shared", "status", "admission", "clusterQueue")
	}
	_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions")
	return object
}

// rayCluster returns a RayCluster in place of a Job.
func rayCluster(t *testing.T, job *unstructured.Unstructured, what string) *unstructured.Unstructured {
	t.Helper()
	ray := fromYAML(t, `{apiVersion: ray.io/v1, kind: RayCluster, spec: {workerGroupSpecs: [{groupName: gpu, replicas: 4,
		template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}], schedulingGates: [{name: kueue.x-k8s.io/elastic-job}]}}}]}}`)
	ray.Object["metadata"] = job.Object["metadata"]
	annotations := ray.GetAnnotations()
	annotations["kueue.x-k8s.io/elastic-job"] = "true"
	ray.SetAnnotations(annotations)
	groups, _, _ := unstructured.NestedSlice(ray.Object, "spec", "workerGroupSpecs")
	switch group := groups[0].(map[string]any); what {
	case "fixed":
		unstructured.RemoveNestedField(group, "template", "spec", "schedulingGates")
	case "empty":
		group["replicas"] = int64(0)
	case "RayJob":
		ray.SetOwnerReferences([]metav1.OwnerReference{{Kind: "RayJob", Name: "train", UID: "other"}})
	}
	_ = unstructured.SetNestedSlice(ray.Object, groups, "spec", "workerGroupSpecs")
	return ray
}

// shrunk returns the Workload of a stranger that was admitted with 32 GPUs and uses half of them now.
func shrunk(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	object := workload(t, "", 32)
	assigned, _, _ := unstructured.NestedSlice(object.Object, "status", "admission", "podSetAssignments")
	assigned[0].(map[string]any)["count"] = int64(4)
	_ = unstructured.SetNestedSlice(object.Object, assigned, "status", "admission", "podSetAssignments")
	_ = unstructured.SetNestedSlice(object.Object, []any{map[string]any{"name": "main", "count": int64(2)}}, "spec", "podSets")
	return object
}

// kueueCase is a cluster with the queued job a and another one that waits, and what elastalloc may do with a.
type kueueCase struct {
	elastic, off bool
	ray          string // what is special of a RayCluster, "" for a Job
	banned       bool   // Its namespace may not use the pool, and its pods are elsewhere.
	nodes        int
	change       func(job *unstructured.Unstructured)
	workloads    []*unstructured.Unstructured
	queue        string // the ClusterQueue; "" for one with a quota of 8 nodes
	pinned       world.Reason
	ceiling      int
	quota        int // -1 is unlimited
}

// cluster returns the cluster of the case.
func (test kueueCase) cluster(t *testing.T) *worldtest.Cluster {
	t.Helper()
	a := worldtest.Queued(worldtest.Job("a", test.nodes, map[string]string{"work": "100h"}), test.elastic)
	if test.change != nil {
		test.change(a)
	}
	c := worldtest.New(8, a, worldtest.Queued(worldtest.Job("b", 0, map[string]string{"work": "100h"}), true))
	c.Now = c.Now.Add(time.Hour)
	if !test.off {
		const quota = `{metadata: {name: shared},
			spec: {resourceGroups: [{flavors: [{resources: [{name: nvidia.com/gpu, nominalQuota: 64}]}]}]}}`
		c.Kueue = &world.Kueue{
			Workloads:     test.workloads,
			LocalQueues:   []*unstructured.Unstructured{fromYAML(t, `{metadata: {name: team, namespace: default}, spec: {clusterQueue: shared}}`)},
			ClusterQueues: []*unstructured.Unstructured{fromYAML(t, cmp.Or(test.queue, quota))},
		}
	}
	if test.ray != "" {
		c.Jobs["a"], c.Pods = rayCluster(t, a, test.ray), nil
	}
	if test.banned {
		c.Pool.Namespaces, c.Pods = []string{"other"}, nil
	}
	return c
}

// sharedLimit returns the limit of the ClusterQueue, -1 if it has none.
func sharedLimit(w *world.ClusterState) int {
	for _, group := range w.Queues {
		if group.Name == "ClusterQueue/shared" && group.Limit != nil {
			return *group.Limit
		}
	}
	return -1
}

// TestKueueJobs: only what Kueue admitted, or will start by itself, is decided on, and nothing grows
// while a stranger waits.
func TestKueueJobs(t *testing.T) {
	t.Parallel()
	// borrows returns a ClusterQueue with a quota of 2 nodes in a cohort.
	borrows := func(limit string) string {
		return `{metadata: {name: shared}, spec: {cohortName: all, resourceGroups: ` +
			`[{flavors: [{resources: [{name: nvidia.com/gpu, nominalQuota: "16"` + limit + `}]}]}]}}`
	}
	for name, test := range map[string]kueueCase{
		"admitted": {elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, quota: 8},
		"grows already": {
			elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 16), workload(t, "a", 0)}, quota: 8,
		},
		"a stranger runs": {
			elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32), workload(t, "", 24)}, quota: 5,
		},
		"a stranger shrank": {elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32), shrunk(t)}, quota: 6},
		"a stranger waits": {
			elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32), workload(t, "", 0)}, ceiling: 4, quota: 8,
		},
		"another of ours waits": {
			elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32), workload(t, "b", 0)}, quota: 8,
		},
		"waits":                 {elastic: true, workloads: []*unstructured.Unstructured{workload(t, "a", 0)}, quota: 8},
		"waits, is not elastic": {workloads: []*unstructured.Unstructured{workload(t, "a", 0)}, quota: 8},
		"is not elastic":        {nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, pinned: world.KueueOwned, quota: 8},
		"not admitted":          {elastic: true, nodes: 4, pinned: world.KueueOwned, quota: 8},
		"without Kueue":         {elastic: true, off: true, nodes: 4, pinned: world.KueueOwned, quota: -1},
		"elastic Jobs are off": {elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)},
			pinned: world.KueueOwned, quota: 8, change: func(job *unstructured.Unstructured) {
				unstructured.RemoveNestedField(job.Object, "spec", "template", "spec", "schedulingGates")
			}},
		"partial admission": {elastic: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)},
			pinned: world.KueueOwned, quota: 8, change: func(job *unstructured.Unstructured) {
				annotations := job.GetAnnotations()
				annotations["kueue.x-k8s.io/job-min-parallelism"] = "1"
				job.SetAnnotations(annotations)
			}},
		"in another cluster": {elastic: true, nodes: 4, pinned: world.NotElastic, quota: 8, change: func(job *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(job.Object, "kueue.x-k8s.io/multikueue", "spec", "managedBy")
		}},
		"elastic RayCluster": {ray: "gated", nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, quota: 8},
		"fixed RayCluster": {
			ray: "fixed", nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, pinned: world.KueueOwned, quota: 8,
		},
		"of a RayJob": {
			ray: "RayJob", nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, pinned: world.KueueOwned, quota: 8,
		},
		"no workers": {
			ray: "empty", nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, pinned: world.KueueOwned, quota: 4,
		},
		"elsewhere": {
			elastic: true, banned: true, nodes: 4, workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, pinned: world.NotAllowed, quota: 4,
		},
		"borrows": {
			elastic: true, nodes: 4, queue: borrows(""), workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, quota: -1,
		},
		"borrows to a limit": {
			elastic: true, nodes: 4, queue: borrows(", borrowingLimit: 8"),
			workloads: []*unstructured.Unstructured{workload(t, "a", 32)}, quota: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := test.cluster(t).ClusterState()
			j := w.Jobs[slices.IndexFunc(w.Jobs, func(j *world.Job) bool { return j.UID == "uid-a" })]
			if j.Pinned != test.pinned || j.Ceiling != test.ceiling || j.Kueue != (test.pinned == "") || j.Kueue && !j.Shape.NoPause {
				t.Errorf("pinned %q (%s), ceiling %d, Kueue's %t; want %q and %d", j.Pinned, j.Message, j.Ceiling, j.Kueue, test.pinned, test.ceiling)
			}
			if quota := sharedLimit(w); quota != test.quota {
				t.Errorf("quota is %d; want %d", quota, test.quota)
			}
		})
	}
}

// TestQueuedSizes checks that an elastic job that waits for Kueue may have its size and all smaller legal ones, and that its
// legal sizes still match its speeds.
func TestQueuedSizes(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64][]int{1: {1}, 2: {1, 2}, 3: {1, 2, 3}, 4: {1, 2, 4}, 7: {1, 2, 4, 7}} {
		job := worldtest.Queued(worldtest.Job("a", 0, map[string]string{"work": "1h", "nodes": "1,2,4", "speeds": "1,1.9,3.6"}), true)
		for _, field := range []string{"parallelism", "completions"} {
			_ = unstructured.SetNestedField(job.Object, size, "spec", field)
		}
		c := worldtest.New(8, job)
		c.Kueue = &world.Kueue{Workloads: []*unstructured.Unstructured{workload(t, "a", 0)}}
		j := c.ClusterState().Jobs[0]
		if !slices.Equal(j.QueuedSizes, want) || !slices.Equal(j.Sizes, []int{1, 2, 4}) {
			t.Errorf("size %d: queued sizes %v, sizes %v; want %v and [1 2 4]", size, j.QueuedSizes, j.Sizes, want)
		}
		if speed := j.Speed(want[len(want)-1]); speed < 1 || speed > 3.6 {
			t.Errorf("size %d: speed is %v; want 1 to 3.6", size, speed)
		}
	}
}

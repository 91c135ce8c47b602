//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// clusterQueue is a ClusterQueue and the LocalQueue of its name in the namespace of the test.
const clusterQueue = `
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
%[2]s
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: %[3]d%[4]s}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[1]s, namespace: kueue}
spec: {clusterQueue: %[1]s}
`

// admitted returns of how many pods that request GPUs Kueue admitted the jobs of the namespace.
func admitted(t *testing.T) map[string]int {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}
	list, err := dynamicClient(t, kube.Config).Resource(resource).Namespace(kueue).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	counts := make(map[string]int)
	for i := range list.Items {
		conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
		is := func(name string) bool {
			return slices.ContainsFunc(conditions, func(c any) bool {
				return c.(map[string]any)["type"] == name && c.(map[string]any)["status"] == "True"
			})
		}
		if is("Admitted") && !is("Finished") {
			assigned, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "admission", "podSetAssignments")
			sets, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "podSets")
			last := len(sets) - 1 // The head of a RayCluster is the first of two.
			count, _, _ := unstructured.NestedInt64(assigned[last].(map[string]any), "count")
			now, _, _ := unstructured.NestedInt64(sets[last].(map[string]any), "count") // Less once it shrank.
			counts[metav1.GetControllerOf(&list.Items[i]).Name] += int(min(count, now))
		}
	}
	return counts
}

// setQueue puts a ClusterQueue in force with a quota of nodes: in no cohort, unless a limit to
// what it may borrow is given, which is a number of nodes or "" for none.
func setQueue(t *testing.T, name string, nodes int, borrows ...string) {
	t.Helper()
	cohort, limit := "", ""
	if len(borrows) > 0 {
		if cohort = "  cohortName: all"; borrows[0] != "" {
			limit = ", borrowingLimit: " + borrows[0]
		}
	}
	wait.For(t, "Kueue's webhooks", func() (bool, string) {
		_, err := kubectl(t.Context(), kube, fmt.Sprintf(clusterQueue, name, cohort, cluster.GPUs*nodes, limit), "apply", "--server-side", "-f", "-")
		return err == nil, fmt.Sprint(err)
	})
}

// untilAdmitted waits until jobs have as many running pods as it says, and Kueue admitted as many.
func untilAdmitted(t *testing.T, what string, want map[string]int) {
	t.Helper()
	untilPods(t, kueue, want)
	wait.For(t, what, func() (bool, string) {
		got := admitted(t)
		return maps.Equal(got, want), fmt.Sprintf("Kueue admitted %v; want %v", got, want)
	})
}

// untilTold waits for an event on a job.
func untilTold(t *testing.T, job, reason, text string) {
	t.Helper()
	wait.For(t, "an event on "+job, func() (bool, string) {
		list := eventsOf(t, kueue, job)
		return slices.ContainsFunc(list, func(e string) bool { return strings.HasPrefix(e, reason+": ") && strings.Contains(e, text) }), fmt.Sprint(list)
	})
}

// remove deletes a job and its pods.
func remove(t *testing.T, name string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	must(t, kube.Client.BatchV1().Jobs(kueue).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// sliced returns the annotations of a job that Kueue takes for an elastic one.
func sliced(hours int) map[string]string {
	annotations := elastic(hours)
	annotations["kueue.x-k8s.io/elastic-job"] = "true"
	return annotations
}

// TestKueue runs the controller beside a real Kueue.
func TestKueue(t *testing.T) {
	const pool = kueue
	ray, err := startOperator(t.Context(), kube, kubeRay)
	must(t, err)
	t.Cleanup(ray.Kill)
	_, err = startOperator(t.Context(), kube, kueue)
	must(t, err)
	newPool(t, pool, 8)
	before := auditLength(t)
	for _, test := range []struct {
		name, settle string
		run          func(t *testing.T)
	}{
		{"quota", "", kueueQuota}, {"cohort", "", kueueCohort}, {"not granted", "10s", kueueNotGranted}, {"not ours", "10s", kueueNotOurs},
		{"RayCluster", "", kueueRayCluster},
	} {
		t.Run(test.name, func(t *testing.T) {
			controller{pool: pool, account: release, kinds: "Job, RayCluster", kueue: true, settle: test.settle}.start(t)
			test.run(t)
			must(t, kube.Client.BatchV1().Jobs(pool).DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}, metav1.ListOptions{}))
			untilAdmitted(t, "nothing", map[string]int{})
		})
	}
	t.Logf("%d writes of jobs", checkWrites(t, before, release, pool))
	for _, w := range writesSince(t, before, release) {
		if w.ObjectRef.Namespace == pool && strings.Contains(string(w.RequestObject), "/spec/suspend") {
			t.Errorf("it started or suspended %s: %s", w.ObjectRef.Name, w.RequestObject)
		}
	}
	job{name: "mine", size: 2, queue: "team", annotations: sliced(100)}.submit(t, pool)
	untilAdmitted(t, "a job that runs", map[string]int{"mine": 2})
	config := asAccount(t, release)
	a := account{clientOf(t, config), dynamicClient(t, config), pool}
	for _, patch := range []string{`{"spec":{"suspend":true}}`, `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}`} {
		if err := a.patch(resourceOf("Job"), "mine", patch); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("its account's %s is not refused by its policy: %v", patch, err)
		}
	}
}

// kueueQuota: elastic Jobs grow into quota that is idle, by slices of their Workload, and shrink for jobs
// that wait, which Kueue starts. They do not grow while a job waits that no decision can make room for, nor
// beyond the quota.
func kueueQuota(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 8)
	job{name: "first", size: 2, queue: "team", annotations: sliced(100)}.submit(t, kueue)
	untilAdmitted(t, "the first job in all of the quota", map[string]int{"first": 8})
	job{name: "second", size: 4, queue: "team", annotations: sliced(90)}.submit(t, kueue)
	untilAdmitted(t, "room for a job that waits", map[string]int{"first": 4, "second": 4})

	// A stranger to us wants more than there is: nothing grows for as long as it waits.
	job{name: "stranger", size: 6, queue: "team", unlabelled: true}.submit(t, kueue)
	untilTold(t, "stranger", "CreatedWorkload", "")
	remove(t, "second")
	untilAdmitted(t, "the quota of the second job given back", map[string]int{"first": 4})
	sleep(t.Context(), 12*time.Second) // Two cadences.
	untilAdmitted(t, "the first job as it was", map[string]int{"first": 4})
	remove(t, "stranger")
	untilAdmitted(t, "the first job in all of the quota once nothing waits", map[string]int{"first": 8})

	// One that is not elastic gets room at the size that it wants, and is left alone.
	job{name: "rigid", size: 4, queue: "team", annotations: elastic(1)}.submit(t, kueue)
	untilAdmitted(t, "room for a job that is not elastic", map[string]int{"first": 4, "rigid": 4})
	untilTold(t, "rigid", "KueueOwned", "")
	// Kueue does suspend it when its size changes, as that says.
	_, err := kubectl(t.Context(), kube, "", "-n", kueue, "patch", "job", "rigid", "--type=merge", `-p={"spec":{"parallelism":2,"completions":2}}`)
	must(t, err)
	wait.For(t, "Kueue to stop it", func() (bool, string) {
		list := eventsOf(t, kueue, "rigid")
		return slices.ContainsFunc(list, func(e string) bool { return strings.Contains(e, "No matching Workload") }), fmt.Sprint(list)
	})
	remove(t, "rigid")
	untilAdmitted(t, "the first job alone again", map[string]int{"first": 8})

	// No more is asked for than there is quota.
	remove(t, "first")
	setQueue(t, "team", 5)
	job{name: "third", size: 2, queue: "team", annotations: sliced(100)}.submit(t, kueue)
	untilAdmitted(t, "the largest size within the quota", map[string]int{"third": 4})
}

// kueueCohort: what a ClusterQueue may borrow is used while it is idle, up to its limit, and given back to a
// job of the lender that waits.
func kueueCohort(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 2, fmt.Sprint(2*cluster.GPUs))
	setQueue(t, "lender", 6, "")
	job{name: "borrower", size: 2, queue: "team", annotations: sliced(100)}.submit(t, kueue)
	untilAdmitted(t, "the quota and what may be borrowed", map[string]int{"borrower": 4})
	setQueue(t, "team", 2, "")
	untilAdmitted(t, "all of the cohort", map[string]int{"borrower": 8})
	job{name: "owner", size: 4, queue: "lender", annotations: sliced(90)}.submit(t, kueue)
	untilAdmitted(t, "room for a job of the lender", map[string]int{"borrower": 4, "owner": 4})
}

// kueueNotGranted: where the cohort has less than what may be borrowed, what Kueue does not grant is given
// back and the job trains on what it had.
func kueueNotGranted(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 2, "")
	setQueue(t, "lender", 4, "")
	job{name: "borrower", size: 4, queue: "team", annotations: sliced(100)}.submit(t, kueue)
	untilTold(t, "borrower", "Unused", "gets only the nodes that it uses")
	untilAdmitted(t, "what Kueue granted", map[string]int{"borrower": 4})
}

// kueueNotOurs: a job that Kueue starts with fewer pods than it wants gets room for all and keeps what it
// got; one whose pods another cluster runs keeps its quota.
func kueueNotOurs(t *testing.T) {
	t.Helper()
	setQueue(t, "lender", 0)
	setQueue(t, "team", 4)
	partial := elastic(1)
	partial["kueue.x-k8s.io/job-min-parallelism"], partial["kueue.x-k8s.io/job-completions-equal-parallelism"] = "2", "true"
	job{name: "partial", size: 8, queue: "team", annotations: partial}.submit(t, kueue)
	untilAdmitted(t, "a job started with fewer pods", map[string]int{"partial": 4})
	untilTold(t, "partial", "KueueOwned", "without partial admission")
	job{name: "first", size: 1, queue: "team", annotations: sliced(100)}.submit(t, kueue)
	sleep(t.Context(), 12*time.Second) // Two cadences.
	untilAdmitted(t, "the job as it was", map[string]int{"partial": 4})
	remove(t, "partial")
	untilAdmitted(t, "the next job", map[string]int{"first": 4})
	partial["kueue.x-k8s.io/job-min-parallelism"] = "1"
	job{name: "whole", size: 2, queue: "team", annotations: partial}.submit(t, kueue)
	untilAdmitted(t, "room for all pods of a job", map[string]int{"first": 2, "whole": 2})
	remove(t, "whole")
	remove(t, "first")

	setQueue(t, "team", 8)
	job{name: "far", size: 4, queue: "team", annotations: sliced(1), managedBy: new("kueue.x-k8s.io/multikueue")}.submit(t, kueue)
	untilTold(t, "far", "NotElastic", "another controller creates its pods")
	wait.For(t, "its quota", func() (bool, string) { got := admitted(t); return got["far"] == 4, fmt.Sprint(got) })
	job{name: "near", size: 2, queue: "team", annotations: sliced(100)}.submit(t, kueue)
	untilPods(t, kueue, map[string]int{"near": 4})
	sleep(t.Context(), 25*time.Second) // Longer than its pods are waited for, and two cadences.
	untilPods(t, kueue, map[string]int{"near": 4})
	if list := eventsOf(t, kueue, "near"); slices.ContainsFunc(list, func(e string) bool { return strings.HasPrefix(e, "Unused") }) {
		t.Errorf("more was asked for than there is quota: %v", list)
	}
}

// kueueRayCluster: an elastic RayCluster with one or two hosts per replica grows into quota that is idle and shrinks
// for a job that waits, by slices of its Workload. Its head runs on. A RayCluster that waits gets nodes of a running
// Job, and Kueue starts it.
func kueueRayCluster(t *testing.T) {
	t.Helper()
	setQueue(t, "team", 8)
	rays := dynamicClient(t, kube.Config).Resource(resourceOf("RayCluster")).Namespace(kueue)
	for _, hosts := range []int{1, 2} {
		ray := operated{container: "worker", queue: "team", job: fmt.Sprintf(`
apiVersion: ray.io/v1
spec:
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: head, image: head}]}}}
  workerGroupSpecs: [{groupName: gpu, replicas: SIZE, numOfHosts: %d, minReplicas: 0, maxReplicas: %d, rayStartParams: {}, template: POD}]`, hosts, 8/hosts)}
		must(t, ray.create(t, kueue, "RayCluster", "ray", 2/hosts, 100))
		untilAdmitted(t, "the RayCluster in all of the quota", map[string]int{"ray": 8})
		before := runningHead(t)
		if before == "" {
			t.Error("its head does not run")
		}
		job{name: "second", size: 4, queue: "team", annotations: sliced(90)}.submit(t, kueue)
		untilAdmitted(t, "room for a job that waits", map[string]int{"ray": 4, "second": 4})
		remove(t, "second")
		untilAdmitted(t, "the RayCluster in all of the quota again", map[string]int{"ray": 8})
		if after := runningHead(t); after != before {
			t.Errorf("its head was %q and is %q", before, after)
		}
		must(t, rays.Delete(t.Context(), "ray", metav1.DeleteOptions{}))

		job{name: "first", size: 2, queue: "team", annotations: sliced(100)}.submit(t, kueue)
		untilAdmitted(t, "the job in all of the quota", map[string]int{"first": 8})
		must(t, ray.create(t, kueue, "RayCluster", "ray", 4/hosts, 90))
		untilAdmitted(t, "room for a RayCluster that waits", map[string]int{"first": 4, "ray": 4})
		must(t, rays.Delete(t.Context(), "ray", metav1.DeleteOptions{}))
		remove(t, "first")
		untilAdmitted(t, "nothing", map[string]int{})
	}
}

// runningHead returns the UID of the running head of a RayCluster.
func runningHead(t *testing.T) (uid types.UID) {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(kueue).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/node-type=head", FieldSelector: "status.phase=Running"})
	must(t, err)
	for i := range list.Items {
		uid = list.Items[i].UID
	}
	return uid
}

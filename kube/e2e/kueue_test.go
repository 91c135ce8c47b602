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

	"github.com/elastalloc/elastalloc/internal/wait"
)

// queue is a ClusterQueue of the given GPUs, and the queue of a namespace.
const queue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpus}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: gpus, resources: [{name: nvidia.com/gpu, nominalQuota: %d}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: kueue}
spec: {clusterQueue: team}
`

// admitted returns of how many pods Kueue admitted the jobs of the namespace.
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
			count, _, _ := unstructured.NestedInt64(assigned[0].(map[string]any), "count")
			sets, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "podSets")
			now, _, _ := unstructured.NestedInt64(sets[0].(map[string]any), "count") // Less once it shrank.
			counts[metav1.GetControllerOf(&list.Items[i]).Name] += int(min(count, now))
		}
	}
	return counts
}

// TestKueue: beside a real Kueue, elastic Jobs grow into quota that is idle, by slices of their
// Workload, and shrink for jobs that wait, which Kueue starts. They do not grow while a job waits that
// no decision can make room for, nor beyond the quota.
func TestKueue(t *testing.T) {
	const pool, nodes = kueue, 8
	_, err := startOperator(t.Context(), kube, kueue)
	must(t, err)
	newPool(t, pool, nodes)
	setQuota := func(nodes int) {
		_, err := kube.Kubectl(t.Context(), fmt.Sprintf(queue, 8*nodes), "apply", "--server-side", "-f", "-")
		must(t, err)
	}
	wait.For(t, "Kueue's webhooks", func() (bool, string) {
		_, err := kube.Kubectl(t.Context(), fmt.Sprintf(queue, 8*nodes), "apply", "--server-side", "-f", "-")
		return err == nil, fmt.Sprint(err)
	})
	before := auditLength(t)
	controller{pool: pool, account: release, kinds: "Job", kueue: true}.start(t)
	sliced := func(hours int) map[string]string {
		annotations := elastic(hours)
		annotations["kueue.x-k8s.io/elastic-job"] = "true"
		return annotations
	}
	until := func(what string, want map[string]int) {
		t.Helper()
		untilPods(t, pool, want)
		wait.For(t, what, func() (bool, string) {
			got := admitted(t)
			return maps.Equal(got, want), fmt.Sprintf("Kueue admitted %v; want %v", got, want)
		})
	}

	job{name: "first", size: 2, queue: "team", annotations: sliced(100)}.submit(t, pool)
	until("the first job in all of the quota", map[string]int{"first": 8})
	job{name: "second", size: 4, queue: "team", annotations: sliced(90)}.submit(t, pool)
	until("room for a job that waits", map[string]int{"first": 4, "second": 4})

	// A stranger to us wants more than there is: nothing grows for as long as it waits.
	job{name: "stranger", size: 6, queue: "team", unlabelled: true}.submit(t, pool)
	wait.For(t, "the stranger's Workload", func() (bool, string) {
		list := eventsOf(t, pool, "stranger")
		return slices.ContainsFunc(list, func(e string) bool { return strings.HasPrefix(e, "CreatedWorkload") }), fmt.Sprint(list)
	})
	background := metav1.DeletePropagationBackground
	remove := func(name string) {
		must(t, kube.Client.BatchV1().Jobs(pool).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
	}
	remove("second")
	until("the quota of the second job given back", map[string]int{"first": 4})
	sleep(t.Context(), 12*time.Second) // Two cadences.
	until("the first job as it was", map[string]int{"first": 4})
	remove("stranger")
	until("the first job in all of the quota once nothing waits", map[string]int{"first": 8})

	// One that is not elastic gets room at the size that it wants, and is left alone.
	job{name: "rigid", size: 4, queue: "team", annotations: elastic(1)}.submit(t, pool)
	until("room for a job that is not elastic", map[string]int{"first": 4, "rigid": 4})
	wait.For(t, "why it is left alone", func() (bool, string) {
		list := eventsOf(t, pool, "rigid")
		return slices.ContainsFunc(list, func(e string) bool { return strings.HasPrefix(e, "KueueOwned: ") }), fmt.Sprint(list)
	})
	// Kueue does suspend it when its size changes, as that says.
	_, err = kube.Kubectl(t.Context(), "", "-n", pool, "patch", "job", "rigid", "--type=merge", `-p={"spec":{"parallelism":2,"completions":2}}`)
	must(t, err)
	wait.For(t, "Kueue to stop it", func() (bool, string) {
		list := eventsOf(t, pool, "rigid")
		return slices.ContainsFunc(list, func(e string) bool { return strings.Contains(e, "No matching Workload") }), fmt.Sprint(list)
	})
	remove("rigid")
	until("the first job alone again", map[string]int{"first": 8})

	// No more is asked for than there is quota.
	remove("first")
	setQuota(5)
	job{name: "third", size: 2, queue: "team", annotations: sliced(100)}.submit(t, pool)
	until("the largest size within the quota", map[string]int{"third": 4})

	t.Logf("%d writes of jobs", checkWrites(t, before, release, pool))
	for _, w := range writesSince(t, before, release) {
		if w.ObjectRef.Namespace == pool && strings.Contains(string(w.RequestObject), "/spec/suspend") {
			t.Errorf("it started or suspended %s: %s", w.ObjectRef.Name, w.RequestObject)
		}
	}
	config := asAccount(t, release)
	a := account{clientOf(t, config), dynamicClient(t, config), pool}
	for _, patch := range []string{`{"spec":{"suspend":true}}`, `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}`} {
		if err := a.patch(resourceOf("Job"), "third", patch); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			t.Errorf("its account's %s is not refused by its policy: %v", patch, err)
		}
	}
}

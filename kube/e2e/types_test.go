//go:build linux

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// typedPool is the pool of TestNodeTypes.
const typedPool = "types"

// twoTypes are the node types of a pool.
const twoTypes = ", nodeTypes: [{name: a100, labels: {gpu: a100}}, {name: h100, labels: {gpu: h100}, speed: 2}]"

// labelNodes sets the label gpu of two nodes of a pool, from the i-th on.
func labelNodes(t *testing.T, pool string, i int, gpu string) {
	t.Helper()
	for n := i; n < i+2; n++ {
		_, err := kube.Client.CoreV1().Nodes().Patch(t.Context(), cluster.NodeName(pool, n), types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"gpu":"`+gpu+`"}}}`), metav1.PatchOptions{})
		must(t, err)
	}
}

// untilOn waits until the jobs of a pool have these running pods, each with the label gpu of its node.
func untilOn(t *testing.T, pool string, want map[string]string) {
	t.Helper()
	wait.For(t, "pods on node types", func() (bool, string) {
		list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		on := make(map[string]string)
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Spec.NodeName == "" || ended(pod) || pod.DeletionTimestamp != nil {
				continue
			}
			node, err := kube.Client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
			must(t, err)
			on[jobOf(pod)] = strings.TrimSpace(on[jobOf(pod)] + " " + node.Labels["gpu"])
		}
		return maps.Equal(on, want), fmt.Sprintf("%v; want %v", on, want)
	})
}

// TestNodeTypes checks that a Job and a JobSet that select no node type start on nodes of type a100, and that both move
// once nodes of type h100 appear: they are suspended and start on the faster nodes, with only the writes that the policy
// allows.
func TestNodeTypes(t *testing.T) {
	newPool(t, typedPool, 4)
	labelNodes(t, typedPool, 0, "a100")
	controller{pool: typedPool, account: release, more: twoTypes}.start(t)
	annotations := map[string]string{"elastalloc.dev/work": "100h", "elastalloc.dev/nodes": "1", "elastalloc.dev/restart": "1s"}
	before := auditLength(t)
	job{name: "job", size: 1, annotations: annotations}.submit(t, typedPool)
	job{name: "set", size: 1, annotations: annotations}.submitJobSet(t, typedPool)
	untilOn(t, typedPool, map[string]string{"job": "a100", "set": "a100"})
	labelNodes(t, typedPool, 2, "h100")
	untilOn(t, typedPool, map[string]string{"job": "h100", "set": "h100"})
	for _, name := range []string{"job", "set"} {
		events := strings.Join(eventsOf(t, typedPool, name), "\n")
		for _, want := range []string{
			"Moving: suspend, freeing 1 nodes of type a100, to move to type h100", "Started: start with 1 nodes of type h100",
		} {
			if !strings.Contains(events, want) {
				t.Errorf("the events of %s are %s; want %q", name, events, want)
			}
		}
	}
	t.Logf("%d writes of jobs", checkWrites(t, before, release, typedPool))
}

// kueueTypes checks that the quota of a flavor limits the jobs on its node type. A job grows to the quota of the flavor that
// Kueue has assigned, and not to its idle nodes or to those of the other type. It never moves, also not to faster nodes that
// its annotation allows.
func kueueTypes(t *testing.T) {
	t.Helper()
	for i := range 4 {
		labelNodes(t, kueue, 2*i, []string{"a100", "h100"}[i/2])
	}
	setQuotas := func(a100, h100 int) {
		t.Helper()
		const queue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: a100}
spec: {nodeLabels: {pool: kueue, gpu: a100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
spec: {nodeLabels: {pool: kueue, gpu: h100}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: typed}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - {name: a100, resources: [{name: nvidia.com/gpu, nominalQuota: %d}]}
        - {name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: %d}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: typed, namespace: kueue}
spec: {clusterQueue: typed}
`
		wait.For(t, "Kueue's webhooks", func() (bool, string) {
			_, err := kubectl(t.Context(), kube, fmt.Sprintf(queue, cluster.GPUs*a100, cluster.GPUs*h100), "apply", "--server-side", "-f", "-")
			return err == nil, fmt.Sprint(err)
		})
	}
	annotations := func(hours int) map[string]string {
		annotations := elasticInKueue(hours)
		delete(annotations, "elastalloc.dev/doubling-efficiency")
		annotations["elastalloc.dev/speeds"] = "a100=1,1.9,3.6,6.8; h100=2,3.8,7.2,13.6"
		return annotations
	}
	before := auditLength(t)
	setQuotas(2, 1)
	job{name: "first", size: 2, queue: "typed", annotations: annotations(100)}.submit(t, kueue)
	untilAdmitted(t, "the first job in its flavor", map[string]int{"first": 2})
	job{name: "second", size: 1, queue: "typed", annotations: annotations(90)}.submit(t, kueue)
	on := map[string]string{"first": "a100 a100", "second": "h100"}
	untilOn(t, kueue, on)
	sleep(t.Context(), 12*time.Second) // two cadences
	untilAdmitted(t, "both jobs within the quotas, with idle nodes of both types", map[string]int{"first": 2, "second": 1})
	untilOn(t, kueue, on)
	untilEvent(t, "first", "KeepsType", "Kueue selects its nodes")

	setQuotas(2, 4)
	untilAdmitted(t, "the second job in the larger quota of its flavor", map[string]int{"first": 2, "second": 4})
	remove(t, "second")
	untilAdmitted(t, "the first job on its type", map[string]int{"first": 2})
	sleep(t.Context(), 12*time.Second) // two cadences
	untilAdmitted(t, "the first job on its type, with faster nodes and their quota idle", map[string]int{"first": 2})
	untilOn(t, kueue, map[string]string{"first": "a100 a100"})
	checkRequested(t, before, "first", 2)
	setQuotas(4, 4)
	untilAdmitted(t, "the first job in the larger quota of its flavor", map[string]int{"first": 4})
	untilOn(t, kueue, map[string]string{"first": "a100 a100 a100 a100"})
	remove(t, "first")
}

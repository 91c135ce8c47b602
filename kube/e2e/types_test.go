//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// typedPool is the pool of TestNodeTypes.
const typedPool = "types"

// labelNodes sets the label gpu of two nodes of the pool, from the i-th on.
func labelNodes(t *testing.T, i int, gpu string) {
	t.Helper()
	for n := i; n < i+2; n++ {
		_, err := kube.Client.CoreV1().Nodes().Patch(t.Context(), cluster.NodeName(typedPool, n), types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"gpu":"`+gpu+`"}}}`), metav1.PatchOptions{})
		must(t, err)
	}
}

// untilOn waits until each job has one running pod, on a node with a label gpu.
func untilOn(t *testing.T, gpu string, jobs ...string) {
	t.Helper()
	wait.For(t, "pods on "+gpu, func() (bool, string) {
		list, err := kube.Client.CoreV1().Pods(typedPool).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		on := make(map[string]string)
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Spec.NodeName == "" || ended(pod) || pod.DeletionTimestamp != nil {
				continue
			}
			node, err := kube.Client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
			must(t, err)
			on[jobOf(pod)] += node.Labels["gpu"]
		}
		all := len(on) == len(jobs)
		for _, job := range jobs {
			all = all && on[job] == gpu
		}
		return all, fmt.Sprintf("%v; want %s", on, gpu)
	})
}

// TestNodeTypes checks that a Job and a JobSet that select no node type start on nodes of type a100, and that both move
// once nodes of type h100 appear: they are suspended and start on the faster nodes, with only the writes that the policy
// allows.
func TestNodeTypes(t *testing.T) {
	newPool(t, typedPool, 4)
	labelNodes(t, 0, "a100")
	controller{
		pool: typedPool, account: release,
		more: ", nodeTypes: [{name: a100, labels: {gpu: a100}}, {name: h100, labels: {gpu: h100}, speed: 2}]",
	}.start(t)
	annotations := map[string]string{"elastalloc.dev/work": "100h", "elastalloc.dev/nodes": "1", "elastalloc.dev/restart": "1s"}
	before := auditLength(t)
	job{name: "job", size: 1, annotations: annotations}.submit(t, typedPool)
	job{name: "set", size: 1, annotations: annotations}.submitJobSet(t, typedPool)
	untilOn(t, "a100", "job", "set")
	labelNodes(t, 2, "h100")
	untilOn(t, "h100", "job", "set")
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

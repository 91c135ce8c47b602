//go:build linux

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestGang checks that gang-scheduled Jobs keep their sizes, because the API server rejects resizes. A running Job is
// pinned, a waiting Job starts at its size, and the controller tries each resize once. Another job gets the remaining
// nodes.
func TestGang(t *testing.T) {
	const pool, nodes = "gang", 8
	newPool(t, pool, nodes)
	gang := func(j job) {
		t.Helper()
		_, err := kubectl(t.Context(), kube, fmt.Sprintf(`
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: %s, namespace: %s}
spec: {schedulingPolicy: {gang: {minCount: %d}}}
`, j.name, pool, j.size), "create", "-f", "-")
		must(t, err)
		spec := j.indexed(pool)
		spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &j.name}
		jobs := kube.Client.BatchV1().Jobs(pool)
		_, err = jobs.Create(t.Context(), &batchv1.Job{ObjectMeta: j.metadata(pool), Spec: spec}, metav1.CreateOptions{})
		must(t, err)
		wait.For(t, "the API server rejects resizes of "+j.name, func() (bool, string) { // Its cache of PodGroups is updated later.
			_, err := jobs.Patch(t.Context(), j.name, types.MergePatchType, []byte(`{"spec":{"parallelism":4,"completions":4}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err != nil, fmt.Sprint(err)
		})
	}
	gang(job{name: "running", size: 2, running: true, annotations: elastic(100)})
	gang(job{name: "waiting", size: 2, annotations: elastic(100)})
	untilPods(t, pool, map[string]int{"running": 2})
	before := auditLength(t)
	controller{pool: pool, account: release}.start(t)
	untilPods(t, pool, map[string]int{"running": 2, "waiting": 2})
	job{name: "free", size: 1, annotations: elastic(100)}.submit(t, pool)
	want := map[string]int{"running": 2, "waiting": 2, "free": 4}
	untilPods(t, pool, want)
	wait.For(t, "an event Gang", func() (bool, string) {
		list := eventsOf(t, pool, "running")
		return slices.ContainsFunc(list, func(e string) bool {
			return strings.HasPrefix(e, "Gang: keeps its 2 nodes") && strings.Contains(e, "gang-scheduled PodGroup")
		}), strings.Join(list, "\n")
	})
	sleep(t.Context(), 12*time.Second) // two cadences
	untilPods(t, pool, want)
	rejected := make(map[string]int)
	for _, w := range writesSince(t, before, release) {
		if w.ResponseStatus.Code >= 400 && strings.Contains(w.ResponseStatus.Message, "gang-scheduled PodGroup") {
			rejected[w.ObjectRef.Name]++
		}
	}
	if rejected["running"] != 1 || rejected["waiting"] > 1 || len(rejected) > 2 {
		t.Errorf("rejected writes are %v; want one for the running gang, and at most one for the waiting gang", rejected)
	}
}

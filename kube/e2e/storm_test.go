//go:build linux

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

var stormSeed = flag.Uint64("storm-seed", 1, "seed of the random events of TestStorm")

// TestStorm submits, deletes and changes jobs, and loses, restores and drains nodes at random for a minute, and on until
// jobs have grown often enough. The watches of the controller lag. At no time may there be more pods than nodes, and the
// controller must not write to foreign jobs.
func TestStorm(t *testing.T) {
	const (
		pool     = "storm"
		nodes    = 12
		duration = time.Minute
		// On a busy machine, the controller may start late.
		maxDuration = 5 * time.Minute
		minGrows    = 15
	)
	newPool(t, pool, nodes)
	job{name: "foreign", size: 3, unlabelled: true, annotations: elastic(1)}.submit(t, pool)
	foreign := annotatedSpec(t, pool, "foreign")
	before := auditLength(t)
	h := record(t, pool)
	controller{pool: pool, account: release, proxy: newLaggingProxy(t)}.start(t)

	// The events depend on the seed; their effects depend on the timing of the cluster.
	random := rand.New(rand.NewPCG(*stormSeed, 2))
	ctx := t.Context()
	lost, drained := map[int]bool{}, map[int]bool{}
	submitted := 0
	goesOn := func(after time.Duration) bool { return after < duration || after < maxDuration && h.grows() < minGrows }
	for began := time.Now(); goesOn(time.Since(began)); sleep(ctx, time.Duration(100+random.IntN(700))*time.Millisecond) {
		node := random.IntN(nodes)
		name := cluster.NodeName(pool, node)
		switch random.IntN(10) {
		default:
			submitted++
			annotations := map[string]string{"test/stop-delay": fmt.Sprintf("%dms", random.IntN(2000))}
			if random.IntN(2) == 0 {
				annotations["test/run-for"] = fmt.Sprintf("%ds", 2+random.IntN(20))
			}
			j := job{
				name: fmt.Sprintf("job-%03d", submitted), size: 1 + random.IntN(4), annotations: elastic(1 + random.IntN(50)),
				pods: annotations, evictAfter: 2 * time.Second,
			}
			if random.IntN(3) == 0 {
				j.submitJobSet(t, pool)
			} else {
				j.submit(t, pool)
			}
		case 0, 1: // Delete a job, if it exists and is a Job.
			background := metav1.DeletePropagationBackground
			_ = kube.Client.BatchV1().Jobs(pool).Delete(ctx, fmt.Sprintf("job-%03d", 1+random.IntN(submitted+1)),
				metav1.DeleteOptions{PropagationPolicy: &background})
		case 2: // Change the work of a job.
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"elastalloc.dev/work":"%dh"}}}`, 1+random.IntN(200))
			_, _ = kube.Client.BatchV1().Jobs(pool).Patch(ctx, fmt.Sprintf("job-%03d", 1+random.IntN(submitted+1)),
				types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		case 3: // Lose or restore a node. At most a third of the nodes is lost or drained.
			if lost[node] || len(lost)+len(drained) < nodes/3 {
				if lost[node] {
					delete(lost, node)
				} else {
					lost[node] = true
				}
				must(t, setLost(ctx, name, lost[node]))
			}
		case 4: // Drain or restore a node.
			if !drained[node] && len(lost)+len(drained) < nodes/3 {
				drained[node] = true
				must(t, setCordoned(ctx, name, true))
				_ = kube.Client.CoreV1().Pods(pool).DeleteCollection(ctx, metav1.DeleteOptions{},
					metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
			} else if drained[node] {
				delete(drained, node)
				must(t, setCordoned(ctx, name, false))
			}
		case 5: // Delete a pod.
			list, err := kube.Client.CoreV1().Pods(pool).List(ctx, metav1.ListOptions{})
			must(t, err)
			if len(list.Items) > 0 {
				_ = kube.Client.CoreV1().Pods(pool).Delete(ctx, list.Items[random.IntN(len(list.Items))].Name, metav1.DeleteOptions{})
			}
		}
	}
	for node := range nodes {
		must(t, setLost(ctx, cluster.NodeName(pool, node), false))
		must(t, setCordoned(ctx, cluster.NodeName(pool, node), false))
	}

	s := h.check(t)
	t.Logf("%d jobs; %v; %d writes of jobs", submitted, s, checkWrites(t, before, release, pool))
	if s.grows < minGrows {
		t.Errorf("%d jobs grew, of %d that were submitted, so the test checked little", s.grows, submitted)
	}
	if after := annotatedSpec(t, pool, "foreign"); after != foreign {
		t.Errorf("the job without a label was\n%s\nand is\n%s", foreign, after)
	}
}

// annotatedSpec returns the specification, the annotations and the labels of a job as JSON.
func annotatedSpec(t *testing.T, pool, name string) string {
	t.Helper()
	job, err := kube.Client.BatchV1().Jobs(pool).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	text, err := json.Marshal([]any{job.Spec, job.Annotations, job.Labels})
	must(t, err)
	return string(text)
}

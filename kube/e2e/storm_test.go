//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// TestStorm has jobs come, end, be deleted and change their mind, and nodes be lost, come
// back and be drained, for a minute. At no event are there more pods than nodes, and nothing
// foreign is written.
func TestStorm(t *testing.T) {
	const (
		pool  = "storm"
		nodes = 12
		long  = time.Minute
	)
	newPool(t, pool, nodes)
	job{name: "foreign", size: 3, unlabelled: true, annotations: elastic(1)}.submit(t, pool)
	foreign := annotatedSpec(t, pool, "foreign")
	before := auditLength(t)
	h := record(t, pool)
	controller{pool: pool, account: release}.start(t)

	// The same storm every time, as far as the cluster goes along.
	random := rand.New(rand.NewPCG(1, 2))
	ctx := t.Context()
	lost, drained := map[int]bool{}, map[int]bool{}
	submitted := 0
	for began := time.Now(); time.Since(began) < long; sleep(ctx, time.Duration(100+random.IntN(700))*time.Millisecond) {
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
		case 0, 1: // Deleted, if it is there and a Job.
			background := metav1.DeletePropagationBackground
			_ = kube.Client.BatchV1().Jobs(pool).Delete(ctx, fmt.Sprintf("job-%03d", 1+random.IntN(submitted+1)), metav1.DeleteOptions{PropagationPolicy: &background})
		case 2: // Much less or more to do than was thought.
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"elastalloc.dev/work":"%dh"}}}`, 1+random.IntN(200))
			_, _ = kube.Client.BatchV1().Jobs(pool).Patch(ctx, fmt.Sprintf("job-%03d", 1+random.IntN(submitted+1)),
				types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		case 3: // Lost or back; a third of the nodes at most is away.
			if lost[node] || len(lost)+len(drained) < nodes/3 {
				if lost[node] {
					delete(lost, node)
				} else {
					lost[node] = true
				}
				must(t, setLost(ctx, name, lost[node]))
			}
		case 4: // Drained or back.
			if !drained[node] && len(lost)+len(drained) < nodes/3 {
				drained[node] = true
				must(t, setCordoned(ctx, name, true))
				_ = kube.Client.CoreV1().Pods(pool).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
			} else if drained[node] {
				delete(drained, node)
				must(t, setCordoned(ctx, name, false))
			}
		case 5: // A pod is deleted and comes again.
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

	v := h.check(t)
	t.Logf("%d jobs; %v; %d writes of jobs", submitted, v, checkWrites(t, before, release, pool))
	if v.grows < submitted/4 {
		t.Errorf("only %d times a job grew, of %d that were submitted: there was no storm", v.grows, submitted)
	}
	if after := annotatedSpec(t, pool, "foreign"); after != foreign {
		t.Errorf("the job without a label was\n%s\nand is\n%s", foreign, after)
	}
}

// annotatedSpec returns the specification and the annotations of a job.
func annotatedSpec(t *testing.T, pool, name string) string {
	t.Helper()
	job, err := kube.Client.BatchV1().Jobs(pool).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	text, err := json.Marshal([]any{job.Spec, job.Annotations, job.Labels})
	must(t, err)
	return string(text)
}

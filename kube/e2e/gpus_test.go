//go:build linux

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// gpus returns a list of resources with a number of GPUs.
func gpus(n int) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(n), resource.DecimalSI)}
}

// submitGPUs submits a job whose pods request the given number of GPUs each.
func submitGPUs(t *testing.T, pool string, j job, perPod int) {
	t.Helper()
	spec := j.indexed(pool)
	spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: gpus(perPod), Limits: gpus(perPod)}
	metadata := j.metadata(pool)
	_, err := kube.Client.BatchV1().Jobs(metadata.Namespace).Create(t.Context(),
		&batchv1.Job{ObjectMeta: metadata, Spec: spec}, metav1.CreateOptions{})
	must(t, err)
}

// TestGPUGroups checks that limits of groups count GPUs in a pool that counts them: with a limit of 3, the pods of one GPU
// of a team get 2 of the 8 GPUs of a node, and the other team gets 6.
func TestGPUGroups(t *testing.T) {
	const pool, limited = "gpu-groups", "gpu-groups-limited"
	newPool(t, pool, 1)
	_, err := kube.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: limited}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _, _ = kubectl(context.Background(), kube, "", "delete", "namespace", limited, "--wait=false") })
	controller{
		pool: pool, account: release,
		more: fmt.Sprintf(", count: units, groups: [{name: open, namespaces: [%s]}, {name: limited, namespaces: [%s], limit: 3}]", pool, limited),
	}.start(t)
	for _, namespace := range []string{pool, limited} {
		submitGPUs(t, pool, job{name: "job", size: 1, namespace: namespace, annotations: map[string]string{
			"elastalloc.dev/work": "100h", "elastalloc.dev/nodes": "1,2,4,6,8",
		}}, 1)
	}
	wait.For(t, "the GPUs of both groups", func() (bool, string) {
		open, _ := pods(t, pool)
		within, running := pods(t, limited)
		return open["job"] == 6 && within["job"] == 2 && running == 2, fmt.Sprint(open, within)
	})
}

// gpuPool is the pool of TestGPUs.
const gpuPool = "gpus"

// gpuPods returns the pods of TestGPUs that have not completed and whose job names have a prefix.
func gpuPods(t *testing.T, prefix string) []corev1.Pod {
	t.Helper()
	list, err := kube.Client.CoreV1().Pods(gpuPool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !strings.HasPrefix(jobOf(&pod), prefix) || ended(&pod) })
}

// createNotebooks creates pods without a job that use the given numbers of GPUs.
func createNotebooks(t *testing.T, units ...int) {
	t.Helper()
	for i, n := range units {
		_, err := kube.Client.CoreV1().Pods(gpuPool).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("notebook-%d", i), Namespace: gpuPool},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"pool": gpuPool}, Containers: []corev1.Container{{
				Name: "notebook", Image: "notebook", Resources: corev1.ResourceRequirements{Requests: gpus(n), Limits: gpus(n)},
			}}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
}

// untilSteady waits until the given number of pods of the steady jobs run.
func untilSteady(t *testing.T, want int) {
	t.Helper()
	wait.For(t, "the pods of the steady jobs", func() (bool, string) {
		var names []string
		for _, pod := range gpuPods(t, "steady-") {
			if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
				names = append(names, pod.Name)
			}
		}
		return len(names) == want, fmt.Sprint(names)
	})
}

// steadyPods returns the names of the pods of the steady jobs by UID, and the node of the job that uses all GPUs of it.
func steadyPods(t *testing.T) (names map[types.UID]string, fullNode string) {
	t.Helper()
	names = make(map[types.UID]string)
	for _, pod := range gpuPods(t, "steady-") {
		if names[pod.UID] = pod.Name; jobOf(&pod) == "steady-8" {
			fullNode = pod.Spec.NodeName
		}
	}
	return names, fullNode
}

// loseGPUs makes a node whose pods use all of its GPUs lose 3 of them, and waits for the event that reports this.
func loseGPUs(t *testing.T, node string) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"allocatable":{"nvidia.com/gpu":"%d"}}}`, cluster.GPUs-3)
	_, err := kube.Client.CoreV1().Nodes().Patch(t.Context(), node,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	must(t, err)
	wait.For(t, "an event on the node", func() (bool, string) {
		notes, err := kubectl(t.Context(), kube, "", "get", "events", "-A", "--field-selector",
			"involvedObject.name="+node+",reason=Retaining", "-o", "custom-columns=NOTE:.message")
		must(t, err)
		return strings.Contains(notes, "5 nvidia.com/gpu are allocatable, and its pods use 8"), notes
	})
}

// gpuProgress is the progress of the jobs of TestGPUs.
type gpuProgress struct {
	completed int
	pending   map[types.UID]time.Time // when pods were first seen without a node
	worst     time.Duration           // the longest time for which a pod was seen without a node
}

// update updates the progress.
func (p *gpuProgress) update(t *testing.T) {
	t.Helper()
	pending := make(map[types.UID]time.Time)
	for _, pod := range gpuPods(t, "") {
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			since, waited := p.pending[pod.UID]
			if !waited {
				since = time.Now()
			}
			pending[pod.UID], p.worst = since, max(p.worst, time.Since(since))
		}
	}
	p.pending, p.completed = pending, 0
	list, err := kube.Client.BatchV1().Jobs(gpuPool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, j := range list.Items {
		if strings.HasPrefix(j.Name, "job-") && slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
		}) {
			p.completed++
		}
	}
}

// untilCompleted waits until the given number of jobs have completed, and logs for how long pods were pending.
func untilCompleted(t *testing.T, jobs int) {
	t.Helper()
	start := time.Now()
	var p gpuProgress
	for p.completed < jobs { // All of them may take longer than one condition may.
		before := p.completed
		wait.For(t, "another job to complete", func() (bool, string) {
			p.update(t)
			return p.completed > before, fmt.Sprintf("%d of %d are complete; %d pods are pending", p.completed, jobs, len(p.pending))
		})
	}
	t.Logf("%d jobs completed in %.0f s; a pod was pending for at most %.1f s", jobs, time.Since(start).Seconds(), p.worst.Seconds())
}

// TestGPUs runs 60 jobs of 1, 2, 4, 8 and 16 GPUs with other pods on 8 nodes of 8 GPUs. When a node loses 3 GPUs while
// a pod uses all of its GPUs, no job is resized. All 60 jobs complete, the other jobs keep running, and no pod stays
// pending.
func TestGPUs(t *testing.T) {
	const (
		pool   = gpuPool
		nodes  = 8
		jobs   = 60
		settle = 5 * time.Second
	)
	newPool(t, pool, nodes)
	createNotebooks(t, 3, 2, 1)
	sizes := func(list string) map[string]string {
		return map[string]string{"elastalloc.dev/work": "1000h", "elastalloc.dev/nodes": list}
	}
	steady := map[string]int{"steady-8": 8, "steady-4": 4, "steady-2": 2, "steady-1": 1}
	for name, perPod := range steady {
		submitGPUs(t, pool, job{name: name, size: 1, annotations: sizes("1")}, perPod)
	}
	submitGPUs(t, pool, job{name: "steady-grown", size: 1, annotations: sizes("1-4")}, 1)
	controller{pool: pool, account: release, settle: settle.String(), more: ", count: units"}.start(t)
	untilSteady(t, len(steady)+4)

	before, node := steadyPods(t)
	loseGPUs(t, node)
	sleep(t.Context(), 2*settle) // longer than the timeout for pods that do not run, and a cadence
	if after, _ := steadyPods(t); !maps.Equal(before, after) {
		t.Fatalf("pods were %v; after the node lost GPUs they are %v", before, after)
	}
	background := metav1.DeletePropagationBackground
	must(t, kube.Client.BatchV1().Jobs(pool).Delete(t.Context(), "steady-8", metav1.DeleteOptions{PropagationPolicy: &background}))

	// Of 58 GPUs minus the GPUs of other pods, 5 are on the damaged node.
	for i := range jobs {
		gpus := []int{1, 2, 4, 8, 16}[i%5]
		perPod := min(gpus, cluster.GPUs)
		submitGPUs(t, pool, job{
			name: fmt.Sprintf("job-%02d", i), size: gpus / perPod, pods: map[string]string{"test/run-for": "2s"},
			annotations: map[string]string{"elastalloc.dev/work": "10s", "elastalloc.dev/nodes": []string{"1,2", "2"}[gpus/16]},
		}, perPod)
	}
	untilCompleted(t, jobs)
	untilSteady(t, len(steady)-1+4)
	wait.For(t, "no pending pods", func() (bool, string) {
		waiting := slices.DeleteFunc(gpuPods(t, ""), func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" })
		return len(waiting) == 0, fmt.Sprintf("%d are pending", len(waiting))
	})
	for name := range steady {
		events := strings.Join(eventsOf(t, pool, name), "\n")
		if strings.Contains(events, "NotElastic") || strings.Contains(events, "NotWholeNodes") {
			t.Errorf("%s: %s", name, events)
		}
	}
}

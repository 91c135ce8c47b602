//go:build linux

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/elastalloc/elastalloc/internal/wait"
	"github.com/elastalloc/elastalloc/kube/internal/cluster"
)

// blindness is how long a controller may not know that a node is gone: far longer than any
// event takes to it.
const blindness = 20 * time.Second

// history records every event of the nodes, pods, jobs and JobSets of a pool. They come by
// several watches, and the resource versions of one etcd put them in the order in which they
// happened.
type history struct {
	pool string
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	events []happened
}

type happened struct {
	version int64
	at      time.Time
	kind    watch.EventType
	object  runtime.Object
}

// record begins to record what happens in a pool.
func record(t *testing.T, pool string) *history {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := &history{pool: pool, stop: cancel}
	t.Cleanup(func() { cancel(); h.done.Wait() })
	nodes, podsOf, jobs := kube.Client.CoreV1().Nodes(), kube.Client.CoreV1().Pods(pool), kube.Client.BatchV1().Jobs(pool)
	sets := dynamicClient(t, kube.Config).Resource(jobSets).Namespace(pool)
	ofPool := metav1.ListOptions{LabelSelector: "pool=" + pool}
	for _, source := range []struct {
		list  func(context.Context) (runtime.Object, error)
		watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	}{
		{
			func(ctx context.Context) (runtime.Object, error) { return nodes.List(ctx, ofPool) },
			func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.LabelSelector = ofPool.LabelSelector
				return nodes.Watch(ctx, o)
			},
		},
		{func(ctx context.Context) (runtime.Object, error) { return podsOf.List(ctx, metav1.ListOptions{}) }, podsOf.Watch},
		{func(ctx context.Context) (runtime.Object, error) { return jobs.List(ctx, metav1.ListOptions{}) }, jobs.Watch},
		{func(ctx context.Context) (runtime.Object, error) { return sets.List(ctx, metav1.ListOptions{}) }, sets.Watch},
	} {
		list, err := source.list(ctx)
		must(t, err)
		objects, err := meta.ExtractList(list)
		must(t, err)
		for _, object := range objects {
			h.add(watch.Added, object)
		}
		metadata, err := meta.ListAccessor(list)
		must(t, err)
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, metadata.GetResourceVersion(), &cache.ListWatch{WatchFuncWithContext: source.watch})
		must(t, err)
		h.done.Go(func() {
			for event := range watcher.ResultChan() {
				h.add(event.Type, event.Object)
			}
		})
	}
	return h
}

func (h *history) add(kind watch.EventType, object runtime.Object) {
	accessor, ok := object.(metav1.Object)
	if !ok {
		return // An error, after which the watcher begins anew, or a bookmark.
	}
	version, err := strconv.ParseInt(accessor.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, happened{version, time.Now(), kind, object})
}

// demand is what a job asks for.
type demand struct {
	// size is its size, 0 while it is suspended and when it has ended.
	size int
	// alive pods have not ended and are not on a node that is out of the count; succeeded ones
	// are not replaced.
	alive, succeeded int
}

// nodes returns how many usable nodes the job holds or may get without another write of its
// size.
func (d demand) nodes() int { return max(d.size-d.succeeded, d.alive) }

// verdict is what a history tells.
type verdict struct {
	events, grows int
	// mostPods and mostNodes are the most pods at once and the nodes then.
	mostPods, mostNodes int
}

// check ends the recording and fails the test where at any event there were more pods of
// the pool than nodes, or where a job was made to grow and all jobs together then asked for
// more nodes than were usable.
func (h *history) check(t *testing.T) verdict {
	t.Helper()
	h.untilCaughtUp(t)
	h.stop()
	h.done.Wait()
	slices.SortStableFunc(h.events, func(a, b happened) int { return cmp.Compare(a.version, b.version) })

	usable := map[string]bool{} // nodes by name
	jobs := map[string]int{}    // sizes by name
	alive := map[string]*corev1.Pod{}
	succeeded := map[string]string{} // jobs by name of the pod
	type count struct {
		at     time.Time
		usable int
	}
	counts := []count{}
	var v verdict
	for _, event := range h.events {
		v.events++
		gone := event.kind == watch.Deleted
		grows := false
		switch object := event.object.(type) {
		case *corev1.Node:
			if delete(usable, object.Name); !gone {
				usable[object.Name] = cluster.Usable(object)
			}
			n := 0
			for _, is := range usable {
				if is {
					n++
				}
			}
			counts = append(counts, count{event.at, n})
		case *corev1.Pod:
			name, job := object.Name, jobOf(object)
			delete(alive, name)
			delete(succeeded, name)
			switch {
			case gone || job == "":
			case !ended(object):
				alive[name] = object
			case object.Status.Phase == corev1.PodSucceeded:
				succeeded[name] = job
			}
		case *batchv1.Job:
			if object.Labels[poolLabel] == "" {
				continue // A JobSet's, or a foreign one.
			}
			before := jobs[object.Name]
			if delete(jobs, object.Name); !gone {
				jobs[object.Name] = jobSize(object)
			}
			grows = jobs[object.Name] > before
		case *unstructured.Unstructured:
			before := jobs[object.GetName()]
			if delete(jobs, object.GetName()); !gone {
				jobs[object.GetName()] = jobSetSize(object)
			}
			grows = jobs[object.GetName()] > before
		}
		demands := map[string]demand{}
		for name, size := range jobs {
			demands[name] = demand{size: size}
		}
		for _, pod := range alive {
			if node := pod.Spec.NodeName; node == "" || usable[node] {
				d := demands[jobOf(pod)]
				d.alive++
				demands[jobOf(pod)] = d
			}
		}
		for _, job := range succeeded {
			d := demands[job]
			d.succeeded++
			demands[job] = d
		}
		if n := len(alive); n > v.mostPods {
			v.mostPods, v.mostNodes = n, len(usable)
		}
		if len(alive) > len(usable) {
			t.Fatalf("after event %d there are %d pods that have not ended on %d nodes: %v", event.version, len(alive), len(usable), demands)
		}
		if grows {
			v.grows++
			sum := 0
			for _, d := range demands {
				sum += d.nodes()
			}
			most := 0
			for i := len(counts) - 1; i >= 0; i-- {
				most = max(most, counts[i].usable)
				if event.at.Sub(counts[i].at) > blindness {
					break // What held until then, held at the beginning of the time.
				}
			}
			if sum > most {
				t.Fatalf("event %d makes a job grow, and all ask for %d nodes; %d are usable: %v", event.version, sum, most, demands)
			}
		}
	}
	return v
}

// untilCaughtUp waits until each watch has told of something that is written now, and so of
// all that happened before.
func (h *history) untilCaughtUp(t *testing.T) {
	t.Helper()
	const end = "end-of-history"
	job{name: end, size: 1, unlabelled: true}.submit(t, h.pool)
	job{name: end, size: 1, unlabelled: true}.submitJobSet(t, h.pool)
	_, err := kube.Client.CoreV1().Pods(h.pool).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: end},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"pool": end}, Containers: []corev1.Container{{Name: end, Image: end}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = kube.Client.CoreV1().Nodes().Patch(t.Context(), cluster.NodeName(h.pool, 0), types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"test/end":"yes"}}}`), metav1.PatchOptions{})
	must(t, err)
	wait.For(t, "the history to its end", func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		told := map[string]bool{}
		for _, event := range h.events {
			if object, ok := event.object.(metav1.Object); ok && (object.GetName() == end || object.GetAnnotations()["test/end"] != "") {
				told[fmt.Sprintf("%T", event.object)] = true
			}
		}
		return len(told) == 4, fmt.Sprintf("only %v have come", told)
	})
}

// jobOf returns the name of the job or JobSet that a pod belongs to.
func jobOf(pod *corev1.Pod) string {
	if name := pod.Labels["jobset.sigs.k8s.io/jobset-name"]; name != "" {
		return name
	}
	return pod.Labels["batch.kubernetes.io/job-name"]
}

func jobSize(job *batchv1.Job) int {
	if job.Spec.Suspend != nil && *job.Spec.Suspend || slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	}) {
		return 0
	}
	return int(*job.Spec.Parallelism)
}

func jobSetSize(set *unstructured.Unstructured) int {
	suspended, _, _ := unstructured.NestedBool(set.Object, "spec", "suspend")
	state, _, _ := unstructured.NestedString(set.Object, "status", "terminalState")
	if suspended || state != "" {
		return 0
	}
	replicated, _, _ := unstructured.NestedSlice(set.Object, "spec", "replicatedJobs")
	sum := 0
	for _, r := range replicated {
		if r, ok := r.(map[string]any); ok {
			n, _, _ := unstructured.NestedInt64(r, "template", "spec", "parallelism")
			sum += int(n)
		}
	}
	return sum
}

func (v verdict) String() string {
	return fmt.Sprintf("%d events, %d of them jobs that grew; at most %d pods on %d nodes", v.events, v.grows, v.mostPods, v.mostNodes)
}

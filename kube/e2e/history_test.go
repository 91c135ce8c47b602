//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// blindness is how long a controller may not know that a node is gone, or that a pod came which
// no decision asked for: far longer than any event takes to it.
const blindness = 20 * time.Second

// folders are the folders of etcd, with the kinds of their objects, that contain the pods and jobs of a
// namespace. A TrainJob has none, because its JobSet sets its size.
var folders = jobFolders()

func jobFolders() map[string]string {
	found := map[string]string{"pods": "Pod", "jobs": "Job"}
	for _, k := range kinds.All() {
		if k.Child == nil && k.GVK.Group != batchv1.GroupName {
			found[k.GVK.Group+"/"+strings.ToLower(k.Name)+"s"] = k.Name
		}
	}
	return found
}

// history records every event of the nodes, pods and jobs of a pool, from etcd: one
// watch, so in the order in which they happened, which no restart of the API server cuts off.
type history struct {
	pool string
	// lostAnswers says that the Job controller may make a pod twice: the API server was killed
	// before it answered. The two have one index and count as one.
	lostAnswers bool
	stop        context.CancelFunc
	done        sync.WaitGroup

	mu       sync.Mutex
	revision int64 // of the last event
	err      error // why the watch ended
	events   []happened
}

// happened is that an object was written, or deleted where it is nil.
type happened struct {
	revision   int64
	at         time.Time
	kind, name string
	object     runtime.Object
}

// record begins to record what happens in a pool.
func record(t *testing.T, pool string) *history {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	h := &history{pool: pool, stop: cancel}
	t.Cleanup(func() { cancel(); h.done.Wait() })
	var began int64
	prefixes := []string{"minions/" + pool + "-"}
	for folder := range folders {
		prefixes = append(prefixes, folder+"/"+pool+"/")
	}
	for _, prefix := range prefixes {
		key, end := rangeOf("/registry/" + prefix)
		var found struct {
			Header etcdHeader
			Kvs    []etcdObject
		}
		body := askEtcd(ctx, t, "/v3/kv/range", map[string]any{"key": key, "range_end": end, "revision": began})
		must(t, json.NewDecoder(body).Decode(&found))
		must(t, body.Close())
		if began == 0 {
			began = found.Header.Revision
		}
		for _, object := range found.Kvs {
			h.add(object, false)
		}
	}
	key, end := rangeOf("/registry/")
	body := askEtcd(ctx, t, "/v3/watch", map[string]any{"create_request": map[string]any{
		"key": key, "range_end": end, "start_revision": began + 1,
	}})
	h.done.Go(func() {
		defer body.Close()
		for decoder := json.NewDecoder(body); ; {
			var answer struct {
				Result struct {
					Canceled bool
					Events   []struct {
						Type string
						Kv   etcdObject
					}
				}
			}
			err := decoder.Decode(&answer)
			if err == nil && answer.Result.Canceled {
				err = errors.New("etcd canceled it")
			}
			if err != nil {
				h.mu.Lock()
				h.err = err
				h.mu.Unlock()
				return
			}
			for _, event := range answer.Result.Events {
				h.add(event.Kv, event.Type == "DELETE")
			}
		}
	})
	return h
}

// etcdHeader and etcdObject are what etcd answers in JSON.
type etcdHeader struct {
	Revision int64 `json:",string"`
}

type etcdObject struct {
	Key, Value  []byte
	ModRevision int64 `json:"mod_revision,string"`
}

// rangeOf returns the keys that begin with a prefix, as etcd wants a range.
func rangeOf(prefix string) (key, end []byte) {
	end = []byte(prefix)
	end[len(end)-1]++
	return []byte(prefix), end
}

// askEtcd returns the body of etcd's answer.
func askEtcd(ctx context.Context, t *testing.T, path string, question any) io.ReadCloser {
	t.Helper()
	text, err := json.Marshal(question)
	must(t, err)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, kube.EtcdURL+path, bytes.NewReader(text))
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("etcd answers %s to %s", response.Status, text)
	}
	return response.Body
}

// add adds what happened to an object of the pool.
func (h *history) add(o etcdObject, deleted bool) {
	event := happened{revision: o.ModRevision, at: time.Now(), name: path.Base(string(o.Key))}
	folder := strings.TrimPrefix(path.Dir(string(o.Key)), "/registry/")
	if inPool, found := strings.CutSuffix(folder, "/"+h.pool); found {
		event.kind = folders[inPool]
	} else if folder == "minions" && strings.HasPrefix(event.name, h.pool+"-") {
		event.kind = "Node"
	}
	var err error
	switch event.kind {
	case "":
	case "Node", "Pod", "Job":
		if !deleted {
			event.object, _, err = scheme.Codecs.UniversalDeserializer().Decode(o.Value, nil, nil)
		}
	default:
		if !deleted {
			event.object, _, err = unstructured.UnstructuredJSONScheme.Decode(o.Value, nil, nil)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, err)
	h.revision = max(h.revision, o.ModRevision)
	if event.kind != "" {
		h.events = append(h.events, event)
	}
}

// demand is what a job asks for.
type demand struct {
	// size is its size, 0 while it is suspended and when it has ended.
	size int
	// alive pods have not ended and are not on a node that takes no new ones, where they are away;
	// succeeded ones are not replaced.
	alive, away, succeeded int
}

// nodes returns how many usable nodes the job holds or may get without another write of its
// size.
func (d demand) nodes() int { return max(d.size-d.succeeded-d.away, d.alive) }

// verdict is what a history tells.
type verdict struct {
	events, grows int
	// mostPods and mostNodes are the most pods at once and the nodes then.
	mostPods, mostNodes int
	// doubles are the most pods at once that the Job controller had made twice.
	doubles int
}

// check ends the recording and fails the test where at any event more pods were bound than the
// pool has nodes, or more pods asked for, or where a job was made to grow and all jobs together
// then asked for more nodes than were usable. Asked for is every pod but those that are surplus,
// for as long as a controller may not know of them.
func (h *history) check(t *testing.T) verdict {
	t.Helper()
	h.untilCaughtUp(t)
	h.stop()
	h.done.Wait()

	usable := map[string]bool{} // nodes by name
	jobs := map[string]int{}    // sizes by name
	alive := map[string]*corev1.Pod{}
	cameSurplus := map[types.UID]time.Time{}
	succeeded := map[string]string{} // jobs by name of the pod
	type count struct {
		at     time.Time
		usable int
	}
	counts := []count{}
	var v verdict
	for _, event := range h.events {
		v.events++
		name := event.name
		before, pod := jobs[name], alive[name]
		switch event.kind {
		case "Node":
			delete(usable, name)
		case "Pod":
			delete(alive, name)
			delete(succeeded, name)
		default:
			delete(jobs, name)
		}
		switch object := event.object.(type) {
		case *corev1.Node:
			usable[name] = cluster.Usable(object)
		case *corev1.Pod:
			switch job := jobOf(object); {
			case job == "":
			case holds(object):
				alive[name] = object
				if isNew := pod == nil || pod.UID != object.UID; isNew && surplus(object, jobs[job]) {
					cameSurplus[object.UID] = event.at
				}
			case object.Status.Phase == corev1.PodSucceeded:
				succeeded[name] = job
			}
		case *batchv1.Job:
			if object.Labels[poolLabel] != "" { // Not a JobSet's, nor a foreign one.
				jobs[name] = jobSize(object)
			}
		case *unstructured.Unstructured:
			jobs[name] = sizeOf(object)
		}
		grows := jobs[name] > before && event.kind != "Node" && event.kind != "Pod"
		if event.kind == "Node" {
			n := 0
			for _, is := range usable {
				if is {
					n++
				}
			}
			counts = append(counts, count{event.at, n})
		}
		counted, bound := map[string]*corev1.Pod{}, 0
		for name, pod := range alive {
			if pod.Spec.NodeName != "" && !ended(pod) {
				bound++
			}
			if came, is := cameSurplus[pod.UID]; is && event.at.Sub(came) <= blindness {
				continue
			}
			if h.lostAnswers {
				name = jobOf(pod) + " " + pod.Annotations["batch.kubernetes.io/job-completion-index"]
			}
			counted[name] = pod
		}
		demands := map[string]demand{}
		for name, size := range jobs {
			demands[name] = demand{size: size}
		}
		for _, pod := range counted {
			// A pod that is deleted before it is bound never holds a node.
			d := demands[jobOf(pod)]
			takes, exists := usable[pod.Spec.NodeName]
			switch {
			case takes, pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
				d.alive++
			case exists && pod.DeletionTimestamp == nil:
				d.away++
			}
			demands[jobOf(pod)] = d
		}
		for _, job := range succeeded {
			d := demands[job]
			d.succeeded++
			demands[job] = d
		}
		if h.lostAnswers {
			v.doubles = max(v.doubles, len(alive)-len(counted))
		}
		if n := len(counted); n > v.mostPods {
			v.mostPods, v.mostNodes = n, len(usable)
		}
		if len(counted) > len(usable) || bound > len(usable) {
			t.Fatalf("after event %d there are %d pods asked for and %d bound on %d nodes: %v of %v",
				event.revision, len(counted), bound, len(usable), slices.Sorted(maps.Keys(alive)), demands)
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
				t.Fatalf("event %d makes a job grow, and all ask for %d nodes; %d are usable: %v", event.revision, sum, most, demands)
			}
		}
	}
	return v
}

// untilCaughtUp waits until the watch has told of something that is written now, and so of
// all that happened before.
func (h *history) untilCaughtUp(t *testing.T) {
	t.Helper()
	node, err := kube.Client.CoreV1().Nodes().Patch(t.Context(), cluster.NodeName(h.pool, 0), types.MergePatchType,
		[]byte(fmt.Sprintf(`{"metadata":{"annotations":{"test/now":%q}}}`, time.Now())), metav1.PatchOptions{})
	must(t, err)
	now, err := strconv.ParseInt(node.ResourceVersion, 10, 64)
	must(t, err)
	wait.For(t, "the history to its end", func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		must(t, h.err)
		return h.revision >= now, fmt.Sprintf("it is at revision %d of %d", h.revision, now)
	})
}

// jobOf returns the name of the job that a pod belongs to and holds a node for, or "".
func jobOf(pod *corev1.Pod) string {
	if pod.Labels["ray.io/node-type"] == "head" {
		return "" // It requests no GPU.
	}
	for _, label := range []string{
		"jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-name", "ray.io/cluster", "training.kubeflow.org/job-name",
	} {
		if name := pod.Labels[label]; name != "" {
			return name
		}
	}
	return ""
}

// replicaIndex is the label that training-operator gives its pods.
const replicaIndex = "training.kubeflow.org/replica-index"

// holds reports whether a pod holds a node, or makes training-operator take one: it makes the
// pods of all indexes below that of a pod which is not gone, a failed one too.
func holds(pod *corev1.Pod) bool {
	return !ended(pod) || pod.Labels[replicaIndex] != "" && pod.DeletionTimestamp != nil
}

// surplus reports whether training-operator made a pod by itself, of an index that its running
// job of that size does not ask for.
func surplus(pod *corev1.Pod, size int) bool {
	index, err := strconv.Atoi(pod.Labels[replicaIndex])
	return err == nil && 0 < size && size <= index
}

func jobSize(job *batchv1.Job) int {
	if job.Spec.Suspend != nil && *job.Spec.Suspend || slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	}) {
		return 0
	}
	return int(*job.Spec.Parallelism)
}

// sizeOf returns for how many pods a job of a kind other than Job asks.
func sizeOf(job *unstructured.Unstructured) int {
	suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
	paused, _, _ := unstructured.NestedBool(job.Object, "spec", "runPolicy", "suspend")
	state, _, _ := unstructured.NestedString(job.Object, "status", "terminalState")
	if suspended || paused || state != "" {
		return 0
	}
	workers, _, _ := unstructured.NestedInt64(job.Object, "spec", "pytorchReplicaSpecs", "Worker", "replicas")
	sum := int(workers)
	for list, size := range map[string][]string{"replicatedJobs": {"template", "spec", "parallelism"}, "workerGroupSpecs": {"replicas"}} {
		parts, _, _ := unstructured.NestedSlice(job.Object, "spec", list)
		for _, part := range parts {
			if part, ok := part.(map[string]any); ok {
				n, _, _ := unstructured.NestedInt64(part, size...)
				hosts, found, _ := unstructured.NestedInt64(part, "numOfHosts")
				if !found {
					hosts = 1
				}
				sum += int(n * hosts)
			}
		}
	}
	return sum
}

func (v verdict) String() string {
	return fmt.Sprintf("%d events, %d of them jobs that grew; at most %d pods on %d nodes", v.events, v.grows, v.mostPods, v.mostNodes)
}

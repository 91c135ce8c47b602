//go:build linux

package e2e

import (
	"bytes"
	"cmp"
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

// maxLag is the maximum time after which the controller must have observed a lost node, the eviction of a pod from an
// unusable node, or a pod that no decision requested. It is far longer than the usual lag of a watch.
const maxLag = 20 * time.Second

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

// history records all events of the nodes, pods and jobs of a pool. It uses one watch of etcd, so that the events are in
// order and a restart of the API server does not interrupt it.
type history struct {
	pool string
	// duplicates is true if the Job controller may create a pod twice, because the API server was killed before it
	// responded. Both pods have the same index and count once.
	duplicates bool
	stop       context.CancelFunc
	done       sync.WaitGroup

	mu       sync.Mutex
	revision int64 // of the last event
	err      error // the error with which the watch failed
	events   []event
}

// event is a write of an object, or its deletion if object is nil.
type event struct {
	revision   int64
	at         time.Time
	kind, name string
	object     runtime.Object
}

// record starts to record the events of a pool.
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
		body := requestEtcd(ctx, t, "/v3/kv/range", map[string]any{"key": key, "range_end": end, "revision": began})
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
	body := requestEtcd(ctx, t, "/v3/watch", map[string]any{"create_request": map[string]any{
		"key": key, "range_end": end, "start_revision": began + 1,
	}})
	h.done.Go(func() {
		defer body.Close()
		for decoder := json.NewDecoder(body); ; {
			var response struct {
				Result struct {
					Canceled bool
					Events   []struct {
						Type string
						Kv   etcdObject
					}
				}
			}
			err := decoder.Decode(&response)
			if err == nil && response.Result.Canceled {
				err = errors.New("etcd canceled the watch")
			}
			if err != nil {
				h.mu.Lock()
				h.err = err
				h.mu.Unlock()
				return
			}
			for _, e := range response.Result.Events {
				h.add(e.Kv, e.Type == "DELETE")
			}
		}
	})
	return h
}

// etcdHeader and etcdObject are parts of the JSON responses of etcd.
type etcdHeader struct {
	Revision int64 `json:",string"`
}

type etcdObject struct {
	Key, Value  []byte
	ModRevision int64 `json:"mod_revision,string"`
}

// rangeOf returns the range of the keys with a prefix, as a request to etcd specifies it.
func rangeOf(prefix string) (key, end []byte) {
	end = []byte(prefix)
	end[len(end)-1]++
	return []byte(prefix), end
}

// requestEtcd sends a request to etcd and returns the body of its response.
func requestEtcd(ctx context.Context, t *testing.T, path string, body any) io.ReadCloser {
	t.Helper()
	text, err := json.Marshal(body)
	must(t, err)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, kube.EtcdURL+path, bytes.NewReader(text))
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("etcd responds with %s to %s", response.Status, text)
	}
	return response.Body
}

// add records a write or the deletion of an object.
func (h *history) add(o etcdObject, deleted bool) {
	e := event{revision: o.ModRevision, at: time.Now(), name: path.Base(string(o.Key))}
	folder := strings.TrimPrefix(path.Dir(string(o.Key)), "/registry/")
	if inPool, found := strings.CutSuffix(folder, "/"+h.pool); found {
		e.kind = folders[inPool]
	} else if folder == "minions" && strings.HasPrefix(e.name, h.pool+"-") {
		e.kind = "Node"
	}
	var err error
	switch e.kind {
	case "":
	case "Node", "Pod", "Job":
		if !deleted {
			e.object, _, err = scheme.Codecs.UniversalDeserializer().Decode(o.Value, nil, nil)
		}
	default:
		if !deleted {
			e.object, _, err = unstructured.UnstructuredJSONScheme.Decode(o.Value, nil, nil)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = errors.Join(h.err, err)
	h.revision = max(h.revision, o.ModRevision)
	if e.kind != "" {
		h.events = append(h.events, e)
	}
}

// demand is the nodes that a job requests and occupies.
type demand struct {
	// size is the size of the job, 0 while it is suspended and once it has completed.
	size int
	// alive counts the running and pending pods on usable nodes or without a node, and away those on other nodes and
	// those that were evicted from there within maxLag. succeeded counts the pods that have succeeded, which are not
	// replaced.
	alive, away, succeeded int
}

// nodes returns the number of usable nodes that the job occupies, or may occupy without another write of its size.
func (d demand) nodes() int { return max(d.size-d.succeeded-d.away, d.alive) }

// summary describes a history.
type summary struct {
	events, grows int
	// mostPods is the maximum number of pods at a time, and mostNodes the number of nodes at that time.
	mostPods, mostNodes int
	// duplicates is the maximum number of duplicate pods at a time.
	duplicates int
}

// state is the state of a pool after an event.
type state struct {
	usable map[string]bool        // nodes by name
	sizes  map[string]int         // sizes of jobs by name
	alive  map[string]*corev1.Pod // pods that occupy nodes, or may, by name
	// succeeded maps the pods that have succeeded to their jobs. completed counts the indexes that have succeeded by
	// name of the Job, whose pods may have been deleted. jobSets maps Jobs to their JobSets.
	succeeded map[string]string
	completed map[string]int
	jobSets   map[string]string
	// surplus has the times at which pods were created that exceed the size of their job.
	surplus map[types.UID]time.Time
	// evicted has the pods that were deleted from unusable nodes. Before, their jobs did not need other nodes for them.
	evicted map[types.UID]eviction
}

// eviction is the deletion of a pod of a job from an unusable node.
type eviction struct {
	job string
	at  time.Time
}

func newState() *state {
	return &state{
		usable: make(map[string]bool), sizes: make(map[string]int), alive: make(map[string]*corev1.Pod),
		succeeded: make(map[string]string), completed: make(map[string]int), jobSets: make(map[string]string),
		surplus: make(map[types.UID]time.Time), evicted: make(map[types.UID]eviction),
	}
}

// apply applies an event, and reports whether it increases the size of a job.
func (s *state) apply(e event) (grows bool) {
	name := e.name
	before, pod := s.sizes[name], s.alive[name]
	switch e.kind {
	case "Node":
		delete(s.usable, name)
	case "Pod":
		if after, _ := e.object.(*corev1.Pod); pod != nil && s.away(pod) && (after == nil || after.UID != pod.UID || !s.away(after)) {
			s.evicted[pod.UID] = eviction{jobOf(pod), e.at}
		}
		delete(s.alive, name)
		delete(s.succeeded, name)
	default:
		delete(s.sizes, name)
		if e.kind == "Job" {
			delete(s.completed, name)
		}
	}
	switch object := e.object.(type) {
	case *corev1.Node:
		s.usable[name] = cluster.Usable(object)
	case *corev1.Pod:
		switch job := jobOf(object); {
		case job == "":
		case occupies(object):
			s.alive[name] = object
			if isNew := pod == nil || pod.UID != object.UID; isNew && surplus(object, s.sizes[job]) {
				s.surplus[object.UID] = e.at
			}
		case object.Status.Phase == corev1.PodSucceeded:
			s.succeeded[name] = job
		}
	case *batchv1.Job:
		s.completed[name] = int(object.Status.Succeeded)
		s.jobSets[name] = object.Labels["jobset.sigs.k8s.io/jobset-name"]
		if object.Labels[poolLabel] != "" { // The Job is neither part of a JobSet nor foreign.
			s.sizes[name] = jobSize(object)
		}
	case *unstructured.Unstructured:
		s.sizes[name] = sizeOf(object)
	}
	return s.sizes[name] > before && e.kind != "Node" && e.kind != "Pod"
}

// away reports whether a pod runs on an unusable node and is not being deleted. Its job needs no other node for it.
func (s *state) away(pod *corev1.Pod) bool {
	usable, exists := s.usable[pod.Spec.NodeName]
	return exists && !usable && pod.DeletionTimestamp == nil && !ended(pod)
}

// usableNodes returns the number of usable nodes.
func (s *state) usableNodes() int {
	n := 0
	for _, is := range s.usable {
		if is {
			n++
		}
	}
	return n
}

// demands returns the demands of all jobs for the given pods at a time.
func (s *state) demands(pods map[string]*corev1.Pod, now time.Time) map[string]demand {
	demands := make(map[string]demand)
	for name, size := range s.sizes {
		demands[name] = demand{size: size}
	}
	for _, pod := range pods {
		d := demands[jobOf(pod)]
		switch {
		case s.usable[pod.Spec.NodeName], pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
			d.alive++
		case s.away(pod):
			d.away++
		} // A pod that is deleted before it is bound never occupies a node.
		demands[jobOf(pod)] = d
	}
	for _, pod := range s.evicted {
		if d, exists := demands[pod.job]; exists && now.Sub(pod.at) <= maxLag {
			d.away++
			demands[pod.job] = d
		}
	}
	succeeded, completed := make(map[string]int), make(map[string]int)
	for _, job := range s.succeeded {
		succeeded[job]++
	}
	for job, n := range s.completed {
		completed[cmp.Or(s.jobSets[job], job)] += n
	}
	for job, d := range demands {
		d.succeeded = max(succeeded[job], completed[job])
		demands[job] = d
	}
	return demands
}

// check stops the recording. It fails the test if the history violates the rules of checkEvents.
func (h *history) check(t *testing.T) summary {
	t.Helper()
	h.untilCaughtUp(t)
	h.stop()
	h.done.Wait()
	sum, err := checkEvents(h.events, h.duplicates)
	must(t, err)
	return sum
}

// grows returns how often a job has grown so far, or until the first error of checkEvents.
func (h *history) grows() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum, _ := checkEvents(h.events, h.duplicates)
	return sum.grows
}

// usableCount is the number of usable nodes from a time on.
type usableCount struct {
	at    time.Time
	nodes int
}

// mostUsable returns the maximum number of usable nodes within maxLag before now.
func mostUsable(counts []usableCount, now time.Time) (most int) {
	for _, c := range slices.Backward(counts) {
		most = max(most, c.nodes)
		if now.Sub(c.at) > maxLag {
			break // This count was valid at the beginning of maxLag.
		}
	}
	return most
}

// bound returns the number of pods that are bound to a node and have not completed.
func (s *state) bound() (n int) {
	for _, pod := range s.alive {
		if pod.Spec.NodeName != "" && !ended(pod) {
			n++
		}
	}
	return n
}

// requested returns the pods that count as requested at a time: all but surplus pods up to an age of maxLag. If duplicates is
// true, pods of the same job with the same index count once.
func (s *state) requested(now time.Time, duplicates bool) map[string]*corev1.Pod {
	requested := make(map[string]*corev1.Pod)
	for name, pod := range s.alive {
		if created, is := s.surplus[pod.UID]; is && now.Sub(created) <= maxLag {
			continue
		}
		if duplicates {
			name = jobOf(pod) + " " + pod.Annotations["batch.kubernetes.io/job-completion-index"]
		}
		requested[name] = pod
	}
	return requested
}

// checkEvents returns an error if, after any event, more pods were bound or requested than the pool has nodes, or if a job
// grew and all jobs together then requested more nodes than were usable within maxLag. Surplus pods count as requested once
// they are older than maxLag. Pods that were evicted from unusable nodes count as away for maxLag, because the controller
// may have decided before it observed the eviction. duplicates is described at history.
func checkEvents(events []event, duplicates bool) (sum summary, err error) {
	s := newState()
	var counts []usableCount
	for i, e := range events {
		sum.events++
		grows := s.apply(e)
		if e.kind == "Node" {
			counts = append(counts, usableCount{e.at, s.usableNodes()})
		}
		requested, bound := s.requested(e.at, duplicates), s.bound()
		if duplicates {
			sum.duplicates = max(sum.duplicates, len(s.alive)-len(requested))
		}
		if n := len(requested); n > sum.mostPods {
			sum.mostPods, sum.mostNodes = n, len(s.usable)
		}
		demands := s.demands(requested, e.at)
		maps.DeleteFunc(demands, func(_ string, d demand) bool { return d.nodes() == 0 && d.away == 0 })
		if len(requested) > len(s.usable) || bound > len(s.usable) {
			return sum, fmt.Errorf("after event %d, %d pods are requested and %d are bound on %d nodes: %v of %v; %s",
				e.revision, len(requested), bound, len(s.usable), slices.Sorted(maps.Keys(s.alive)), demands, describeEvents(events[:i+1], demands))
		}
		if !grows {
			continue
		}
		sum.grows++
		nodes := 0
		for _, d := range demands {
			nodes += d.nodes()
		}
		if most := mostUsable(counts, e.at); nodes > most {
			return sum, fmt.Errorf("after event %d, in which %s grows, all jobs request %d nodes; %d are usable: %+v; %s",
				e.revision, e.name, nodes, most, demands, describeEvents(events[:i+1], demands))
		}
	}
	return sum, nil
}

const (
	// described is the age of the oldest event that a failure describes, and maxDescribed the maximum number of events.
	described    = 10 * time.Second
	maxDescribed = 60
)

// describeEvents describes the last events of the given jobs and of the nodes, newest first, one per line. It leaves out
// events that do not change the description of their object.
func describeEvents(events []event, jobs map[string]demand) string {
	type known struct{ text, job string }
	var lines []string
	now, last := events[len(events)-1].at, make(map[string]known)
	for _, e := range events {
		key := e.kind + " " + e.name
		before := last[key]
		is := known{"deleted", cmp.Or(before.job, e.name)}
		switch object := e.object.(type) {
		case *corev1.Node:
			is.text = fmt.Sprint("usable: ", cluster.Usable(object))
		case *corev1.Pod:
			is = known{fmt.Sprintf("%s on %q", object.Status.Phase, object.Spec.NodeName), jobOf(object)}
			if object.DeletionTimestamp != nil {
				is.text += ", being deleted"
			}
		case *batchv1.Job:
			is.text = fmt.Sprintf("size %d, %d pods have succeeded", jobSize(object), object.Status.Succeeded)
		case *unstructured.Unstructured:
			is.text = fmt.Sprintf("size %d", sizeOf(object))
		}
		last[key] = is
		_, concerns := jobs[is.job]
		if is.text != before.text && (concerns || e.kind == "Node") && now.Sub(e.at) <= described {
			lines = append(lines, fmt.Sprintf("%d %v %s: %s", e.revision, e.at.Sub(now).Round(time.Millisecond), key, is.text))
		}
	}
	slices.Reverse(lines)
	return "the last events, newest first:\n" + strings.Join(lines[:min(len(lines), maxDescribed)], "\n")
}

// untilCaughtUp writes to a node and waits until the watch has returned this write, and so all earlier events.
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

// jobOf returns the name of the job of a pod that occupies a node, or "".
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

// replicaIndex is a label of the pods of training-operator.
const replicaIndex = "training.kubeflow.org/replica-index"

// occupies reports whether a pod occupies a node, or makes training-operator create pods that do: it creates the pods of
// all indexes below the index of an existing pod, even of a failed one.
func occupies(pod *corev1.Pod) bool {
	return !ended(pod) || pod.Labels[replicaIndex] != "" && pod.DeletionTimestamp != nil
}

// surplus reports whether training-operator created a pod with an index that its running job of that size does not
// request.
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

// sizeOf returns the number of pods that a job of a kind other than Job requests.
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

func (s summary) String() string {
	return fmt.Sprintf("%d events, in %d of which a job grew; at most %d pods on %d nodes", s.events, s.grows, s.mostPods, s.mostNodes)
}

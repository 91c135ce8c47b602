package closedloop

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

const (
	gpu       = "nvidia.com/gpu"
	perNode   = 8
	label     = "elastalloc.dev/pool"
	jobLabel  = "test/job"  // on pods
	partLabel = "test/part" // "worker" or "driver"
	index     = "batch.kubernetes.io/job-completion-index"
	grace     = 30 * time.Second
	eviction  = 5 * time.Minute // from a node that is not ready
)

var jobSets = schema.GroupVersionKind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Kind: "JobSet"}

// cluster is an API server in memory with a clock of its own. It plays the Job and JobSet controllers, the scheduler, the
// kubelets and the node lifecycle controller.
type cluster struct {
	t    *testing.T
	api  client.WithWatch
	now  time.Time
	pool string // settings of the pool
	loop *controller.Loop
	jobs map[string]*job
	made int
	// nodesAdded is the number of nodes with a node type so far, which alternates.
	nodesAdded int

	mu        sync.Mutex // for the fields that parallel writes of the controller change
	writes    int
	strangers []string
	// templates are the writes of other pod templates that the API server would refuse.
	templates []string
	// fail returns the error of a write on an object, nil for none. If applied is true, the write takes effect.
	fail   func(name string) (err error, applied bool)
	posted map[string][]string // events of the controller by job since they were last read

	leaving map[types.UID]time.Time // pods that terminate until a time
}

// job is a Job, or a JobSet with a driver that its workers may wait for.
type job struct {
	name, kind string
	namespace  string
	units      int // of each worker
	sizes      []int
	left       time.Duration // true remaining work on one node
	restart    time.Duration
	efficiency float64
	initialize time.Duration // run time of the driver before the workers start, 0 without
	ready      bool          // the driver has completed
	holdUntil  time.Time     // no pods are created before
	active     int64         // active pods in its status
	selects    string        // node type that its user selects, "" for none
	missing    int           // index of a pod that cannot be created, -1 for none
	pods       string        // workers that trained last
	loading    time.Duration // time until they train again
	done       bool
}

// newCluster returns a cluster of eight nodes.
func newCluster(t *testing.T, pool string) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		t: t, pool: pool, now: time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC), jobs: make(map[string]*job), leaving: make(map[types.UID]time.Time),
		posted: make(map[string][]string),
	}
	c.api = fake.NewClientBuilder().WithScheme(scheme).WithIndex(&corev1.Event{},
		"involvedObject.name", func(client.Object) []string { return nil }).Build()
	for i := range 8 {
		c.addNode(fmt.Sprint("n", i))
	}
	c.restart()
	return c
}

// must fails the test if the simulation fails.
func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// restart starts the controller, as after a crash.
func (c *cluster) restart() {
	c.t.Helper()
	parsed, err := config.Parse([]byte("kinds: [Job, JobSet]\npools: [{name: training, nodeSelector: {pool: training}"+c.pool+"}]"),
		kinds.Names())
	c.must(err)
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	c.must(err)
	seen := interceptor.NewClient(c.api, interceptor.Funcs{Patch: c.patch, List: c.list})
	c.loop = controller.NewLoop(parsed.Pools[0], controller.Options{
		Mode: "apply", Kinds: kinds.Named(parsed.Kinds), Client: seen, Live: seen,
		Allocator: apiconv.InProcess{Allocator: allocator}, Recorder: c,
		Metrics: controller.NewMetrics(prometheus.NewRegistry(), "apply"),
		Log:     slog.New(slog.DiscardHandler), Now: func() time.Time { return c.now },
	})
}

// Eventf stores an event of the controller.
func (c *cluster) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if object, ok := regarding.(metav1.Object); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.posted[object.GetName()] = append(c.posted[object.GetName()], reason+" "+fmt.Sprintf(note, args...))
	}
}

// patch is a write of the controller.
func (c *cluster) patch(ctx context.Context, under client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	var stored unstructured.Unstructured
	stored.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if under.Get(ctx, client.ObjectKeyFromObject(o), &stored) == nil && stored.GetLabels()[label] == "" {
		c.strangers = append(c.strangers, stored.GetKind()+"/"+stored.GetName())
	}
	if body, err := p.Data(o); err == nil && bytes.Contains(body, []byte("/nodeSelector")) && !c.maySelect(&stored) {
		c.templates = append(c.templates, stored.GetKind()+"/"+stored.GetName())
	}
	if c.fail != nil {
		if err, applied := c.fail(o.GetName()); err != nil {
			if applied {
				_ = under.Patch(ctx, o, p, options...)
			}
			return err
		}
	}
	return under.Patch(ctx, o, p, options...)
}

// maySelect reports whether the API server lets the pod template of a job change: the job must be suspended, and a Job must
// have no active pods.
func (c *cluster) maySelect(o *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend")
	return suspended && (o.GetKind() == jobSets.Kind || c.active(o.GetName()) == 0)
}

// active returns the number of pods of a job that do not terminate.
func (c *cluster) active(job string) (n int64) {
	for _, pod := range c.pods() {
		if _, leaving := c.leaving[pod.UID]; !leaving && pod.Labels[jobLabel] == job {
			n++
		}
	}
	return n
}

// setActive sets the number of active pods in the status of the Jobs.
func (c *cluster) setActive() {
	active := make(map[string]int64)
	for _, pod := range c.pods() {
		if _, leaving := c.leaving[pod.UID]; !leaving {
			active[pod.Labels[jobLabel]]++
		}
	}
	for _, name := range c.names() {
		if j := c.jobs[name]; j.kind == "Job" && !j.done && active[name] != j.active && c.object(j) != nil {
			j.active = active[name]
			c.setStatus(j, j.active, "active")
		}
	}
}

// typed reports whether the pool has node types.
func (c *cluster) typed() bool { return strings.Contains(c.pool, "nodeTypes") }

// typeOf returns the value of the label of the node types, "" for none.
func typeOf(labels map[string]string) string { return labels["gpu"] }

// selectorOf returns the node selector of the workers of a job.
func selectorOf(o *unstructured.Unstructured) map[string]string {
	selector, _, _ := unstructured.NestedStringMap(workersOf(o), "template", "spec", "nodeSelector")
	return selector
}

// list reads with the clock of the cluster.
func (c *cluster) list(ctx context.Context, under client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	err := under.List(ctx, list, options...)
	if pods, ok := list.(*corev1.PodList); ok {
		for i := range pods.Items {
			if until, leaving := c.leaving[pods.Items[i].UID]; leaving {
				pods.Items[i].DeletionTimestamp = &metav1.Time{Time: until}
				pods.Items[i].DeletionGracePeriodSeconds = new(int64(grace / time.Second))
			}
		}
	}
	return err
}

func (c *cluster) addNode(name string) {
	units := corev1.ResourceList{gpu: *resource.NewQuantity(perNode, resource.DecimalSI)}
	labels := map[string]string{"pool": "training"}
	if c.typed() {
		labels["gpu"] = []string{"slow", "fast"}[c.nodesAdded%2]
		c.nodesAdded++
	}
	c.must(c.api.Create(c.t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: metav1.Time{Time: c.now}},
		Status: corev1.NodeStatus{
			Allocatable: units, Capacity: units.DeepCopy(),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: c.now}}},
		},
	}))
}

// nodes returns the nodes by name.
func (c *cluster) nodes() map[string]*corev1.Node {
	var list corev1.NodeList
	c.must(c.api.List(c.t.Context(), &list))
	nodes := make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes
}

// changeNode changes a node and its status.
func (c *cluster) changeNode(node *corev1.Node, change func(*corev1.Node)) {
	change(node)
	status := node.Status.DeepCopy()
	c.must(c.api.Update(c.t.Context(), node))
	node.Status = *status
	c.must(c.api.Status().Update(c.t.Context(), node))
}

// ready sets the readiness of a node.
func (c *cluster) ready(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if n.Status.Conditions[0].Status != status {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime.Time = status, c.now
		}
	}
}

// allocatable sets the units of a node that pods can use.
func allocatable(units int64) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[gpu] = *resource.NewQuantity(units, resource.DecimalSI) }
}

// heal removes all problems of a node.
func (c *cluster) heal(node *corev1.Node) {
	c.changeNode(node, func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Spec.Taints = false, nil
		allocatable(perNode)(n)
		c.ready(corev1.ConditionTrue)(n)
	})
}

// usable reports whether a node accepts pods of the pool.
func usable(n *corev1.Node) bool {
	return !n.Spec.Unschedulable && len(n.Spec.Taints) == 0 && n.Status.Conditions[0].Status == corev1.ConditionTrue
}

// free returns the units of each usable node that no pod uses, also none that is leaving.
func (c *cluster) free(nodes map[string]*corev1.Node) map[string]int {
	free := make(map[string]int)
	for name, node := range nodes {
		if units := node.Status.Allocatable[gpu]; usable(node) {
			free[name] = int(units.Value())
		}
	}
	for _, pod := range c.pods() {
		if phase := pod.Status.Phase; phase != corev1.PodFailed && phase != corev1.PodSucceeded {
			units := pod.Spec.Containers[0].Resources.Requests[gpu]
			free[pod.Spec.NodeName] -= int(units.Value())
		}
	}
	return free
}

func (c *cluster) pods() []corev1.Pod {
	var list corev1.PodList
	c.must(c.api.List(c.t.Context(), &list))
	return list.Items
}

// submit creates a job with legal sizes, suspended or with its smallest size.
func (c *cluster) submit(j *job, suspended bool, annotations map[string]string) {
	template := map[string]any{"spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{
		"name": "train", "image": "x", "resources": map[string]any{"limits": map[string]any{gpu: strconv.Itoa(j.units)}},
	}}}}
	size := int64(j.sizes[0])
	workers := map[string]any{"completionMode": "Indexed", "parallelism": size, "completions": size, "template": template}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": workers}}
	if j.kind == jobSets.Kind {
		driver := map[string]any{
			"name": "driver",
			"template": map[string]any{
				"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "driver"}}}}},
			},
		}
		worker := map[string]any{"name": "worker", "template": map[string]any{"spec": workers}}
		if j.initialize > 0 {
			worker["dependsOn"] = []any{map[string]any{"name": "driver", "status": "Complete"}}
		}
		o.Object["spec"] = map[string]any{"replicatedJobs": []any{driver, worker}}
		o.SetGroupVersionKind(jobSets)
	}
	_ = unstructured.SetNestedField(o.Object, suspended, "spec", "suspend")
	if j.selects != "" {
		_ = unstructured.SetNestedStringMap(workers, map[string]string{"gpu": j.selects}, "template", "spec", "nodeSelector")
	}
	o.SetName(j.name)
	o.SetNamespace(j.namespace)
	o.SetUID(types.UID("uid-" + j.name))
	o.SetCreationTimestamp(metav1.Time{Time: c.now})
	o.SetLabels(map[string]string{label: "training"})
	prefixed := make(map[string]string)
	for key, value := range annotations {
		prefixed["elastalloc.dev/"+key] = value
	}
	o.SetAnnotations(prefixed)
	c.must(c.api.Create(c.t.Context(), o))
	c.jobs[j.name] = j
}

// object returns the object of a job, nil if it was deleted.
func (c *cluster) object(j *job) *unstructured.Unstructured {
	var o unstructured.Unstructured
	o.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	if j.kind == jobSets.Kind {
		o.SetGroupVersionKind(jobSets)
	}
	if err := c.api.Get(c.t.Context(), client.ObjectKey{Namespace: j.namespace, Name: j.name}, &o); err != nil {
		c.must(client.IgnoreNotFound(err))
		return nil
	}
	return &o
}

// size returns the number of workers that a job requests, 0 while it is suspended or once it is done.
func (c *cluster) size(j *job) int {
	o := c.object(j)
	if o == nil || j.done {
		return 0
	}
	if suspended, _, _ := unstructured.NestedBool(o.Object, "spec", "suspend"); suspended {
		return 0
	}
	return int(workersOf(o)["parallelism"].(int64))
}

// workersOf returns the specification with the size of an object.
func workersOf(o *unstructured.Unstructured) map[string]any {
	spec := o.Object["spec"].(map[string]any)
	if sets, isSet := spec["replicatedJobs"].([]any); isSet {
		spec = sets[1].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	}
	return spec
}

// setStatus changes the status of a job.
func (c *cluster) setStatus(j *job, value any, field string) {
	o := c.object(j)
	_ = unstructured.SetNestedField(o.Object, value, "status", field)
	if j.kind == jobSets.Kind {
		c.must(c.api.Update(c.t.Context(), o))
		return
	}
	c.must(c.api.Status().Update(c.t.Context(), o))
}

// terminate begins to delete a pod.
func (c *cluster) terminate(pod *corev1.Pod) {
	if _, leaving := c.leaving[pod.UID]; !leaving {
		c.leaving[pod.UID] = c.now.Add(grace)
	}
}

// remove deletes a pod.
func (c *cluster) remove(pod *corev1.Pod) {
	delete(c.leaving, pod.UID)
	c.must(client.IgnoreNotFound(c.api.Delete(c.t.Context(), pod)))
}

// follow does what everybody but the controller and the users do.
func (c *cluster) follow() {
	nodes := c.nodes()
	c.evict(nodes)
	byJob := make(map[string]map[string]*corev1.Pod) // by job and name
	for _, pod := range c.pods() {
		if name := pod.Labels[jobLabel]; byJob[name] == nil {
			byJob[name] = map[string]*corev1.Pod{pod.Name: &pod}
		} else {
			byJob[name][pod.Name] = &pod
		}
	}
	for _, name := range c.names() {
		c.createPods(c.jobs[name], byJob[name])
	}
	if c.typed() {
		c.setActive()
	}
	c.schedule(nodes)
}

// names returns the names of the jobs in order.
func (c *cluster) names() []string {
	var names []string
	for name := range c.jobs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// evict deletes pods from nodes that are gone, not ready for long, or tainted, and pods that have terminated.
func (c *cluster) evict(nodes map[string]*corev1.Node) {
	for _, pod := range c.pods() {
		node := nodes[pod.Spec.NodeName]
		until, leaving := c.leaving[pod.UID]
		switch {
		case pod.Spec.NodeName != "" && node == nil, leaving && (pod.Spec.NodeName == "" || !c.now.Before(until)):
			c.remove(&pod)
		case node == nil || leaving || pod.Labels[partLabel] != "worker":
		case node.Status.Conditions[0].Status != corev1.ConditionTrue && c.now.Sub(node.Status.Conditions[0].LastTransitionTime.Time) > eviction,
			slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }):
			c.terminate(&pod)
		}
	}
}

// createPods creates the missing pods of a job, and deletes the pods with the highest indexes that it does not request.
func (c *cluster) createPods(j *job, pods map[string]*corev1.Pod) {
	size := c.size(j)
	var workers []int
	for _, pod := range pods {
		n, _ := strconv.Atoi(pod.Labels[index])
		_, leaving := c.leaving[pod.UID]
		worker := pod.Labels[partLabel] == "worker"
		switch {
		case leaving:
			workers = append(workers, n) // podReplacementPolicy: Failed.
		case worker && n >= size || size == 0:
			c.terminate(pod)
		case worker && pod.Status.Phase != corev1.PodFailed:
			workers = append(workers, n)
		}
	}
	if size == 0 || j.done {
		return
	}
	if driver := pods[j.name+"-driver"]; j.kind == jobSets.Kind && driver == nil && !j.ready {
		c.createPod(j, j.name+"-driver", "driver", 0)
	} else if driver != nil && j.initialize > 0 && !j.ready && c.now.Sub(driver.CreationTimestamp.Time) >= j.initialize {
		j.ready = true
		c.remove(driver)
		c.setStatus(j, []any{map[string]any{"name": "driver", "succeeded": int64(1)}}, "replicatedJobsStatus")
	}
	if c.now.Before(j.holdUntil) || j.initialize > 0 && !j.ready {
		return
	}
	for n := range size {
		if !slices.Contains(workers, n) && n != j.missing {
			c.made++
			c.createPod(j, fmt.Sprintf("%s-%d-%d", j.name, n, c.made), "worker", n)
		}
	}
}

// createPod creates a pod. A driver runs at once.
func (c *cluster) createPod(j *job, name, part string, n int) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: j.namespace, UID: types.UID("pod-" + name), CreationTimestamp: metav1.Time{Time: c.now},
			Labels: map[string]string{
				jobLabel: j.name, partLabel: part, index: strconv.Itoa(n),
				"batch.kubernetes.io/job-name": j.name, "jobset.sigs.k8s.io/jobset-name": j.name, "jobset.sigs.k8s.io/replicatedjob-name": part,
			},
			OwnerReferences: []metav1.OwnerReference{{Kind: j.kind, Name: j.name, UID: types.UID("uid-" + j.name), Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: part}}, NodeSelector: selectorOf(c.object(j))},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if part == "worker" {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{gpu: *resource.NewQuantity(int64(j.units), resource.DecimalSI)}
	} else {
		pod.Status.Phase = corev1.PodRunning
	}
	c.must(c.api.Create(c.t.Context(), pod))
}

// schedule assigns pods to usable nodes that have the units free, the fullest ones first.
func (c *cluster) schedule(nodes map[string]*corev1.Node) {
	pods, free := c.pods(), c.free(nodes)
	names := slices.Sorted(maps.Keys(nodes))
	for i := range pods {
		pod := &pods[i]
		if _, leaving := c.leaving[pod.UID]; leaving || pod.Spec.NodeName != "" || pod.Labels[partLabel] != "worker" {
			continue
		}
		quantity := pod.Spec.Containers[0].Resources.Requests[gpu]
		units, best := int(quantity.Value()), ""
		for _, name := range names {
			selected := typeOf(pod.Spec.NodeSelector) == "" || typeOf(pod.Spec.NodeSelector) == typeOf(nodes[name].Labels)
			if usable(nodes[name]) && selected && free[name] >= units && (best == "" || free[name] < free[best]) {
				best = name
			}
		}
		if best == "" {
			continue
		}
		pod.Spec.NodeName = best
		free[best] -= units
		c.must(c.api.Update(c.t.Context(), pod))
		pod.Status.Phase = corev1.PodRunning
		c.must(c.api.Status().Update(c.t.Context(), pod))
	}
}

// train lets the jobs train for a time. A job trains while all its workers run.
func (c *cluster) train(passed time.Duration) {
	nodes := c.nodes()
	running, factor := make(map[string][]string), make(map[string]float64)
	for _, pod := range c.pods() {
		node := nodes[pod.Spec.NodeName]
		if _, leaving := c.leaving[pod.UID]; !leaving && node != nil &&
			node.Status.Conditions[0].Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning {
			running[pod.Labels[jobLabel]] = append(running[pod.Labels[jobLabel]], pod.Name)
			if factor[pod.Labels[jobLabel]] = 1; typeOf(node.Labels) == "fast" {
				factor[pod.Labels[jobLabel]] = 2
			}
		}
	}
	for _, name := range c.names() {
		j := c.jobs[name]
		size := c.size(j)
		pods := running[name]
		slices.Sort(pods)
		if now := strings.Join(pods, " "); now != j.pods {
			j.pods, j.loading = now, j.restart
		}
		if size == 0 || len(pods) < size {
			continue
		}
		lost := min(passed, j.loading)
		j.loading -= lost
		if j.left -= time.Duration(float64(passed-lost) * factor[name] * speed(size, j.efficiency)); j.left <= 0 {
			c.complete(j)
		}
	}
}

// speed returns the speed of a number of nodes, of which each doubling keeps a share.
func speed(nodes int, efficiency float64) float64 {
	s := 1.0
	for ; nodes > 1; nodes /= 2 {
		s *= 2 * efficiency
	}
	return s
}

// complete completes a job.
func (c *cluster) complete(j *job) {
	j.done = true
	for _, pod := range c.pods() {
		if pod.Labels[jobLabel] == j.name {
			c.remove(&pod)
		}
	}
	if j.kind == jobSets.Kind {
		c.setStatus(j, "Completed", "terminalState")
		return
	}
	c.setStatus(j, []any{map[string]any{"type": "Complete", "status": "True"}}, "conditions")
}

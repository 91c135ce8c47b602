// Package worldtest simulates the part of a cluster that the controller observes: nodes, pods, and
// Indexed Jobs with a pod per node.
package worldtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// Unit is the resource of the nodes, and PerNode the amount of it per node.
const (
	Unit    = "nvidia.com/gpu"
	PerNode = 8
)

// Begin returns the time at which tests start.
func Begin() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// Pool returns a pool named training with the default configuration.
func Pool() config.Pool {
	return config.Pool{
		Name: "training", NodeSelector: map[string]string{"pool": "training"}, Unit: Unit,
		Cadence: config.DefaultCadence, Debounce: config.DefaultDebounce, MinInterval: config.DefaultMinInterval,
		Restart: config.DefaultRestart, SettleTimeout: config.DefaultSettleTimeout,
		NodeGracePeriod: config.DefaultNodeGracePeriod, MaxShrink: config.DefaultMaxShrink,
		MaxShrinkNodes: config.DefaultMaxShrinkNodes,
		Objective:      config.TotalTime, RemainingIn: config.Seconds,
	}
}

// Node returns a ready node of the pool.
func Node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "training"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{Unit: *resource.NewQuantity(PerNode, resource.DecimalSI)},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// Job returns an Indexed Job of the pool that requests the given number of nodes. If it is 0, the job
// is suspended with the size 1. The keys of annotations have no prefix.
func Job(name string, nodes int, annotations map[string]string) *unstructured.Unstructured {
	prefixed := make(map[string]any)
	for key, value := range annotations {
		prefixed[world.Prefix+key] = value
	}
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{
			"name": name, "namespace": "default", "uid": "uid-" + name, "resourceVersion": "1",
			"creationTimestamp": Begin().Format(time.RFC3339),
			"labels":            map[string]any{world.PoolLabel: "training"},
			"annotations":       prefixed,
		},
		"spec": map[string]any{
			"completionMode": "Indexed", "parallelism": int64(max(1, nodes)), "completions": int64(max(1, nodes)), "suspend": nodes == 0,
			"template": map[string]any{"spec": PodSpec(PerNode)},
		},
	}}
	if nodes > 0 {
		_ = unstructured.SetNestedField(job.Object, Begin().Format(time.RFC3339), "status", "startTime")
	}
	return job
}

// UnitPool returns a pool like Pool that counts units.
func UnitPool() config.Pool {
	pool := Pool()
	pool.Count = config.CountUnits
	return pool
}

// TypedPool returns a pool like Pool with the node types a100 and h100, whose nodes have the speeds 1 and 2. The nodes
// alternate between the types.
func TypedPool() config.Pool {
	pool := Pool()
	pool.NodeTypes = []config.NodeType{
		{Name: "a100", Labels: map[string]string{"gpu": "a100"}}, {Name: "h100", Labels: map[string]string{"gpu": "h100"}, Speed: new(2.0)},
	}
	return pool
}

// OnType sets the node selector of a Job, and returns it.
func OnType(job *unstructured.Unstructured, nodeType string) *unstructured.Unstructured {
	err := unstructured.SetNestedStringMap(job.Object, map[string]string{"gpu": nodeType}, "spec", "template", "spec", "nodeSelector")
	if err != nil {
		panic(err)
	}
	return job
}

// SmallJob returns a Job like Job of the given number of pods, each of which requests the given amount
// of Unit.
func SmallJob(name string, pods, units int, annotations map[string]string) *unstructured.Unstructured {
	job := Job(name, pods, annotations)
	if err := unstructured.SetNestedMap(job.Object, PodSpec(units), "spec", "template", "spec"); err != nil {
		panic(err)
	}
	return job
}

// Queued adds a Job to the LocalQueue team of Kueue, and returns it. If elastic is true, the job is elastic and has the
// scheduling gate that the webhook of Kueue adds.
func Queued(job *unstructured.Unstructured, elastic bool) *unstructured.Unstructured {
	labels := job.GetLabels()
	if labels == nil {
		labels = make(map[string]string)
	}
	labels["kueue.x-k8s.io/queue-name"] = "team"
	job.SetLabels(labels)
	if elastic {
		const gate = "kueue.x-k8s.io/elastic-job"
		annotations := job.GetAnnotations()
		annotations[gate] = "true"
		job.SetAnnotations(annotations)
		_ = unstructured.SetNestedSlice(job.Object, []any{map[string]any{"name": gate}}, "spec", "template", "spec", "schedulingGates")
	}
	return job
}

// PodSpec returns the specification of a pod that requests the given amount of Unit.
func PodSpec(units int) map[string]any {
	return map[string]any{"containers": []any{map[string]any{
		"name": "train", "resources": map[string]any{"limits": map[string]any{Unit: strconv.Itoa(units)}},
	}}}
}

// Pod returns a running pod on a node, or a pending pod if node is "".
func Pod(name, node string, labels map[string]string) *corev1.Pod {
	units := corev1.ResourceList{Unit: *resource.NewQuantity(PerNode, resource.DecimalSI)}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{Name: "owner", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "train", Resources: corev1.ResourceRequirements{Requests: units}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		pod.Status.Phase = corev1.PodPending
	}
	return pod
}

// Cluster is a simulated cluster.
type Cluster struct {
	Now   time.Time
	Pool  config.Pool
	Nodes []*corev1.Node
	Jobs  map[string]*unstructured.Unstructured
	Pods  []*corev1.Pod
	Kueue *world.Kueue
	// NodeHistory is the history of the nodes that ClusterState passes to world.Observe.
	NodeHistory map[string]world.NodeHistory
	createdPods int
}

// New returns a cluster with the given number of nodes and jobs, whose pods are running.
func New(nodes int, jobs ...*unstructured.Unstructured) *Cluster {
	return NewOf(Pool(), nodes, jobs...)
}

// NewOf returns a cluster like New of another pool.
func NewOf(pool config.Pool, nodes int, jobs ...*unstructured.Unstructured) *Cluster {
	c := &Cluster{Now: Begin(), Pool: pool, Jobs: make(map[string]*unstructured.Unstructured)}
	for i := range nodes {
		node := Node(fmt.Sprintf("node-%03d", i))
		if n := len(pool.NodeTypes); n > 0 {
			maps.Copy(node.Labels, pool.NodeTypes[i%n].Labels)
		}
		c.Nodes = append(c.Nodes, node)
	}
	for _, job := range jobs {
		c.Jobs[job.GetName()] = job
	}
	c.Reconcile()
	return c
}

// ClusterState observes the cluster.
func (c *Cluster) ClusterState() *world.ClusterState {
	in := world.Input{
		Now: c.Now, Pool: c.Pool, Apply: true, Nodes: c.Nodes, Pods: c.Pods, Kueue: c.Kueue, NodeHistory: c.NodeHistory, ETAs: new(eta.Estimator),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Jobs)) {
		in.Jobs = append(in.Jobs, world.Object{Kind: kinds.Named([]string{c.Jobs[name].GetKind()})[0], Job: c.Jobs[name]})
	}
	return world.Observe(in)
}

// Reconcile simulates the Job controller and the scheduler: it creates missing pods, assigns them to
// free nodes, and marks surplus pods as deleted.
func (c *Cluster) Reconcile() {
	for _, name := range slices.Sorted(maps.Keys(c.Jobs)) {
		c.createPods(name, c.Jobs[name])
	}
	c.schedule()
}

// createPods creates the missing pods of a job, and marks surplus pods as deleted.
func (c *Cluster) createPods(name string, job *unstructured.Unstructured) {
	want, _, _ := unstructured.NestedInt64(job.Object, "spec", "parallelism")
	suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend")
	if suspended {
		want = 0
	}
	setSuspended(job, suspended)
	var live []*corev1.Pod
	for _, pod := range c.Pods {
		if pod.Labels["batch.kubernetes.io/job-name"] == name && pod.DeletionTimestamp == nil {
			live = append(live, pod)
		}
	}
	for i := len(live); i < int(want); i++ {
		c.createdPods++
		pod := Pod(fmt.Sprintf("%s-%d", name, c.createdPods), "", map[string]string{"batch.kubernetes.io/job-name": name})
		if c.Pool.CountsUnits() {
			pod.Spec.Containers[0].Resources.Requests[Unit] = Requests(job)
		}
		pod.Spec.NodeSelector, _, _ = unstructured.NestedStringMap(job.Object, "spec", "template", "spec", "nodeSelector")
		c.Pods = append(c.Pods, pod)
	}
	for i := int(want); i < len(live); i++ {
		// The grace period is 30 s.
		live[i].DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
	}
}

// schedule assigns the pending pods to the first nodes that they select and that have room.
func (c *Cluster) schedule() {
	busy := make(map[string]int64) // units in use
	for _, pod := range c.Pods {
		busy[pod.Spec.NodeName] += c.unitsOf(pod)
	}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		for _, node := range c.Nodes {
			if c.fits(pod, node, busy[node.Name]) {
				pod.Spec.NodeName, pod.Status.Phase = node.Name, corev1.PodRunning
				busy[node.Name] += c.unitsOf(pod)
				break
			}
		}
	}
}

// unitsOf returns the amount of Unit that a pod uses: a whole node, unless the pool counts units.
func (c *Cluster) unitsOf(pod *corev1.Pod) int64 {
	if !c.Pool.CountsUnits() {
		return PerNode
	}
	quantity := pod.Spec.Containers[0].Resources.Requests[Unit]
	return quantity.Value()
}

// fits reports whether a pod selects a node that has an amount of Unit in use, and fits on it.
func (c *Cluster) fits(pod *corev1.Pod, node *corev1.Node, busy int64) bool {
	for key, value := range pod.Spec.NodeSelector {
		if node.Labels[key] != value {
			return false
		}
	}
	if !c.Pool.CountsUnits() {
		return busy == 0
	}
	has := node.Status.Allocatable[Unit]
	return busy+c.unitsOf(pod) <= has.Value()
}

// setSuspended sets the condition Suspended of a Job.
func setSuspended(job *unstructured.Unstructured, suspended bool) {
	conditions, _, _ := unstructured.NestedSlice(job.Object, "status", "conditions")
	conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == "Suspended" })
	if suspended {
		conditions = append(conditions, map[string]any{"type": "Suspended", "status": "True"})
	}
	if err := unstructured.SetNestedSlice(job.Object, conditions, "status", "conditions"); err != nil {
		panic(err)
	}
}

// Requests returns the amount of Unit that a pod of a job requests.
func Requests(job *unstructured.Unstructured) resource.Quantity {
	containers, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "containers")
	text, _, _ := unstructured.NestedString(containers[0].(map[string]any), "resources", "limits", Unit)
	return resource.MustParse(text)
}

// RemoveDeletedPods removes the pods that are marked as deleted, and calls Reconcile.
func (c *Cluster) RemoveDeletedPods() {
	c.Pods = slices.DeleteFunc(c.Pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	c.Reconcile()
}

// Patch returns a copy of an object with a patch applied. The patch must have the resource version of
// the object.
func Patch(object *unstructured.Unstructured, patch kinds.Patch) (*unstructured.Unstructured, error) {
	body, err := patch.JSON(object.GetResourceVersion())
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(body)
	if err != nil {
		return nil, err
	}
	before, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	after, err := decoded.Apply(before)
	if err != nil {
		return nil, err
	}
	var patched unstructured.Unstructured
	return &patched, patched.UnmarshalJSON(after)
}

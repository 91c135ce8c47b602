package controller_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// eventful is a cluster with jobs of all kinds in which random events happen. It plays their
// controllers, the scheduler, the kubelets and the node lifecycle controller.
type eventful struct {
	*cluster
	*rand.Rand
	kubelets *rand.Rand // for how long pods take to end
	history  []string
	brief    bool  // nothing lasts for the grace period, so that no job may be resized
	changes  int   // of sizes by the controller
	written  int64 // how many writes there were when the jobs were read, -1 if they have to be
	even     bool  // Reconcile is called every step, whatever time it returns
	// jobs are all that were created, by name.
	jobs map[string]*eventfulJob
	// removed are when nodes were deleted, deleted when pods are gone that are being deleted, and
	// undo what ends an event, by time.
	removed map[string]time.Time
	deleted map[types.UID]time.Time
	undo    []undo
	made    int
}

type eventfulJob struct {
	kind      kinds.Kind
	multiHost bool // a RayCluster whose replicas have several hosts
	sizes     []int
	restart   time.Duration
	paused    bool // by its user
	crashes   bool
	succeeds  int // how many of its pods have succeeded
	lingers   bool
	shape     kinds.Shape
}

// size returns the number of nodes that the job requests.
func (j *eventfulJob) size() int {
	if j.shape.Suspended || j.shape.Finished {
		return 0
	}
	return j.shape.Size
}

type undo struct {
	at time.Time
	do func()
}

// manifests are jobs of all kinds with SIZE, SUSPEND and a POD template: a RayCluster with one and with
// two hosts for each replica. A TrainJob has a JobSet with its name.
var manifests = map[string]string{
	"Job": `
apiVersion: batch/v1
spec: {suspend: SUSPEND, completionMode: Indexed, parallelism: SIZE, completions: SIZE, template: POD}`,
	"JobSet": `
apiVersion: jobset.x-k8s.io/v1alpha2
spec: {suspend: SUSPEND,
  replicatedJobs: [{name: node, template: {spec: {completionMode: Indexed, parallelism: SIZE, completions: SIZE, template: POD}}}]}`,
	"RayCluster": `
apiVersion: ray.io/v1
spec: {suspend: SUSPEND, workerGroupSpecs: [{groupName: gpu, replicas: SIZE, template: POD}]}`,
	multiHost: `
apiVersion: ray.io/v1
spec: {suspend: SUSPEND, workerGroupSpecs: [{groupName: gpu, replicas: 1, numOfHosts: 2, minReplicas: 1, maxReplicas: 4, template: POD}]}`,
	"TrainJob": `
apiVersion: trainer.kubeflow.org/v1alpha1
spec: {suspend: SUSPEND, trainer: {numNodes: SIZE}}`,
	"PyTorchJob": `
apiVersion: kubeflow.org/v1
spec:
  runPolicy: {suspend: SUSPEND}
  elasticPolicy: {minReplicas: 1, maxReplicas: 8, maxRestarts: 100}
  pytorchReplicaSpecs: {Worker: {replicas: SIZE, template: POD}}`,
}

// multiHost is a RayCluster whose replicas have two hosts.
const multiHost, hosts = "RayCluster of hosts", 2

// TestEveryKindHasAManifest checks that random events include jobs of every kind.
func TestEveryKindHasAManifest(t *testing.T) {
	t.Parallel()
	for _, name := range kinds.Names() {
		if _, ok := manifests[name]; !ok {
			t.Errorf("manifests: has no %s", name)
		}
	}
}

// newEventful returns a cluster of the given nodes with random jobs.
func newEventful(t *testing.T, seed uint64, nodes int, mode string) *eventful {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 45))
	e := &eventful{
		cluster: newCluster(t, nodes), Rand: r, kubelets: rand.New(rand.NewPCG(seed, 46)), jobs: make(map[string]*eventfulJob),
		removed: make(map[string]time.Time), deleted: make(map[types.UID]time.Time),
	}
	e.mode, e.kinds, e.step, e.follow = mode, kinds.All(), 20*time.Second, e.reconcile
	e.start()
	return e
}

// submitRandom creates a job of any kind and shape that trains for long.
func (e *eventful) submitRandom(nodes int) {
	e.t.Helper()
	variant := slices.Sorted(maps.Keys(manifests))[e.IntN(len(manifests))]
	sizes := [][]int{{1, 2, 4, 8}, {1, 2, 3, 4}, {2, 4}, {1}, {3}, {4}}[e.IntN(6)]
	if variant == multiHost {
		sizes = [][]int{{2, 4, 6, 8}, {2, 4}}[e.IntN(2)]
	}
	e.submit(variant, sizes, []time.Duration{time.Minute, 5 * time.Minute}[e.IntN(2)], e.IntN(8) == 0, nodes)
}

// submit creates a job that trains for long; one that its user paused runs where it fits.
func (e *eventful) submit(variant string, sizes []int, restart time.Duration, paused bool, nodes int) {
	e.t.Helper()
	name := fmt.Sprint("job-", len(e.jobs))
	kind, _, _ := strings.Cut(variant, " ")
	annotations := map[string]string{
		world.WorkAnnotation:    fmt.Sprintf("%dh", 5000+e.IntN(5000)),
		world.NodesAnnotation:   strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ","), "[]"),
		world.RestartAnnotation: restart.String(),
	}
	j := &eventfulJob{kind: kinds.Named([]string{kind})[0], multiHost: variant == multiHost, sizes: sizes, restart: restart, paused: paused}
	suspend := "true"
	if free := nodes - e.requested(); free >= sizes[0] && e.mode == plan.ModeRecommend || j.paused && free >= sizes[0] {
		suspend = "false"
	}
	if j.paused {
		annotations[world.PausedAnnotation] = "true"
	}
	fill := strings.NewReplacer("SIZE", strconv.Itoa(sizes[0]), "SUSPEND", suspend,
		"POD", `{spec: {containers: [{name: train, resources: {limits: {nvidia.com/gpu: "8"}}}]}}`)
	create := func(kind, manifest string, labels, annotations map[string]string) {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(fill.Replace(manifest)), &object.Object); err != nil {
			e.t.Fatal(err)
		}
		object.SetKind(kind)
		object.SetName(name)
		object.SetNamespace("default")
		object.SetUID(types.UID("uid-" + kind + name))
		object.SetCreationTimestamp(metav1.Time{Time: e.now})
		object.SetLabels(labels)
		object.SetAnnotations(annotations)
		if labels == nil { // A child belongs to its job.
			object.SetOwnerReferences([]metav1.OwnerReference{
				{Kind: j.kind.Name, Name: name, UID: types.UID("uid-" + j.kind.Name + name), Controller: new(true)},
			})
		}
		if err := e.client.Create(e.t.Context(), &object); err != nil {
			e.t.Fatal(err)
		}
	}
	if j.kind.Child != nil {
		create(j.kind.Child.Kind, manifests[j.kind.Child.Kind], nil, nil)
	}
	create(kind, manifests[variant], map[string]string{world.PoolLabel: "training"}, annotations)
	e.jobs[name], e.written = j, -1
	e.read()
}

// object returns the job of that name and kind as the API server has it.
func (e *eventful) object(name string, kind schema.GroupVersionKind) *unstructured.Unstructured {
	e.t.Helper()
	var object unstructured.Unstructured
	object.SetGroupVersionKind(kind)
	if err := e.client.Get(e.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &object); err != nil {
		e.t.Fatal(err)
	}
	return &object
}

// read reads the shapes of all jobs, if any was written since.
func (e *eventful) read() {
	e.t.Helper()
	if e.written == e.writes.Load() {
		return
	}
	e.written = e.writes.Load()
	for name, j := range e.jobs {
		var child *unstructured.Unstructured
		if j.kind.Child != nil {
			child = e.object(name, *j.kind.Child)
		}
		shape, err := j.kind.Read(e.object(name, j.kind.GVK), child, worldtest.Unit)
		if err != nil {
			e.t.Fatalf("%s %s: %v", j.kind.Name, name, err)
		}
		j.shape = shape
	}
}

// resumeJobSets has the JobSets of TrainJobs follow these, as Trainer does: a suspended one is given the
// number of nodes that its TrainJob has.
func (e *eventful) resumeJobSets() {
	e.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(e.jobs)) {
		j := e.jobs[name]
		if j.kind.Child == nil {
			continue
		}
		set := e.object(name, *j.kind.Child)
		if suspended, _, _ := unstructured.NestedBool(set.Object, "spec", "suspend"); suspended == j.shape.Suspended {
			continue
		}
		_ = unstructured.SetNestedField(set.Object, j.shape.Suspended, "spec", "suspend")
		if replicated, _, _ := unstructured.NestedSlice(set.Object, "spec", "replicatedJobs"); j.shape.Suspended {
			for _, field := range []string{"parallelism", "completions"} {
				_ = unstructured.SetNestedField(replicated[0].(map[string]any), int64(j.shape.StartSize), "template", "spec", field)
			}
			_ = unstructured.SetNestedSlice(set.Object, replicated, "spec", "replicatedJobs")
		}
		if err := e.client.Update(e.t.Context(), set); err != nil {
			e.t.Fatal(err)
		}
		e.written = -1
	}
	e.read()
}

// requested returns the number of nodes that all jobs request.
func (e *eventful) requested() (sum int) {
	for _, j := range e.jobs {
		sum += j.size()
	}
	return sum
}

// nodes returns the nodes by name.
func (e *eventful) nodes() map[string]*corev1.Node {
	e.t.Helper()
	var list corev1.NodeList
	if err := e.client.List(e.t.Context(), &list); err != nil {
		e.t.Fatal(err)
	}
	nodes := make(map[string]*corev1.Node)
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nodes
}

// accepts is the oracle of whether a node takes new pods of the pool.
func accepts(node *corev1.Node) bool {
	return schedulable(node, resource.MustParse("8"))
}

// reconcile does what everybody but the controller does, once.
func (e *eventful) reconcile() {
	e.t.Helper()
	for len(e.undo) > 0 && !e.now.Before(e.undo[0].at) {
		e.undo[0].do()
		e.undo = e.undo[1:]
	}
	e.read()
	e.resumeJobSets()
	nodes, busy, of := e.nodes(), make(map[string]bool), make(map[string][]*corev1.Pod)
	groups := make(map[string]map[string][]*corev1.Pod) // with those that leave
	pods := e.listPods()
	for i := range pods {
		pod := &pods[i]
		node, name := nodes[pod.Spec.NodeName], pod.Labels["job"]
		ready := node != nil && node.Status.Conditions[0].Status == corev1.ConditionTrue
		switch at, leaving := e.deleted[pod.UID]; {
		case leaving && e.now.Before(at) && node != nil:
			busy[pod.Spec.NodeName] = true
			addTo(groups, pod)
			continue
		case leaving:
			e.remove(pod)
			continue
		case pod.Status.Phase == corev1.PodSucceeded:
			of[name] = append(of[name], pod)
			continue
		case node == nil && pod.Spec.NodeName != "": // The pod garbage collector takes its time.
			if e.now.Sub(e.removed[pod.Spec.NodeName]) > 40*time.Second {
				e.remove(pod)
				continue
			}
		case node != nil && !ready && e.now.Sub(node.Status.Conditions[0].LastTransitionTime.Time) > 5*time.Minute,
			node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }):
			e.terminate(pod)
		}
		if pod.Spec.NodeName != "" {
			busy[pod.Spec.NodeName] = true
		}
		addTo(groups, pod)
		if _, leaving := e.deleted[pod.UID]; !leaving {
			of[name] = append(of[name], pod)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.jobs)) {
		if e.jobs[name].multiHost {
			e.makeGroups(name, groups[name])
		} else {
			e.makePods(name, of[name])
		}
	}
	pods = e.listPods()
	e.schedule(pods, nodes, busy)
	e.runPods(pods)
}

// makePods creates and deletes pods so that a job has as many as it requests.
func (e *eventful) makePods(name string, have []*corev1.Pod) {
	e.t.Helper()
	j := e.jobs[name]
	want := j.size()
	for ; len(have) > want; have = have[:len(have)-1] {
		e.terminate(have[len(have)-1])
	}
	for i := len(have); i < want; i++ {
		e.makePod(name, "")
	}
}

// makePod makes a pod of a job, and of one of its groups.
func (e *eventful) makePod(name, group string) {
	e.t.Helper()
	e.made++
	labels := map[string]string{"job": name, "group": group}
	maps.Copy(labels, e.jobs[name].shape.Selector)
	pod := worldtest.Pod(fmt.Sprintf("%s-%05d", name, e.made), "", labels)
	pod.Finalizers = []string{"test/runs"} // Deletions take as long as reconcile decides.
	if err := e.client.Create(e.t.Context(), pod); err != nil {
		e.t.Fatal(err)
	}
}

// addTo adds a pod to its job's group of hosts.
func addTo(groups map[string]map[string][]*corev1.Pod, pod *corev1.Pod) {
	name := pod.Labels["job"]
	if groups[name] == nil {
		groups[name] = make(map[string][]*corev1.Pod)
	}
	groups[name][pod.Labels["group"]] = append(groups[name][pod.Labels["group"]], pod)
}

// makeGroups does as KubeRay with replicas of several hosts: it deletes what is left of one that lost a
// host, and makes and deletes whole ones, any of them. Hosts that leave count until they are gone.
func (e *eventful) makeGroups(name string, groups map[string][]*corev1.Pod) {
	e.t.Helper()
	names := slices.Sorted(maps.Keys(groups))
	for _, group := range names {
		if len(groups[group]) < hosts {
			for _, pod := range groups[group] {
				e.terminate(pod)
			}
			return
		}
	}
	e.kubelets.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	want := e.jobs[name].size() / hosts
	for ; len(names) > want; names = names[1:] {
		for _, pod := range groups[names[0]] {
			e.terminate(pod)
		}
	}
	for i := len(names); i < want; i++ {
		group := fmt.Sprint("group-", e.made)
		for range hosts {
			e.makePod(name, group)
		}
	}
}

// schedule binds pods to nodes that take them.
func (e *eventful) schedule(pods []corev1.Pod, nodes map[string]*corev1.Node, busy map[string]bool) {
	e.t.Helper()
	for i := range pods {
		pod := &pods[i]
		if _, leaving := e.deleted[pod.UID]; leaving || pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(nodes)) {
			if !busy[name] && accepts(nodes[name]) {
				busy[name], pod.Spec.NodeName = true, name
				e.update(pod)
				break
			}
		}
	}
}

// runPods has containers run, crash and succeed.
func (e *eventful) runPods(pods []corev1.Pod) {
	e.t.Helper()
	for i := range pods {
		pod := &pods[i]
		j := e.jobs[pod.Labels["job"]]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		status := corev1.PodStatus{Phase: corev1.PodRunning}
		if j.crashes {
			status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "train", RestartCount: 7, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}},
			}}
		}
		if pod.Status.Phase != status.Phase || len(pod.Status.ContainerStatuses) != len(status.ContainerStatuses) {
			pod.Status = status
			e.update(pod)
		}
	}
}

func (e *eventful) update(pod *corev1.Pod) {
	e.t.Helper()
	status := pod.Status.DeepCopy()
	if err := e.client.Update(e.t.Context(), pod); err != nil {
		e.t.Fatal(err)
	}
	pod.Status = *status
	if err := e.client.Status().Update(e.t.Context(), pod); err != nil {
		e.t.Fatal(err)
	}
}

// terminate begins to delete a pod.
func (e *eventful) terminate(pod *corev1.Pod) {
	e.t.Helper()
	if _, leaving := e.deleted[pod.UID]; leaving {
		return
	}
	e.deleted[pod.UID] = e.now.Add(time.Duration(e.kubelets.IntN(30)) * time.Second)
	if j := e.jobs[pod.Labels["job"]]; j.lingers {
		e.deleted[pod.UID] = e.now.Add(10 * time.Minute)
	}
	if err := e.client.Delete(e.t.Context(), pod.DeepCopy()); err != nil {
		e.t.Fatal(err)
	}
}

// remove removes a pod at once.
func (e *eventful) remove(pod *corev1.Pod) {
	e.t.Helper()
	pod.Finalizers = nil
	if err := e.client.Update(e.t.Context(), pod); client.IgnoreNotFound(err) != nil {
		e.t.Fatal(err)
	}
	if err := e.client.Delete(e.t.Context(), pod); client.IgnoreNotFound(err) != nil {
		e.t.Fatal(err)
	}
	delete(e.deleted, pod.UID)
}

// after has something happen after a while.
func (e *eventful) after(d time.Duration, do func()) {
	e.undo = append(e.undo, undo{e.now.Add(d), do})
	slices.SortStableFunc(e.undo, func(a, b undo) int { return a.at.Compare(b.at) })
}

// healNode makes a node as it was at first, if it is still there.
func (e *eventful) healNode(name string) {
	if _, exists := e.nodes()[name]; exists {
		e.changeNode(name, heal)
		e.ready(name, corev1.ConditionTrue)
	}
}

// disturbances is how many conditions disturb knows.
const disturbances = 9

// disturb has a condition keep new pods from a node for a while; no pod stops.
func (e *eventful) disturb(name string, which int, d time.Duration) {
	e.t.Helper()
	changes := [disturbances]struct {
		name   string
		change func(*corev1.Node)
	}{
		{"no devices", allocatable("0")}, {"7 devices", allocatable("7")}, {"cordon", cordon}, {"not ready", nil},
		{"karpenter", taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)},
		{"autoscaler", taint("ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule)},
		{"taint", taint("example.com/maintenance", corev1.TaintEffectNoSchedule)},
		{"preference", taint("example.com/slow", corev1.TaintEffectPreferNoSchedule)},
		{"unit's taint", taint(worldtest.Unit, corev1.TaintEffectNoSchedule)},
	}
	change := changes[which]
	e.log("%s on %s for %v", change.name, name, d)
	if change.change != nil {
		e.changeNode(name, change.change)
	} else {
		e.ready(name, corev1.ConditionUnknown)
	}
	e.after(d, func() { e.healNode(name) })
}

// evict deletes the pods on a node.
func (e *eventful) evict(node string) {
	e.t.Helper()
	for _, pod := range e.listPods() {
		if pod.Spec.NodeName == node {
			e.log("%s loses its pod of %s", node, pod.Labels["job"])
			e.terminate(&pod)
		}
	}
}

// drain cordons a node for a while and deletes its pods.
func (e *eventful) drain(node string, d time.Duration) {
	e.t.Helper()
	e.log("drain of %s for %v", node, d)
	e.changeNode(node, cordon)
	e.evict(node)
	e.after(d, func() { e.healNode(node) })
}

// drainMost drains most nodes for longer than an outage keeps all decisions back, and has jobs arrive
// meanwhile. The pods on the other nodes run on.
func (e *eventful) drainMost(nodes int) {
	e.t.Helper()
	for _, n := range e.Perm(nodes)[:nodes/2+1+e.IntN(2)] {
		if name := fmt.Sprintf("node-%03d", n); accepts(e.nodes()[name]) {
			e.drain(name, time.Duration(30+e.IntN(30))*time.Minute)
		}
	}
	for range 3 {
		e.log("a job is submitted")
		e.submitRandom(nodes)
		e.passUntil(10 * time.Minute)
	}
	for len(e.undo) > 0 {
		e.passUntil(e.step)
	}
}

func (e *eventful) log(format string, args ...any) {
	e.history = append(e.history, fmt.Sprintf("%s %s", e.now.Format("15:04:05"), fmt.Sprintf(format, args...)))
}

// randomNode returns a node that is not disturbed, "" if there is none.
func (e *eventful) randomNode() string {
	var names []string
	for name, node := range e.nodes() {
		if accepts(node) && len(node.Spec.Taints) == 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return names[e.IntN(len(names))]
}

// deleteNode deletes a node and creates it again after a while.
func (e *eventful) deleteNode(name string, d time.Duration) {
	e.t.Helper()
	e.log("deletion of %s", name)
	e.removed[name] = e.now
	if err := e.client.Delete(e.t.Context(), worldtest.Node(name)); err != nil {
		e.t.Fatal(err)
	}
	e.after(d, func() {
		fresh := worldtest.Node(name)
		fresh.CreationTimestamp.Time = e.now
		if err := e.client.Create(e.t.Context(), fresh); err != nil {
			e.t.Fatal(err)
		}
	})
}

// outage disturbs most nodes for a while.
func (e *eventful) outage(nodes int, d time.Duration) {
	e.t.Helper()
	e.log("outage")
	for n := range nodes {
		if e.IntN(4) == 0 {
			continue
		}
		if name := fmt.Sprintf("node-%03d", n); e.nodes()[name] != nil {
			e.disturb(name, e.IntN(disturbances), d)
		}
	}
}

// restartPlugins restarts the device plugins of all nodes, one after the other. Meanwhile, a node has no devices.
func (e *eventful) restartPlugins(nodes int) {
	e.t.Helper()
	e.log("rolling restart of the device plugin")
	for n := range nodes {
		e.after(time.Duration(n)*40*time.Second, func() {
			if name := fmt.Sprintf("node-%03d", n); e.nodes()[name] != nil {
				e.changeNode(name, allocatable("0"))
				e.after(20*time.Second, func() { e.healNode(name) })
			}
		})
	}
}

// deletePodOf deletes a pod of a job, if it has one.
func (e *eventful) deletePodOf(job string) {
	e.t.Helper()
	e.log("a pod of %s is deleted", job)
	pods := e.listPods()
	if i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Labels["job"] == job }); i >= 0 {
		e.terminate(&pods[i])
	}
}

// completePodOf has a running pod of a job succeed, if it has one.
func (e *eventful) completePodOf(job string) {
	e.t.Helper()
	for _, pod := range e.listPods() {
		if pod.Labels["job"] == job && pod.Status.Phase == corev1.PodRunning && e.deleted[pod.UID].IsZero() {
			e.log("a pod of %s succeeds", job)
			e.jobs[job].succeeds++
			pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
			e.update(&pod)
			return
		}
	}
}

// happens has an event of any kind happen.
func (e *eventful) happens(nodes int) {
	e.t.Helper()
	node := e.randomNode()
	names := slices.Sorted(maps.Keys(e.jobs))
	name := names[e.IntN(len(names))]
	long := time.Duration(1+e.IntN(40)) * time.Minute
	switch kind := e.IntN(14); {
	case kind < 4 && node != "":
		e.disturb(node, e.IntN(disturbances), []time.Duration{time.Duration(5+e.IntN(100)) * time.Second, long}[e.IntN(2)])
	case kind == 4 && node != "":
		e.log("eviction from %s", node)
		e.changeNode(node, taint("example.com/broken", corev1.TaintEffectNoExecute))
		e.after(long, func() { e.healNode(node) })
	case kind == 5 && node != "":
		e.drain(node, long)
	case kind == 6 && node != "":
		e.deleteNode(node, long)
	case kind == 7:
		e.outage(nodes, long)
	case kind == 8 && e.nodes()["node-000"] != nil:
		e.restartPlugins(nodes)
	case kind == 9:
		e.log("%s crashes", name)
		e.jobs[name].crashes = true
		e.after(long, func() { e.jobs[name].crashes = false })
	case kind == 10:
		e.log("pods of %s stay", name)
		e.jobs[name].lingers = true
		e.after(long, func() { e.jobs[name].lingers = false })
	case kind == 11:
		e.deletePodOf(name)
	case kind == 13 && e.jobs[name].kind.Name != "RayCluster": // Its workers do not succeed.
		e.completePodOf(name)
	case kind == 12 && len(e.jobs) < 6:
		e.log("a job is submitted")
		e.submitRandom(nodes)
	}
}

// observed is what the oracle saw before a pass.
type observed struct {
	size, accepting int
	running         int
	retained        []string // the nodes that take no pods and have some of the job
}

// look returns what the oracle sees of each job, and how many nodes accept pods. It fails if there are more
// pods than nodes for them.
func (e *eventful) look() (jobs map[string]observed, accepting int) {
	e.t.Helper()
	e.read()
	nodes := e.nodes()
	for _, node := range nodes {
		if accepts(node) {
			accepting++
		}
	}
	jobs = make(map[string]observed)
	for name, j := range e.jobs {
		jobs[name] = observed{size: j.size(), accepting: accepting}
	}
	on := make(map[string]bool)
	for _, pod := range e.listPods() {
		name := pod.Labels["job"]
		o := jobs[name]
		node := nodes[pod.Spec.NodeName]
		if node != nil && pod.Status.Phase != corev1.PodSucceeded {
			if on[node.Name] {
				e.fail("several pods are on %s", node.Name)
			}
			on[node.Name] = true
		}
		if _, leaving := e.deleted[pod.UID]; leaving || node == nil || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if pod.Status.Phase == corev1.PodRunning && len(pod.Status.ContainerStatuses) == 0 {
			o.running++
		}
		if !accepts(node) {
			o.retained = append(o.retained, pod.Spec.NodeName)
		}
		jobs[name] = o
	}
	return jobs, accepting
}

// pass makes one pass and checks what it did.
func (e *eventful) pass() {
	e.t.Helper()
	before, accepting := e.look()
	again, err := e.loop.Reconcile(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	e.read()
	grew, requested, retaining := false, 0, 0
	for name, was := range before {
		size := e.jobs[name].size()
		requested += size - min(size, e.jobs[name].succeeds)
		retaining += len(was.retained)
		grew = grew || size > was.size
		if size == was.size {
			continue
		}
		e.log("%s %d -> %d", name, was.size, size)
		e.changes++
		switch {
		case e.brief:
			e.fail("%s goes from %d to %d nodes though nothing has lasted for the grace period", name, was.size, size)
		case e.mode == plan.ModeRecommend:
			e.fail("%s is resized in mode recommend", name)
		case e.jobs[name].succeeds > 0:
			e.fail("%s goes from %d to %d nodes though %d of its pods have succeeded", name, was.size, size, e.jobs[name].succeeds)
		case len(was.retained) > 0 && size < was.size: // If the drain is blocked, it may grow.
			e.fail("%s goes from %d to %d nodes while its pods run on %v, which take no new pods", name, was.size, size, was.retained)
		case size == 0 && was.running > 0 && 2*accepting < len(e.nodes()):
			e.fail("%s is paused in an outage, %d of its pods run", name, was.running)
		}
	}
	if grew && requested > accepting+retaining {
		e.fail("jobs request %d nodes after one of them grew; %d accept pods and %d retain some", requested, accepting, retaining)
	}
	e.reconcile()
	if !e.even {
		again = min(again, e.step)
	} else {
		again = e.step
	}
	e.now = e.now.Add(again)
}

func (e *eventful) passUntil(d time.Duration) {
	e.t.Helper()
	passes := 0
	for began := e.now; e.now.Sub(began) < d; passes++ {
		e.pass()
	}
	if passes > 200 && time.Duration(passes)*time.Second > d {
		e.fail("it made %d passes in %v", passes, d)
	}
}

func (e *eventful) fail(format string, args ...any) {
	e.t.Helper()
	for _, j := range e.loop.Report().State.Jobs {
		e.t.Logf("%s has %d nodes, sizes %v, pinned %q, pods %+v, usage %+v", j.ID, j.Nodes(), j.Sizes, j.Message, j.Pods, j.Usage)
	}
	for _, s := range e.loop.Report().State.NodeStatuses {
		e.t.Log(s.String())
	}
	e.t.Logf("%+v", e.loop.Report().Decision)
	e.t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(e.history, "\n"))
}

// wouldUse reports whether a job is better off with more nodes: whether it makes up for its restart
// within the time that a change is paid back over, which is at least four restarts.
func (j *eventfulJob) wouldUse(size int) bool {
	now := j.size()
	if now == 0 {
		return true
	}
	payback := max(15*time.Minute, 4*j.restart).Seconds()
	return (eta.Speed(size, 0.8)-eta.Speed(now, 0.8))*payback > 1.1*(eta.Speed(size, 0.8)*j.restart.Seconds()+75)
}

// wantNoneIdle fails if an accepting node is idle that a job would use.
func (e *eventful) wantNoneIdle() {
	e.t.Helper()
	idle := len(e.idleNodes())
	e.read()
	for name, j := range e.jobs {
		if j.paused || j.succeeds > 0 || j.shape.Finished {
			continue
		}
		for _, size := range j.sizes {
			if size > j.size() && size-j.size() <= idle && j.wouldUse(size) {
				e.fail("%d nodes are idle two hours after the last event, and %s has %d of %v", idle, name, j.size(), j.sizes)
			}
		}
	}
}

// seeds returns how many random sequences to test: EVENT_SEEDS, or a few.
func seeds(few uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv("EVENT_SEEDS"), 10, 64); err == nil {
		return n
	}
	if testing.Short() {
		return 1
	}
	return few
}

// TestRandomEvents: whatever happens to nodes and pods,
//  1. a job does not shrink while its pods run on nodes that take no new ones,
//  2. which cost the others none of theirs: no job grows beyond the accepting and the retaining nodes,
//  3. what is over within the grace period changes nothing,
//  4. an outage pauses no job whose pods run, and
//  5. two hours after the last event no accepting node is idle that a job would use.
func TestRandomEvents(t *testing.T) {
	t.Parallel()
	const nodes = 8
	for seed := range seeds(4) {
		for _, mode := range []string{plan.ModeApply, plan.ModeRecommend} {
			if mode == plan.ModeRecommend && seed%4 != 0 {
				continue
			}
			t.Run(fmt.Sprint(mode, seed), func(t *testing.T) {
				t.Parallel()
				e := newEventful(t, seed, nodes, mode)
				for range 2 + e.IntN(3) {
					e.submitRandom(nodes)
				}
				e.passUntil(40 * time.Minute)
				e.blips(nodes)
				e.drainMost(nodes)
				for range 15 {
					e.happens(nodes)
					e.passUntil(time.Duration(e.IntN(600)) * time.Second)
				}
				for len(e.undo) > 0 {
					e.passUntil(e.step)
				}
				e.log("the last event is over")
				e.passUntil(2 * time.Hour)
				if mode == plan.ModeApply {
					e.wantNoneIdle()
				}
			})
		}
	}
}

// twins are two runs with the same jobs, some of which arrive later. Nodes are disturbed in only one of the runs.
type twins struct {
	*rand.Rand      // for the disturbances
	disturbed, calm *eventful
}

// newTwins returns two runs with job-0, which keeps its size, and two random jobs.
func newTwins(t *testing.T, seed uint64, nodes int) *twins {
	t.Helper()
	w := &twins{rand.New(rand.NewPCG(seed, 47)), newEventful(t, seed, nodes, plan.ModeApply), newEventful(t, seed, nodes, plan.ModeApply)}
	w.both(func(e *eventful) {
		e.even = true
		e.submit("Job", []int{2}, time.Minute, true, nodes)
		e.submitRandom(nodes)
		e.submitRandom(nodes)
	})
	return w
}

// both does the same in both runs.
func (w *twins) both(do func(*eventful)) {
	do(w.disturbed)
	do(w.calm)
}

// disturb disturbs random nodes of job-0 in one run, for less or more than the grace period.
func (w *twins) disturb() {
	w.disturbed.t.Helper()
	for _, name := range w.disturbed.nodesOfJob("job-0") {
		if node := w.disturbed.nodes()[name]; w.IntN(2) == 0 && accepts(node) && len(node.Spec.Taints) == 0 {
			w.disturbed.disturb(name, w.IntN(disturbances),
				[]time.Duration{time.Duration(5+w.IntN(100)) * time.Second, time.Duration(1+w.IntN(40)) * time.Minute}[w.IntN(2)])
		}
	}
}

// pass makes a pass in both runs, and checks that all jobs have the same nodes.
func (w *twins) pass() {
	w.disturbed.t.Helper()
	w.both((*eventful).pass)
	for name, j := range w.calm.jobs {
		if got := w.disturbed.jobs[name].size(); got != j.size() {
			w.disturbed.fail("%s has %d nodes; want %d, as without the disturbances of nodes on which it has no pods", name, got, j.size())
		}
	}
}

// TestTwins compares runs with the same jobs with and without disturbances of the nodes of a job that keeps its size in any
// case. All other jobs have the same nodes all the time.
func TestTwins(t *testing.T) {
	t.Parallel()
	const nodes = 10
	for seed := range seeds(1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newTwins(t, seed, nodes)
			for round := range 12 {
				if round > 1 {
					w.disturb()
				}
				if round%3 == 2 {
					w.both(func(e *eventful) { e.submitRandom(nodes) })
				}
				for range 30 + w.IntN(30) {
					w.pass()
				}
			}
			if w.calm.changes < 4 {
				t.Errorf("only %d changes; want some to compare", w.calm.changes)
			}
		})
	}
}

// nodesOfJob returns the nodes that have pods of a job, in order.
func (e *eventful) nodesOfJob(job string) (names []string) {
	e.t.Helper()
	for _, pod := range e.listPods() {
		if pod.Labels["job"] == job && pod.Spec.NodeName != "" {
			names = append(names, pod.Spec.NodeName)
		}
	}
	slices.Sort(names)
	return names
}

// blips has disturbances happen that are over within the grace period, which change no job.
func (e *eventful) blips(nodes int) {
	e.t.Helper()
	back := make(map[string]time.Time)
	e.brief = true
	for range 20 {
		for range 1 + e.IntN(3)*e.IntN(3) {
			name := fmt.Sprintf("node-%03d", e.IntN(nodes))
			d := time.Duration(5+e.IntN(85)) * time.Second // Up to a step passes before it is seen.
			// A node that fails again before it accepts pods is not back.
			if node := e.nodes()[name]; accepts(node) && len(node.Spec.Taints) == 0 && e.now.After(back[name]) {
				back[name] = e.now.Add(d + 2*time.Minute)
				e.disturb(name, e.IntN(disturbances), d)
				if e.IntN(2) == 0 { // Its pod waits for the node.
					e.evict(name)
				}
			}
		}
		e.passUntil(time.Duration(10+e.IntN(240)) * time.Second)
	}
	e.passUntil(10 * time.Minute)
	e.brief = false
}

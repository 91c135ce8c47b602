package controller_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
)

// cluster is an API server in memory with a loop, and with stand-ins for the Job controller, the scheduler and the
// kubelets.
type cluster struct {
	t         *testing.T
	client    client.WithWatch
	now       time.Time
	pool      config.Pool
	mode      string
	allocator controller.Allocator
	querier   controller.Querier
	kueue     bool
	calls     controller.CallRecorder
	recorder  *events.FakeRecorder
	registry  *prometheus.Registry
	loop      *controller.Loop
	// onPatch is called before each write and afterPatch after it, if set. The write fails with their errors.
	onPatch    func(patch string, name string) error
	afterPatch func() error
	// reads is what the loop reads: client, with deletions at the time of its clock.
	reads  client.Client
	writes atomic.Int64
	pods   int
	linger bool // surplus pods are not deleted
	// leaving is true if deleted pods do not terminate, as if they ignored SIGTERM.
	leaving bool
	// scales is true if pods may wait for nodes that an autoscaler adds.
	scales bool
	// quota is the maximum number of pods by job; without an entry, it is unlimited.
	quota map[string]int
	// tolerations are added to pods by admission.
	tolerations []corev1.Toleration
	// succeeded is the number of pods by job that have succeeded and were deleted.
	succeeded map[string]int
	// lag, if set, returns how long the Job controller takes to follow a change of a job's size. followed is
	// the number of pods that it last made for each job, and sizes the number that the job requests since a time.
	lag      func() time.Duration
	followed map[string]int
	sizes    map[string]sized
	// waits is the reason by job why the containers of its pods wait; without an entry, they run.
	waits map[string]string
	// step is the maximum time between two calls of Reconcile.
	step time.Duration
	// kinds are the kinds of the jobs. follow adapts the pods to the jobs. It is kubelet for Jobs.
	kinds  []kinds.Kind
	follow func()
}

// sized is a number of pods that the Job controller makes from a time on.
type sized struct {
	pods int
	due  time.Time
}

// newCluster returns a cluster with a number of nodes, whose loop is in apply mode and has an allocator in process.
func newCluster(t *testing.T, nodes int, jobs ...*unstructured.Unstructured) *cluster {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		t: t, kinds: kinds.Named([]string{"Job"}), succeeded: make(map[string]int), followed: make(map[string]int),
		sizes: make(map[string]sized), now: worldtest.Begin(), step: 5 * time.Second,
		pool: worldtest.Pool(), mode: plan.ModeApply, allocator: apiconv.InProcess{Allocator: allocator},
	}
	// The fake API server adds the kinds it meets to its scheme, which clusters of other
	// tests must not share.
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, under client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if c.onPatch != nil {
				if err := c.onPatch(string(p.Type()), o.GetName()); err != nil {
					return err
				}
			}
			c.writes.Add(1)
			err := under.Patch(ctx, o, p, options...)
			if err == nil && c.afterPatch != nil {
				err = c.afterPatch()
			}
			return err
		},
	})
	builder.WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string {
		return []string{o.(*corev1.Event).InvolvedObject.Name}
	})
	for i := range nodes {
		builder.WithObjects(worldtest.Node(fmt.Sprintf("node-%03d", i)))
	}
	for _, job := range jobs {
		job.SetResourceVersion("")
		builder.WithObjects(job)
	}
	c.client = builder.Build()
	// The fake API server dates deletions by the clock of the machine.
	deleted := make(map[types.UID]*metav1.Time)
	c.reads = interceptor.NewClient(c.client,
		interceptor.Funcs{List: func(ctx context.Context, under client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := under.List(ctx, list, options...)
			if pods, ok := list.(*corev1.PodList); ok {
				for i := range pods.Items {
					if pod := &pods.Items[i]; pod.DeletionTimestamp != nil {
						deleted[pod.UID] = cmp.Or(deleted[pod.UID], &metav1.Time{Time: c.now})
						pod.DeletionTimestamp = deleted[pod.UID]
					}
				}
			}
			return err
		}})
	c.follow = c.kubelet
	c.kubelet()
	c.now = c.now.Add(time.Hour)
	c.start()
	return c
}

// start starts the controller, as after a crash.
func (c *cluster) start() {
	c.recorder, c.registry = events.NewFakeRecorder(1000), prometheus.NewRegistry()
	c.loop = controller.NewLoop(c.pool, controller.Options{
		Mode: c.mode, Kinds: c.kinds, Kueue: c.kueue, Client: c.reads, Live: c.client, Allocator: c.allocator, Querier: c.querier, Calls: c.calls,
		Recorder: c.recorder, Metrics: controller.NewMetrics(c.registry, c.mode), Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return c.now },
	})
}

// kubelet creates and deletes pods so that every job has as many as it requests, on free nodes. If the pool counts units, pods
// go to the fullest node that has their units free.
func (c *cluster) kubelet() {
	c.t.Helper()
	var jobs batchv1.JobList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&jobs, &nodes} {
		if err := c.client.List(c.t.Context(), list); err != nil {
			c.t.Fatal(err)
		}
	}
	busy, of := c.collectPods()
	want := c.wantedPods(jobs.Items, of)
	for name, pods := range of {
		for _, pod := range pods[min(want[name], len(pods)):] {
			if name != "" && !c.linger {
				c.deletePod(pod, busy)
			}
		}
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		for range want[job.Name] - len(of[job.Name]) {
			quantity := job.Spec.Template.Spec.Containers[0].Resources.Limits[worldtest.Unit]
			node := c.freeNode(job, quantity, nodes.Items, busy)
			if node == "" && !c.scales {
				c.t.Errorf("a pod of %s has no node", job.Name)
				continue
			}
			if node != "" {
				busy[node] += int(quantity.Value())
			}
			c.createPod(job.Name, node, quantity)
		}
	}
}

// collectPods returns the units in use by node, and the pods of each job that are not terminating. Pods without a node are
// deleted, to be created again on a node that is free by then. Pods that are terminating are gone, unless pods stay.
func (c *cluster) collectPods() (busy map[string]int, of map[string][]*corev1.Pod) {
	c.t.Helper()
	ctx := c.t.Context()
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods); err != nil {
		c.t.Fatal(err)
	}
	busy, of = make(map[string]int), make(map[string][]*corev1.Pod)
	for i := range pods.Items {
		pod := &pods.Items[i]
		name := pod.Labels["batch.kubernetes.io/job-name"]
		switch {
		case pod.Spec.NodeName == "":
			if err := c.client.Delete(ctx, pod); err != nil {
				c.t.Fatal(err)
			}
		case pod.Status.Phase == corev1.PodSucceeded:
			of[name] = append(of[name], pod)
		case pod.DeletionTimestamp.IsZero():
			busy[pod.Spec.NodeName] += units(pod)
			of[name] = append(of[name], pod)
		case c.leaving:
			busy[pod.Spec.NodeName] += units(pod)
		default:
			pod.Finalizers = nil
			if err := c.client.Update(ctx, pod); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return busy, of
}

// wantedPods returns the number of pods that each job should have, given its pods.
func (c *cluster) wantedPods(jobs []batchv1.Job, of map[string][]*corev1.Pod) map[string]int {
	c.t.Helper()
	want := make(map[string]int)
	for _, job := range jobs {
		c.setSuspended(&job, len(of[job.Name]))
		if want[job.Name] = int(*job.Spec.Parallelism); *job.Spec.Suspend ||
			len(job.Status.Conditions) > 0 && job.Status.Conditions[0].Type != batchv1.JobSuspended {
			want[job.Name] = 0
		}
		want[job.Name] = c.delayed(job.Name, want[job.Name])
	}
	for name, done := range c.succeeded {
		want[name] -= done
	}
	for name, most := range c.quota {
		want[name] = min(want[name], most)
	}
	return want
}

// deletePod deletes a pod, whose units are free at once unless pods stay.
func (c *cluster) deletePod(pod *corev1.Pod, busy map[string]int) {
	c.t.Helper()
	if c.leaving {
		pod.Finalizers = []string{"test/stays"}
		if err := c.client.Update(c.t.Context(), pod); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.client.Delete(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
	if !c.leaving {
		busy[pod.Spec.NodeName] -= units(pod)
	}
}

// freeNode returns the fullest node that can run a pod of a job, or "". A pod that requests no units runs on any node.
func (c *cluster) freeNode(job *batchv1.Job, quantity resource.Quantity, nodes []corev1.Node, busy map[string]int) (free string) {
	requested, selector := int(quantity.Value()), labels.SelectorFromSet(job.Spec.Template.Spec.NodeSelector)
	for i := range nodes {
		n := &nodes[i]
		has := n.Status.Allocatable[worldtest.Unit]
		fits := requested == 0 || busy[n.Name] == 0 || c.pool.CountsUnits() && busy[n.Name]+requested <= int(has.Value())
		if fits && selector.Matches(labels.Set(n.Labels)) && busy[n.Name] >= busy[free] && schedulable(n, quantity, c.tolerations...) {
			free = n.Name
		}
	}
	return free
}

// createPod creates a pod of a job on a node, or without a node.
func (c *cluster) createPod(job, node string, quantity resource.Quantity) {
	c.t.Helper()
	c.pods++
	pod := worldtest.Pod(fmt.Sprintf("%s-%d", job, c.pods), node, map[string]string{"batch.kubernetes.io/job-name": job})
	pod.Spec.Containers[0].Resources.Requests[worldtest.Unit] = quantity
	pod.Spec.Tolerations = c.tolerations
	if reason := c.waits[job]; reason != "" {
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}},
		}
	}
	if err := c.client.Create(c.t.Context(), pod); err != nil {
		c.t.Fatal(err)
	}
}

// setSuspended sets the status of a suspended job and of one that has been resumed, in a pool with node types.
func (c *cluster) setSuspended(job *batchv1.Job, pods int) {
	c.t.Helper()
	suspended := slices.ContainsFunc(job.Status.Conditions, func(s batchv1.JobCondition) bool { return s.Type == batchv1.JobSuspended })
	finished := !suspended && len(job.Status.Conditions) > 0
	if len(c.pool.NodeTypes) == 0 || finished || suspended == *job.Spec.Suspend && int(job.Status.Active) == pods {
		return
	}
	job.Status.Active, job.Status.Conditions = int32(pods), nil
	if *job.Spec.Suspend {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue}}
	}
	if err := c.client.Status().Update(c.t.Context(), job.DeepCopy()); err != nil {
		c.t.Fatal(err)
	}
}

// delayed returns the number of pods of a job that requests some, for a Job controller that lags.
func (c *cluster) delayed(job string, pods int) int {
	if c.lag == nil {
		return pods
	}
	if s := c.sizes[job]; s.pods != pods || s.due.Sub(c.now) > maxLag { // The clock was set back.
		c.sizes[job] = sized{pods, c.now.Add(c.lag())}
	}
	if s := c.sizes[job]; !s.due.After(c.now) {
		c.followed[job] = s.pods
	}
	return c.followed[job]
}

// maxLag is the longest time that a Job controller takes to follow a job's size.
const maxLag = 5 * time.Second

// schedulable reports whether the scheduler puts pods on a node that request so much of the unit and
// tolerate some taints. That of the unit's own name all tolerate.
func schedulable(node *corev1.Node, units resource.Quantity, tolerations ...corev1.Toleration) bool {
	tolerations = append([]corev1.Toleration{{Key: worldtest.Unit, Operator: corev1.TolerationOpExists}}, tolerations...)
	matters := func(taint *corev1.Taint) bool { return taint.Effect != corev1.TaintEffectPreferNoSchedule }
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, tolerations, matters, false)
	return !node.Spec.Unschedulable && !untolerated && node.Status.Conditions[0].Status == corev1.ConditionTrue &&
		units.Cmp(node.Status.Allocatable[worldtest.Unit]) <= 0
}

// passes calls Reconcile n times. After each call the pods follow, and the time that it returned passes, at most step.
func (c *cluster) passes(n int) {
	c.t.Helper()
	for range n {
		again, err := c.loop.Reconcile(c.t.Context())
		if err != nil {
			c.t.Logf("Reconcile: %v", err)
		}
		c.follow()
		c.now = c.now.Add(min(again, c.step))
	}
}

// job returns the nodes of a job and its annotations.
func (c *cluster) job(name string) (nodes int, annotations map[string]string) {
	c.t.Helper()
	var job batchv1.Job
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &job); err != nil {
		c.t.Fatal(err)
	}
	if *job.Spec.Parallelism != *job.Spec.Completions {
		c.t.Errorf("%s has parallelism %d and completions %d", name, *job.Spec.Parallelism, *job.Spec.Completions)
	}
	if *job.Spec.Suspend {
		return 0, job.Annotations
	}
	return int(*job.Spec.Parallelism), job.Annotations
}

// end completes a job.
func (c *cluster) end(name string) {
	c.t.Helper()
	var job batchv1.Job
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &job); err != nil {
		c.t.Fatal(err)
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if err := c.client.Status().Update(c.t.Context(), &job); err != nil {
		c.t.Fatal(err)
	}
}

// want fails the test if jobs have other sizes.
func (c *cluster) want(sizes map[string]int) {
	c.t.Helper()
	for name, want := range sizes {
		if got, _ := c.job(name); got != want {
			c.t.Errorf("%s has %d nodes; want %d", name, got, want)
		}
	}
}

// events returns the events since its last call.
func (c *cluster) events() string {
	var all []string
	for len(c.recorder.Events) > 0 {
		all = append(all, <-c.recorder.Events)
	}
	return strings.Join(all, "\n")
}

// decisions returns the number of decisions with a result.
func (c *cluster) decisions(result string) float64 { return c.count("moments_total", result) }

// count returns a counter of the controller, summed over the series with the value of a
// label, or over all series if it is "".
func (c *cluster) count(name, value string) float64 {
	c.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		if family.GetName() != "elastalloc_controller_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := value == ""
			for _, label := range m.GetLabel() {
				has = has || label.GetValue() == value
			}
			if has {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// gauge returns a gauge of the controller with the value of a label.
func (c *cluster) gauge(name, value string) float64 {
	c.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "elastalloc_controller_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetValue() == value {
					return m.GetGauge().GetValue()
				}
			}
		}
	}
	c.t.Errorf("no gauge %s of %s", name, value)
	return 0
}

// busy returns jobs of a pool of 8 nodes: a long one on all of them and a short one that waits.
func busy() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "4,8"}),
		worldtest.Job("short", 0, map[string]string{"work": "1h", "nodes": "4"}),
	}
}

// lastDecision returns the time of the last decision according to the metrics.
func (c *cluster) lastDecision() time.Time {
	c.t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "elastalloc_controller_last_decision_timestamp_seconds" {
			return time.Unix(int64(family.GetMetric()[0].GetGauge().GetValue()), 0)
		}
	}
	return time.Time{}
}

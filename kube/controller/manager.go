package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	nodeutil "k8s.io/component-helpers/node/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// CacheOptions returns the options of the caches. They contain the jobs with the pool label, and the fields of
// nodes, pods and workloads that Observe reads.
func CacheOptions(watched []kinds.Kind, kueue bool) (cache.Options, error) {
	labelled, err := labels.NewRequirement(world.PoolLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	byObject := map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Transform: slimPod},
		&corev1.Node{}: {Transform: slimNode},
	}
	if kueue {
		byObject[object(kueueKinds()[0])] = cache.ByObject{Transform: slimWorkload}
	}
	for _, kind := range watched {
		if kind.Parent != nil {
			byObject[object(*kind.Parent)] = cache.ByObject{Transform: slimParent}
		}
		// Children need not have the label.
		if !slices.ContainsFunc(watched, func(k kinds.Kind) bool { return k.Child != nil && *k.Child == kind.GVK }) {
			byObject[object(kind.GVK)] = cache.ByObject{Label: labels.NewSelector().Add(*labelled)}
		}
	}
	return cache.Options{ByObject: byObject}, nil
}

// object returns an empty object of a kind.
func object(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	var u unstructured.Unstructured
	u.SetGroupVersionKind(gvk)
	return &u
}

// slimPod removes the fields of a pod that Observe does not read.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields, pod.Annotations = nil, nil
	pod.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, Tolerations: pod.Spec.Tolerations,
		InitContainers: slimContainers(pod.Spec.InitContainers), Containers: slimContainers(pod.Spec.Containers),
	}
	failed := pod.Status.Phase == corev1.PodFailed
	var troubled []corev1.ContainerStatus
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil || c.RestartCount > 0 || failed {
			troubled = append(troubled, corev1.ContainerStatus{
				Name: c.Name, State: c.State, LastTerminationState: c.LastTerminationState, RestartCount: c.RestartCount,
			})
		}
	}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, ContainerStatuses: troubled,
		Conditions: slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return (c.Type != corev1.PodScheduled || c.Status == corev1.ConditionTrue) && (c.Type != corev1.PodReady || !failed)
		})}
	return pod, nil
}

// slimContainers returns containers with only the fields that determine the requests of a pod.
func slimContainers(containers []corev1.Container) []corev1.Container {
	slim := make([]corev1.Container, len(containers))
	for i, c := range containers {
		slim[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return slim
}

// slimNode removes the fields of a node that Observe does not read, so that heartbeats do not change it.
func slimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	node.ManagedFields, node.Annotations = nil, nil
	var ready []corev1.NodeCondition
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil {
		ready = append(ready, corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
	}
	node.Status = corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity, Conditions: ready}
	return node, nil
}

// slimWorkload removes the fields of the pod templates of a Workload that do not determine their requests.
func slimWorkload(object any) (any, error) {
	if w, ok := object.(*unstructured.Unstructured); ok {
		w.SetManagedFields(nil)
		sets, _, _ := unstructured.NestedSlice(w.Object, "spec", "podSets")
		for _, set := range sets {
			if fields, ok := set.(map[string]any); ok {
				slimTemplate(fields)
			}
		}
		_ = unstructured.SetNestedSlice(w.Object, sets, "spec", "podSets")
	}
	return object, nil
}

// slimTemplate removes the fields of the pod template of a pod set that do not determine its requests.
func slimTemplate(set map[string]any) {
	spec := make(map[string]any)
	for _, list := range []string{"initContainers", "containers"} {
		containers, found, _ := unstructured.NestedSlice(set, "template", "spec", list)
		for _, c := range containers {
			if fields, ok := c.(map[string]any); ok {
				maps.DeleteFunc(fields, func(key string, _ any) bool { return key != "name" && key != "resources" && key != "restartPolicy" })
			}
		}
		if found {
			spec[list] = containers
		}
	}
	set["template"] = map[string]any{"spec": spec}
}

// slimParent removes the fields of a parent that its kind does not read.
func slimParent(object any) (any, error) {
	if parent, ok := object.(*unstructured.Unstructured); ok {
		parent.SetManagedFields(nil)
		delete(parent.Object, "spec")
	}
	return object, nil
}

// gather is the time for which events are collected before a Reconcile.
const gather = 100 * time.Millisecond

// Add adds the loops of the pools to a manager, which runs them on the leader only.
func Add(manager ctrl.Manager, pools []config.Pool, o Options) ([]*Loop, error) {
	loops := make(map[string]*Loop, len(pools))
	var ordered []*Loop
	for _, pool := range pools {
		loop := NewLoop(pool, o)
		loops[pool.Name] = loop
		ordered = append(ordered, loop)
	}
	c, err := ctrlcontroller.New("elastalloc", manager, ctrlcontroller.Options{
		MaxConcurrentReconciles: len(pools),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](gather, settling),
		Reconciler: reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			again, err := loops[request.Name].Reconcile(ctx)
			return reconcile.Result{RequeueAfter: again}, err
		}),
	})
	if err != nil {
		return nil, err
	}
	watched := map[schema.GroupVersionKind]bool{}
	sources := []client.Object{&corev1.Node{}, &corev1.Pod{}}
	for _, kind := range o.Kinds {
		watched[kind.GVK] = true
		for _, related := range []*schema.GroupVersionKind{kind.Child, kind.Parent} {
			if related != nil {
				watched[*related] = true
			}
		}
	}
	if o.Kueue {
		for _, gvk := range kueueKinds() {
			watched[gvk] = true
		}
	}
	for gvk := range watched {
		sources = append(sources, object(gvk))
	}
	for _, s := range sources {
		if err := c.Watch(source.Kind(manager.GetCache(), s, toPools(pools))); err != nil {
			return nil, fmt.Errorf("watch %T: %w", s, err)
		}
	}
	if err := manager.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
		posted := make(map[types.UID]string)
		wait.UntilWithContext(ctx, func(ctx context.Context) { postUnknownPoolEvents(ctx, pools, o, posted) }, unknownFor)
		return nil
	})); err != nil {
		return nil, err
	}
	// A pool without nodes, pods and jobs has no events, so reconcile every pool once at the start.
	return ordered, c.Watch(source.Func(func(_ context.Context, q queue) error {
		for _, pool := range pools {
			q.Add(requestOf(pool.Name))
		}
		return nil
	}))
}

// unknownFor is the age from which a job with an unknown pool and without a decision gets an event. It leaves time for
// another controller to decide.
const unknownFor = 5 * time.Minute

// postUnknownPoolEvents posts an event on jobs whose pool no controller seems to manage.
func postUnknownPoolEvents(ctx context.Context, pools []config.Pool, o Options, posted map[types.UID]string) {
	var names []string
	for _, pool := range pools {
		names = append(names, pool.Name)
	}
	for _, kind := range o.Kinds {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind.GVK)
		if err := o.Client.List(ctx, &list, client.HasLabels{world.PoolLabel}); err != nil {
			o.Log.WarnContext(ctx, "cannot list jobs to find unknown pools", "kind", kind.Name, "error", err)
			continue
		}
		for i := range list.Items {
			job := &list.Items[i]
			pool := job.GetLabels()[world.PoolLabel]
			if slices.Contains(names, pool) || posted[job.GetUID()] == pool || job.GetAnnotations()[world.DecisionAnnotation] != "" ||
				o.Now().Sub(job.GetCreationTimestamp().Time) < unknownFor {
				continue
			}
			posted[job.GetUID()] = pool
			o.Recorder.Eventf(job, nil, warning, "UnknownPool", "Allocate",
				"no controller has decided on it: pool %q is unknown to this controller; must be one of %s, or a pool of another controller",
				pool, strings.Join(names, ", "))
		}
	}
}

// queue contains the pools to reconcile.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// requestOf returns the request to reconcile a pool.
func requestOf(pool string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: pool}}
}

// toPools maps an event of a job to the pool in its label, and other events to all pools.
func toPools(pools []config.Pool) handler.EventHandler {
	poolOf := func(o client.Object) (pool string, labelled bool) {
		if _, isJob := o.(*unstructured.Unstructured); isJob {
			pool, labelled = o.GetLabels()[world.PoolLabel]
		}
		return pool, labelled
	}
	add := func(q queue, objects ...client.Object) {
		for _, pool := range pools {
			if slices.ContainsFunc(objects, func(o client.Object) bool { of, labelled := poolOf(o); return !labelled || of == pool.Name }) {
				q.AddAfter(requestOf(pool.Name), gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if _, isNode := e.ObjectNew.(*corev1.Node); !isNode || !sameNode(e.ObjectOld, e.ObjectNew) {
				add(q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
	}
}

// sameNode reports whether two versions of a node have the same observed fields.
func sameNode(before, after client.Object) bool {
	was, is := *before.(*corev1.Node), *after.(*corev1.Node)
	was.ResourceVersion = is.ResourceVersion
	return equality.Semantic.DeepEqual(&was, &is)
}

// Synced returns a check that fails until the caches are synced. They never sync if the CRD of a kind is
// missing or the controller may not list it.
func Synced(c cache.Cache) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not synced yet")
		}
		return nil
	}
}

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// CacheOptions returns what the caches keep of a cluster: the jobs with our label, and of
// nodes and pods what Observe reads.
func CacheOptions(watched []kinds.Kind) (cache.Options, error) {
	labelled, err := labels.NewRequirement(world.PoolLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	byObject := map[client.Object]cache.ByObject{
		&corev1.Pod{}:  {Transform: slim(slimPod)},
		&corev1.Node{}: {Transform: slim(slimNode)},
	}
	// Children need not have the label.
	children := make(map[schema.GroupVersionKind]bool)
	for _, kind := range watched {
		if kind.Child != nil {
			children[*kind.Child] = true
		}
	}
	for _, kind := range watched {
		if !children[kind.GVK] {
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

// slim returns a transformation of what caches keep.
func slim[T any](keep func(T)) func(any) (any, error) {
	return func(object any) (any, error) {
		if o, ok := object.(T); ok {
			keep(o)
		}
		return object, nil
	}
}

// slimPod drops what Observe does not read.
func slimPod(pod *corev1.Pod) {
	containers := make([]corev1.Container, len(pod.Spec.Containers))
	for i := range containers {
		containers[i] = corev1.Container{Name: pod.Spec.Containers[i].Name, Resources: pod.Spec.Containers[i].Resources}
	}
	pod.ManagedFields, pod.Annotations, pod.OwnerReferences = nil, nil, nil
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: containers}
	var waiting []corev1.ContainerStatus
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Waiting != nil {
			waiting = append(waiting, corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{Waiting: c.State.Waiting}})
		}
	}
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, ContainerStatuses: waiting, Conditions: slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type != corev1.PodScheduled || c.Status == corev1.ConditionTrue
	})}
}

// slimNode drops what Observe does not read.
func slimNode(node *corev1.Node) {
	node.ManagedFields, node.Annotations = nil, nil
	node.Status = corev1.NodeStatus{Allocatable: node.Status.Allocatable, Capacity: node.Status.Capacity, Conditions: node.Status.Conditions}
}

// gather is how long events are gathered before a pass.
const gather = 100 * time.Millisecond

// Add makes a manager run the loops of pools, on the leader alone.
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
		Reconciler: reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			again, err := loops[request.Name].Pass(ctx)
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
		if kind.Child != nil {
			watched[*kind.Child] = true
		}
	}
	for gvk := range watched {
		sources = append(sources, object(gvk))
	}
	for _, s := range sources {
		if err := c.Watch(source.Kind(manager.GetCache(), s, toPools(pools, o))); err != nil {
			return nil, fmt.Errorf("watch %T: %w", s, err)
		}
	}
	// A pool without nodes, pods and jobs has events of none.
	first := make(chan event.TypedGenericEvent[client.Object], len(pools))
	for _, pool := range pools {
		first <- event.TypedGenericEvent[client.Object]{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: pool.Name}}}
	}
	if err := c.Watch(source.Channel(first, &handler.EnqueueRequestForObject{})); err != nil {
		return nil, err
	}
	return ordered, nil
}

// toPools makes every event of a job one of the pool that its label names, and any other, also
// of a node or a pod that happens to have the label, one of every pool.
func toPools(pools []config.Pool, options Options) handler.EventHandler {
	known := make(map[string]bool)
	var names []string
	for _, pool := range pools {
		known[pool.Name] = true
		names = append(names, pool.Name)
	}
	// Another release may have that pool, whose jobs are not to be written to.
	tellUnknown := func(job client.Object) {
		if pool := job.GetLabels()[world.PoolLabel]; pool != "" && !known[pool] {
			if _, isJob := job.(*unstructured.Unstructured); isJob {
				options.Log.Info("a job names no pool of this controller", "namespace", job.GetNamespace(), "name", job.GetName(), "pool", pool, "pools", names)
			}
		}
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, objects ...client.Object) {
		names := make(map[string]bool)
		for _, o := range objects {
			_, isJob := o.(*unstructured.Unstructured)
			if pool, labelled := o.GetLabels()[world.PoolLabel]; isJob && labelled {
				names[pool] = known[pool]
				continue
			}
			names = known
			break
		}
		for name, of := range names {
			if of {
				var request reconcile.Request
				request.Name = name
				q.AddAfter(request, gather)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			tellUnknown(e.Object)
			add(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetLabels()[world.PoolLabel] != e.ObjectNew.GetLabels()[world.PoolLabel] {
				tellUnknown(e.ObjectNew)
			}
			if relevant(e.ObjectOld, e.ObjectNew) {
				add(q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
	}
}

// relevant reports whether an update may change what is observed. Nodes report themselves
// every few seconds.
func relevant(before, after client.Object) bool {
	old, isNode := before.(*corev1.Node)
	if !isNode {
		return true
	}
	node, ok := after.(*corev1.Node)
	if !ok || old.Spec.Unschedulable != node.Spec.Unschedulable || len(old.Spec.Taints) != len(node.Spec.Taints) ||
		fmt.Sprint(old.Spec.Taints, old.Labels) != fmt.Sprint(node.Spec.Taints, node.Labels) {
		return true
	}
	return world.Ready(old) != world.Ready(node) || fmt.Sprint(old.Status.Allocatable) != fmt.Sprint(node.Status.Allocatable)
}

// Synced returns a check that fails until the caches hold the cluster, which they never do
// where the definition of a kind is missing or may not be listed.
func Synced(c cache.Cache) func(context.Context) error {
	var synced atomic.Bool
	begin := sync.OnceFunc(func() {
		go func() { synced.Store(c.WaitForCacheSync(context.Background())) }()
	})
	return func(context.Context) error {
		begin()
		if !synced.Load() {
			return errors.New("the caches do not hold the cluster yet")
		}
		return nil
	}
}

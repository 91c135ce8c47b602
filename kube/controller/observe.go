package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// observe returns the state of the pool according to the caches and the loop's own writes.
func (l *Loop) observe(ctx context.Context) (*world.ClusterState, error) {
	if !l.writes.primed {
		jobs, err := l.jobs(ctx, l.Live)
		if err != nil {
			return nil, err
		}
		l.writes.prime(jobs)
	}
	in := world.Input{
		Now: l.Now(), Pool: l.pool, Apply: l.Mode == plan.ModeApply, Usage: l.usage.byJob(), Pins: l.pins.byJob,
		Query: l.estimates.samples, ETAs: &l.estimates.completed,
		NodeHistory: l.nodeHistory, TypesFixed: l.typesFixed,
	}
	var nodes corev1.NodeList
	if err := l.Client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		in.Nodes = append(in.Nodes, &nodes.Items[i])
	}
	// List pods before jobs, so that a job that is resized in between counts with too many nodes, not too few.
	var pods corev1.PodList
	if err := l.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		in.Pods = append(in.Pods, &pods.Items[i])
	}
	var err error
	if in.Jobs, err = l.jobs(ctx, l.Client); err != nil {
		return nil, err
	}
	if in.Kueue, err = l.kueue(ctx); err != nil {
		return nil, err
	}
	w := world.Observe(in)
	l.nodeHistory = w.NodeHistory
	l.postUnusedEvents(ctx, l.usage.observe(w))
	l.estimates.observe(w)
	return w, nil
}

// jobs lists the jobs of the pool.
func (l *Loop) jobs(ctx context.Context, from client.Reader) ([]world.Object, error) {
	var jobs []world.Object
	for _, kind := range l.Kinds {
		children, parents, err := l.related(ctx, from, kind)
		if err != nil {
			return nil, err
		}
		list, err := l.list(ctx, from, kind.GVK, client.MatchingLabels{world.PoolLabel: l.pool.Name})
		if err != nil {
			return nil, err
		}
		for _, job := range list {
			object := world.Object{Kind: kind, Job: job, Child: children[job.GetUID()]}
			if owner := metav1.GetControllerOf(job); owner != nil {
				object.Parent = parents[owner.UID]
			}
			jobs = append(jobs, object)
		}
	}
	return jobs, nil
}

// related returns the children of the jobs of a kind by the UID of their owner, and the parents by their own UID. Names
// do not count, because an object of another user may have the name.
func (l *Loop) related(
	ctx context.Context, from client.Reader, kind kinds.Kind,
) (children, parents map[types.UID]*unstructured.Unstructured, err error) {
	children, parents = make(map[types.UID]*unstructured.Unstructured), make(map[types.UID]*unstructured.Unstructured)
	var list []*unstructured.Unstructured
	if kind.Child != nil {
		list, err = l.list(ctx, from, *kind.Child)
	}
	for _, child := range list {
		if owner := metav1.GetControllerOf(child); owner != nil {
			children[owner.UID] = child
		}
	}
	if list = nil; kind.Parent != nil && err == nil {
		list, err = l.list(ctx, from, *kind.Parent)
	}
	for _, parent := range list {
		parents[parent.GetUID()] = parent
	}
	return children, parents, err
}

// kueue lists the objects of Kueue's API, nil if Kueue is not installed.
func (l *Loop) kueue(ctx context.Context) (*world.Kueue, error) {
	if !l.Kueue {
		return nil, nil
	}
	var objects [5][]*unstructured.Unstructured
	for i, gvk := range kueueKinds() {
		var err error
		if objects[i], err = l.list(ctx, l.Client, gvk, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
	}
	return &world.Kueue{Workloads: objects[0], LocalQueues: objects[1],
		ClusterQueues: objects[2], Cohorts: objects[3], ResourceFlavors: objects[4]}, nil
}

// kueueKinds returns the kinds of Kueue's objects that are read.
func kueueKinds() []schema.GroupVersionKind {
	kueue := schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}
	return []schema.GroupVersionKind{
		kueue.WithKind("Workload"), kueue.WithKind("LocalQueue"), kueue.WithKind("ClusterQueue"),
		kueue.WithKind("Cohort"), kueue.WithKind("ResourceFlavor"),
	}
}

// list lists objects of a kind. It returns the result of the loop's last write if the cache is older.
func (l *Loop) list(
	ctx context.Context, from client.Reader, gvk schema.GroupVersionKind, options ...client.ListOption,
) ([]*unstructured.Unstructured, error) {
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(gvk)
	if err := from.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	objects := make([]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		objects[i] = l.writes.newest(&list.Items[i])
	}
	return objects, nil
}

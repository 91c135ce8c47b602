package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// lagging is a client whose caches lag: it returns objects of each kind as they were at the last refresh.
type lagging struct {
	client.WithWatch
	nodes corev1.NodeList
	pods  corev1.PodList
	jobs  unstructured.UnstructuredList
}

func (l *lagging) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.NodeList:
		l.nodes.DeepCopyInto(list)
	case *corev1.PodList:
		l.pods.DeepCopyInto(list)
	case *unstructured.UnstructuredList:
		l.jobs.DeepCopyInto(list)
	default:
		return fmt.Errorf("list %T", list)
	}
	return nil
}

// refresh updates the cache of a kind.
func (l *lagging) refresh(t *testing.T, list client.ObjectList) {
	t.Helper()
	if jobs, ok := list.(*unstructured.UnstructuredList); ok {
		jobs.SetGroupVersionKind(kinds.Named([]string{"Job"})[0].GVK)
	}
	if err := l.WithWatch.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// newLagging returns a cluster without jobs whose caches change only by refresh. Its jobs have no cooldown.
func newLagging(t *testing.T, nodes int) (*cluster, *lagging) {
	t.Helper()
	c := newCluster(t, nodes)
	c.pool.MinInterval = 0
	seen := &lagging{WithWatch: c.client}
	c.reads = seen
	for _, list := range []client.ObjectList{&seen.nodes, &seen.pods, &seen.jobs} {
		seen.refresh(t, list)
	}
	c.start()
	return c, seen
}

// submit submits a job and refreshes the cache of jobs.
func (l *lagging) submit(t *testing.T, name string) {
	t.Helper()
	job := worldtest.Job(name, 0, map[string]string{"work": "10h", "nodes": "4,8"})
	job.SetResourceVersion("")
	if err := l.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	l.refresh(t, &l.jobs)
}

// TestLostResponse stops an API server after a write and before its response, while the cache of jobs lags. The
// controller must read the job from the API server before it writes again.
func TestLostResponse(t *testing.T) {
	t.Parallel()
	c, seen := newLagging(t, 8)
	seen.submit(t, "first")
	resizes := 0
	c.onPatch = func(patch, _ string) error {
		if patch == string(types.JSONPatchType) {
			if resizes++; resizes == 1 {
				seen.submit(t, "second") // The last refresh of the jobs.
			}
		}
		return nil
	}
	c.afterPatch = func() error {
		if resizes == 1 {
			c.afterPatch = nil
			return errors.New("connection reset by peer")
		}
		return nil
	}
	c.passes(6)
	c.want(map[string]int{"first": 8, "second": 0})
	for range 2 { // The cache has its pods, and then their deletion.
		seen.refresh(t, &seen.pods)
		c.passes(4)
	}
	c.want(map[string]int{"first": 4, "second": 4})
}

// TestUnseenPods lets the cache of pods lag while a job grows and then shrinks or is deleted. Its nodes must not be
// given to another job before its pods were observed and terminated.
func TestUnseenPods(t *testing.T) {
	t.Parallel()
	c, seen := newLagging(t, 8)
	seen.submit(t, "first")
	c.passes(5)
	c.want(map[string]int{"first": 8})
	c.linger = true
	seen.refresh(t, &seen.jobs)
	seen.submit(t, "second")
	c.passes(8)
	c.want(map[string]int{"first": 8, "second": 0})
	seen.refresh(t, &seen.pods)
	c.passes(4)
	c.want(map[string]int{"first": 4, "second": 0})
	c.linger = false
	c.kubelet()
	seen.refresh(t, &seen.pods)
	c.passes(4)
	c.want(map[string]int{"first": 4, "second": 4})

	c.linger = true
	seen.refresh(t, &seen.jobs)
	if err := c.client.Delete(t.Context(), worldtest.Job("second", 4, nil)); err != nil {
		t.Fatal(err)
	}
	seen.submit(t, "third")
	c.passes(8)
	c.want(map[string]int{"first": 4, "third": 0})
	seen.refresh(t, &seen.pods) // Their job is deleted.
	c.passes(4)
	c.want(map[string]int{"third": 0})
	c.linger = false
	c.kubelet()
	seen.refresh(t, &seen.pods)
	c.passes(20)
	first, _ := c.job("first")
	third, _ := c.job("third")
	if first+third != 8 {
		t.Errorf("in the end the jobs have %d and %d nodes; want 8 in total", first, third)
	}
}

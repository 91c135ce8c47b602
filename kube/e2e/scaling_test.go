//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// spotNotice is the taint of a node that will be reclaimed. scaleDown is the taint of a node that the autoscaler removes.
const (
	spotNotice = "aws-node-termination-handler/spot-itn"
	scaleDown  = "ToBeDeletedByClusterAutoscaler"
)

// autoscaler adds a node for each pending pod and removes nodes that have been idle for some time. Like cluster-autoscaler,
// it first taints such a node. It never drains nodes.
type autoscaler struct {
	t    *testing.T
	pool string

	mu               sync.Mutex
	created, largest int
	idle             map[string]int // number of rounds, by node
}

// run runs until ctx is canceled.
func (a *autoscaler) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.round(ctx); err != nil && ctx.Err() == nil {
			a.t.Error(err)
			return
		}
		sleep(ctx, time.Second)
	}
}

func (a *autoscaler) round(ctx context.Context) error {
	nodes, err := kube.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + a.pool})
	if err != nil {
		return err
	}
	pods, err := kube.Client.CoreV1().Pods(a.pool).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	waiting, busy := 0, make(map[string]bool)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if busy[pod.Spec.NodeName] = true; pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			waiting++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	leaving := 0 // A tainted node may be replaced before it is removed, because pods were assigned to it.
	for i := range nodes.Items {
		if slices.ContainsFunc(nodes.Items[i].Spec.Taints,
			func(taint corev1.Taint) bool { return taint.Key == spotNotice || taint.Key == scaleDown }) {
			leaving++
		}
	}
	a.largest = max(a.largest, len(nodes.Items)-leaving)
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if busy[node.Name] {
			a.idle[node.Name] = 0
			continue
		}
		waiting--
		switch a.idle[node.Name]++; {
		case a.idle[node.Name] == 5:
			err = changeNode(ctx, node.Name, func(node *corev1.Node) {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: scaleDown, Effect: corev1.TaintEffectNoSchedule})
			})
		case a.idle[node.Name] > 6:
			err = kube.Client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for ; waiting > 0; waiting-- {
		if err := kube.AddNode(ctx, a.pool, a.created); err != nil {
			return err
		}
		a.created++
	}
	return nil
}

// until waits until a pool has n nodes and as many running pods.
func (a *autoscaler) until(what string, want int) {
	a.t.Helper()
	wait.For(a.t, what, func() (bool, string) {
		nodes, err := kube.Client.CoreV1().Nodes().List(a.t.Context(), metav1.ListOptions{LabelSelector: "pool=" + a.pool})
		must(a.t, err)
		byJob, running := pods(a.t, a.pool)
		return len(nodes.Items) == want && running == want,
			fmt.Sprintf("%d nodes, pods %v of which %d run; want %d", len(nodes.Items), byJob, running, want)
	})
}

// TestScaling checks that a pool without nodes scales to the number of nodes that are worth their price, never beyond its
// maximum, and to 0 when no job is left. No pod is evicted for this.
func TestScaling(t *testing.T) {
	const pool = "scaling"
	newPool(t, pool, 0)
	a := &autoscaler{t: t, pool: pool, idle: make(map[string]int)}
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { a.run(ctx) })
	defer done.Wait()
	defer stop()
	controller{pool: pool, account: release, more: ", maxNodes: 6, nodePrice: 1.5"}.start(t)

	job{name: "first", size: 1, annotations: elastic(100)}.submit(t, pool)
	a.until("the nodes that one job is worth", 4)
	job{name: "second", size: 1, annotations: elastic(100)}.submit(t, pool)
	a.until("the maximum number of nodes", 6)

	// A spot instance is reclaimed: it gets a notice, is drained and removed. Another node replaces it.
	list, err := kube.Client.CoreV1().Pods(pool).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	spot := list.Items[0].Spec.NodeName
	must(t, changeNode(t.Context(), spot, func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: spotNotice, Effect: corev1.TaintEffectNoSchedule})
	}))
	on := metav1.ListOptions{FieldSelector: "spec.nodeName=" + spot}
	must(t, kube.Client.CoreV1().Pods(pool).DeleteCollection(t.Context(), metav1.DeleteOptions{}, on))
	must(t, kube.Client.CoreV1().Nodes().Delete(t.Context(), spot, metav1.DeleteOptions{}))
	a.until("a replacement of the reclaimed node", 6)

	for _, name := range []string{"first", "second"} {
		background := metav1.DeletePropagationBackground
		must(t, kube.Client.BatchV1().Jobs(pool).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}))
		if name == "first" {
			a.until("the nodes that the other job is worth", 4)
		}
	}
	a.until("no nodes", 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.largest > 6 {
		t.Errorf("the pool had %d nodes; want at most 6", a.largest)
	}
}

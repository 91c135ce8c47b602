//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
)

// GPUs is how many a node has, all of which a pod of a job asks for.
const GPUs = 8

// AddNodes adds nodes pool-000, pool-001, … with the label pool=POOL, and returns once all
// nodes of the pool are ready.
func (c *Cluster) AddNodes(ctx context.Context, pool string, n int) error {
	capacity := corev1.ResourceList{
		"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"),
		"nvidia.com/gpu": *resource.NewQuantity(GPUs, resource.DecimalSI),
	}
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 16, n, func(i int) {
		name := NodeName(pool, i)
		_, errs[i] = c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "pool": pool}},
			Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
		}, metav1.CreateOptions{})
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return until(ctx, c.apiserver, fmt.Sprintf("%d nodes ready", n), func() error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + pool, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			if !Usable(&nodes.Items[i]) {
				return fmt.Errorf("%s is not", nodes.Items[i].Name)
			}
		}
		if len(nodes.Items) < n {
			return fmt.Errorf("there are %d", len(nodes.Items))
		}
		return nil
	})
}

// NodeName returns the name of a node of AddNodes.
func NodeName(pool string, i int) string { return fmt.Sprintf("%s-%03d", pool, i) }

// RemoveNodes deletes the nodes of a pool.
func (c *Cluster) RemoveNodes(ctx context.Context, pool string) error {
	return c.Client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "pool=" + pool})
}

// lostLabel is on a node that has gone silent.
const lostLabel = "test/lost"

// SetLost has a node go silent or come back.
func (c *Cluster) SetLost(ctx context.Context, name string, lost bool) error {
	return c.changeNode(ctx, name, func(node *corev1.Node) {
		if delete(node.Labels, lostLabel); lost {
			node.Labels[lostLabel] = "yes"
		}
	})
}

// SetCordoned has a node take no new pods, or take them again.
func (c *Cluster) SetCordoned(ctx context.Context, name string, cordoned bool) error {
	return c.changeNode(ctx, name, func(node *corev1.Node) { node.Spec.Unschedulable = cordoned })
}

func (c *Cluster) changeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	// A conflict, or a connection that was lost on a busy machine.
	again := func(err error) bool { return ctx.Err() == nil && !apierrors.IsNotFound(err) }
	return retry.OnError(retry.DefaultBackoff, again, func() error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = c.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// Usable reports whether a node is ready and takes pods.
func Usable(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && !node.Spec.Unschedulable && node.DeletionTimestamp == nil
		}
	}
	return false
}

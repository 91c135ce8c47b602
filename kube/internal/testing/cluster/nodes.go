//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
)

// GPUs is the number of GPUs of a node. A pod of a job requests all of them.
const GPUs = 8

// AddNodes adds n nodes POOL-000, POOL-001, … with the label pool=POOL, and returns when all nodes of
// the pool are ready.
func (c *Cluster) AddNodes(ctx context.Context, pool string, n int) error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 16, n, func(i int) { errs[i] = c.AddNode(ctx, pool, i) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.Until(ctx, fmt.Sprintf("%d nodes ready", n), func() error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "pool=" + pool, ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			if !Usable(&nodes.Items[i]) {
				return fmt.Errorf("%s is not ready", nodes.Items[i].Name)
			}
		}
		if len(nodes.Items) < n {
			return fmt.Errorf("the pool has %d nodes", len(nodes.Items))
		}
		return nil
	})
}

// AddNode adds the i-th node of a pool.
func (c *Cluster) AddNode(ctx context.Context, pool string, i int) error {
	name := NodeName(pool, i)
	capacity := corev1.ResourceList{
		"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"),
		"nvidia.com/gpu": *resource.NewQuantity(GPUs, resource.DecimalSI),
	}
	_, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "pool": pool}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}, metav1.CreateOptions{})
	return err
}

// NodeName returns the name of the i-th node of a pool.
func NodeName(pool string, i int) string { return fmt.Sprintf("%s-%03d", pool, i) }

// LostLabel is the label of nodes that stop renewing their lease.
const LostLabel = "test/lost"

// Usable reports whether a node is ready and accepts pods. A node that is ready again keeps the NoExecute taint of a lost
// node for some seconds. The scheduler binds pods to it, because an admission plugin lets all pods tolerate this taint for
// a time.
func Usable(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		tolerated := taint.Effect == corev1.TaintEffectNoExecute &&
			(taint.Key == corev1.TaintNodeUnreachable || taint.Key == corev1.TaintNodeNotReady)
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated {
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

package controller_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/worldtest"
)

// changeNode changes a node.
func (c *cluster) changeNode(name string, change func(*corev1.Node)) {
	c.t.Helper()
	var node corev1.Node
	if err := c.client.Get(c.t.Context(), types.NamespacedName{Name: name}, &node); err != nil {
		c.t.Fatal(err)
	}
	change(&node)
	if err := c.client.Update(c.t.Context(), &node); err != nil {
		c.t.Fatal(err)
	}
}

// TestCordonUnderAPinnedJob: the nodes of a job that is left alone are cordoned, which costs no
// other job any of its own.
func TestCordonUnderAPinnedJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8,
		worldtest.Job("pinned", 4, map[string]string{"paused": "true"}),
		worldtest.Job("victim", 4, map[string]string{"work": "1000h", "nodes": "1-4"}),
	)
	c.passes(4)
	var pods corev1.PodList
	if err := c.client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].Labels["batch.kubernetes.io/job-name"] == "pinned" {
			c.changeNode(pods.Items[i].Spec.NodeName, func(node *corev1.Node) { node.Spec.Unschedulable = true })
		}
	}
	c.step = time.Minute
	c.passes(40)
	c.want(map[string]int{"victim": 4, "pinned": 4})
	if n := c.moments("outage"); n != 0 {
		t.Errorf("%v outages; want none", n)
	}
}

// TestOddNode: a node with fewer devices than the others is told of, and all else goes on.
func TestOddNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 9, worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "4,8"}), worldtest.Job("short", 0, map[string]string{"work": "1h", "nodes": "4"}))
	var node corev1.Node // The pods took the others.
	if err := c.client.Get(t.Context(), types.NamespacedName{Name: "node-000"}, &node); err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable[worldtest.Unit] = resource.MustParse("7")
	if err := c.client.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	c.passes(12)
	c.want(map[string]int{"long": 4, "short": 4})
	if told := c.told(); strings.Count(told, "Warning Odd has 7 nvidia.com/gpu; pool training counts nodes of 8") != 1 {
		t.Errorf("events are %s", told)
	}
}

package controller_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
)

// TestCordonUnderAPinnedJob cordons the nodes of a paused job. Other jobs keep theirs.
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
	if n := c.decisions("outage"); n != 0 {
		t.Errorf("%v outages; want none", n)
	}
}

// TestOddNode posts an event about a node with fewer devices than the others. The other nodes stay in use.
func TestOddNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 9, worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "4,8"}),
		worldtest.Job("short", 0, map[string]string{"work": "1h", "nodes": "4"}))
	var node corev1.Node // The only node without a pod.
	if err := c.client.Get(t.Context(), types.NamespacedName{Name: "node-000"}, &node); err != nil {
		t.Fatal(err)
	}
	node.Status.Allocatable[worldtest.Unit] = resource.MustParse("7")
	if err := c.client.Status().Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	c.passes(12)
	c.want(map[string]int{"long": 4, "short": 4})
	if posted := c.events(); strings.Count(posted, "Warning Retaining has 7 nvidia.com/gpu; nodes of pool training must have 8") != 1 {
		t.Errorf("events are %s", posted)
	}
}

// TestFlappingNode makes a node not ready and ready again. The job on it is not resized.
func TestFlappingNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 8, map[string]string{"work": "1000h", "nodes": "7,8"}))
	c.pool.MinInterval = 0
	c.start()
	c.passes(4)
	for range 10 {
		for _, ready := range []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue} {
			c.ready("node-000", ready)
			c.passUntil(20 * time.Second)
		}
	}
	if n := c.count("changes_total", ""); n != 0 {
		t.Errorf("%v resizes while a node was not ready at times; want none", n)
	}
	c.passUntil(2 * time.Minute)
	c.want(map[string]int{"a": 8})
}

// TestQueuedEvents checks that a job that waits gets one event with the reason.
func TestQueuedEvents(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("first", 0, map[string]string{"work": "10h", "nodes": "8"}),
		worldtest.Job("waits", 0, map[string]string{"work": "100h", "nodes": "8"}))
	c.step = time.Minute
	c.passes(15)
	if posted := c.events(); strings.Count(posted, "Normal Queued Job/default/") != 1 {
		t.Errorf("events are %s", posted)
	}
}

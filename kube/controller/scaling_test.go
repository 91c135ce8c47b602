package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// scaling returns a cluster without nodes whose pool may have 8, at a price.
func scaling(t *testing.T, price float64) *cluster {
	t.Helper()
	c := newCluster(t, 0)
	c.scales, c.pool.MaxNodes, c.pool.NodePrice = true, 8, price
	c.start()
	return c
}

// submit creates a job that waits.
func (c *cluster) submit(name string, annotations map[string]string) {
	c.t.Helper()
	c.submitSmall(name, worldtest.PerNode, annotations)
}

// submitSmall creates a job that waits, whose pods request some units each.
func (c *cluster) submitSmall(name string, units int, annotations map[string]string) {
	c.t.Helper()
	job := worldtest.SmallJob(name, 0, units, annotations)
	job.SetResourceVersion("")
	if err := c.client.Create(c.t.Context(), job); err != nil {
		c.t.Fatal(err)
	}
}

// autoscale gives every pod that waits a node.
func (c *cluster) autoscale() (nodes int) {
	c.t.Helper()
	var pods corev1.PodList
	if err := c.client.List(c.t.Context(), &pods); err != nil {
		c.t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == "" {
			c.pods++
			if err := c.client.Create(c.t.Context(), worldtest.Node(fmt.Sprintf("new-%d", c.pods))); err != nil {
				c.t.Fatal(err)
			}
			nodes++
		}
	}
	return nodes
}

// TestPoolFromZero: as many pods wait as nodes are worth their price, and the decision stands once
// these are there.
func TestPoolFromZero(t *testing.T) {
	t.Parallel()
	// (1 + price k)/speed(k) is least there: at 1.5 it is 2.5, 2.22, 2.16 and 2.23.
	for price, want := range map[float64]int{0: 8, 0.9: 8, 1.5: 4, 3: 2, 1000: 1} {
		c := scaling(t, price)
		c.submit("first", map[string]string{"work": "10h", "nodes": "1-8", "doubling-efficiency": "0.9"})
		c.passes(8)
		c.want(map[string]int{"first": want})
		if report := c.loop.Report(); report.Wanted != want {
			t.Errorf("at a price of %v %d nodes are worth their price; want %d", price, report.Wanted, want)
		}
		if got := c.autoscale(); got != want {
			t.Errorf("at a price of %v %d pods wait; want %d", price, got, want)
		}
		c.step = time.Minute
		c.passes(30)
		c.want(map[string]int{"first": want})
		if posted := c.events(); strings.Contains(posted, "Unused") || c.autoscale() > 0 {
			t.Errorf("once the nodes are there more is done: %s", posted)
		}
	}
}

// TestUnitPoolFromZero: in a pool that counts units, as many nodes are added as the pods need that are worth their price. A
// unit costs its part of a node. As long as the pool has no node, a node counts as large as the largest pod.
func TestUnitPoolFromZero(t *testing.T) {
	t.Parallel()
	for price, want := range map[float64]int{0: 8, 1.5 * 4: 4, 3 * 4: 2, 1000: 1} { // (1 + price/8 * 2 k)/speed(k), as in TestPoolFromZero.
		c := scaling(t, price)
		c.pool.Count = config.CountUnits
		c.start()
		c.submitSmall("first", 2, map[string]string{"work": "10h", "nodes": "1-8", "doubling-efficiency": "0.9"})
		c.step = time.Minute
		for range 60 {
			c.passes(1)
			var list corev1.NodeList
			if err := c.client.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			nodes, free, waiting := len(list.Items), worldtest.PerNode*len(list.Items), 0
			for _, pod := range c.listPods() {
				if free -= units(&pod); pod.Spec.NodeName == "" {
					waiting++
				}
			}
			for ; free < 0; free += worldtest.PerNode {
				nodes++
				if err := c.client.Create(t.Context(), worldtest.Node(fmt.Sprintf("new-%d", nodes))); err != nil {
					t.Fatal(err)
				}
			}
			if most := (2*want + 7) / 8; nodes > most {
				t.Fatalf("at a price of %v there are %d nodes for %d pods; want at most %d", price, nodes, waiting, most)
			}
		}
		c.want(map[string]int{"first": want})
		if posted := c.events(); strings.Contains(posted, "Unused") {
			t.Errorf("at a price of %v events are %s", price, posted)
		}
	}
}

// TestPoolAtItsLimit: jobs that would use more nodes than an autoscaler gives share those.
func TestPoolAtItsLimit(t *testing.T) {
	t.Parallel()
	c := scaling(t, 0)
	for _, name := range []string{"first", "second", "third"} {
		c.submit(name, map[string]string{"work": "10h", "nodes": "1-8"})
	}
	c.passes(8)
	if got := c.autoscale(); got != 8 || c.loop.Report().Wanted != 8 {
		t.Errorf("%d pods wait, and %d nodes are worth their price; want 8", got, c.loop.Report().Wanted)
	}
}

// TestNodesThatAreNotAdded posts an event after a while. Pods go on waiting if no other job can use the nodes.
func TestNodesThatAreNotAdded(t *testing.T) {
	t.Parallel()
	c := scaling(t, 0)
	c.submit("first", map[string]string{"work": "10h", "nodes": "1-8"})
	c.step = 30 * time.Second
	c.passes(10)
	if posted := c.events(); strings.Contains(posted, "Unused") {
		t.Errorf("events after minutes are %s", posted)
	}
	c.passes(30)
	if posted := c.events(); !strings.Contains(posted, "Unused") {
		t.Errorf("events after a quarter of an hour are %s", posted)
	}
	c.want(map[string]int{"first": 8})
}

// TestSpotNotice checks that a job keeps its pods on a node that is about to be removed, and requests another node
// once it is removed. Idle nodes that are not worth their price stay idle, whatever the pods tolerate.
func TestSpotNotice(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("first", 8, map[string]string{"work": "10h", "nodes": "1,2,4,7,8"}))
	c.pool.MaxNodes, c.pool.MinInterval = 8, 0
	c.pool.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	c.start()
	c.passes(5)
	c.want(map[string]int{"first": 8})
	var node corev1.Node
	if err := c.client.Get(t.Context(), client.ObjectKey{Name: "node-003"}, &node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}
	if err := c.client.Update(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	c.scales = true
	c.passes(5)
	c.want(map[string]int{"first": 8})
	if r := c.loop.Report().State; r.NodesBy(world.Leaving) != 1 || r.Nodes.Accepting != 7 {
		t.Errorf("nodes are %+v; want one that leaves and 7 accepting", r.Nodes)
	}
	// After its removal, the job requests another one.
	c.evict("node-003")
	if err := c.client.Delete(t.Context(), &node); err != nil {
		t.Fatal(err)
	}
	c.passes(10)
	if got := c.autoscale(); got != 1 {
		t.Errorf("%d pods wait; want one", got)
	}
	c.passes(10)
	c.want(map[string]int{"first": 8})
	c.pool.NodePrice = 3
	c.start()
	c.passes(10)
	c.want(map[string]int{"first": 1})
}

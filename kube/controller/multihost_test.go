package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestMultiHostDrained drains half of a pool that two RayClusters share, whose replicas have two hosts each, and
// adds the nodes again. Both lose hosts, which their controller replaces by whole replicas. Soon after the nodes
// are back, the clusters share all of them again.
func TestMultiHostDrained(t *testing.T) {
	t.Parallel()
	const nodes = 8
	for seed := range seeds(1) {
		for _, away := range []time.Duration{15 * time.Second, 125 * time.Second} {
			t.Run(fmt.Sprint(seed, away), func(t *testing.T) {
				t.Parallel()
				e := newEventful(t, seed, nodes, plan.ModeApply)
				e.pool.Cadence, e.pool.Debounce, e.pool.MinInterval, e.pool.Restart = 5*time.Second, 500*time.Millisecond, 0, 0
				e.pool.SettleTimeout, e.pool.NodeGracePeriod, e.pool.MaxShrink = 2*time.Minute, time.Second, 1
				e.step = 2 * time.Second
				e.start()
				e.submit(multiHost, []int{2, 4, 8}, 0, false, nodes)
				e.passUntil(20 * time.Second)
				e.submit(multiHost, []int{2, 4, 8}, 0, false, nodes)
				e.passUntil(time.Minute)
				for n := range nodes / 2 {
					e.changeNode(fmt.Sprintf("node-%03d", 2*n), cordon)
				}
				for _, pod := range e.listPods() {
					if slices.Contains([]string{"node-000", "node-002", "node-004", "node-006"}, pod.Spec.NodeName) {
						e.terminate(&pod)
					}
				}
				e.log("half of the nodes are drained")
				e.passUntil(away)
				for n := range nodes / 2 {
					e.healNode(fmt.Sprintf("node-%03d", 2*n))
				}
				e.log("they are back")
				e.passUntil(3 * time.Minute)
				if got := len(e.idleNodes()); got > 0 {
					e.fail("%d nodes are idle three minutes after they are back", got)
				}
			})
		}
	}
}

// TestMultiHostLosesAllNodes checks that a RayCluster that must not be paused and whose nodes are all drained
// gets nodes of another RayCluster, although none of its pods runs.
func TestMultiHostLosesAllNodes(t *testing.T) {
	t.Parallel()
	const nodes = 8
	e := newEventful(t, 0, nodes, plan.ModeApply)
	e.pool.MinInterval, e.pool.NodeGracePeriod, e.pool.MaxShrink = 0, time.Second, 1
	e.start()
	for range 2 {
		e.submit(multiHost, []int{2, 4, 8}, 0, false, nodes)
		e.passUntil(2 * time.Minute)
	}
	for _, node := range e.nodesOfJob("job-1") {
		e.changeNode(node, cordon)
		e.evict(node)
	}
	e.log("the nodes of job-1 are drained")
	e.passUntil(10 * time.Minute)
	for name, j := range e.jobs {
		if got := len(e.nodesOfJob(name)); got != 2 || j.size() != 2 {
			e.fail("%s has pods on %d nodes and a size of %d; must be 2 of the 4 nodes that are left", name, got, j.size())
		}
	}
	for _, node := range e.nodes() {
		e.healNode(node.Name)
	}
	for name, work := range map[string]string{"job-0": "300h", "job-1": "1h"} {
		job := e.object(name, e.jobs[name].kind.GVK)
		annotations := job.GetAnnotations()
		annotations[world.WorkAnnotation], annotations[world.EfficiencyAnnotation] = work, "0.95"
		job.SetAnnotations(annotations)
		if err := e.client.Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	e.passUntil(5 * time.Minute)
	if got := len(e.idleNodes()); got > 0 {
		e.fail("%d nodes are idle although job-1 has 1 h left and may use them", got)
	}
}

package world_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// foreign returns a pod of another workload that requests units on a node.
func foreign(name, node string, units int64) *corev1.Pod {
	pod := worldtest.Pod(name, node, nil)
	pod.Spec.Containers[0].Resources.Requests[worldtest.Unit] = *resource.NewQuantity(units, resource.DecimalSI)
	return pod
}

// TestUnits: in a pool that counts units, a node counts with what other pods leave, and jobs with the
// units of their pods.
func TestUnits(t *testing.T) {
	t.Parallel()
	c := worldtest.NewOf(worldtest.UnitPool(), 3,
		worldtest.SmallJob("a", 3, 2, map[string]string{"work": "100h", "nodes": "1,2,3,6", "speeds": "1,1.8,2.5,4", "target": "6"}),
		worldtest.SmallJob("b", 0, 8, map[string]string{"work": "100h"}),
		worldtest.SmallJob("large", 0, 16, map[string]string{"work": "100h"}),
	)
	ended, leaving, sidecar := foreign("ended", "node-001", 8), foreign("leaving", "node-001", 1), foreign("sidecar", "node-002", 2)
	ended.Status.Phase = corev1.PodSucceeded
	leaving.DeletionTimestamp = &metav1.Time{Time: c.Now}
	always := corev1.ContainerRestartPolicyAlways
	sidecar.Spec.InitContainers = []corev1.Container{
		{Name: "sidecar", RestartPolicy: &always, Resources: *sidecar.Spec.Containers[0].Resources.DeepCopy()},
	}
	c.Pods = append(c.Pods, foreign("notebook", "node-001", 3), ended, leaving, sidecar)
	c.Now = c.Now.Add(time.Hour)
	w := c.ClusterState()
	// node-000 has 8 units, of which a uses 6. node-001 has 4, and node-002 has 4 in addition to those of other pods.
	counts := world.NodeCounts{Accepting: 16, Serving: 16, Existing: 3}
	if w.Nodes != counts || w.Free() != 10 || w.Idle() != 10 || w.NodesBy(world.Foreign) != 0 {
		t.Errorf("units are %+v, %d of them free; want %+v, 10", w.Nodes, w.Free(), counts)
	}
	a, b, large := w.Jobs[0], w.Jobs[1], w.Jobs[2]
	if fmt.Sprint(a.Sizes) != "[2 4 6 12]" || a.Nodes() != 6 || a.OccupiedNodes() != 6 ||
		a.NodesInUse() != 6 || a.Pods.Running != 6 || a.Kept["node-000"] != 6 {
		t.Errorf("a has sizes %v, requests %d, occupies %d", a.Sizes, a.Nodes(), a.OccupiedNodes())
	}
	if a.Speed(6) != 2.5 || b.Speed(8) != 1 || b.Speed(16) != 1.6 {
		t.Errorf("the speeds are %g, %g and %g; want 2.5, 1 and 1.6, relative to one pod", a.Speed(6), b.Speed(8), b.Speed(16))
	}
	if fmt.Sprint(b.Sizes) != "[8 16 32 64 128]" || b.Pinned != "" {
		t.Errorf("b has sizes %v and is pinned %q", b.Sizes, b.Message)
	}
	want := "its pods request 16 nvidia.com/gpu; must request at most 8, which the largest node of the pool has"
	if large.Pinned != world.NotElastic || large.Message != want {
		t.Errorf("large is pinned %q: %s; want %s", large.Pinned, large.Message, want)
	}
	// Nothing but the name of the state changes for a pool that counts nodes.
	c.Pool = worldtest.Pool()
	if n := c.ClusterState(); n.Nodes.Accepting != 1 || n.NodesBy(world.Foreign) != 2 || n.Jobs[0].Pinned != world.NotWholeNodes {
		t.Errorf("a pool of nodes has %+v, and a is pinned %q", n.Nodes, n.Jobs[0].Pinned)
	}
}

// TestMutatedPod: what a pod requests beyond the template of its job is not capacity.
func TestMutatedPod(t *testing.T) {
	t.Parallel()
	c := worldtest.NewOf(worldtest.UnitPool(), 1, worldtest.SmallJob("a", 1, 2, map[string]string{"work": "100h"}))
	c.Pods[0].Spec.Containers[0].Resources.Requests[worldtest.Unit] = resource.MustParse("5")
	if w := c.ClusterState(); w.Nodes.Accepting != 5 || w.Free() != 3 {
		t.Errorf("%d units are accepting and %d free; want 5 and 3", w.Nodes.Accepting, w.Free())
	}
}

// TestLostUnits: a node that loses units is as before for the grace period. Later it is used without them,
// or retains its pods if they use more than it has left.
func TestLostUnits(t *testing.T) {
	t.Parallel()
	const all, left = 8, 5
	for _, used := range []int{0, 4, 6, 8} {
		t.Run(fmt.Sprint(used), func(t *testing.T) {
			t.Parallel()
			c := worldtest.NewOf(worldtest.UnitPool(), 2,
				worldtest.SmallJob("a", used, 1, map[string]string{"work": "1000h"}), worldtest.SmallJob("b", 1, 8, map[string]string{"work": "1000h"}))
			c.Pods[used].Spec.NodeName = "node-001" // of b
			var w *world.ClusterState
			look := func(after time.Duration) *world.ClusterState {
				c.Now = c.Now.Add(after)
				w = c.ClusterState()
				c.NodeHistory = w.NodeHistory
				return w
			}
			check := func(when string, capacity int, state world.NodeState, pinned bool) {
				t.Helper()
				if n := w.Nodes.Accepting + w.Nodes.Expected; n != capacity || w.NodeStatuses[0].State != state ||
					(w.Jobs[0].Pinned != "") != pinned || w.Jobs[1].Pinned != "" || w.Missing != 0 {
					t.Errorf("%s: decisions count on %d units, %s, a is pinned %q, b %q, %d missing; want %d, %s, %t", when,
						n, w.NodeStatuses[0].String(), w.Jobs[0].Pinned, w.Jobs[1].Pinned, w.Missing, capacity, state, pinned)
				}
			}
			look(time.Hour)
			c.Nodes[0].Status.Capacity = c.Nodes[0].Status.Allocatable.DeepCopy()
			c.Nodes[0].Status.Allocatable[worldtest.Unit] = resource.MustParse(fmt.Sprint(left))
			look(time.Second)
			check("at once", all+all-used, world.Retaining, used > 0)
			serving := w.Nodes.Serving
			if look(time.Minute).Nodes.Serving != serving || serving != 2*all {
				t.Errorf("%d and %d units serve; want %d", serving, w.Nodes.Serving, 2*all)
			}
			for range 30 {
				look(10 * time.Second)
			}
			if used > left {
				check("later", all, world.Retaining, true)
				// Once some of the pods are gone, the rest of the node is used.
				c.Pods = c.Pods[used-left:]
				for range 10 {
					look(10 * time.Second)
				}
				check("with fewer pods", all+left, world.Accepting, false)
				return
			}
			check("later", all+left, world.Accepting, false)
			if want := "node-000 accepting: 5 of 8 nvidia.com/gpu are allocatable, 0 in use by other workloads"; w.NodeStatuses[0].String() != want {
				t.Errorf("the node is %q; want %q", w.NodeStatuses[0].String(), want)
			}
			c.Nodes[0].Status.Allocatable[worldtest.Unit] = resource.MustParse(fmt.Sprint(all))
			look(time.Second)
			check("repaired", 2*all, world.Accepting, false)
		})
	}
}

// TestRecordPastItsEnd: the record of a job that should have completed is read again.
func TestRecordPastItsEnd(t *testing.T) {
	t.Parallel()
	c := worldtest.New(2, worldtest.Job("a", 1, map[string]string{"work": "1h"}))
	c.Now = c.Now.Add(3 * time.Hour)
	w := c.ClusterState()
	if w.Jobs[0].Estimate.Remaining >= 0 {
		t.Fatalf("%v of its work remains", w.Jobs[0].Estimate.Remaining)
	}
	record := w.Jobs[0].NextRecord(1, c.Now)
	annotations := c.Jobs["a"].GetAnnotations()
	annotations[world.DecisionAnnotation] = record.String()
	c.Jobs["a"].SetAnnotations(annotations)
	if c.ClusterState().Jobs[0].Record == nil {
		t.Errorf("it is not read: %s", record.String())
	}
}

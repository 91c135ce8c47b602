package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestUnitRequest: a pool that counts units sends sizes in units, the units per pod, and the size limits of
// the units that the decided jobs may have.
func TestUnitRequest(t *testing.T) {
	t.Parallel()
	c := worldtest.NewOf(worldtest.UnitPool(), 3,
		worldtest.SmallJob("fixed", 1, 1, map[string]string{"work": "100h", "paused": "true"}), // on node-000
		worldtest.SmallJob("a", 2, 2, map[string]string{"work": "100h", "nodes": "1,2,4"}),     // on node-000
		worldtest.SmallJob("b", 0, 8, map[string]string{"work": "10h", "nodes": "1,2"}),
		worldtest.SmallJob("c", 0, 4, map[string]string{"work": "10h", "nodes": "1-4", "doubling-efficiency": "0.9"}),
	)
	notebook := worldtest.Pod("notebook", "node-001", nil)
	notebook.Spec.Containers[0].Resources.Requests[worldtest.Unit] = resource.MustParse("3")
	c.Pods = append(c.Pods, notebook)
	c.Now = c.Now.Add(time.Hour)
	r := plan.Snapshot(c.ClusterState(), "d", nil)
	s := r.Allocate.GetSnapshot()
	if r.Available() != 7+5+8 {
		t.Errorf("%d units are available; want 20", r.Available())
	}
	// Of 7, 5 and 8 units, pods of 2 can use 6, 4 and 8, pods of 4 4, 4 and 8, pods of 8 8.
	var limits []string
	for _, l := range s.GetSizeLimits() {
		limits = append(limits, fmt.Sprintf("%d:%d", l.GetSize(), l.GetNodes()))
	}
	if want := []string{"2:18", "4:16", "8:8"}; !slices.Equal(limits, want) {
		t.Errorf("limits are %v; want %v", limits, want)
	}
	for i, want := range []struct {
		id             string
		piece, current int32
		sizes          []int32
		speeds         []float64
	}{
		{"a", 2, 4, []int32{2, 4, 8}, []float64{1, 1.6, 2.56}},
		{"b", 8, 0, []int32{8, 16}, []float64{1, 1.6}},
		{"c", 4, 0, []int32{4, 8, 16}, []float64{1, 1.8, 3.24}},
	} {
		j := s.GetJobs()[i]
		if j.GetId() != "Job/default/"+want.id || j.GetPieceNodes() != want.piece ||
			j.GetCurrentNodes() != want.current || !slices.Equal(j.GetAllowedNodes(), want.sizes) {
			t.Errorf("job is %v; want %+v", j, want)
		}
		speeds := j.GetScaling().GetTable().GetSpeeds()
		if len(speeds) != len(want.speeds) {
			t.Errorf("%s has speeds %v; want %v", want.id, speeds, want.speeds)
			continue
		}
		for k, speed := range speeds {
			if d := speed - want.speeds[k]; d > 1e-9 || d < -1e-9 {
				t.Errorf("%s has speed %g at %d; want %g", want.id, speed, want.sizes[k], want.speeds[k])
			}
		}
	}
	// Servers are not trusted.
	for nodes, valid := range map[int32]bool{8: true, 16: false} {
		answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{
			{JobId: "Job/default/a", Nodes: 2}, {JobId: "Job/default/b", Nodes: nodes}, {JobId: "Job/default/c"},
		}}
		keep(r, answer)
		if err := plan.Check(r, answer); (err == nil) != valid {
			t.Errorf("%d units for b: error %v", nodes, err)
		}
	}
	// A step changes the number of pods.
	w := c.ClusterState()
	answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{
		{JobId: "Job/default/a", Nodes: 2}, {JobId: "Job/default/b", Nodes: 8}, {JobId: "Job/default/c", Nodes: 8},
	}}
	for _, target := range plan.Targets(w, plan.Decision{ID: "d", Mode: plan.ModeApply}, r, answer) {
		write(c, target)
	}
	for _, step := range plan.Steps(c.ClusterState(), "d").Ready {
		if err := take(c, step); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int64{"a": 1, "b": 1, "c": 2} {
		if pods, _, _ := unstructured.NestedInt64(c.Jobs[name].Object, "spec", "parallelism"); pods != want {
			t.Errorf("%s has %d pods; want %d", name, pods, want)
		}
	}
}

// TestUnitGroups: in a pool that counts units, quotas and limits of groups count units, next to the size limits. A job that
// keeps its units takes them from the limit of its group.
func TestUnitGroups(t *testing.T) {
	t.Parallel()
	pool := worldtest.UnitPool()
	pool.Groups = []config.Group{
		{Name: "all", Quota: 20, Limit: new(11)}, {Name: "team", Parent: "all", Namespaces: []string{"default"}, Quota: 5, Limit: new(9)},
	}
	c := worldtest.NewOf(pool, 3,
		worldtest.SmallJob("fixed", 1, 3, map[string]string{"work": "100h", "paused": "true"}),
		worldtest.SmallJob("a", 1, 2, map[string]string{"work": "100h", "nodes": "1,2,3"}),
		worldtest.SmallJob("b", 0, 4, map[string]string{"work": "10h", "nodes": "1,2"}),
	)
	c.Now = c.Now.Add(time.Hour)
	r := plan.Snapshot(c.ClusterState(), "d", nil)
	s := r.Allocate.GetSnapshot()
	if len(s.GetSizeLimits()) == 0 || len(s.GetGroups()) != 2 {
		t.Errorf("size limits %v and groups %v; want both", s.GetSizeLimits(), s.GetGroups())
	}
	team := s.GetGroups()[1]
	if team.GetQuota() != 5 || team.GetLimit() != 9 || team.GetParentId() != "all" {
		t.Errorf("group is %v; want the quota 5 and the limit 9 in all", team)
	}
	// Of the 9 units, the job that is paused keeps 3.
	for _, test := range []struct {
		a, b  int32
		valid bool
	}{{2, 4, true}, {6, 0, true}, {4, 4, false}, {2, 8, false}} {
		answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{
			{JobId: "Job/default/a", Nodes: test.a}, {JobId: "Job/default/b", Nodes: test.b},
		}}
		keep(r, answer)
		if err := plan.Check(r, answer); (err == nil) != test.valid {
			t.Errorf("%d units for a and %d for b: error %v", test.a, test.b, err)
		}
	}
}

// TestWholeNodesAsUnits: if every pod requests a whole node, a pool that counts units decides on the same
// things as one that counts nodes, 8 times as many, without size limits.
func TestWholeNodesAsUnits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.Now = c.Now.Add(time.Hour)
		for i := range c.Nodes {
			switch rapid.IntRange(0, 9).Draw(t, "trouble") {
			case 0:
				c.Nodes[i].Spec.Unschedulable = true
			case 1:
				c.Nodes[i].Status.Conditions[0].Status = corev1.ConditionUnknown
			}
		}
		inNodes := plan.Snapshot(c.ClusterState(), "d", nil)
		c.Pool = worldtest.UnitPool()
		inUnits := plan.Snapshot(c.ClusterState(), "d", nil)
		a, b := inNodes.Allocate.GetSnapshot(), inUnits.Allocate.GetSnapshot()
		if b.GetTotalNodes() != worldtest.PerNode*a.GetTotalNodes() || len(b.GetSizeLimits()) > 0 ||
			len(a.GetJobs()) != len(b.GetJobs()) || inUnits.Awaited != worldtest.PerNode*inNodes.Awaited {
			t.Fatalf("in nodes %v; in units %v", a, b)
		}
		for i, j := range a.GetJobs() {
			other := b.GetJobs()[i]
			same := other.GetId() == j.GetId() && other.GetCurrentNodes() == worldtest.PerNode*j.GetCurrentNodes() &&
				len(other.GetAllowedNodes()) == len(j.GetAllowedNodes()) &&
				other.GetRemainingEta().AsDuration() == j.GetRemainingEta().AsDuration() && j.PieceNodes == nil && j.GetKeep() == other.GetKeep()
			for k, n := range j.GetAllowedNodes() {
				same = same && other.GetAllowedNodes()[k] == worldtest.PerNode*n
			}
			if !same {
				t.Fatalf("in nodes %v; in units %v", j, other)
			}
		}
	})
}

// drawUnitCluster returns a random pool that counts units, whose pods all have a node, and the free units of its nodes. The
// units per pod divide each other if nested is true.
func drawUnitCluster(t *rapid.T, nested bool) (c *worldtest.Cluster, free map[string]int) {
	units := rapid.SampledFrom([][]int{{1, 2, 3, 4}, {3, 8}}).Draw(t, "units per pod")
	if nested {
		units = rapid.SampledFrom([][]int{{1, 2, 4, 8}, {2, 4}, {1, 3, 6}}).Draw(t, "nested units per pod")
	}
	nodes := rapid.IntRange(2, 3).Draw(t, "nodes")
	var jobs []*unstructured.Unstructured
	for i := range rapid.IntRange(3, 6).Draw(t, "jobs") {
		annotations := map[string]string{"work": "100h", "nodes": "1-4"}
		if rapid.IntRange(0, 3).Draw(t, "fixed") == 0 {
			annotations["paused"] = "true"
		}
		jobs = append(jobs,
			worldtest.SmallJob(fmt.Sprintf("job-%d", i), rapid.IntRange(0, 1).Draw(t, "pods"),
				rapid.SampledFrom(units).Draw(t, "units"), annotations))
	}
	c = worldtest.NewOf(worldtest.UnitPool(), nodes, jobs...)
	free = make(map[string]int)
	for i, n := range c.Nodes {
		free[n.Name] = worldtest.PerNode
		if lost := rapid.IntRange(0, 5).Draw(t, "lost"); i > 0 && lost > 0 && len(podsOn(c, n.Name)) == 0 {
			n.Status.Allocatable[worldtest.Unit] = resource.MustParse(fmt.Sprint(worldtest.PerNode - lost))
			free[n.Name] -= lost
		}
	}
	if len(podsOn(c, "")) > 0 {
		t.Skip("a pod waits")
	}
	c.Now = c.Now.Add(time.Hour)
	return c, free
}

// drawUnits returns a random response that the total of a request allows, and the units of the pods that it decides on.
func drawUnits(t *rapid.T, r plan.Request) (answer *elastallocv1.AllocateResponse, pods []int) {
	answer = &elastallocv1.AllocateResponse{SnapshotId: "d"}
	left := r.Available()
	for _, j := range r.Jobs {
		units := 0
		if legal := slices.DeleteFunc(plan.Legal(j), func(n int) bool { return n > left }); len(legal) > 0 {
			units = rapid.SampledFrom(legal).Draw(t, "decided")
		}
		answer.Allocations = append(answer.Allocations, &elastallocv1.Allocation{JobId: j.ID, Nodes: int32(units)})
		left -= units
		pods = append(pods, slices.Repeat([]int{j.PerPod}, units/j.PerPod)...)
	}
	keep(r, answer)
	return answer, pods
}

// TestSizeLimits: of the allocations that the total allows, the size limits allow those that can be placed.
// If the units per pod do not divide each other, they allow those and perhaps others.
func TestSizeLimits(t *testing.T) {
	t.Parallel()
	exact, placed, limited := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		nested := rapid.Bool().Draw(t, "nested")
		c, free := drawUnitCluster(t, nested)
		r := plan.Snapshot(c.ClusterState(), "d", nil)
		for _, omitted := range r.Omitted {
			for node, units := range omitted.Job.Kept {
				free[node] -= units
			}
		}
		answer, pods := drawUnits(t, r)
		slices.SortFunc(pods, func(a, b int) int { return b - a })
		bins := slices.Collect(maps.Values(free))
		can, err := fits(bins, pods), plan.Check(r, answer)
		exact++
		if can {
			placed++
		} else if err != nil {
			limited++
		}
		if can && err != nil || nested && !can && err == nil {
			t.Fatalf("units free on nodes %v, pods %v: they fit is %t; error %v", bins, pods, can, err)
		}
	})
	if placed == 0 || limited == 0 {
		t.Errorf("%d of %d allocations could be placed, %d exceeded a limit; the test needs both", placed, exact, limited)
	}
}

// fits reports whether pods can be placed, by trying all ways.
func fits(free, pods []int) bool {
	if len(pods) == 0 {
		return true
	}
	for i := range free {
		if free[i] >= pods[0] && !slices.Contains(free[:i], free[i]) {
			free[i] -= pods[0]
			placed := fits(free, pods[1:])
			if free[i] += pods[0]; placed {
				return true
			}
		}
	}
	return false
}

// podsOn returns the pods on a node.
func podsOn(c *worldtest.Cluster, node string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(c.Pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != node })
}

// TestMaxSizeLimits checks that CheckLimits accepts as many size limits as the server does.
func TestMaxSizeLimits(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := &elastallocv1.Snapshot{TotalNodes: 1}
	accepted := 0
	for range 100 {
		snapshot.SizeLimits = append(snapshot.SizeLimits, &elastallocv1.SizeLimit{Size: int32(len(snapshot.SizeLimits) + 2)})
		request := &elastallocv1.AllocateRequest{Snapshot: snapshot}
		_, refused := apiconv.InProcess{Allocator: allocator}.Allocate(t.Context(), request)
		if err := (&plan.Request{Allocate: request}).CheckLimits(); (err == nil) != (refused == nil) {
			t.Errorf("with %d size limits, CheckLimits returns %v and the server %v", len(snapshot.SizeLimits), err, refused)
		}
		if refused == nil {
			accepted++
		}
	}
	if accepted == 0 || accepted == 100 {
		t.Errorf("the server accepts %d of 100 requests, so the test checked little", accepted)
	}
}

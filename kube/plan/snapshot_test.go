package plan_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// changed writes a record on a job according to which it was resized to the given nodes a minute ago.
func changed(c *worldtest.Cluster, name string, nodes int) {
	at := c.Now.Add(-time.Minute)
	annotations := c.Jobs[name].GetAnnotations()
	annotations[world.DecisionAnnotation] = (&world.Record{
		UID: c.Jobs[name].GetUID(), Since: at, Nodes: nodes, Changed: &at, Restarts: []metav1.Duration{{Duration: time.Hour}},
	}).String()
	c.Jobs[name].SetAnnotations(annotations)
}

func TestRequest(t *testing.T) {
	t.Parallel()
	c := worldtest.New(16,
		worldtest.Job("cooling", 4, map[string]string{"work": "100h", "nodes": "1,4", "speeds": "1,3"}),
		worldtest.Job("free", 2, map[string]string{"work": "10h", "weight": "3", "restart": "90s", "doubling-efficiency": "0.9"}),
		worldtest.Job("paused", 0, map[string]string{"work": "10h"}),
		worldtest.Job("pinned", 3, map[string]string{"paused": "true"}),
		worldtest.Job("queued", 0, map[string]string{"work": "1h", "nodes": "2-4"}),
	)
	c.Now = c.Now.Add(time.Hour)
	changed(c, "cooling", 4)
	changed(c, "paused", 0)
	r := plan.Snapshot(c.ClusterState(), "id", nil)

	want := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{Id: "id", TotalNodes: 16, Jobs: []*elastallocv1.Job{
			{
				Id: "Job/default/cooling", RemainingEta: durationpb.New(100*time.Hour - 3*time.Minute),
				CurrentNodes: 4, WorkDone: durationpb.New(3 * time.Minute),
				MinNodes: proto.Int32(4), MaxNodes: proto.Int32(4), AllowedNodes: []int32{4}, Weight: proto.Float64(1),
				TrainingTime: durationpb.New(time.Minute), WaitingTime: durationpb.New(59 * time.Minute),
				RestartTime:    durationpb.New(config.DefaultRestart),
				Scaling:        &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: []float64{3}}}},
				RecentRestarts: []*durationpb.Duration{durationpb.New(time.Hour + time.Minute)},
			},
			{
				Id: "Job/default/free", RemainingEta: durationpb.New(10*time.Hour - 108*time.Minute),
				CurrentNodes: 2, WorkDone: durationpb.New(108 * time.Minute),
				MinNodes: proto.Int32(1), MaxNodes: proto.Int32(16), AllowedNodes: []int32{1, 2, 4, 8, 16}, Weight: proto.Float64(3),
				TrainingTime: durationpb.New(time.Hour), WaitingTime: durationpb.New(0), RestartTime: durationpb.New(90 * time.Second),
				Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 0.9}},
			},
			{
				Id: "Job/default/queued", RemainingEta: durationpb.New(time.Hour), WorkDone: durationpb.New(0),
				MinNodes: proto.Int32(2), MaxNodes: proto.Int32(4), AllowedNodes: []int32{2, 4}, Weight: proto.Float64(1),
				TrainingTime: durationpb.New(0), WaitingTime: durationpb.New(time.Hour), RestartTime: durationpb.New(config.DefaultRestart),
			},
			{Id: "Job/default/pinned", CurrentNodes: 3, Keep: true},
		}},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
			BadJobs: elastallocv1.BadJobs_BAD_JOBS_HOLD,
		},
	}
	if !proto.Equal(r.Allocate, want) {
		t.Errorf("request is\n%v\nwant\n%v", r.Allocate, want)
	}
	if len(r.Omitted) != 2 || r.Omitted[0].Reason != plan.Cooldown || r.Omitted[1].Reason != world.Paused {
		t.Errorf("left out are %+v; want the paused job for its cooldown and the pinned one", r.Omitted)
	}

	c.Pool.Objective = config.Progress
	if r := plan.Snapshot(c.ClusterState(), "id", nil); r.Allocate.GetSnapshot().GetHorizon().GetStep().AsDuration() != c.Pool.Cadence {
		t.Errorf("horizon is %v; want steps of a cadence", r.Allocate.GetSnapshot().GetHorizon())
	}
}

// TestCheck passes illegal responses to Check.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}), worldtest.Job("b", 2, map[string]string{"work": "100h"}))
	r := plan.Snapshot(c.ClusterState(), "id", nil)
	answer := func(a, b int32) *elastallocv1.AllocateResponse {
		return &elastallocv1.AllocateResponse{SnapshotId: "id", Allocations: []*elastallocv1.Allocation{
			{JobId: "Job/default/a", Nodes: a}, {JobId: "Job/default/b", Nodes: b},
		}}
	}
	for _, fine := range []*elastallocv1.AllocateResponse{answer(4, 4), answer(0, 8), answer(0, 0)} {
		if err := plan.Check(r, fine); err != nil {
			t.Errorf("%v: %v", fine, err)
		}
	}
	other, fewer, swapped, gap := answer(4, 4), answer(4, 4), answer(4, 4), answer(4, 4)
	other.SnapshotId = "another"
	fewer.Allocations = fewer.Allocations[:1]
	swapped.Allocations[0].JobId = "Job/default/b"
	gap.Report = &elastallocv1.SolveReport{RelativeGap: math.NaN()}
	for want, lie := range map[string]*elastallocv1.AllocateResponse{
		"snapshot": other, "has 1 entries": fewer, `must be "Job/default/a"`: swapped, "gap": gap,
		"at most the 8 nodes of the pool": answer(8, 4), "is allocated 3 nodes": answer(3, 1),
		"is allocated -1 nodes": answer(-1, 1), "has 0 entries": {SnapshotId: "id"},
	} {
		if err := plan.Check(r, lie); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v gives error %v; want %q", lie, err, want)
		}
	}
}

// TestGroups: a tenant that weighs more than all, lies about its end and pins its jobs gets its
// group's limit and no more.
func TestGroups(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	for name, wishes := range map[string]map[string]string{
		"heavy":       {"work": "100h", "weight": "1e12", "nodes": "1-8"},
		"paused":      {"work": "100h", "weight": "1e12", "nodes": "1-8", "paused": "true"},
		"at its end":  {"work": "1s", "nodes": "1-8"},
		"fast":        {"work": "100h", "nodes": "1,2,4,8", "speeds": "1,1e9,1e-9,5"},
		"mute":        {"nodes": "1-8"},
		"bad":         {"nodes": "many"},
		"not allowed": {"work": "100h", "nodes": "1-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := worldtest.New(8, worldtest.Job("tenant", 8, wishes), worldtest.Job("victim", 0, map[string]string{"work": "100h", "nodes": "4"}))
			c.Now = c.Now.Add(time.Hour)
			c.Pool.Groups = []config.Group{
				{Name: "all"}, {Name: "tenant", Parent: "all", Namespaces: []string{"tenant"}, Limit: new(4), MaxWeight: 2},
				{Name: "victim", Parent: "all", Namespaces: []string{"default"}},
			}
			c.Jobs["tenant"].SetNamespace("tenant")
			for _, pod := range c.Pods {
				pod.Namespace = "tenant"
			}
			want := map[string]int32{"Job/tenant/tenant": 4, "Job/default/victim": 4}
			switch name {
			case "bad": // It has no legal size.
				delete(want, "Job/tenant/tenant")
			case "not allowed":
				c.Pool.Namespaces = []string{"default"}
				want = map[string]int32{"Job/default/victim": 0}
			}
			w := c.ClusterState()
			r := plan.Snapshot(w, "id", nil)
			answer, err := apiconv.InProcess{Allocator: allocator}.Allocate(t.Context(), r.Allocate)
			if err != nil {
				t.Fatal(err)
			}
			if err := plan.Check(r, answer); err != nil {
				t.Fatal(err)
			}
			got := make(map[string]int32)
			for i := range r.Jobs {
				a := answer.GetAllocations()[i]
				got[a.GetJobId()] = a.GetNodes()
			}
			for job, nodes := range got {
				if most, asked := want[job]; !asked || nodes > most || nodes < most && job != "Job/tenant/tenant" {
					t.Errorf("nodes are %v; want %v", got, want)
				}
			}
			if len(got) != len(want) {
				t.Errorf("nodes are %v; want %v", got, want)
			}
			checkTenantLimit(t, w, r, answer)
		})
	}
}

// checkTenantLimit checks that no target of the tenant exceeds its limit of 4 nodes, and that larger allocations are refused.
func checkTenantLimit(t *testing.T, w *world.ClusterState, r plan.Request, answer *elastallocv1.AllocateResponse) {
	t.Helper()
	for _, target := range plan.Targets(w, plan.Decision{ID: "id", Mode: plan.ModeApply}, r, answer) {
		if target.Job.ID == "Job/tenant/tenant" && target.Nodes > 4 {
			t.Errorf("the tenant is to have %d nodes", target.Nodes)
		}
	}
	for i := range r.Jobs {
		answer.GetAllocations()[i].Nodes = 8
		if r.Jobs[i].ID == "Job/tenant/tenant" && plan.Check(r, answer) == nil {
			t.Error("a response that exceeds the group's limit is accepted")
		}
	}
}

// TestUnwanted checks that a decision that pauses a job during its cooldown is requested again without the job.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}), worldtest.Job("b", 4, map[string]string{"work": "100h"}))
	c.Now = c.Now.Add(time.Hour)
	changed(c, "a", 4)
	w := c.ClusterState()
	r := plan.Snapshot(w, "id", nil)
	answer := func(a, b int32) *elastallocv1.AllocateResponse {
		return &elastallocv1.AllocateResponse{SnapshotId: "id", Allocations: []*elastallocv1.Allocation{
			{JobId: "Job/default/a", Nodes: a}, {JobId: "Job/default/b", Nodes: b},
		}}
	}
	if hold := plan.ForbiddenPauses(w, r, answer(4, 0), false); hold != nil {
		t.Errorf("freezes %v; only a job that may be paused is paused", hold)
	}
	hold := plan.ForbiddenPauses(w, r, answer(0, 8), false)
	if len(hold) != 1 || hold["Job/default/a"] != plan.Cooldown {
		t.Fatalf("freezes %v; want the job that cools down", hold)
	}
	again := plan.Snapshot(w, "id", hold)
	if len(again.Jobs) != 1 || again.Available() != 4 {
		t.Errorf("the request has %d jobs on %d nodes; want 1 on 4", len(again.Jobs), again.Available())
	}
	// Its cooldown does not outlast its nodes: it may shrink, and then be paused as well.
	c.Nodes = c.Nodes[:3]
	w = c.ClusterState()
	r = plan.Snapshot(w, "id", nil)
	if hold := plan.ForbiddenPauses(w, r, answer(0, 0), false); hold != nil {
		t.Errorf("freezes %v in a pool of 3 nodes", hold)
	}
	if sizes := r.Allocate.GetSnapshot().GetJobs()[0].GetAllowedNodes(); len(sizes) < 2 {
		t.Errorf("in a pool of 3 nodes the job may have %v; want other sizes than 4 as well", sizes)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	c := worldtest.New(20, worldtest.Job("a", 16, map[string]string{"work": "100h"}), worldtest.Job("b", 4, map[string]string{"work": "100h"}))
	for _, test := range []struct {
		nodes  int
		outage bool
	}{{20, false}, {14, false}, {13, true}, {0, true}} {
		c.Nodes = c.Nodes[:test.nodes]
		w := c.ClusterState()
		if err := plan.Outage(w, plan.Snapshot(w, "id", nil)); (err != nil) != test.outage {
			t.Errorf("with %d of 20 nodes in use: %v", test.nodes, err)
		}
	}
}

// TestOutageOfSmallPool checks that the loss of few nodes is not an outage, unless it is the loss of all nodes in use.
func TestOutageOfSmallPool(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		nodes, left, few int
		outage           bool
	}{{1, 0, 2, true}, {2, 1, 2, false}, {2, 0, 2, true}, {3, 1, 2, false},
		{3, 2, 0, true}, {5, 3, 2, false}, {5, 2, 2, true}, {5, 3, 1, true}} {
		for _, pool := range []config.Pool{worldtest.Pool(), worldtest.UnitPool()} {
			pool.MaxShrinkNodes = test.few
			c := worldtest.NewOf(pool, test.nodes, worldtest.SmallJob("a", test.nodes, worldtest.PerNode, map[string]string{"work": "100h"}))
			c.Nodes = c.Nodes[:test.left]
			w := c.ClusterState()
			if err := plan.Outage(w, plan.Snapshot(w, "id", nil)); (err != nil) != test.outage {
				t.Errorf("with %d of %d nodes and maxShrinkNodes %d, counting %s: %v", test.left, test.nodes, test.few, pool.Count, err)
			}
		}
	}
}

// TestPodsThatLeave checks that the nodes of terminating pods are available to other jobs, also if their job is
// pinned and about to replace them or to be deleted.
func TestPodsThatLeave(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*worldtest.Cluster){
		"a pinned job's pods restart": func(*worldtest.Cluster) {},
		"deleted in the foreground": func(c *worldtest.Cluster) {
			c.Jobs["a"].SetDeletionTimestamp(&metav1.Time{Time: c.Now})
		},
	} {
		c := worldtest.New(16, worldtest.Job("a", 4, map[string]string{"paused": "true"}),
			worldtest.Job("b", 12, map[string]string{"work": "100h"}))
		for _, pod := range c.Pods {
			if pod.Labels["batch.kubernetes.io/job-name"] == "a" {
				pod.DeletionTimestamp = &metav1.Time{Time: c.Now.Add(30 * time.Second)}
			}
		}
		want := 12
		if change(c); c.Jobs["a"].GetDeletionTimestamp() != nil {
			want = 16
		}
		w := c.ClusterState()
		r := plan.Snapshot(w, "id", nil)
		if total := r.Available(); total != want {
			t.Errorf("%s: the request has %d nodes; want %d", name, total, want)
		}
		if err := plan.Outage(w, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Those that do not go keep their nodes, and nothing makes room for those that replace them.
		c.Now = c.Now.Add(time.Hour)
		if r := plan.Snapshot(c.ClusterState(), "id", nil); r.Available() != 12 {
			t.Errorf("%s: the request has %d nodes once the pods are overdue; want 12", name, r.Available())
		}
		// The nodes of the request are free in the end, also if a finalizer keeps the job.
		c.Pods = slices.DeleteFunc(c.Pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		w = c.ClusterState()
		r = plan.Snapshot(w, "id", nil)
		if free, want := w.Free(), r.Available()-12; free != want {
			t.Errorf("%s: %d nodes are free; want %d", name, free, want)
		}
	}
}

// TestPodsThatWait: a job that somebody else started, or made larger, makes no other one smaller,
// nor does it look like nodes that went.
func TestPodsThatWait(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{"pinned": {"paused": "true"}, "other": {"work": "10h"}} {
		c := worldtest.New(16, worldtest.Job("a", 8, map[string]string{"work": "100h"}), worldtest.Job("b", 6, map[string]string{"work": "100h"}))
		changed(c, "a", 8)
		c.Jobs[name] = worldtest.Job(name, 12, annotations)
		c.Reconcile() // Two of its pods find nodes.
		w := c.ClusterState()
		r := plan.Snapshot(w, "id", nil)
		want := 16
		if name == "pinned" {
			want = 14
		}
		if total := r.Available(); total != want {
			t.Errorf("%s: the request has %d nodes; want %d", name, total, want)
		}
		if err := plan.Outage(w, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !w.Jobs[0].Cooling {
			t.Errorf("%s: it ends the cooldown of another job", name)
		}
		// Nodes that go are still known as such.
		c.Nodes = c.Nodes[:8]
		w = c.ClusterState()
		if err := plan.Outage(w, plan.Snapshot(w, "id", nil)); err == nil || w.Jobs[0].Cooling {
			t.Errorf("%s: half of the nodes went, and it is no outage, or a job cools down", name)
		}
	}
}

// TestTargets writes no more than what changed, and again what is pending.
func TestTargets(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}), worldtest.Job("b", 2, map[string]string{"work": "100h"}))
	c.Now = c.Now.Add(time.Hour)
	for _, round := range []struct {
		mode   string
		a, b   int32
		writes int
	}{
		{plan.ModeRecommend, 4, 4, 2}, // Seen for the first time.
		{plan.ModeRecommend, 4, 4, 0},
		{plan.ModeRecommend, 4, 2, 1},
		{plan.ModeApply, 4, 2, 0},
		{plan.ModeApply, 4, 4, 1},
		{plan.ModeApply, 4, 4, 1}, // Still to be done, now for this decision.
	} {
		w := c.ClusterState()
		w.Apply = round.mode == plan.ModeApply
		r := plan.Snapshot(w, "id", nil)
		answer := &elastallocv1.AllocateResponse{SnapshotId: "id", Allocations: []*elastallocv1.Allocation{
			{JobId: "Job/default/a", Nodes: round.a}, {JobId: "Job/default/b", Nodes: round.b},
		}}
		targets := plan.Targets(w, plan.Decision{ID: "id", Mode: round.mode}, r, answer)
		if len(targets) != round.writes {
			t.Errorf("%+v writes %d", round, len(targets))
		}
		for _, target := range targets {
			if target.Record.Jobs != round.writes {
				t.Errorf("%+v: record %v", round, &target.Record)
			}
			write(c, target)
		}
		if p := plan.Steps(c.ClusterState(), ""); round.mode == plan.ModeRecommend && (len(p.Ready) > 0 || p.ID != "") {
			t.Errorf("recommendations are carried out: %+v", p)
		}
	}
}

// TestWorthwhileNodesWithPinnedJob checks that a pool does not exceed its maximum of 6 nodes once all pods of
// a pinned job of 4 nodes and of a queued job have nodes, whatever exists of them now.
func TestWorthwhileNodesWithPinnedJob(t *testing.T) {
	t.Parallel()
	cordon := func(c *worldtest.Cluster, nodes ...int) {
		for _, i := range nodes {
			c.Nodes[i].Spec.Unschedulable = true
		}
	}
	for name, test := range map[string]struct {
		nodes  int
		change func(*worldtest.Cluster)
		want   int
	}{
		"pods that wait":            {2, func(*worldtest.Cluster) {}, 2},
		"pods that are not created": {2, func(c *worldtest.Cluster) { c.Pods = nil }, 2},
		"nothing but its size":      {0, func(c *worldtest.Cluster) { c.Pods = nil }, 2},
		"pods on cordoned nodes":    {4, func(c *worldtest.Cluster) { cordon(c, 0, 1, 2, 3) }, 2},
		"a pod on a cordoned node":  {4, func(c *worldtest.Cluster) { cordon(c, 0) }, 2},
		"an idle cordoned node":     {5, func(c *worldtest.Cluster) { cordon(c, 4) }, 1},
		"a new cordoned node":       {5, func(c *worldtest.Cluster) { c.Nodes[4].CreationTimestamp.Time = c.Now; cordon(c, 4) }, 1},
		"a new node that is not ready": {5, func(c *worldtest.Cluster) {
			c.Nodes[4].CreationTimestamp.Time = c.Now
			c.Nodes[4].Status.Conditions = nil
		}, 2},
		"a new node with a taint": {5, func(c *worldtest.Cluster) {
			c.Nodes[4].CreationTimestamp.Time = c.Now
			c.Nodes[4].Spec.Taints = []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}}
		}, 2},
		"pods that are not deleted yet": {4, func(c *worldtest.Cluster) { resize(t, c.Jobs["pinned"], 2) }, 2},
		"terminating pods":              {4, func(c *worldtest.Cluster) { resize(t, c.Jobs["pinned"], 2); c.Reconcile() }, 4},
	} {
		c := worldtest.New(test.nodes,
			worldtest.Job("pinned", 4, map[string]string{"paused": "true"}),
			worldtest.Job("queued", 0, map[string]string{"work": "100h"}),
		)
		c.Now = c.Now.Add(time.Hour)
		test.change(c)
		w := c.ClusterState()
		w.Pool.MaxNodes = 6
		if got, _ := plan.WorthwhileNodes(w, plan.Snapshot(w, "id", nil)); got != test.want {
			t.Errorf("%s: %d nodes are left for the queued job; must be %d of 6", name, got, test.want)
		}
	}
}

// TestWorthwhileUnits checks how many nodes an autoscaler adds in a pool that counts units and may have 4 nodes of 8, and
// that the decision may use them.
func TestWorthwhileUnits(t *testing.T) {
	t.Parallel()
	job := func(name string, pods, units int, nodes string) *unstructured.Unstructured {
		return worldtest.SmallJob(name, pods, units, map[string]string{"work": "100h", "nodes": nodes})
	}
	for name, test := range map[string]struct {
		nodes        int
		jobs         []*unstructured.Unstructured
		other        int // units of another pod on node-000
		total, added int
		limit        string // of the largest pods
	}{
		"no nodes, pods of two":      {0, []*unstructured.Unstructured{job("a", 0, 2, "3")}, 0, 6, 6, ""},
		"no nodes, too many pods":    {0, []*unstructured.Unstructured{job("a", 0, 2, "1,8")}, 0, 8, 8, ""},
		"enough":                     {1, []*unstructured.Unstructured{job("a", 0, 2, "3")}, 0, 6, 0, ""},
		"a part of a node":           {1, []*unstructured.Unstructured{job("a", 0, 2, "5")}, 0, 10, 8, ""},
		"units that large pods lack": {2, []*unstructured.Unstructured{job("a", 0, 8, "2")}, 1, 16, 8, "8:16"},
		"pods of three":              {1, []*unstructured.Unstructured{job("a", 0, 3, "5")}, 0, 15, 16, "3:18"},
		"up to the maximum":          {2, []*unstructured.Unstructured{job("a", 0, 8, "1,8"), job("b", 0, 4, "2")}, 0, 32, 16, ""},
	} {
		c := worldtest.NewOf(worldtest.UnitPool(), test.nodes, test.jobs...)
		if test.other > 0 {
			pod := worldtest.Pod("other", "node-000", nil)
			pod.Spec.Containers[0].Resources.Requests[worldtest.Unit] = *resource.NewQuantity(int64(test.other), resource.DecimalSI)
			c.Pods = append(c.Pods, pod)
		}
		c.Pool.MaxNodes = 4
		c.Now = c.Now.Add(time.Hour)
		w := c.ClusterState()
		r := plan.Snapshot(w, "id", nil)
		total, added := plan.WorthwhileNodes(w, r)
		decided := plan.Scale(w, r)
		s, limit := r.Allocate.GetSnapshot(), ""
		if n := len(s.GetSizeLimits()); n > 0 {
			limit = fmt.Sprintf("%d:%d", s.GetSizeLimits()[n-1].GetSize(), s.GetSizeLimits()[n-1].GetNodes())
		}
		if total != test.total || added != test.added || limit != test.limit || int(s.GetTotalNodes()) != total {
			t.Errorf("%s: %d units, of which %d are added, of %d in the request, limit %q; want %d, %d and %q",
				name, total, added, s.GetTotalNodes(), limit, test.total, test.added, test.limit)
		}
		if got := w.NodesToAdd(decided); got != added {
			t.Errorf("%s: the steps of the decision add %d units; want %d", name, got, added)
		}
	}
}

// resize changes the size of a job.
func resize(t *testing.T, job *unstructured.Unstructured, nodes int64) {
	t.Helper()
	for _, field := range []string{"parallelism", "completions"} {
		if err := unstructured.SetNestedField(job.Object, nodes, "spec", field); err != nil {
			t.Fatal(err)
		}
	}
}

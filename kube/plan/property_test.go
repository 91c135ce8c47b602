package plan_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// drawCluster returns a random pool whose jobs fit. Some of them are paused, pinned, queued or not elastalloc's.
func drawCluster(t *rapid.T) *worldtest.Cluster {
	nodes := rapid.IntRange(1, 24).Draw(t, "nodes")
	left := nodes
	var jobs []*unstructured.Unstructured
	for i := range rapid.IntRange(0, 8).Draw(t, "jobs") {
		annotations := map[string]string{
			"work":  fmt.Sprintf("%dm", rapid.IntRange(1, 5000).Draw(t, "work")),
			"nodes": rapid.SampledFrom([]string{"1-16", "1,2,3,5", "4", "2-8"}).Draw(t, "sizes"),
		}
		switch rapid.IntRange(0, 9).Draw(t, "oddity") {
		case 0:
			annotations["paused"] = "true"
		case 1:
			delete(annotations, "work")
		case 2:
			annotations["weight"] = "-1"
		}
		size := rapid.IntRange(0, min(left, 9)).Draw(t, "size")
		left -= size
		job := worldtest.Job(fmt.Sprintf("job-%d", i), size, annotations)
		jobs = append(jobs, job)
	}
	c := worldtest.New(nodes, jobs...)
	// Jobs run longer than the least interval between two changes.
	c.Now = c.Now.Add(time.Hour)
	for i := range rapid.IntRange(0, left).Draw(t, "foreign") {
		pod := worldtest.Pod(fmt.Sprintf("foreign-%d", i), freeNode(c), nil)
		c.Pods = append(c.Pods, pod)
	}
	return c
}

// freeNode returns a node without a pod.
func freeNode(c *worldtest.Cluster) string {
	busy := make(map[string]bool)
	for _, pod := range c.Pods {
		busy[pod.Spec.NodeName] = true
	}
	for _, node := range c.Nodes {
		if !busy[node.Name] {
			return node.Name
		}
	}
	return ""
}

// keep adds the allocations of the jobs that keep their nodes to a response.
func keep(r plan.Request, answer *elastallocv1.AllocateResponse) {
	for _, j := range r.Allocate.GetSnapshot().GetJobs() {
		if j.GetKeep() {
			answer.Allocations = append(answer.Allocations, &elastallocv1.Allocation{JobId: j.GetId(), Nodes: j.GetCurrentNodes()})
		}
	}
}

// drawResponse returns a random legal response.
func drawResponse(t *rapid.T, r plan.Request) *elastallocv1.AllocateResponse {
	left := r.Available()
	answer := &elastallocv1.AllocateResponse{SnapshotId: r.Allocate.GetSnapshot().GetId()}
	for _, j := range r.Jobs {
		sizes := []int{0}
		for _, n := range plan.Legal(j) {
			if n <= left {
				sizes = append(sizes, n)
			}
		}
		nodes := rapid.SampledFrom(sizes).Draw(t, "answer")
		left -= nodes
		answer.Allocations = append(answer.Allocations, &elastallocv1.Allocation{JobId: j.ID, Nodes: int32(nodes)})
	}
	keep(r, answer)
	return answer
}

// run is a cluster while a decision is applied, with the invariants.
type run struct {
	t *rapid.T
	*worldtest.Cluster
	sizes map[string]int // of jobs that must not change
}

// take takes one of the steps that may be taken now, and checks the cluster then.
func (r *run) take(s plan.Step) {
	if !s.Job.Resizable() {
		r.t.Fatalf("step %v of the pinned job %s", s, s.Job.ID)
	}
	if err := take(r.Cluster, s); err != nil {
		r.t.Fatal(err)
	}
	r.Reconcile()
	r.check()
}

// checkScheduled fails the test if a pod waits for a node.
func checkScheduled(t *rapid.T, c *worldtest.Cluster) {
	for _, pod := range c.Pods {
		if pod.Spec.NodeName == "" {
			t.Fatalf("pod %s has no node", pod.Name)
		}
	}
}

// check fails the test if a pod waits for a node, or a job changed that must not.
func (r *run) check() {
	checkScheduled(r.t, r.Cluster)
	for _, j := range r.ClusterState().Jobs {
		if size, fixed := r.sizes[j.ID]; fixed && j.Nodes() != size {
			r.t.Fatalf("%s has %d nodes; want %d", j.ID, j.Nodes(), size)
		}
	}
}

// writeTargets writes the targets of a decision. No step may be taken until all are written.
func (r *run) writeTargets(targets []plan.Target) {
	for i, target := range targets {
		if p := plan.Steps(r.ClusterState(), ""); len(p.Ready)+len(p.Waiting) > 0 {
			r.t.Fatalf("steps %v of a decision of which %d of %d targets are written", p, i, len(targets))
		}
		write(r.Cluster, target)
	}
}

// takeSteps takes all steps of the decision. Before the controller starts again, it takes any number of the steps that may be
// taken, and pods may leave.
func (r *run) takeSteps() {
	for {
		p := plan.Steps(r.ClusterState(), "")
		if len(p.Conflicts) > 0 {
			r.t.Fatalf("conflicts %v", p.Conflicts)
		}
		if p.Done() {
			return
		}
		n := rapid.IntRange(0, len(p.Ready)).Draw(r.t, "steps")
		for _, step := range p.Ready[:n] {
			r.take(step)
		}
		r.Now = r.Now.Add(time.Second)
		if len(p.Ready) == 0 || rapid.Bool().Draw(r.t, "pods leave") {
			r.RemoveDeletedPods()
			r.check()
		}
	}
}

// checkTargets fails the test if a job has another size than was decided.
func (r *run) checkTargets(request plan.Request, answer *elastallocv1.AllocateResponse) {
	want := make(map[string]int)
	for i, j := range request.Jobs {
		want[j.ID] = int(answer.GetAllocations()[i].GetNodes())
	}
	for _, j := range r.ClusterState().Jobs {
		if size, decided := want[j.ID]; decided && j.Nodes() != size {
			r.t.Fatalf("%s has %d nodes; want %d", j.ID, j.Nodes(), size)
		}
	}
}

// TestSteps applies random decisions, with restarts of the controller after any write and pods that terminate at any
// time. No pod ever waits for a node, frozen jobs are not resized, and in the end every job has its target.
func TestSteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := &run{t: t, Cluster: drawCluster(t), sizes: make(map[string]int)}
		w := r.ClusterState()
		for _, j := range w.Jobs {
			if !j.Resizable() {
				r.sizes[j.ID] = j.Nodes()
			}
		}
		request := plan.Snapshot(w, "decision", nil)
		answer := drawResponse(t, request)
		if err := plan.Check(request, answer); err != nil {
			t.Fatal(err)
		}
		targets := plan.Targets(w, plan.Decision{ID: "decision", Mode: plan.ModeApply}, request, answer)
		r.writeTargets(targets)
		r.takeSteps()
		r.checkTargets(request, answer)
	})
}

// TestSnapshot builds requests for random pools. Every job is either included or omitted, and omitted jobs keep
// their nodes.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		w := c.ClusterState()
		r := plan.Snapshot(w, "id", nil)
		kept := 0
		for _, left := range r.Omitted {
			kept += left.Job.RetainedNodes()
			if left.Reason == "" {
				t.Fatalf("%s is left out for no reason", left.Job.ID)
			}
		}
		if len(r.Jobs)+len(r.Omitted) != len(w.Jobs) {
			t.Fatalf("%d jobs included and %d omitted of %d", len(r.Jobs), len(r.Omitted), len(w.Jobs))
		}
		if total := r.Available(); total+kept != w.Nodes.Accepting || r.Kept != kept {
			t.Fatalf("%d nodes in the request and %d kept of %d", total, kept, w.Nodes.Accepting)
		}
		jobs := r.Allocate.GetSnapshot().GetJobs()
		for _, j := range jobs[len(r.Jobs):] {
			if !j.GetKeep() {
				t.Fatalf("job %v does not keep its nodes", j)
			}
		}
		for i, j := range jobs[:len(r.Jobs)] {
			if j.GetKeep() || j.GetId() != r.Jobs[i].ID || j.GetRemainingEta().AsDuration() <= 0 || len(j.GetAllowedNodes()) == 0 {
				t.Fatalf("job %v", j)
			}
		}
	})
}

// TestFreedNodesAreWaitedFor is the case that the order is for: one job shrinks, and
// another takes its nodes only when its pods are gone.
func TestFreedNodesAreWaitedFor(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 8, map[string]string{"work": "100h"}), worldtest.Job("b", 0, map[string]string{"work": "1h"}))
	c.Now = c.Now.Add(time.Hour)
	w := c.ClusterState()
	r := plan.Snapshot(w, "d", nil)
	answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{
		{JobId: "Job/default/a", Nodes: 4}, {JobId: "Job/default/b", Nodes: 4},
	}}
	for _, target := range plan.Targets(w, plan.Decision{ID: "d", Mode: plan.ModeApply}, r, answer) {
		write(c, target)
	}
	p := plan.Steps(c.ClusterState(), "d")
	if len(p.Ready) != 1 || !p.Ready[0].Frees() || len(p.Waiting) != 1 {
		t.Fatalf("plan is %+v; want one job to shrink and one to wait", p)
	}
	if err := take(c, p.Ready[0]); err != nil {
		t.Fatal(err)
	}
	if p = plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 0 || len(p.Waiting) != 1 {
		t.Fatalf("plan is %+v; want one job to wait while the pods do not even know", p)
	}
	c.Reconcile()
	if p = plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 0 || len(p.Waiting) != 1 || !p.Settling {
		t.Fatalf("plan is %+v; want one job to wait while the pods leave", p)
	}
	c.RemoveDeletedPods()
	if p = plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 1 || p.Ready[0].To != 4 || p.Ready[0].Job.ID != "Job/default/b" {
		t.Fatalf("plan is %+v; want the other job to start", p)
	}
	// Half of a gang is not enough.
	c.Pods = append(c.Pods, worldtest.Pod("foreign", freeNode(c), nil))
	if p = plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 0 || len(p.Waiting) != 1 {
		t.Fatalf("plan is %+v; want no part of a gang to start", p)
	}
	c.Now = c.Now.Add(30*time.Second + c.Pool.SettleTimeout + time.Second)
	if p = plan.Steps(c.ClusterState(), "d"); !c.Now.After(p.Expires) || len(p.Ready) != 0 {
		t.Fatalf("plan is %+v; want it to be given up", p)
	}
}

// TestLimitIsWaitedFor checks that a job starts on free nodes only when the pods of another job of its group are gone, because
// the group may not have more nodes.
func TestLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := worldtest.New(16, worldtest.Job("a", 8, map[string]string{"work": "100h"}), worldtest.Job("b", 0, map[string]string{"work": "1h"}))
	c.Pool.Groups = []config.Group{{Name: "all", Limit: new(8)}, {Name: "team", Parent: "all", Namespaces: []string{"default"}}}
	c.Now = c.Now.Add(time.Hour)
	w := c.ClusterState()
	r := plan.Snapshot(w, "d", nil)
	answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{
		{JobId: "Job/default/a", Nodes: 4}, {JobId: "Job/default/b", Nodes: 4},
	}}
	for _, target := range plan.Targets(w, plan.Decision{ID: "d", Mode: plan.ModeApply}, r, answer) {
		write(c, target)
	}
	p := plan.Steps(c.ClusterState(), "d")
	if len(p.Ready) != 1 || !p.Ready[0].Frees() || len(p.Waiting) != 1 {
		t.Fatalf("plan is %+v; want one job to shrink and one to wait", p)
	}
	if err := take(c, p.Ready[0]); err != nil {
		t.Fatal(err)
	}
	c.Reconcile()
	if p = plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 0 || len(p.Waiting) != 1 {
		t.Fatalf("plan is %+v; want one job to wait while the pods leave", p)
	}
	c.RemoveDeletedPods()
	if p = plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 1 || p.Ready[0].Job.ID != "Job/default/b" {
		t.Fatalf("plan is %+v; want the other job to start", p)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}))
	c.Now = c.Now.Add(time.Hour)
	w := c.ClusterState()
	r := plan.Snapshot(w, "d", nil)
	answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{{JobId: "Job/default/a", Nodes: 8}}}
	for _, target := range plan.Targets(w, plan.Decision{ID: "d", Mode: plan.ModeApply}, r, answer) {
		write(c, target)
	}
	changed := func(nodes int64) {
		resize(t, c.Jobs["a"], nodes)
		c.Reconcile()
		c.RemoveDeletedPods()
	}
	changed(2)
	if p := plan.Steps(c.ClusterState(), "d"); len(p.Conflicts) != 1 || len(p.Ready) != 0 {
		t.Errorf("plan is %+v after another writer resized the job; want a conflict", p)
	}
	changed(4)
	p := plan.Steps(c.ClusterState(), "d")
	if len(p.Ready) != 1 {
		t.Fatalf("plan is %+v; want a step", p)
	}
	if err := take(c, p.Ready[0]); err != nil {
		t.Fatal(err)
	}
	changed(4)
	if p := plan.Steps(c.ClusterState(), "d"); len(p.Conflicts) != 1 || len(p.Ready) != 0 {
		t.Errorf("plan is %+v after another writer undid it; want a conflict", p)
	}
	if p := plan.Steps(c.ClusterState(), "another"); p.ID != "" {
		t.Errorf("plan is %+v of a decision that is void; want none", p)
	}
}

// TestForgedDecision: what a user writes on a job of his keeps no other job from what was
// decided for it.
func TestForgedDecision(t *testing.T) {
	t.Parallel()
	c := worldtest.New(8, worldtest.Job("a", 4, map[string]string{"work": "100h"}), worldtest.Job("b", 0, map[string]string{"paused": "true"}))
	c.Now = c.Now.Add(time.Hour)
	w := c.ClusterState()
	forged := w.Jobs[1].NextRecord(0, w.Now)
	forged.ID, forged.At, forged.Mode, forged.Jobs = "z", w.Now.Add(1000*time.Hour), plan.ModeApply, 1
	write(c, plan.Target{Job: w.Jobs[1], Record: forged})
	r := plan.Snapshot(w, "d", nil)
	answer := &elastallocv1.AllocateResponse{SnapshotId: "d", Allocations: []*elastallocv1.Allocation{{JobId: "Job/default/a", Nodes: 8}}}
	for _, target := range plan.Targets(w, plan.Decision{ID: "d", Mode: plan.ModeApply}, r, answer) {
		write(c, target)
	}
	if p := plan.Steps(c.ClusterState(), "d"); len(p.Ready) != 1 || p.Ready[0].To != 8 {
		t.Errorf("steps are %+v; want the growth that was decided", p)
	}
}

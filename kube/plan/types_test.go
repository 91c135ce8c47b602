package plan_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// typedJobs returns random jobs that fit on a number of nodes of each type. Some select a type, some may choose one.
func typedJobs(t *rapid.T, free map[string]int) (jobs []*unstructured.Unstructured) {
	for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
		annotations := map[string]string{"work": "100h", "nodes": "1,2,3"}
		on := rapid.SampledFrom([]string{"a100", "h100"}).Draw(t, "type")
		switch rapid.IntRange(0, 3).Draw(t, "annotations") {
		case 0:
			annotations["paused"] = "true"
		case 1, 2:
			annotations["speeds"] = "a100=1,1.8,2.5; h100=2,3.5,5"
		}
		size := rapid.IntRange(0, min(3, free[on])).Draw(t, "size")
		free[on] -= size
		job := worldtest.Job(fmt.Sprintf("job-%d", i), size, annotations)
		if size > 0 || rapid.Bool().Draw(t, "selects a type") {
			job = worldtest.OnType(job, on)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// typedResponse returns a random legal response: the sizes and types of jobs fit on the nodes of each type.
func typedResponse(t *rapid.T, r plan.Request) *elastallocv1.AllocateResponse {
	s := r.Allocate.GetSnapshot()
	left := make(map[string]int32)
	for _, nodeType := range s.GetNodeTypes() {
		left[nodeType.GetId()] = nodeType.GetNodes()
	}
	answer := &elastallocv1.AllocateResponse{SnapshotId: s.GetId()}
	for _, j := range s.GetJobs() {
		left[j.GetCurrentNodeType()] -= map[bool]int32{true: j.GetCurrentNodes()}[j.GetKeep()]
	}
	for _, j := range s.GetJobs() {
		a := &elastallocv1.Allocation{JobId: j.GetId()}
		if j.GetKeep() {
			a.Nodes, a.NodeType = j.GetCurrentNodes(), j.GetCurrentNodeType()
		} else if nodes := rapid.SampledFrom(append([]int32{0}, j.GetAllowedNodes()...)).Draw(t, "nodes"); nodes > 0 {
			on := rapid.SampledFrom(j.GetSpeeds()).Draw(t, "answer").GetNodeType()
			if nodes <= left[on] {
				a.Nodes, a.NodeType = nodes, on
				left[on] -= nodes
			}
		}
		answer.Allocations = append(answer.Allocations, a)
	}
	return answer
}

// selected returns the node type that a Job selects, "" for none.
func selected(job *unstructured.Unstructured) string {
	selector, _, _ := unstructured.NestedStringMap(job.Object, "spec", "template", "spec", "nodeSelector")
	return selector["gpu"]
}

// takeTyped takes a step as the API server would: it refuses another pod template of a job that is not suspended, or that
// has pods.
func takeTyped(c *worldtest.Cluster, s plan.Step) error {
	name := s.Job.Object.GetName()
	before := c.Jobs[name]
	if err := take(c, s); err != nil {
		return err
	}
	if selected(c.Jobs[name]) == selected(before) {
		return nil
	}
	if suspended, _, _ := unstructured.NestedBool(before.Object, "spec", "suspend"); !suspended {
		return errors.New("changes the pod template of a job that is not suspended")
	}
	for _, pod := range c.Pods {
		if strings.HasPrefix(pod.Name, name+"-") && pod.DeletionTimestamp == nil {
			return errors.New("changes the pod template of a job with pods")
		}
	}
	return nil
}

// carryOut applies a decision, with restarts of the controller after any write and pods that terminate at any time.
func carryOut(t *rapid.T, c *worldtest.Cluster) {
	for round := 0; ; round++ {
		p := plan.Steps(c.ClusterState(), "")
		if len(p.Conflicts) > 0 || round > 200 {
			t.Fatalf("conflicts %v in round %d, waiting %v", p.Conflicts, round, p.Waiting)
		}
		if p.Done() {
			break
		}
		for _, step := range p.Ready[:rapid.IntRange(0, len(p.Ready)).Draw(t, "steps")] {
			if err := takeTyped(c, step); err != nil {
				t.Fatalf("%s: %v: %v", step.Job.ID, step, err)
			}
		}
		if len(p.Ready) == 0 || rapid.Bool().Draw(t, "the Job controller follows") {
			c.Reconcile()
		}
		c.Now = c.Now.Add(time.Second)
		if len(p.Ready) == 0 || rapid.Bool().Draw(t, "pods leave") {
			c.RemoveDeletedPods()
		}
		checkScheduled(t, c)
	}
	c.RemoveDeletedPods()
}

// nodesByType returns the number of nodes of each type with pods of a job.
func nodesByType(c *worldtest.Cluster, job string) map[string]int32 {
	on := make(map[string]int32)
	for _, pod := range c.Pods {
		if strings.HasPrefix(pod.Name, job+"-") {
			i := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName })
			on[c.Nodes[i].Labels["gpu"]]++
		}
	}
	return on
}

// TestStepsOnTypes applies random decisions on two node types. No pod ever waits for a node, and in the end every job has its
// target on nodes of its type. A job without speeds that selects a type never gets another one.
func TestStepsOnTypes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 16).Draw(t, "nodes")
		jobs := typedJobs(t, map[string]int{"a100": (nodes + 1) / 2, "h100": nodes / 2})
		c := worldtest.NewOf(worldtest.TypedPool(), nodes, jobs...)
		c.Now = c.Now.Add(time.Hour)
		before := maps.Clone(c.Jobs)
		w := c.ClusterState()
		request := plan.Snapshot(w, "decision", nil)
		answer := typedResponse(t, request)
		if err := plan.Check(request, answer); err != nil {
			t.Fatal(err)
		}
		for _, target := range plan.Targets(w, plan.Decision{ID: "decision", Mode: plan.ModeApply}, request, answer) {
			write(c, target)
		}
		carryOut(t, c)
		for i, j := range request.Jobs {
			name, want := j.Object.GetName(), make(map[string]int32)
			if a := answer.GetAllocations()[i]; a.GetNodes() > 0 {
				want[a.GetNodeType()] = a.GetNodes()
			}
			if on := nodesByType(c, name); !maps.Equal(on, want) {
				t.Fatalf("%s has %v; want %v", j.ID, on, want)
			}
			_, free := before[name].GetAnnotations()["elastalloc.dev/speeds"]
			if original, now := selected(before[name]), selected(c.Jobs[name]); !free && original != "" && now != original {
				t.Fatalf("%s selects %s; its user selected %s", j.ID, now, original)
			}
		}
	})
}

// TestTypedRequest checks the request of a pool with node types and groups: a job that keeps nodes of both types, one that
// may move, one whose pod template selects a type, one that waits, and size limits of each type.
func TestTypedRequest(t *testing.T) {
	t.Parallel()
	pool := worldtest.TypedPool()
	pool.Count = config.CountUnits
	pool.Groups = []config.Group{{Name: "team", Namespaces: []string{"default"}, TypeLimits: map[string]int{"h100": 12}}}
	small := func(name string, pods, units int, speeds string) *unstructured.Unstructured {
		annotations := map[string]string{"work": "10h", "nodes": "1,2"}
		if speeds != "" {
			annotations["speeds"] = speeds
		}
		return worldtest.SmallJob(name, pods, units, annotations)
	}
	c := worldtest.NewOf(pool, 4, small("a-keeps", 3, 8, ""), worldtest.OnType(small("b-moves", 2, 2, "a100=1,1.8; h100=3,5"), "h100"),
		worldtest.OnType(small("c-stays", 1, 2, ""), "h100"), small("d-waits", 0, 4, "h100=2,3"))
	foreign := worldtest.Pod("foreign", "node-003", nil)
	foreign.Spec.Containers[0].Resources.Requests[worldtest.Unit] = resource.MustParse("1")
	c.Pods = append(c.Pods, foreign)
	c.Now = c.Now.Add(time.Hour)
	w := c.ClusterState()
	s := plan.Snapshot(w, "id", nil).Allocate.GetSnapshot()
	var types []string
	for _, nodeType := range s.GetNodeTypes() {
		types = append(types, fmt.Sprintf("%s %d %v", nodeType.GetId(), nodeType.GetNodes(), nodeType.GetSpeed()))
	}
	var jobs []string
	for _, j := range s.GetJobs() {
		text := fmt.Sprintf("%s %d %s keep=%v", strings.TrimPrefix(j.GetId(), "Job/default/"),
			j.GetCurrentNodes(), j.GetCurrentNodeType(), j.GetKeep())
		for _, speed := range j.GetSpeeds() {
			text += fmt.Sprintf(" %s:%v", speed.GetNodeType(), speed.GetScaling().GetTable().GetSpeeds())
		}
		jobs = append(jobs, text)
	}
	var limits []string
	for _, limit := range s.GetSizeLimits() {
		limits = append(limits, fmt.Sprintf("%s %d: %d", limit.GetNodeType(), limit.GetSize(), limit.GetNodes()))
	}
	// The first job has 2 nodes of type a100 and 1 of type h100, because it selects none. The node of the others has 7 GPUs.
	want := []string{
		"a100 16 1, h100 15 2",
		"b-moves 4 h100 keep=false a100:[1 1.8] h100:[3 5], c-stays 2 h100 keep=false h100:[], d-waits 0  keep=false h100:[2 3], " +
			"a-keeps 16 a100 keep=true, a-keeps on h100 8 h100 keep=true",
		"team h100 12", "h100 2: 14, h100 4: 12",
	}
	got := []string{
		strings.Join(types, ", "), strings.Join(jobs, ", "),
		fmt.Sprintf("%s %s %d", s.GetGroups()[0].GetId(), s.GetGroups()[0].GetTypeLimits()[0].GetNodeType(),
			s.GetGroups()[0].GetTypeLimits()[0].GetLimit()), strings.Join(limits, ", "),
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the request has %s; want %s", got[i], want[i])
		}
	}
	for _, j := range w.Jobs {
		if pinned := j.Pinned != ""; pinned != strings.HasSuffix(j.ID, "a-keeps") {
			t.Errorf("%s is pinned %q: %s", j.ID, j.Pinned, j.Message)
		}
	}
}

// TestCheckTypes checks that responses that violate node types are refused.
func TestCheckTypes(t *testing.T) {
	t.Parallel()
	pool := worldtest.TypedPool()
	pool.Groups = []config.Group{{Name: "team", Namespaces: []string{"default"}, TypeLimits: map[string]int{"h100": 1}}}
	both := map[string]string{"work": "10h", "nodes": "1,2,4", "speeds": "a100=1,1.8,3; h100=3,5,8"}
	c := worldtest.NewOf(pool, 4, worldtest.OnType(worldtest.Job("one", 1, both), "a100"),
		worldtest.OnType(worldtest.Job("two", 1, map[string]string{"work": "10h"}), "a100"))
	c.Now = c.Now.Add(time.Hour)
	r := plan.Snapshot(c.ClusterState(), "id", nil)
	for _, test := range []struct {
		one, two int32
		on       [2]string
		want     string
	}{
		{one: 1, two: 1, on: [2]string{"h100", "a100"}},
		{one: 2, on: [2]string{"h100"}, want: `group "team": is allocated more nodes of type "h100"`},
		{one: 1, two: 1, on: [2]string{"a100", "h100"}, want: `of type "h100"; must be one of ["a100"]`},
		{one: 2, two: 1, on: [2]string{"a100", "a100"}, want: `have 3 nodes of type "a100"; must have at most 2`},
		{one: 1, on: [2]string{""}, want: `of type ""`},
		{one: 0, two: 1, on: [2]string{"a100", "a100"}, want: `is allocated 0 nodes of type "a100"`},
	} {
		err := plan.Check(r, &elastallocv1.AllocateResponse{SnapshotId: "id", Allocations: []*elastallocv1.Allocation{
			{JobId: "Job/default/one", Nodes: test.one, NodeType: test.on[0]}, {JobId: "Job/default/two", Nodes: test.two, NodeType: test.on[1]},
		}})
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: error %v; want %q", test, err, test.want)
		}
	}
}

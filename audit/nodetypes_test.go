package audit

import (
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestNodeTypes compares the gradients of three jobs on two types, and the best plans from several
// states, with those of an exhaustive search by independent code, to six digits.
func TestNodeTypes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change    func(jobs []*elastallocv1.Job)
		objective float64
		plan      [][]int // of each job, on fast and slow nodes
	}{
		"all new": {func([]*elastallocv1.Job) {}, 5.151235, [][]int{{2, 0}, {0, 2}, {0, 2}}},
		"one moves": {func(jobs []*elastallocv1.Job) {
			occupy(jobs[0], "slow", 4, 60)
		}, 4.875191, [][]int{{2, 0}, {0, 2}, {0, 2}}},
		"two swap": {func(jobs []*elastallocv1.Job) {
			occupy(jobs[0], "slow", 2, 60)
			occupy(jobs[1], "fast", 2, 60)
		}, 4.728831, [][]int{{2, 0}, {0, 2}, {0, 2}}},
		"two swap in spite of long restarts": {func(jobs []*elastallocv1.Job) {
			occupy(jobs[0], "slow", 2, 600)
			occupy(jobs[1], "fast", 2, 600)
		}, 4.079524, [][]int{{2, 0}, {0, 2}, {0, 2}}},
		"a swap does not pay": {func(jobs []*elastallocv1.Job) {
			occupy(jobs[0], "slow", 2, 1800)
			occupy(jobs[1], "fast", 2, 1800)
		}, 4.002723, [][]int{{0, 2}, {0, 2}, {2, 0}}},
		"one does not train on fast nodes": {func(jobs []*elastallocv1.Job) {
			jobs[1].Speeds = jobs[1].GetSpeeds()[1:]
		}, 5.308749, [][]int{{2, 0}, {0, 2}, {0, 2}}},
	} {
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal([]byte(`{
			"snapshot": {"nodeTypes": [{"id": "fast", "nodes": 2}, {"id": "slow", "nodes": 4}], "jobs": [
				{"id": "bert", "remainingEta": "14400s", "restartTime": "0s", "maxNodes": 4,
					"speeds": [{"nodeType": "fast", "factor": 4}, {"nodeType": "slow"}]},
				{"id": "resnet", "remainingEta": "14400s", "restartTime": "0s", "maxNodes": 4,
					"speeds": [{"nodeType": "fast", "factor": 1.5}, {"nodeType": "slow"}]},
				{"id": "short", "remainingEta": "1800s", "restartTime": "0s", "maxNodes": 4,
					"speeds": [{"nodeType": "fast", "factor": 2}, {"nodeType": "slow"}]}]},
			"options": {"objective": "OBJECTIVE_TOTAL_TIME", "totalTime": {"sharePrice": 0}}}`), request); err != nil {
			t.Fatal(err)
		}
		test.change(request.GetSnapshot().GetJobs())
		s, err := parseRequest(request)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e := newBudget(t.Context(), Options{})
		var m *model
		for range 2 { // Function prove may build the model twice.
			if m, err = newModel(s, 10, nil, e); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []float64{0.903330, 0.689121, 1.096250} {
			if got := s.totalTime.terms[i].gradient; name == "all new" && math.Abs(got-want) > 1e-6 {
				t.Errorf("the gradient of %s is %v; want %v", s.jobs[i].id, got, want)
			}
		}
		if most, _ := m.objective(test.plan); math.Abs(most-test.objective) > 1e-6 || m.checkLegal(test.plan, 2, false) != nil {
			t.Errorf("%s: the plan is worth %v; want %v", name, most, test.objective)
		}
		d := &decision{model: m, report: &elastallocv1.SolveReport{}}
		if plan := d.findBetter(e, test.objective+1e-6); plan != nil {
			t.Errorf("%s: %v is returned as better", name, plan)
		}
		if plan := d.findBetter(e, test.objective-1e-6); !slices.EqualFunc(plan, test.plan, slices.Equal) {
			t.Errorf("%s: the best plan is %v; want %v", name, plan, test.plan)
		}
		// Compared with itself, the plan has the value 0, without rounding errors.
		other := [][]int{{0, 2}, {0, 2}, {0, 2}}
		before, _ := m.objective(other)
		m.rebase(test.plan)
		after, _ := m.objective(other)
		if own, _ := m.objective(test.plan); own > underflow || math.Abs(before-test.objective-after) > 1e-6 {
			t.Errorf("%s: compared with %v, its value is %v, and that of %v is %v; want %v",
				name, test.plan, own, other, after, before-test.objective)
		}
	}
}

// occupy sets the current nodes and the restart time of a job.
func occupy(j *elastallocv1.Job, of string, nodes int32, restart int64) {
	j.CurrentNodes, j.CurrentNodeType = nodes, of
	j.RestartTime = durationpb.New(time.Duration(restart) * time.Second)
}

// TestMaxNodes checks that, if max_nodes is unset, all sizes that are set for a type are legal.
func TestMaxNodes(t *testing.T) {
	t.Parallel()
	request := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal([]byte(`{
		"snapshot": {"nodeTypes": [{"id": "fast", "nodes": 2}, {"id": "slow", "nodes": 64}], "jobs": [
			{"id": "a", "remainingEta": "1s", "allowedNodes": [1, 2],
				"speeds": [{"nodeType": "fast"}, {"nodeType": "slow", "allowedNodes": [2, 24]}]},
			{"id": "b", "remainingEta": "1s", "speeds": [{"nodeType": "fast"}, {"nodeType": "slow", "allowedNodes": [8]}]}]},
		"options": {"objective": "OBJECTIVE_TOTAL_TIME"}}`), request); err != nil {
		t.Fatal(err)
	}
	s, err := parseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	want := [][][]int{{{1, 2}, {2, 24}}, {{1, 2, 4, 8, 16}, {8}}}
	for i := range s.jobs {
		for n, k := range s.jobs[i].profiles {
			if !slices.Equal(k.sizes, want[i][n]) {
				t.Errorf("job %s has the sizes %v on type %d; want %v", s.jobs[i].id, k.sizes, n, want[i][n])
			}
		}
	}
	decided, err := apiconv.FromAllocateRequest(request, 10)
	if err != nil {
		t.Fatal(err)
	}
	p := problem.NewProblemFor(decided.Snapshot.WithDefaults(), decided.Options.WithDefaults())
	if !slices.Equal(p.Jobs[0].Options, []solver.Option{{Nodes: 1}, {Nodes: 2}, {Type: 1, Nodes: 2}, {Type: 1, Nodes: 24}}) {
		t.Errorf("job a has the options %v", p.Jobs[0].Options)
	}
}

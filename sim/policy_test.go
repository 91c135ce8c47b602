package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/solver"
)

// TestSnapshotTimes checks the training and waiting times of a job that is paused and resumed.
func TestSnapshotTimes(t *testing.T) {
	config := DefaultConfig(1)
	config.RestartTime = 30 * second
	type times struct{ trained, waited, restart time.Duration }
	var got []times
	// Job b is submitted at 100 s. Job a has the node at 101 s, 300 s and 900 s. Job b has it at 600 s and
	// from 1200 s on.
	p := namedPolicy{Terms{Name: "given", EveryEvent: true, NoRestartBudget: true}, Rule(func(s *solver.Snapshot) []solver.Option {
		options := make([]solver.Option, len(s.Jobs))
		if len(s.Jobs) == 1 {
			return solver.Nodes(1)
		}
		b := &s.Jobs[1]
		got = append(got, times{b.TrainingTime, b.WaitingTime, b.RestartTime})
		options[[]int{0, 0, 1, 0, 1}[len(got)-1]].Nodes = 1
		return options
	})}
	// With restarts of 30 s, b has trained for 270 s at 900 s and completes at 1240 s.
	run(t, p, config, job("a", 0, 900*second), job("b", 100*second, 280*second))
	const restart = 30 * second
	want := []times{
		{0, 1 * second, restart}, {0, 200 * second, restart}, {0, 500 * second, restart},
		{300 * second, 500 * second, restart}, {300 * second, 800 * second, restart},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(times{})); diff != "" {
		t.Errorf("times of job b (-want +got):\n%s", diff)
	}
}

// TestOptions checks the options of a request. A policy with OBJECTIVE_TOTAL_TIME that decides only at
// decision times sets the time to the next one.
func TestOptions(t *testing.T) {
	for name, want := range map[string]solver.Options{
		"optimal":            {Backend: solver.BackendExact, Objective: solver.ObjectiveProgress, Admission: solver.AdmissionFIFO},
		"optimal-preemptive": {Backend: solver.BackendExact, Objective: solver.ObjectiveProgress, Admission: solver.AdmissionPreemptive},
		"total-time":         {Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst},
		"total-time-waiting": {Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionOptimized},
		"total-time-steady": {
			Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionFIFO,
			TotalTime: solver.TotalTimeOptions{Cadence: new(300 * second)},
		},
	} {
		var got solver.Options
		config := DefaultConfig(4)
		config.DecisionBudget = 2 * second
		w := Workload{Name: "w", Jobs: []WorkloadJob{job("a", 0, time.Minute)}}
		if _, err := policy(t, name).run(t.Context(), w, config, optionsSpy{newAllocator(), &got}); err != nil {
			t.Fatal(err)
		}
		want.TimeBudget, want.NoBound = 2*second, true
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: options (-want +got):\n%s", name, diff)
		}
	}
}

func TestSnapshot(t *testing.T) {
	large := job("large", 0, time.Hour)
	large.RequestedNodes = 8
	config := Config{Nodes: 4, Frequency: 60 * second, Steps: 3, ScalingDelay: 15 * second, DecisionBudget: 2 * second}
	var got *solver.Snapshot
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		if got == nil {
			got = s
		}
	}
	p := policy(t, "optimal-preemptive")
	p.FixedSize = true
	run(t, p, config, large)
	want := &solver.Snapshot{
		ID: "test@0s", TotalNodes: 4, Horizon: solver.Horizon{Step: 60 * second, Steps: 3},
		Jobs: []solver.Job{solver.NewJob("large", time.Hour)},
	}
	want.Jobs[0].AllowedNodes, want.Jobs[0].ResizeDelay, want.Jobs[0].FreeResizes = []int{4}, 15*second, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// TestNoRestartBudget checks that snapshots without restart budgets have no restarts.
func TestNoRestartBudget(t *testing.T) {
	resizes := 0
	alternate := namedPolicy{Terms{Name: "alternate", NoRestartBudget: true}, Rule(func(s *solver.Snapshot) []solver.Option {
		if s.Jobs[0].RecentRestarts != nil {
			t.Errorf("after %d resizes, the restarts are %v", resizes, s.Jobs[0].RecentRestarts)
		}
		resizes++
		return []solver.Option{solver.NewOption(0, 1+resizes%2)}
	})}
	config := DefaultConfig(2)
	config.RestartTime = 60 * second
	run(t, alternate, config, job("a", 0, time.Hour))
	if resizes < 4 {
		t.Errorf("there are %d decisions", resizes)
	}
}

// optionsSpy records the options of requests.
type optionsSpy struct {
	audittest.Allocator
	got *solver.Options
}

func (s optionsSpy) Allocate(ctx context.Context, snapshot *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	*s.got = o
	return s.Allocator.Allocate(ctx, snapshot, o)
}

// TestDecisionsAreChecked runs allocators that exceed a node type, or a limit of a group.
func TestDecisionsAreChecked(t *testing.T) {
	config := Config{
		Nodes: 8, Steps: 1, Frequency: time.Hour, NodeTypes: []solver.NodeType{{ID: "a", Nodes: 6, Speed: 1}, {ID: "b", Nodes: 2, Speed: 1}},
		Groups: []solver.Group{
			{ID: "all", Limit: new(5)}, {ID: "team", ParentID: "all", TypeLimits: []solver.GroupTypeLimit{{NodeType: "b", Limit: 1}}},
		},
	}
	w := Workload{Name: "w", Jobs: []WorkloadJob{inTeam("team", job("x", 0, time.Hour)), inTeam("team", job("y", 0, time.Hour))}}
	for want, to := range map[string][2]solver.Allocation{
		`job "x" 3 nodes of "a", which is not a legal size`:   {{Nodes: 3, NodeType: "a"}, {}},
		`group "all" 6 nodes or more; its limit is 5`:         {{Nodes: 4, NodeType: "a"}, {Nodes: 2, NodeType: "a"}},
		`group "team" 2 nodes of "b" or more; its limit is 1`: {{Nodes: 1, NodeType: "b"}, {Nodes: 1, NodeType: "b"}},
		`decision gives 8 of 6 nodes of "a"`:                  {{Nodes: 4, NodeType: "a"}, {Nodes: 4, NodeType: "a"}},
		"":                                                    {{Nodes: 4, NodeType: "a"}, {Nodes: 1, NodeType: "b"}},
	} {
		config := config
		if strings.HasPrefix(want, "decision gives 8") {
			config.Groups = nil
		}
		decide := allocatorFunc(func(s *solver.Snapshot) (solver.Decision, error) {
			var d solver.Decision
			for i := range s.Jobs {
				d.Allocations = append(d.Allocations, to[i])
			}
			return d, nil
		})
		_, err := policy(t, "total-time").run(t.Context(), w, config, decide)
		if text := fmt.Sprint(err); !strings.Contains(text, want) || (err == nil) != (want == "") {
			t.Errorf("%v: the error is %v; want %q", to, err, want)
		}
	}
}

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// mixed is a valid snapshot of two types, which every test changes.
func mixed() *solver.Snapshot {
	return &solver.Snapshot{
		NodeTypes: []solver.NodeType{{ID: "fast", Nodes: 4, Speed: 2}, {ID: "slow", Nodes: 8}},
		Jobs: []solver.Job{
			{ID: "a", RemainingETA: time.Hour,
				Speeds: []solver.TypeSpeed{{NodeType: "slow"}, {NodeType: "fast", Factor: 3, AllowedNodes: []int{1, 3}}}},
			{ID: "b", RemainingETA: 2 * time.Hour, CurrentNodes: 2, CurrentNodeType: "slow", RestartTime: time.Minute},
		},
	}
}

func TestValidateNodeTypes(t *testing.T) {
	table := solver.Scaling{Speeds: []float64{1, 1.8}}
	tests := []struct {
		name   string
		change func(*solver.Snapshot)
		want   []string // paths
	}{
		{"valid", func(*solver.Snapshot) {}, nil},
		{"the sum", func(s *solver.Snapshot) { s.TotalNodes = 12 }, nil},
		{"not the sum", func(s *solver.Snapshot) { s.TotalNodes = 11 }, []string{"snapshot.total_nodes"}},
		{"too many", func(s *solver.Snapshot) { s.NodeTypes = make([]solver.NodeType, 9) }, []string{"snapshot.node_types"}},
		{"no id, one twice, bad numbers", func(s *solver.Snapshot) {
			s.NodeTypes = append(s.NodeTypes, solver.NodeType{}, solver.NodeType{ID: "fast", Nodes: -1, Speed: math.Inf(1)})
		}, []string{"snapshot.node_types[2].id", "snapshot.node_types[3].id", "snapshot.node_types[3].nodes", "snapshot.node_types[3].speed"}},
		{"fewer than no nodes", func(s *solver.Snapshot) { s.NodeTypes[0].Nodes, s.NodeTypes[1].Nodes = 0, -1 },
			[]string{"snapshot.node_types[1].nodes"}},
		{"a long id", func(s *solver.Snapshot) { s.NodeTypes[0].ID = strings.Repeat("x", 257) }, []string{"snapshot.node_types[0].id"}},
		{"no current type", func(s *solver.Snapshot) { s.Jobs[1].CurrentNodeType = "" }, []string{"snapshot.jobs[1].current_node_type"}},
		{"unknown types", func(s *solver.Snapshot) {
			s.Jobs[1].CurrentNodeType, s.Jobs[1].ETANodeType, s.Jobs[0].Speeds[0].NodeType = "x", "y", "z"
		}, []string{"snapshot.jobs[0].speeds[0].node_type", "snapshot.jobs[1].current_node_type", "snapshot.jobs[1].eta_node_type"}},
		{"a type twice", func(s *solver.Snapshot) { s.Jobs[0].Speeds[0].NodeType = "fast" }, []string{"snapshot.jobs[0].speeds[1].node_type"}},
		{"bad factors", func(s *solver.Snapshot) { s.Jobs[0].Speeds[0].Factor, s.Jobs[0].Speeds[1].Factor = -1, 2e9 },
			[]string{"snapshot.jobs[0].speeds[0].factor", "snapshot.jobs[0].speeds[1].factor"}},
		{"bad sizes", func(s *solver.Snapshot) { s.Jobs[0].Speeds[1].AllowedNodes = []int{3, 1} },
			[]string{"snapshot.jobs[0].speeds[1].allowed_nodes[1]"}},
		{"sizes beyond the range", func(s *solver.Snapshot) { s.Jobs[0].MaxNodes, s.Jobs[0].Speeds[1].AllowedNodes = 2, []int{3} },
			[]string{"snapshot.jobs[0].speeds[1].allowed_nodes"}},
		{"a table of other sizes", func(s *solver.Snapshot) { s.Jobs[0].Speeds[1].Scaling = solver.Scaling{Speeds: []float64{1}} },
			[]string{"snapshot.jobs[0].speeds[1].scaling.table.speeds"}},
		{"a bad efficiency", func(s *solver.Snapshot) { s.Jobs[0].Speeds[1].Scaling.DoublingEfficiency = 2 },
			[]string{"snapshot.jobs[0].speeds[1].scaling.doubling_efficiency"}},
		{"sizes that the job's table has not", func(s *solver.Snapshot) {
			s.Jobs[0].AllowedNodes, s.Jobs[0].Scaling, s.Jobs[0].MaxNodes = []int{1, 2}, table, 3
		},
			[]string{"snapshot.jobs[0].speeds[1].allowed_nodes[1]"}},
		{"sizes that it has", func(s *solver.Snapshot) { s.Jobs[0].AllowedNodes, s.Jobs[0].Scaling = []int{1, 3}, table }, nil},
		{"a negative time to move", func(s *solver.Snapshot) { s.Jobs[0].MoveTime = new(-time.Second) }, []string{"snapshot.jobs[0].move_time"}},
		{"an eta beyond the table of its type", func(s *solver.Snapshot) {
			s.Jobs[0].Speeds[1].Scaling, s.Jobs[0].ETANodeType, s.Jobs[0].ETANodes = table, "fast", 4
		}, []string{"snapshot.jobs[0].eta_nodes"}},
		{"groups", func(s *solver.Snapshot) {
			s.Groups, s.Jobs[0].GroupID, s.Jobs[1].GroupID = []solver.Group{{ID: "g"}}, "g", "g"
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := mixed()
			test.change(s)
			var got []string
			for _, v := range solver.Validate(s.WithDefaults(),
				solver.Options{Objective: solver.ObjectiveTotalTime}.WithDefaults(), 10, []solver.BackendName{solver.BackendExact}) {
				got = append(got, v.Path)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("bad fields (-want +got):\n%s", diff)
			}
		})
	}
	bad := solver.Validate(mixed().WithDefaults(), solver.Options{Objective: solver.ObjectiveProgress}.WithDefaults(),
		10, []solver.BackendName{solver.BackendExact})
	if len(bad) != 1 || bad[0].Path != "snapshot.node_types" || !strings.Contains(bad[0].Description, "OBJECTIVE_TOTAL_TIME") {
		t.Errorf("with the paper's objective: %v", bad)
	}
}

// TestOneNodeType compares a snapshot with one type of speed 1 with the same without types.
func TestOneNodeType(t *testing.T) {
	for _, objective := range []solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime} {
		for _, admission := range solver.Admissions() {
			plain := mixed()
			plain.NodeTypes, plain.TotalNodes, plain.Jobs[0].Speeds = nil, 7, nil
			plain.Jobs[0].AllowedNodes, plain.Jobs[0].Scaling = []int{1, 3, 5}, solver.Scaling{Speeds: []float64{1, 2.5, 2}}
			typed := *plain
			typed.NodeTypes, typed.Jobs = []solver.NodeType{{ID: "only", Nodes: 7}}, slices.Clone(plain.Jobs)
			typed.Jobs[1].CurrentNodeType = "only"
			options := solver.Options{Objective: objective, Admission: admission}.WithDefaults()
			if bad := solver.Validate(typed.WithDefaults(), options, 10, []solver.BackendName{solver.BackendExact}); len(bad) > 0 {
				t.Fatal(bad)
			}
			want, got := problem.NewProblemFor(plain.WithDefaults(), options), problem.NewProblemFor(typed.WithDefaults(), options)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: problem (-without +with one type):\n%s", objective, admission, diff)
			}
		}
	}
}

// TestNodeTypeInvariances checks what must not change the values of a problem.
func TestNodeTypeInvariances(t *testing.T) {
	options := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}.WithDefaults()
	values := func(s *solver.Snapshot) map[string]float64 {
		s = s.WithDefaults()
		if bad := solver.Validate(s, options, 10, []solver.BackendName{solver.BackendExact}); len(bad) > 0 {
			t.Fatal(bad)
		}
		p, all := problem.NewProblemFor(s, options), make(map[string]float64)
		for i := range p.Jobs {
			for n, option := range p.Jobs[i].Options {
				all[fmt.Sprint(s.Jobs[p.Jobs[i].Index].ID, " ", option.Nodes, " ", s.TypeOf(option))] = p.Jobs[i].OptionValue[n]
			}
		}
		return all
	}
	near := func(name string, change func(*solver.Snapshot)) {
		s := mixed()
		change(s)
		want, got := values(mixed()), values(s)
		if len(want) != len(got) {
			t.Errorf("%s: %d options; want %d", name, len(got), len(want))
		}
		for option, value := range want {
			if math.Abs(got[option]-value) > 1e-12*math.Abs(value) {
				t.Errorf("%s: %s is worth %.17g; want %.17g", name, option, got[option], value)
			}
		}
	}
	near("a job twice as fast with twice the work", func(s *solver.Snapshot) {
		s.Jobs[0].RemainingETA *= 2
		s.Jobs[0].Speeds[0].Factor, s.Jobs[0].Speeds[1].Factor = 2, 6
	})
	near("a type without nodes", func(s *solver.Snapshot) {
		s.NodeTypes = slices.Insert(s.NodeTypes, 1, solver.NodeType{ID: "none", Speed: 100})
	})
	near("a type that no job runs on", func(s *solver.Snapshot) {
		s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: "idle", Nodes: 50, Speed: 100})
		s.Jobs[1].Speeds = []solver.TypeSpeed{{NodeType: "fast"}, {NodeType: "slow"}}
	})
	near("an eta of a type", func(s *solver.Snapshot) {
		s.Jobs[0].RemainingETA /= 3
		s.Jobs[0].ETANodeType = "fast"
	})
}

// TestTypeWithoutNodes adds a type without nodes to a snapshot with one type and a job that fits neither.
func TestTypeWithoutNodes(t *testing.T) {
	for _, admission := range solver.Admissions() {
		options := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}.WithDefaults()
		var want map[string]float64
		for _, types := range [][]solver.NodeType{{{ID: "only", Nodes: 4}}, {{ID: "only", Nodes: 4}, {ID: "none", Speed: 3}}} {
			s := mixed()
			s.NodeTypes, s.Jobs[0].Speeds, s.Jobs[1].CurrentNodeType = types, nil, "only"
			s.Jobs = append(s.Jobs, solver.Job{ID: "large", RemainingETA: time.Hour, MinNodes: 8, CurrentNodes: 2, CurrentNodeType: "only"})
			s = s.WithDefaults()
			p, got := problem.NewProblemFor(s, options), make(map[string]float64)
			for i := range p.Jobs {
				for n, option := range p.Jobs[i].Options {
					if option.Nodes <= 4 {
						got[fmt.Sprint(s.Jobs[p.Jobs[i].Index].ID, " ", option)] = p.Jobs[i].OptionValue[n]
					}
				}
			}
			if want == nil {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: values (-without +with the type):\n%s", admission, diff)
			}
		}
	}
}

func TestHoldOnNodeTypes(t *testing.T) {
	s := mixed()
	s.Jobs[1].RemainingETA = -1
	s = s.WithDefaults()
	rest, held := s.Freeze(true)
	if rest.NodeTypes[0].Nodes != 4 || rest.NodeTypes[1].Nodes != 6 || rest.TotalNodes != 10 || s.NodeTypes[1].Nodes != 8 {
		t.Fatalf("types %v, %d nodes in all", rest.NodeTypes, rest.TotalNodes)
	}
	d := RestoreFrozen(held, DecideNow(rest, []solver.Option{{Type: 1, Nodes: 4}}), 1)
	want := []solver.NodeTypeReport{{ID: "fast", Nodes: 4, IdleNodes: 4}, {ID: "slow", Nodes: 8, IdleNodes: 2}}
	if diff := cmp.Diff(want, d.Report.NodeTypes); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if a := d.Allocations[1]; a.NodeType != "slow" || a.Nodes != 2 || a.Change != solver.ChangeKeep {
		t.Errorf("the frozen job: %+v", a)
	}
}

// TestStepsOnNodeTypes carries out a swap in a full pool.
func TestStepsOnNodeTypes(t *testing.T) {
	d := solver.Decision{Allocations: []solver.Allocation{
		{JobID: "a", Current: 4, Nodes: 8, NodeType: "slow", Change: solver.ChangeMove},
		{JobID: "b", Current: 8, Nodes: 4, NodeType: "fast", Change: solver.ChangeMove},
	}}
	type step struct {
		id, on string
		nodes  int
	}
	var got []step
	for _, a := range d.Steps() {
		got = append(got, step{a.JobID, a.NodeType, a.Nodes})
	}
	if want := []step{{"a", "", 0}, {"b", "", 0}, {"a", "slow", 8}, {"b", "fast", 4}}; !slices.Equal(got, want) {
		t.Errorf("steps %v; want %v", got, want)
	}
}

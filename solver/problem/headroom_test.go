package problem_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// inGroup returns a job of a group with one size and the given current nodes.
func inGroup(id, group string, size, current int) solver.Job {
	job := solver.NewJob(id, 3_600_000_000_000)
	job.AllowedNodes, job.CurrentNodes, job.GroupID = []int{size}, current, group
	return job
}

// TestAdmissionWithGroups checks who has to get nodes where limits are too small for all.
func TestAdmissionWithGroups(t *testing.T) {
	never := func(id, group string, size int) solver.Job { return inGroup(id, group, size, 0) }
	tests := []struct {
		name   string
		nodes  int
		groups []solver.Group
		jobs   []solver.Job
		// forced are the ids of the jobs that have to get nodes, by admission.
		forced map[solver.Admission][]string
	}{
		{
			name: "a job that a limit stops has its group behind it, and no other", nodes: 20,
			groups: []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:   []solver.Job{never("a3", "a", 3), never("a2", "a", 2), never("a1", "a", 1), never("b8", "b", 8)},
			forced: map[solver.Admission][]string{
				solver.AdmissionFIFO:       {"a3", "b8"},
				solver.AdmissionOptimized:  nil,
				solver.AdmissionPreemptive: nil,
				// Everyone who fits starts: none of them waits for another.
				solver.AdmissionStartFirst: {"a3", "a1", "b8"},
			},
		},
		{
			name: "a job that exceeds a limit by itself blocks no other", nodes: 20,
			groups: []solver.Group{{ID: "a", Limit: new(4)}},
			jobs:   []solver.Job{never("a5", "a", 5), never("a2", "a", 2)},
			forced: map[solver.Admission][]string{
				solver.AdmissionFIFO: {"a2"}, solver.AdmissionStartFirst: {"a2"},
			},
		},
		{
			name: "the limit of a department counts for its teams together", nodes: 20,
			groups: []solver.Group{{ID: "d", Limit: new(5)}, {ID: "a", ParentID: "d", Limit: new(4)}, {ID: "b", ParentID: "d"}, {ID: "c"}},
			jobs:   []solver.Job{never("a3", "a", 3), never("b4", "b", 4), never("b1", "b", 1), never("c9", "c", 9)},
			forced: map[solver.Admission][]string{
				solver.AdmissionFIFO: {"a3", "c9"}, solver.AdmissionStartFirst: {"a3", "b1", "c9"},
			},
		},
		{
			name: "a limit below the nodes of running jobs", nodes: 20,
			groups: []solver.Group{{ID: "a", Limit: new(5)}, {ID: "b"}},
			jobs:   []solver.Job{inGroup("a4", "a", 4, 4), inGroup("a2", "a", 2, 2), never("a1", "a", 1), never("b1", "b", 1)},
			forced: map[solver.Admission][]string{
				solver.AdmissionFIFO: {"a4", "b1"}, solver.AdmissionOptimized: {"a4"},
				solver.AdmissionStartFirst: {"a4", "a1", "b1"}, // The first of them loads.
			},
		},
		{
			name: "a running job that the limit leaves room for stays, whatever stands before it", nodes: 20,
			groups: []solver.Group{{ID: "a", Limit: new(5)}, {ID: "b"}},
			jobs:   []solver.Job{inGroup("a3", "a", 3, 3), inGroup("a4", "a", 4, 4), inGroup("a2", "a", 2, 2), never("b1", "b", 1)},
			forced: map[solver.Admission][]string{
				solver.AdmissionFIFO: {"a3", "a2", "b1"}, solver.AdmissionOptimized: {"a3", "a2"},
				solver.AdmissionStartFirst: {"a3", "a2", "b1"},
			},
		},
		{
			name: "running jobs that a limit stops have their department behind them, in any order", nodes: 20,
			groups: []solver.Group{{ID: "d", Limit: new(4)}, {ID: "a", ParentID: "d", Limit: new(3)}, {ID: "b", ParentID: "d"}},
			jobs:   []solver.Job{inGroup("a3", "a", 3, 3), inGroup("a1", "a", 1, 1), inGroup("a2", "a", 2, 2), never("b1", "b", 1)},
			forced: map[solver.Admission][]string{
				solver.AdmissionFIFO: {"a3"}, solver.AdmissionOptimized: {"a3"}, solver.AdmissionStartFirst: {"a3", "b1"},
			},
		},
		{
			name: "the pool ends the line for all", nodes: 6,
			groups: []solver.Group{{ID: "a", Limit: new(9)}, {ID: "b"}},
			jobs:   []solver.Job{never("a4", "a", 4), never("b3", "b", 3), never("a2", "a", 2)},
			forced: map[solver.Admission][]string{solver.AdmissionFIFO: {"a4"}, solver.AdmissionStartFirst: {"a4"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &solver.Snapshot{TotalNodes: test.nodes, Groups: test.groups, Jobs: test.jobs, Horizon: solver.DefaultHorizon()}
			if bad := s.Validate(10); len(bad) > 0 {
				t.Fatal(bad)
			}
			for _, admission := range solver.Admissions() {
				p := problem.NewProblemFor(s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission})
				var forced []string
				for i := range p.Jobs {
					if !p.Jobs[i].Options[0].IsZero() {
						forced = append(forced, s.Jobs[p.Jobs[i].Index].ID)
					}
				}
				if diff := cmp.Diff(test.forced[admission], forced); diff != "" {
					t.Errorf("%s: wrong jobs (-want +got):\n%s", admission, diff)
				}
			}
		})
	}
}

// TestFloors checks the floor of a group: its quota, or the maximum number of nodes of its admitted jobs if that is
// smaller.
func TestFloors(t *testing.T) {
	s := &solver.Snapshot{
		TotalNodes: 15, Horizon: solver.DefaultHorizon(),
		Groups: []solver.Group{
			{ID: "d", Quota: 12}, {ID: "a", ParentID: "d", Quota: 7}, {ID: "b", ParentID: "d", Quota: 3, Limit: new(5)}, {ID: "idle", Quota: 5},
			{ID: "never", Quota: 4},
		},
		Jobs: []solver.Job{
			inGroup("a4", "a", 4, 0), inGroup("b5", "b", 5, 0),
			inGroup("beyond the limit", "b", 6, 0), inGroup("beyond the pool", "never", 16, 0),
		},
	}
	p := problem.NewProblemFor(s, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive,
		TotalTime: solver.TotalTimeOptions{QuotaPrice: new(2.0)},
	})
	var floors []int
	for _, g := range p.Groups {
		floors = append(floors, g.Floor)
	}
	if diff := cmp.Diff([]int{9, 4, 3, 0, 0}, floors); diff != "" {
		t.Errorf("wrong floors (-want +got):\n%s", diff)
	}
	nothing := problem.Plan{solver.Nodes(0), solver.Nodes(0), solver.Nodes(0), solver.Nodes(0)}
	if got, want := p.Objective(nothing), -2.0*(9+4+3); got != want {
		t.Errorf("the objective of nothing is %v; want %v", got, want)
	}
	only := problem.Plan{solver.Nodes(0), solver.Nodes(5), solver.Nodes(0), solver.Nodes(0)}
	if got, want := p.Objective(only), p.Jobs[1].Value(solver.Nodes(5))-2*(4+4); got != want {
		t.Errorf("the objective of b5 alone is %v; want %v", got, want)
	}
}

// TestFloorOfSizesBeyondPool checks that a size that exceeds the pool does not count in the floor of a group, as
// it does not if a size limit, which cannot bind, is given in addition.
func TestFloorOfSizesBeyondPool(t *testing.T) {
	for name, limits := range map[string][]solver.SizeLimit{"no size limit": nil, "a size limit above the pool": {{Size: 7, Nodes: 7}}} {
		job := inGroup("a", "g", 1, 0)
		job.AllowedNodes = []int{1, 2, 4, 8}
		s := &solver.Snapshot{
			TotalNodes: 6, Horizon: solver.DefaultHorizon(), Groups: []solver.Group{{ID: "g", Quota: 5}},
			SizeLimits: limits, Jobs: []solver.Job{job},
		}
		p := problem.NewProblemFor(s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive})
		if got := p.Groups[0].Floor; got != 4 {
			t.Errorf("%s: the floor is %d; want 4", name, got)
		}
	}
}

// TestCheckLimits checks that no plan passes that breaks a limit.
func TestCheckLimits(t *testing.T) {
	s := &solver.Snapshot{
		TotalNodes: 30, Horizon: solver.DefaultHorizon(),
		Groups: []solver.Group{{ID: "d", Limit: new(8)}, {ID: "a", ParentID: "d"}, {ID: "b", ParentID: "d"}},
		Jobs:   []solver.Job{inGroup("a4", "a", 4, 0), inGroup("b5", "b", 5, 0)},
	}
	p := problem.NewProblemFor(s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive})
	if err := p.Check(problem.Plan{solver.Nodes(4), solver.Nodes(0)}); err != nil {
		t.Errorf("a legal plan: %v", err)
	}
	if err := p.Check(problem.Plan{solver.Nodes(4), solver.Nodes(5)}); err == nil {
		t.Error("a plan of 9 nodes for a group of at most 8 passes")
	}
}

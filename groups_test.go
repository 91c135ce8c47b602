package elastalloc_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// nodesByGroup returns the allocated nodes of every group of a snapshot, including its subgroups.
func nodesByGroup(s *solver.Snapshot, d solver.Decision) []int {
	nodes := make([]int, len(s.Groups))
	var within func(group, job string) bool
	within = func(group, job string) bool {
		for _, g := range s.Groups {
			if g.ID == job {
				return job == group || within(group, g.ParentID)
			}
		}
		return false
	}
	for g := range s.Groups {
		for i := range s.Jobs {
			if within(s.Groups[g].ID, s.Jobs[i].GroupID) {
				nodes[g] += d.Allocations[i].Nodes
			}
		}
	}
	return nodes
}

// checkGroupLimits checks that a decision exceeds neither the pool nor the limit of a group, and explains why jobs wait.
func checkGroupLimits(t *rapid.T, call string, s *solver.Snapshot, d solver.Decision) {
	t.Helper()
	total := 0
	for i, a := range d.Allocations {
		total += a.Nodes
		if !isExplained(a) {
			t.Fatalf("%s: job %d has %d nodes and waits for the reason %q behind %q", call, i, a.Nodes, a.WaitReason, a.BehindJobID)
		}
	}
	if total > s.TotalNodes {
		t.Fatalf("%s: %d nodes are allocated of %d", call, total, s.TotalNodes)
	}
	for g, nodes := range nodesByGroup(s, d) {
		if limit := s.Groups[g].Limit; limit != nil && nodes > *limit {
			t.Fatalf("%s: group %d has %d nodes; its limit is %d", call, g, nodes, *limit)
		}
	}
}

// checkGroupReports checks the report of every group of a decision.
func checkGroupReports(t *rapid.T, s *solver.Snapshot, d solver.Decision) {
	t.Helper()
	for g, nodes := range nodesByGroup(s, d) {
		r := d.Report.Groups[g]
		if r.ID != s.Groups[g].ID || r.Nodes != nodes || r.Short < 0 || r.Short > max(0, s.Groups[g].Quota-nodes) || !(r.Price >= 0) {
			t.Fatalf("group %d has %d nodes: %+v", g, nodes, r)
		}
	}
}

// TestGroupLimits checks on random snapshots that no decision of any backend exceeds a limit, that the
// report of groups is correct, and that every waiting job has a reason.
func TestGroupLimits(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.GroupedSnapshots(solvertest.Limits{Jobs: 8, Steps: 1, Sizes: 4, Nodes: 40}).Draw(t, "snapshot")
		o := solver.Options{
			Objective: solver.ObjectiveTotalTime,
			Backend:   rapid.SampledFrom([]solver.BackendName{solver.BackendExact, solver.BackendGreedy}).Draw(t, "backend"),
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"),
		}
		decision, err := allocator.Allocate(t.Context(), s, o)
		if err != nil {
			t.Fatal(err)
		}
		filled, err := allocator.FillIdle(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		checkGroupLimits(t, "allocate", s, decision)
		checkGroupReports(t, s, decision)
		checkGroupLimits(t, "fill idle", s, filled)
		for i, a := range filled.Allocations {
			if a.Current > 0 && a.Nodes != a.Current && a.Nodes != 0 {
				t.Fatalf("FillIdle resizes job %d from %d to %d nodes", i, a.Current, a.Nodes)
			}
		}
		if r := decision.Report; r.Objective < r.GreedyObjective-1e-12*max(1, math.Abs(r.GreedyObjective)) &&
			o.Backend == solver.BackendExact && o.Admission != solver.AdmissionFIFO && o.Admission != solver.AdmissionStartFirst {
			t.Fatalf("objective %v, greedy's %v", r.Objective, r.GreedyObjective)
		}
	})
}

// inGroup returns a job of a group with one size that occupies the given number of nodes.
func inGroup(group, id string, size, current int) solver.Job {
	job := sized(id, size, current)
	job.GroupID = group
	return job
}

// TestWaitsAtLimits checks small queues of groups in which the reason to wait is obvious.
func TestWaitsAtLimits(t *testing.T) {
	light := inGroup("a", "light", 4, 0)
	light.Weight = new(0.001)
	tests := []struct {
		name      string
		nodes     int
		groups    []solver.Group
		jobs      []solver.Job
		admission solver.Admission
		// want and filled are the nodes of each job and why it waits, of Allocate and FillIdle.
		want, filled, warnings []string
	}{
		{
			name: "a team at its limit", nodes: 8, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:   []solver.Job{inGroup("a", "a1", 4, 4), inGroup("a", "a2", 2, 0), inGroup("a", "a3", 1, 0), inGroup("b", "b1", 2, 0)},
			want:   []string{"4", "0 group-limit", "0 group-limit", "2"},
			filled: []string{"4", "0 group-limit", "0 group-limit", "2"},
		},
		{
			name: "jobs behind a job that its limit blocks", nodes: 8, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:   []solver.Job{inGroup("a", "a1", 3, 3), inGroup("a", "a2", 2, 0), inGroup("a", "a3", 1, 0), inGroup("b", "b1", 2, 0)},
			want:   []string{"3", "0 group-limit", "0 behind a2", "2"},
			filled: []string{"3", "0 group-limit", "0 behind a2", "2"},
		},
		{
			name: "a running job that fits in the limit, behind one that does not", nodes: 20, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}},
			jobs:   []solver.Job{inGroup("a", "a1", 2, 2), inGroup("a", "a2", 4, 4), inGroup("a", "a3", 2, 2)},
			want:   []string{"2", "0 group-limit", "2"},
			filled: []string{"2", "0 group-limit", "2"},
		},
		{
			name: "a limit below the nodes in use", nodes: 9, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:   []solver.Job{inGroup("a", "a1", 4, 4), inGroup("a", "a2", 4, 4), inGroup("b", "b1", 1, 0)},
			want:   []string{"4", "0 group-limit", "1"},
			filled: []string{"4", "0 group-limit", "1"},
		},
		{
			name: "the optimizer chooses within a limit", nodes: 8, admission: solver.AdmissionPreemptive,
			groups: []solver.Group{{ID: "a", Limit: new(4)}},
			jobs:   []solver.Job{inGroup("a", "a1", 4, 4), light},
			want:   []string{"4", "0 group-limit"},
			filled: []string{"4", "0 group-limit"},
		},
		{
			name: "a job larger than its limit", nodes: 8, admission: solver.AdmissionStartFirst,
			groups:   []solver.Group{{ID: "a", Limit: new(3), Quota: 6}, {ID: "b", Quota: 3}},
			jobs:     []solver.Job{inGroup("a", "a1", 4, 0), inGroup("a", "a2", 3, 0), inGroup("b", "b1", 9, 0)},
			want:     []string{"0 group-limit", "3", "0 never-fits"},
			filled:   []string{"0 group-limit", "3", "0 never-fits"},
			warnings: []string{"quotas-exceed-pool ", "never-fits b1"},
		},
		{
			name: "no room in the pool within the limits", nodes: 4, admission: solver.AdmissionFIFO,
			groups:   []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:     []solver.Job{inGroup("a", "a1", 3, 3), inGroup("b", "b1", 2, 0), inGroup("b", "b2", 1, 0)},
			want:     []string{"3", "0 no-room", "0 behind b1"},
			filled:   []string{"3", "0 no-room", "0 behind b1"},
			warnings: []string{"idle-with-queue b1"},
		},
	}
	allocator := newAllocator(t, elastalloc.Options{})
	describe := func(d solver.Decision) (jobs, warnings []string) {
		for _, a := range d.Allocations {
			text := strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Nodes, a.WaitReason, a.BehindJobID))
			jobs = append(jobs, text)
		}
		for _, w := range d.Report.Warnings {
			if w.Code != solver.WarningManyPauses { // It is not specific to groups.
				warnings = append(warnings, string(w.Code)+" "+w.JobID)
			}
		}
		return jobs, warnings
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &solver.Snapshot{TotalNodes: test.nodes, Groups: test.groups, Jobs: test.jobs}
			for name, decide := range map[string]func() (solver.Decision, error){
				"exact": func() (solver.Decision, error) {
					return allocator.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: test.admission})
				},
				"fill idle": func() (solver.Decision, error) { return allocator.FillIdle(t.Context(), s) },
			} {
				d, err := decide()
				if err != nil {
					t.Fatal(err)
				}
				want := test.want
				if name == "fill idle" {
					want = test.filled
				}
				got, warnings := describe(d)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if diff := cmp.Diff(test.warnings, warnings); diff != "" {
					t.Errorf("%s: wrong warnings (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// TestFrozenJobsCountInGroups checks that the nodes of a frozen job count in the limit of its group.
func TestFrozenJobsCountInGroups(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	bad := inGroup("a", "bad", 4, 4)
	bad.RemainingETA = -1
	stray := inGroup("nowhere", "stray", 1, 1)
	s := &solver.Snapshot{
		TotalNodes: 16, Groups: []solver.Group{{ID: "d", Quota: 9}, {ID: "a", ParentID: "d", Limit: new(6), Quota: 5}},
		Jobs: []solver.Job{bad, inGroup("a", "a2", 2, 0), inGroup("a", "a1", 1, 0), stray},
	}
	d, err := allocator.Allocate(t.Context(), s, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive, BadJobs: solver.BadJobsHold,
	})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []int
	for _, a := range d.Allocations {
		nodes = append(nodes, a.Nodes)
	}
	if want := []int{4, 2, 0, 1}; !slices.Equal(nodes, want) {
		t.Errorf("nodes are %v; want %v", nodes, want)
	}
	for _, g := range d.Report.Groups {
		if g.Nodes != 6 {
			t.Errorf("group %s has %d nodes; want 6", g.ID, g.Nodes)
		}
	}
}

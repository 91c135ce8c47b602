package elastalloc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// heldByGroup returns the nodes of every group of a snapshot under a decision, counted
// from the groups down.
func heldByGroup(s *solver.Snapshot, d solver.Decision) []int {
	held := make([]int, len(s.Groups))
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
				held[g] += d.Allocations[i].Nodes
			}
		}
	}
	return held
}

// TestLimitsHold checks on drawn snapshots that no decision breaks a limit, whichever backend makes
// it, that what is reported of groups is so, and that it is said of every waiting job why.
func TestLimitsHold(t *testing.T) {
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
		for name, d := range map[string]solver.Decision{"allocate": decision, "fill idle": filled} {
			total := 0
			for i, a := range d.Allocations {
				total += a.Nodes
				if (a.Nodes == 0) != (a.WaitReason != "") || (a.WaitReason == solver.WaitBehind) != (a.BehindJobID != "") {
					t.Fatalf("%s: job %d has %d nodes and waits for the reason %q behind %q", name, i, a.Nodes, a.WaitReason, a.BehindJobID)
				}
				if name == "fill idle" && a.Current > 0 && a.Nodes != a.Current && a.Nodes != 0 {
					t.Fatalf("job %d goes from %d to %d nodes between two decisions", i, a.Current, a.Nodes)
				}
			}
			if total > s.TotalNodes {
				t.Fatalf("%s: %d nodes of %d", name, total, s.TotalNodes)
			}
			for g, held := range heldByGroup(s, d) {
				if limit := s.Groups[g].Limit; limit != nil && held > *limit {
					t.Fatalf("%s: group %d holds %d nodes; its limit is %d", name, g, held, *limit)
				}
				if name == "allocate" {
					r := d.Report.Groups[g]
					if r.ID != s.Groups[g].ID || r.Nodes != held || r.Short < 0 || r.Short > max(0, s.Groups[g].Quota-held) || !(r.Price >= 0) {
						t.Fatalf("group %d holds %d nodes: %+v", g, held, r)
					}
				}
			}
		}
		if r := decision.Report; r.Objective < r.GreedyObjective-1e-9*max(1, -r.GreedyObjective) && o.Backend == solver.BackendExact && o.Admission != solver.AdmissionFIFO && o.Admission != solver.AdmissionStartFirst {
			t.Fatalf("objective %v, greedy's %v", r.Objective, r.GreedyObjective)
		}
	})
}

// of returns a job of one size that holds the given nodes, as one of a group.
func of(group, id string, size, current int) solver.Job {
	job := sized(id, size, current)
	job.GroupID = group
	return job
}

// TestWaitsAtLimits decides small queues of groups, in which it is plain why a job waits.
func TestWaitsAtLimits(t *testing.T) {
	lowly := of("a", "lowly", 4, 0)
	lowly.Weight = new(0.001)
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
			jobs:   []solver.Job{of("a", "a1", 4, 4), of("a", "a2", 2, 0), of("a", "a3", 1, 0), of("b", "b1", 2, 0)},
			want:   []string{"4", "0 group-limit", "0 group-limit", "2"},
			filled: []string{"4", "0 group-limit", "0 group-limit", "2"},
		},
		{
			name: "the line behind a job that its limit stops", nodes: 8, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:   []solver.Job{of("a", "a1", 3, 3), of("a", "a2", 2, 0), of("a", "a3", 1, 0), of("b", "b1", 2, 0)},
			want:   []string{"3", "0 group-limit", "0 behind a2", "2"},
			filled: []string{"3", "0 group-limit", "0 behind a2", "2"},
		},
		{
			name: "a running job that the limit leaves room for, behind one that it does not", nodes: 20, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}},
			jobs:   []solver.Job{of("a", "a1", 2, 2), of("a", "a2", 4, 4), of("a", "a3", 2, 2)},
			want:   []string{"2", "0 group-limit", "2"},
			filled: []string{"2", "0 group-limit", "2"},
		},
		{
			name: "a limit below what its jobs hold", nodes: 9, admission: solver.AdmissionFIFO,
			groups: []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:   []solver.Job{of("a", "a1", 4, 4), of("a", "a2", 4, 4), of("b", "b1", 1, 0)},
			want:   []string{"4", "0 group-limit", "1"},
			filled: []string{"4", "0 group-limit", "1"},
		},
		{
			name: "the optimiser has to choose within a limit", nodes: 8, admission: solver.AdmissionPreemptive,
			groups: []solver.Group{{ID: "a", Limit: new(4)}},
			jobs:   []solver.Job{of("a", "a1", 4, 4), lowly},
			want:   []string{"4", "0 group-limit"},
			filled: []string{"4", "0 group-limit"},
		},
		{
			name: "a job that no limit admits", nodes: 8, admission: solver.AdmissionStartFirst,
			groups:   []solver.Group{{ID: "a", Limit: new(3), Quota: 6}, {ID: "b", Quota: 3}},
			jobs:     []solver.Job{of("a", "a1", 4, 0), of("a", "a2", 3, 0), of("b", "b1", 9, 0)},
			want:     []string{"0 group-limit", "3", "0 never-fits"},
			filled:   []string{"0 group-limit", "3", "0 never-fits"},
			warnings: []string{"quotas-exceed-pool ", "never-fits b1"},
		},
		{
			name: "no room in the pool, whatever the limits", nodes: 4, admission: solver.AdmissionFIFO,
			groups:   []solver.Group{{ID: "a", Limit: new(4)}, {ID: "b"}},
			jobs:     []solver.Job{of("a", "a1", 3, 3), of("b", "b1", 2, 0), of("b", "b2", 1, 0)},
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
			if w.Code != solver.WarningManyPauses { // It is of no group.
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

// TestHeldJobsCountTowardsTheirGroup checks that a job with bad fields keeps its nodes out of
// the limit of its group too.
func TestHeldJobsCountTowardsTheirGroup(t *testing.T) {
	allocator := newAllocator(t, elastalloc.Options{})
	bad := of("a", "bad", 4, 4)
	bad.RemainingETA = -1
	stray := of("nowhere", "stray", 1, 1)
	s := &solver.Snapshot{
		TotalNodes: 16, Groups: []solver.Group{{ID: "d", Quota: 9}, {ID: "a", ParentID: "d", Limit: new(6), Quota: 5}},
		Jobs: []solver.Job{bad, of("a", "a2", 2, 0), of("a", "a1", 1, 0), stray},
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
			t.Errorf("group %s holds %d nodes; want 6", g.ID, g.Nodes)
		}
	}
}

package elastalloc_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/solvertest"
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

// TestLimitsHold checks on drawn snapshots that no decision breaks a limit, whoever makes
// it, that what is reported of groups is so, and that it is said of every waiting job why.
func TestLimitsHold(t *testing.T) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
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

package solver_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
)

// paths returns what the violations name.
func paths(bad []solver.Violation) []string {
	var list []string
	for _, v := range bad {
		list = append(list, v.Path)
	}
	return list
}

// TestValidateReportsEverything sets every field to something bad in one snapshot.
func TestValidateReportsEverything(t *testing.T) {
	s := solvertest.NewJobs(6)
	s.TotalNodes = -1
	s.Horizon = solver.Horizon{Step: -time.Second, Steps: 25}
	s.Jobs[0] = solver.Job{ // Everything is bad, including what is just unset.
		MinNodes: 0, MaxNodes: -1, CurrentNodes: -2, TrainingTime: -1, Weight: new(math.NaN()), ResizeDelay: -1,
		AllowedNodes: []int{0, 2, 2, 1},
		Scaling:      solver.Scaling{Speeds: []float64{0, math.NaN(), math.Inf(1), -1, 1}},
	}
	s.Jobs[2].ID = "job-1"
	s.Jobs[3].MinNodes, s.Jobs[3].MaxNodes = 5, 7 // without a power of two
	s.Jobs[4].Scaling = solver.Scaling{Speeds: []float64{1, 2}}
	s.Jobs[5].MaxNodes = 100
	for k := 1; k <= 33; k++ {
		s.Jobs[5].AllowedNodes = append(s.Jobs[5].AllowedNodes, k)
	}
	want := []solver.Violation{
		{Path: "total_nodes", Description: "is -1; must be at least 0"},
		{Path: "horizon.step", Description: "is -1s; must be greater than 0"},
		{Path: "horizon.steps", Description: "is 25; must be 1 to 24"},
		{Path: "jobs[0].id", Description: "is empty; every job needs an id"},
		{Path: "jobs[0].remaining_eta", Description: "is 0s; must be greater than 0"},
		{Path: "jobs[0].min_nodes", Description: "is 0; must be at least 1"},
		{Path: "jobs[0].max_nodes", Description: "is -1; must be at least min_nodes (0)"},
		{Path: "jobs[0].current_nodes", Description: "is -2; must be at least 0"},
		{Path: "jobs[0].training_time", Description: "is -1ns; must be at least 0"},
		{Path: "jobs[0].allowed_nodes[0]", Description: "is 0; must be at least 1"},
		{Path: "jobs[0].allowed_nodes[2]", Description: "is 2 after 2; sizes must be ascending and unique"},
		{Path: "jobs[0].allowed_nodes[3]", Description: "is 1 after 2; sizes must be ascending and unique"},
		{Path: "jobs[0].scaling.table.speeds[0]", Description: "is 0; must be greater than 0 and at most 1e+09"},
		{Path: "jobs[0].scaling.table.speeds[1]", Description: "is NaN; must be greater than 0 and at most 1e+09"},
		{Path: "jobs[0].scaling.table.speeds[2]", Description: "is +Inf; must be greater than 0 and at most 1e+09"},
		{Path: "jobs[0].scaling.table.speeds[3]", Description: "is -1; must be greater than 0 and at most 1e+09"},
		{Path: "jobs[0].weight", Description: "is NaN; must be 0 to 1e+12"},
		{Path: "jobs[0].resize_delay", Description: "is -1ns; must be at least 0"},
		{Path: "jobs[2].id", Description: `is "job-1" like jobs[1].id; ids must be unique`},
		{Path: "jobs[3].allowed_nodes", Description: "is unset, which means the powers of two, and none is within " +
			"[min_nodes, max_nodes] = [5, 7]; must be set"},
		{Path: "jobs[4].scaling.table.speeds", Description: "has 2 speeds; must have 5, one per legal size"},
		{Path: "jobs[5].allowed_nodes", Description: "has 33 sizes within [min_nodes, max_nodes]; must have at most 32"},
	}
	if diff := cmp.Diff(want, s.Validate(solver.DefaultMaxJobs)); diff != "" {
		t.Errorf("Validate() (-want +got):\n%s", diff)
	}
}

func TestInvalidErrorNamesEveryField(t *testing.T) {
	err := &solver.InvalidError{Violations: []solver.Violation{
		{Path: "total_nodes", Description: "is -1; must be at least 0"},
		{Path: "jobs[3].id", Description: "is empty; every job needs an id"},
	}}
	want := "invalid request: total_nodes: is -1; must be at least 0; jobs[3].id: is empty; every job needs an id"
	if err.Error() != want {
		t.Errorf("Error() = %q; want %q", err, want)
	}
}

func TestValidateOneField(t *testing.T) {
	tests := []struct {
		name   string
		change func(*solver.Snapshot)
		want   string // path of the only bad field; empty if valid
	}{
		{"nothing", func(*solver.Snapshot) {}, ""},
		{"no jobs", func(s *solver.Snapshot) { s.Jobs = nil }, ""},
		{"no nodes", func(s *solver.Snapshot) { s.TotalNodes = 0 }, ""},
		{"as many jobs as allowed", func(s *solver.Snapshot) { *s = *solvertest.NewJobs(3) }, ""},
		{"a job too many", func(s *solver.Snapshot) { *s = *solvertest.NewJobs(4) }, "jobs"},
		{"no step", func(s *solver.Snapshot) { s.Horizon.Step = 0 }, "horizon.step"},
		{"the longest ids", func(s *solver.Snapshot) { s.ID, s.Jobs[1].ID = strings.Repeat("x", 256), strings.Repeat("y", 256) }, ""},
		{"a long name", func(s *solver.Snapshot) { s.ID = strings.Repeat("x", 257) }, "id"},
		{"a long id", func(s *solver.Snapshot) { s.Jobs[1].ID = strings.Repeat("x", 257) }, "jobs[1].id"},
		{"a long group", func(s *solver.Snapshot) { s.Jobs[1].GroupID = strings.Repeat("x", 257) }, "jobs[1].group_id"},
		{"a long id of a group", func(s *solver.Snapshot) { s.Groups = []solver.Group{{ID: strings.Repeat("x", 257)}} }, "groups[0].id"},
		{"a long parent", func(s *solver.Snapshot) { s.Groups = []solver.Group{{ID: "g", ParentID: strings.Repeat("x", 257)}} },
			"groups[0].parent_id"},
		{"no steps", func(s *solver.Snapshot) { s.Horizon.Steps = 0 }, "horizon.steps"},
		{"as many steps as allowed", func(s *solver.Snapshot) { s.Horizon.Steps = 24 }, ""},
		{"shortest ETA", func(s *solver.Snapshot) { s.Jobs[1].RemainingETA = 1 }, ""},
		{"longest ETA", func(s *solver.Snapshot) { s.Jobs[1].RemainingETA = math.MaxInt64 }, ""},
		{"negative ETA", func(s *solver.Snapshot) { s.Jobs[1].RemainingETA = -1 }, "jobs[1].remaining_eta"},
		{"a minimum above the pool", func(s *solver.Snapshot) { s.Jobs[1].MinNodes = 16 }, ""},
		{"a minimum above the maximum", func(s *solver.Snapshot) { s.Jobs[1].MinNodes = 17 }, "jobs[1].max_nodes"},
		{"an illegal current size", func(s *solver.Snapshot) { s.Jobs[1].CurrentNodes = 3 }, ""},
		{"more current nodes than the pool", func(s *solver.Snapshot) { s.Jobs[1].CurrentNodes = 99 }, ""},
		{"explicit sizes", func(s *solver.Snapshot) { s.Jobs[1].AllowedNodes = []int{1, 7, 99} }, ""},
		{"an empty list of sizes", func(s *solver.Snapshot) { s.Jobs[1].AllowedNodes = []int{} }, "jobs[1].allowed_nodes"},
		{"sizes above the maximum", func(s *solver.Snapshot) { s.Jobs[1].AllowedNodes = []int{17} }, "jobs[1].allowed_nodes"},
		{"a negative size", func(s *solver.Snapshot) { s.Jobs[1].AllowedNodes = []int{-1, 2} }, "jobs[1].allowed_nodes[0]"},
		{"efficiency 1", func(s *solver.Snapshot) { s.Jobs[1].Scaling.DoublingEfficiency = 1 }, ""},
		{"efficiency 0", func(s *solver.Snapshot) { s.Jobs[1].Scaling.DoublingEfficiency = 0 }, "jobs[1].scaling.doubling_efficiency"},
		{
			"efficiency above 1", func(s *solver.Snapshot) { s.Jobs[1].Scaling.DoublingEfficiency = 1.01 },
			"jobs[1].scaling.doubling_efficiency",
		},
		{
			"efficiency not a number", func(s *solver.Snapshot) { s.Jobs[1].Scaling.DoublingEfficiency = math.NaN() },
			"jobs[1].scaling.doubling_efficiency",
		},
		{"a speed per legal size", func(s *solver.Snapshot) { s.Jobs[1].Scaling.Speeds = []float64{1, 2, 3, 4, 5} }, ""},
		{
			"a speed too large", func(s *solver.Snapshot) {
				s.Jobs[1].Scaling.Speeds = []float64{1, 2, 3, 4, 1.1 * solver.MaxSpeed}
			}, "jobs[1].scaling.table.speeds[4]",
		},
		{
			"a speed per allowed size", func(s *solver.Snapshot) {
				s.Jobs[1].AllowedNodes = []int{4, 99}
				s.Jobs[1].Scaling.Speeds = []float64{1, 2}
			}, "",
		},
		{"weight 0", func(s *solver.Snapshot) { s.Jobs[1].Weight = new(0.0) }, ""},
		{"negative weight", func(s *solver.Snapshot) { s.Jobs[1].Weight = new(-1.0) }, "jobs[1].weight"},
		{"the largest weight", func(s *solver.Snapshot) { s.Jobs[1].Weight = new(solver.MaxWeight + 0.0) }, ""},
		{"a weight above it", func(s *solver.Snapshot) { s.Jobs[1].Weight = new(1.1 * solver.MaxWeight) }, "jobs[1].weight"},
		{"infinite weight", func(s *solver.Snapshot) { s.Jobs[1].Weight = new(math.Inf(1)) }, "jobs[1].weight"},
		{"a delay above the step", func(s *solver.Snapshot) { s.Jobs[1].ResizeDelay = time.Hour }, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := solvertest.NewJobs(2)
			test.change(s)
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if diff := cmp.Diff(want, paths(s.Validate(3))); diff != "" {
				t.Errorf("bad fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValidateNamesTheJob breaks one job of a random snapshot.
func TestValidateNamesTheJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Filter(func(s *solver.Snapshot) bool { return len(s.Jobs) > 0 }).Draw(t, "snapshot")
		i := rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "job")
		s.Jobs[i].Weight = new(-1.0)
		s.Jobs[i].ResizeDelay = -1
		bad := s.Validate(len(s.Jobs))
		want := []string{fmt.Sprintf("jobs[%d].weight", i), fmt.Sprintf("jobs[%d].resize_delay", i)}
		if diff := cmp.Diff(want, paths(bad)); diff != "" {
			t.Fatalf("bad fields (-want +got):\n%s", diff)
		}
	})
}

// TestValidateStopsAtTooManyViolations promises bounded memory on hostile requests.
func TestValidateStopsAtTooManyViolations(t *testing.T) {
	job := solver.NewJob("zeros", time.Hour)
	job.AllowedNodes = make([]int, 100_000)
	s := &solver.Snapshot{Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{job, {}, {}}}
	if got := len(s.Validate(solver.DefaultMaxJobs)); got != solver.MaxViolations {
		t.Errorf("%d violations; want %d", got, solver.MaxViolations)
	}
}

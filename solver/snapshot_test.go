package solver_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestNewJobIsValidAndHasTheDefaults(t *testing.T) {
	job := solver.NewJob("a", time.Hour)
	s := &solver.Snapshot{TotalNodes: 1, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{job}}
	if bad := s.Validate(solver.DefaultMaxJobs); bad != nil {
		t.Errorf("Validate() = %v", bad)
	}
	if !job.Queued() {
		t.Error("a new job is not queued")
	}
	if diff := cmp.Diff([]int{1, 2, 4, 8, 16}, job.LegalSizes()); diff != "" {
		t.Errorf("LegalSizes() (-want +got):\n%s", diff)
	}
	if s.Horizon != (solver.Horizon{Step: 5 * time.Minute, Steps: 5}) {
		t.Errorf("DefaultHorizon() = %+v", s.Horizon)
	}
}

func TestLegalSizes(t *testing.T) {
	tests := []struct {
		name     string
		min, max int
		allowed  []int
		want     []int
	}{
		{name: "powers of two", min: 1, max: 16, want: []int{1, 2, 4, 8, 16}},
		{name: "powers of two within the range", min: 3, max: 31, want: []int{4, 8, 16}},
		{name: "one power of two", min: 64, max: 64, want: []int{64}},
		{name: "no power of two within the range", min: 5, max: 7},
		{name: "explicit sizes", min: 1, max: 16, allowed: []int{1, 3, 12}, want: []int{1, 3, 12}},
		{name: "explicit sizes within the range", min: 3, max: 12, allowed: []int{1, 2, 3, 12, 13}, want: []int{3, 12}},
		{name: "no explicit size within the range", min: 4, max: 11, allowed: []int{1, 3, 12}},
		{name: "the largest range of the API", min: 1 << 30, max: math.MaxInt32, want: []int{1 << 30}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			job := solver.Job{MinNodes: test.min, MaxNodes: test.max, AllowedNodes: test.allowed}
			if diff := cmp.Diff(test.want, job.LegalSizes(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("LegalSizes() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpeed(t *testing.T) {
	efficiency := func(e float64) solver.Job {
		job := solver.NewJob("a", time.Hour)
		job.Scaling.DoublingEfficiency = e
		return job
	}
	table := func(smallest, largest int, allowed []int, speeds ...float64) solver.Job {
		return solver.Job{
			MinNodes: smallest, MaxNodes: largest, AllowedNodes: allowed, Scaling: solver.Scaling{Speeds: speeds},
		}
	}
	tests := []struct {
		name string
		job  solver.Job
		want map[int]float64 // speed by nodes
	}{
		{
			name: "the paper's speeds", job: efficiency(0.8),
			want: map[int]float64{0: 0, 1: 1, 2: 1.6, 4: 2.56, 8: 4.096, 16: 6.5536},
		},
		{
			name: "nodes between the powers of two and beyond the range", job: efficiency(0.8),
			want: map[int]float64{3: 3 * math.Pow(0.8, math.Log2(3)), 32: 10.48576, -1: 0},
		},
		{
			name: "ideal scaling", job: efficiency(1),
			want: map[int]float64{1: 1, 3: 3, 16: 16},
		},
		{
			name: "more nodes do not help", job: efficiency(0.5),
			want: map[int]float64{1: 1, 3: 1, 16: 1},
		},
		{
			name: "a table of the powers of two", job: table(1, 4, nil, 1, 1.9, 3.5),
			want: map[int]float64{0: 0, 1: 1, 2: 1.9, 3: 1.9, 4: 3.5, 100: 3.5},
		},
		{
			name: "a table of legal sizes among the allowed", job: table(2, 6, []int{1, 2, 6, 8}, 1.5, 4),
			want: map[int]float64{0: 0, 1: 0, 2: 1.5, 5: 1.5, 6: 4, 8: 4},
		},
		{
			name: "a table of all allowed sizes", job: table(2, 6, []int{1, 2, 6, 8}, 1, 1.5, 4, 5),
			want: map[int]float64{0: 0, 1: 1, 2: 1.5, 6: 4, 7: 4, 8: 5, 9: 5},
		},
		{
			name: "a table that falls", job: table(1, 2, nil, 2, 1.5),
			want: map[int]float64{1: 2, 2: 1.5, 3: 1.5},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for nodes, want := range test.want {
				if got := test.job.Speed(nodes); math.Abs(got-want) > 1e-12 {
					t.Errorf("Speed(%d) = %v; want %v", nodes, got, want)
				}
			}
		})
	}
}

func TestEveryLegalSizeTrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, job := range solvertest.Snapshots().Draw(t, "snapshot").Jobs {
			for _, k := range job.LegalSizes() {
				if speed := job.Speed(k); !(speed > 0) || math.IsInf(speed, 1) {
					t.Fatalf("Speed(%d) = %v of %+v", k, speed, job)
				}
			}
		}
	})
}

// TestDemand checks what a remaining ETA on several nodes means on one.
func TestDemand(t *testing.T) {
	table := solver.Job{
		RemainingETA: time.Hour, AllowedNodes: []int{2, 8}, MaxNodes: 8, MinNodes: 2, Scaling: solver.Scaling{Speeds: []float64{2, 6}},
	}
	curve, steep := solver.NewJob("", time.Hour), table
	steep.Scaling.Speeds = []float64{1e-300, 1e9}
	for _, test := range []struct {
		name     string
		job      solver.Job
		etaNodes int
		want     float64 // hours on one node
	}{
		{"unset", curve, 0, 1},
		{"one node", curve, 1, 1},
		{"eight nodes of a curve", curve, 8, 4.096},
		{"three nodes, an illegal size", curve, 3, math.Pow(3, 1+math.Log2(0.8))},
		{"unset with a table that begins at two", table, 0, 1},
		{"a size of the table", table, 8, 6},
		{"the middle of two sizes, in logarithms", table, 4, math.Sqrt(2 * 6)},
		{"the middle of two speeds, the quotient of which is no number", steep, 4, math.Sqrt(1e-300) * math.Sqrt(1e9)},
	} {
		job := test.job
		job.ETANodes = test.etaNodes
		if got := job.Demand() / 3600; math.Abs(got-test.want) > 1e-12*test.want {
			t.Errorf("%s: the demand is %v h; want %v", test.name, got, test.want)
		}
	}
}

// TestAdmissionTakesTheSmallestSize ties the size that admission reckons with to the
// first of the legal ones: a job is admitted where exactly that fits, and not below.
func TestAdmissionTakesTheSmallestSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		for i := range s.Jobs {
			job := s.Jobs[i]
			smallest := job.LegalSizes()[0]
			for pool, want := range map[int]int{smallest: 1, smallest - 1: 0} {
				alone := &solver.Snapshot{TotalNodes: pool, Horizon: s.Horizon, Jobs: []solver.Job{job}}
				if got := len(problem.NewProblem(alone, solver.AdmissionFIFO).Jobs); got != want {
					t.Fatalf("%d jobs admitted to %d nodes where the smallest size is %d; want %d", got, pool, smallest, want)
				}
			}
		}
	})
}

// TestFreezeKeepsWrongTotals checks that node types whose sum is wrong stay invalid if a frozen job occupies nodes.
func TestFreezeKeepsWrongTotals(t *testing.T) {
	for _, test := range []struct {
		total int
		types []int
		valid bool
	}{
		{0, []int{4}, true}, {4, []int{4}, true}, {2, []int{4}, false}, {6, []int{4, 1}, false},
		{0, []int{solver.MaxNodes, 1}, false}, {0, []int{solver.MaxNodes}, true},
	} {
		s := &solver.Snapshot{TotalNodes: test.total, Jobs: []solver.Job{{ID: "kept", Keep: true, CurrentNodes: 4, CurrentNodeType: "0"}}}
		for n, nodes := range test.types {
			s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: strconv.Itoa(n), Nodes: nodes})
		}
		rest, _ := s.WithDefaults().Freeze(true)
		if bad := rest.Validate(10); (len(bad) == 0) != test.valid {
			t.Errorf("%d nodes of types with %v: violations %v", test.total, test.types, bad)
		}
	}
}

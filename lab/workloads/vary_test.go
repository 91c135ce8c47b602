package workloads

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
)

func variedTrace(t *testing.T, variations ...Variation) sim.Trace {
	t.Helper()
	trace := syntheticTrace(t, Heterogeneous, 3)
	varied, err := Vary(trace, variations, 5, sim.DefaultGPUsPerNode)
	if err != nil {
		t.Fatal(err)
	}
	return varied
}

// TestVary checks the random values of each variation on 1,252 jobs.
func TestVary(t *testing.T) {
	count := func(trace sim.Trace, is func(*sim.TraceJob) bool) float64 {
		n := 0
		for i := range trace {
			if is(&trace[i]) {
				n++
			}
		}
		return float64(n) / float64(len(trace))
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want-0.05 || got > want+0.05 {
			t.Errorf("%s: the share of jobs is %.2f; want about %.2f", what, got, want)
		}
	}
	all := variedTrace(t, VaryWeightsAscending, VaryEfficiencies, VaryMinimums)
	for _, weight := range []float64{1, 2, 4, 8} {
		is := func(j *sim.TraceJob) bool { return j.Weight == weight }
		near("drawn", count(variedTrace(t, VaryWeights), is), 0.25)
		near("rising", count(all, is), 0.25)
	}
	near("below the middle",
		count(all, func(j *sim.TraceJob) bool { return j.DoublingEfficiency >= 0.6 && j.DoublingEfficiency < 0.775 }), 0.5)
	near("above the middle",
		count(all, func(j *sim.TraceJob) bool { return j.DoublingEfficiency >= 0.775 && j.DoublingEfficiency <= 0.95 }), 0.5)
	near("inelastic", count(all, func(j *sim.TraceJob) bool { return j.MinNodes > 0 && j.MinNodes == j.MaxNodes }), 0.2)
	near("with a minimum", count(all, func(j *sim.TraceJob) bool { return j.MinNodes > 1 && j.MaxNodes == 0 }), 0.4)

	for variation, share := range map[Variation]float64{VaryRigidHalf: 0.5, VaryRigidMost: 0.8} {
		requested := func(j *sim.TraceJob) bool {
			return j.MinNodes == j.MaxNodes && j.MinNodes == max(1, (j.GPUs+sim.DefaultGPUsPerNode-1)/sim.DefaultGPUsPerNode)
		}
		near(string(variation), count(variedTrace(t, variation), requested), share)
	}

	// Ascending by size: no job with a larger weight has a smaller demand.
	for _, trace := range []sim.Trace{all, variedTrace(t, VaryWeightsDescending)} {
		bySize := slices.Clone(trace)
		slices.SortFunc(bySize, func(a, b sim.TraceJob) int {
			return int(a.RemainingDemand(0, sim.DefaultGPUsPerNode) - b.RemainingDemand(0, sim.DefaultGPUsPerNode))
		})
		if trace[0].Weight != all[0].Weight {
			slices.Reverse(bySize)
		}
		if !slices.IsSortedFunc(bySize, func(a, b sim.TraceJob) int { return int(a.Weight - b.Weight) }) {
			t.Error("the weights do not follow the sizes")
		}
	}

	// Combined variations have the same random values as single ones.
	alone := variedTrace(t, VaryMinimums)
	for i := range all {
		if all[i].MinNodes != alone[i].MinNodes || all[i].MaxNodes != alone[i].MaxNodes {
			t.Fatalf("job %d: the minimums depend on the other variations", i)
		}
	}
	if diff := cmp.Diff(all, variedTrace(t, VaryMinimums, VaryEfficiencies, VaryWeightsAscending)); diff != "" {
		t.Errorf("the order of variations matters:\n%s", diff)
	}
}

func TestVaryErrors(t *testing.T) {
	for want, variations := range map[string][]Variation{
		`unknown variation "colors"`: {"colors"},
		"one that sets weights":      {VaryWeights, VaryWeightsAscending},
		"one that sets sizes":        {VaryRigidMost, VaryMinimums},
	} {
		if _, err := Vary(nil, variations, 1, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want one with %q", err, want)
		}
	}
}

// TestRigidTables checks that a pinned job keeps the speed of its table.
func TestRigidTables(t *testing.T) {
	trace, err := sim.ReadTrace(strings.NewReader("job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,3600,3,1 3 6,1 2.2 3.1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		varied, err := Vary(trace, []Variation{VaryRigidMost}, seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(varied[0].AllowedNodes) == 3 {
			continue
		}
		if diff := cmp.Diff(sim.Shape{AllowedNodes: []int{3}, Speeds: []float64{2.2}}, varied[0].Shape); diff != "" {
			t.Errorf("a pinned job (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("no seed pins the job")
}

// TestRigidJobsAmongSizes checks that jobs with sizes of the trace either have the legal size closest to their request, from
// below if possible, or keep their sizes.
func TestRigidJobsAmongSizes(t *testing.T) {
	for columns, fixed := range map[string]int{"1,2,8": 2, "3,2,8": 3, "8,2,8": 8, "16,2,8": 8, "16,2,6": 4, "16,,8": 8, "2,,": 2} {
		trace, err := sim.ReadTrace(strings.NewReader("job_id,submit_s,duration_s,gpus,min_nodes,max_nodes\na,0,3600," + columns + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		counts := make(map[bool]int)
		for seed := range uint64(20) {
			varied, err := Vary(trace, []Variation{VaryRigidMost}, seed, 1)
			if err != nil {
				t.Fatal(err)
			}
			kept := cmp.Equal(varied[0].Shape, trace[0].Shape)
			counts[kept]++
			if want := (sim.Shape{MinNodes: fixed, MaxNodes: fixed}); !kept && !cmp.Equal(varied[0].Shape, want) {
				t.Errorf("%s: the job has %+v; want %+v or what it had", columns, varied[0].Shape, want)
			}
		}
		if counts[true] == 0 || counts[false] <= counts[true] {
			t.Errorf("%s: %d of 20 jobs are fixed; want about 16", columns, counts[false])
		}
	}
}

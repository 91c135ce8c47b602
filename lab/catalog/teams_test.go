package catalog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// inTeam assigns a job to a team.
func inTeam(team string, job sim.WorkloadJob) sim.WorkloadJob {
	job.Group = team
	return job
}

// TestPartitionsAreNotShared checks that the nodes of a team without jobs stay idle, and that a partition
// is the share of the team's quota.
func TestPartitionsAreNotShared(t *testing.T) {
	config := sim.DefaultConfig(16)
	config.Groups = []solver.Group{{ID: "a", Quota: 1}, {ID: "b", Quota: 1}}
	result := run(t, policy(t, Partitions), config,
		inTeam("a", job("1", 0, 409600*time.Millisecond)), inTeam("a", job("2", 300*second, second)))
	if got := times(result.Jobs[0]); got != [2]int64{0, 100} { // 8 nodes train 4.096 times as fast
		t.Errorf("start and end are %v; want 0 and 100", got)
	}
	// 8 of 16 nodes in the 101 seconds in which a job is present.
	if result.Utilization != 0.5 {
		t.Errorf("the utilization is %v; want a half", result.Utilization)
	}
	if result.Jobs[0].Alone != sim.WholeSeconds(sim.Scale(409600*time.Millisecond, 1/6.5536)) {
		t.Errorf("without other jobs it takes %v; want the time in the whole pool", result.Jobs[0].Alone)
	}
}

// fastAndSlow returns two node types with a number of nodes each.
func fastAndSlow(nodes int) []solver.NodeType {
	return []solver.NodeType{{ID: "fast", Nodes: nodes, Speed: 2}, {ID: "slow", Nodes: nodes, Speed: 1}}
}

// partOf returns the configuration of a team alone on the nodes of its quota, of each type if there are types.
func partOf(config sim.Config, nodes int) sim.Config {
	part := config
	part.Nodes, part.Groups, part.Resized = nodes, nil, nil
	if config.NodeTypes != nil {
		part.NodeTypes, part.Nodes = fastAndSlow(nodes), 2*nodes
	}
	for _, change := range config.Resized {
		part.Resized = append(part.Resized, sim.NodesAt{At: change.At, Nodes: change.Nodes * nodes / config.Nodes})
	}
	return part
}

// TestPartitionsEqualRunsAlone compares the policies with partitions with runs of each team alone on its nodes, because
// teams do not affect each other.
func TestPartitionsEqualRunsAlone(t *testing.T) {
	alone := map[string]string{Partitions: "total-time-open", "fifo-partitions": "fifo", TeamTypePartitions: TypePartitions}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{Partitions, "fifo-partitions", TeamTypePartitions}).Draw(t, "policy")
		onTypes := name == TeamTypePartitions || name == Partitions && rapid.Bool().Draw(t, "on types")
		config := sim.DefaultConfig(rapid.IntRange(2*maxMinNodes, 24).Draw(t, "nodes"))
		config.Frequency = time.Duration(rapid.IntRange(1, 60).Draw(t, "frequency")) * time.Second
		config.RestartTime = time.Duration(rapid.IntRange(0, 20).Draw(t, "restart")) * time.Second
		// Quotas of whole nodes, so that a part has as many nodes as its quota.
		quotas := map[string]int{"a": rapid.IntRange(1, config.Nodes-2).Draw(t, "quota of a")}
		quotas["b"] = rapid.IntRange(1, config.Nodes-1-quotas["a"]).Draw(t, "quota of b")
		quotas["c"] = config.Nodes - quotas["a"] - quotas["b"]
		for _, id := range []string{"a", "b", "c"} {
			config.Groups = append(config.Groups, solver.Group{ID: id, Quota: quotas[id]})
		}
		if onTypes {
			config.NodeTypes, config.Nodes = fastAndSlow(config.Nodes), 2*config.Nodes
		} else if rapid.Bool().Draw(t, "the pool changes") {
			config.Resized = []sim.NodesAt{{At: 50 * time.Second, Nodes: config.Nodes / 2}, {At: 100 * time.Second, Nodes: config.Nodes}}
		}
		w := randomWorkload(t)
		if err := find(t, name).Check(&w, &config); err != nil {
			return // A partition is too small.
		}
		got, err := find(t, name).Run(t.Context(), w, config, newAllocator())
		if errors.Is(err, sim.ErrStalled) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]sim.JobResult)
		for id, nodes := range quotas {
			part := sim.Workload{Jobs: slices.DeleteFunc(slices.Clone(w.Jobs), func(j sim.WorkloadJob) bool { return j.Group != id })}
			result, err := find(t, alone[name]).Run(t.Context(), part, partOf(config, nodes), newAllocator())
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range result.Jobs {
				want[job.ID] = job
			}
		}
		for _, job := range got.Jobs {
			if diff := cmp.Diff(want[job.ID], job, cmpopts.IgnoreFields(sim.JobResult{}, "Ideal", "Alone")); diff != "" {
				t.Errorf("%s: job %s (-alone +got):\n%s", name, job.ID, diff)
			}
		}
	})
}

func TestSuitsTeams(t *testing.T) {
	big := inTeam("b", job("big", 0, time.Hour))
	big.MinNodes = 4
	w := sim.Workload{Name: "w", Jobs: []sim.WorkloadJob{inTeam("a", job("small", 0, time.Hour)), big}}
	groups := func(a, b int) []solver.Group { return []solver.Group{{ID: "a", Quota: a}, {ID: "b", Quota: b}} }
	for want, test := range map[string]struct {
		policy string
		groups []solver.Group
	}{
		"the policy static-partitions needs teams":                        {Partitions, nil},
		"quotas: their sum is 0":                                          {"total-time-usage", groups(0, 0)},
		`job "big" of w has the group "b", which is none of the teams`:    {"total-time", groups(1, 1)[:1]},
		"0 teams have a quota":                                            {Partitions, groups(0, 0)},
		`job "small" of w needs at least 1 nodes; the partition of a has`: {Partitions, groups(0, 8)},
		`job "big" of w needs at least 4 nodes; the partition of b has 2`: {Partitions, groups(6, 2)},
	} {
		config := sim.DefaultConfig(8)
		config.Groups = test.groups
		_, err := find(t, test.policy).Run(t.Context(), w, config, newAllocator())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want one with %q", err, want)
		}
	}
}

// TestWeighted checks the weights that represent teams.
func TestWeighted(t *testing.T) {
	heavy := inTeam("b", job("3", 0, time.Hour))
	heavy.Weight = 3
	config := sim.DefaultConfig(8)
	config.Groups = []solver.Group{{ID: "a", Quota: 6}, {ID: "b", Quota: 0}}
	var got []float64
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		if len(s.Groups) > 0 {
			t.Error("the snapshot has teams")
		}
		for i := range s.Jobs {
			got = append(got, s.Jobs[i].WeightOrDefault())
		}
	}
	run(t, policy(t, "total-time-weights"), config, inTeam("a", job("1", 0, time.Second)), inTeam("a", job("2", 0, time.Hour)), heavy)
	// Both jobs are active at second 0. The first has completed by second 2.
	if diff := cmp.Diff([]float64{3, 3, 3, 6, 3}, got[:5]); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}

// TestUsage checks the weights of total-time-usage. Team a occupies 4 nodes from second 0 to its completion at second
// 4000, and team b 2 nodes from second 1001 on. Nodes since t seconds count n (1 - 2^(-t / half-life)), apart from a constant.
func TestUsage(t *testing.T) {
	rigid := func(j sim.WorkloadJob, nodes int) sim.WorkloadJob {
		j.AllowedNodes, j.Speeds = []int{nodes}, []float64{1}
		return j
	}
	config := sim.DefaultConfig(8)
	config.Groups = []solver.Group{{ID: "a", Quota: 3}, {ID: "b", Quota: 1}}
	config.UsageHalfLife = 1000 * second
	decayed := func(since, until, now float64) float64 {
		return math.Exp2(-(now-min(now, until))/1000) - math.Exp2(-(now-min(now, since))/1000)
	}
	last := 0.0
	config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
		at, err := time.ParseDuration(strings.TrimPrefix(s.ID, "test@"))
		if err != nil {
			t.Fatal(err)
		}
		last = at.Seconds()
		a, b := 4*decayed(0, 4000, last), 2*decayed(1001, 1e9, last)
		want := map[string]float64{"a": 2 * 0.75 * (a + b) / a, "b": min(2*0.25*(a+b)/b, 2*4)}
		if last == 0 {
			want["a"] = 2
		}
		for i := range s.Jobs {
			if got, want := s.Jobs[i].WeightOrDefault(), min(want[s.Jobs[i].GroupID], 8); math.Abs(got-want) > 1e-9 {
				t.Errorf("at second %v, the weight of a job of %s is %v; want %v", last, s.Jobs[i].GroupID, got, want)
			}
		}
	}
	jobs := []sim.WorkloadJob{inTeam("a", rigid(job("a", 0, 4000*second), 4)), inTeam("b", rigid(job("b", 1000*second, 5000*second), 2))}
	for i := range jobs {
		jobs[i].Weight = 2
	}
	run(t, policy(t, "total-time-usage"), config, jobs...)
	if last < 5700 {
		t.Errorf("the last decision is at second %v", last)
	}
}

// TestWeightsAreNoQuotas checks the table of docs/evaluation/teams.md: the nodes of a long job
// of one team in addition to short jobs of another team, on 16 nodes with a quota of 8 for each team.
func TestWeightsAreNoQuotas(t *testing.T) {
	others := []int{1, 2, 4, 8, 15}
	for _, test := range []struct {
		policy string
		price  *float64
		limit  *int // of the other team
		nodes  []int
	}{
		{"total-time-open", nil, nil, []int{8, 4, 1, 1, 1}},
		{"total-time", new(0.0), nil, []int{8, 4, 1, 1, 1}},
		{"total-time-weights", nil, nil, []int{8, 4, 4, 2, 1}},
		{"total-time", nil, nil, []int{8, 8, 8, 2, 1}},
		{"total-time", new(1.0), nil, []int{8, 8, 8, 8, 1}},
		{"total-time", new(0.0), new(8), []int{8, 8, 8, 8, 8}},
		{"total-time-waiting", new(1.0), nil, []int{8, 8, 8, 8, 2}},
		{"total-time-steady", new(1.0), nil, []int{8, 8, 8, 8, 1}},
	} {
		for n, count := range others {
			config := sim.DefaultConfig(16)
			config.Groups = []solver.Group{{ID: "a", Quota: 8}, {ID: "b", Quota: 8, Limit: test.limit}}
			first := true
			config.Observe = func(_ *solver.Snapshot, d solver.Decision) {
				if got := d.Allocations[0].Nodes; first && got != test.nodes[n] {
					t.Errorf("%s: the long job has %d nodes in addition to %d jobs; want %d", test.policy, got, count, test.nodes[n])
				}
				first = false
			}
			jobs := []sim.WorkloadJob{inTeam("a", job("long", 0, 100*time.Hour))}
			for i := range count {
				jobs = append(jobs, inTeam("b", job(fmt.Sprint("short ", i), 0, time.Hour)))
			}
			p := policy(t, test.policy)
			p.Options.TotalTime.QuotaPrice = test.price
			run(t, p, config, jobs...)
		}
	}
}

package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

const second = time.Second

func newAllocator() audittest.Allocator { return audittest.NewAllocator() }

// policy returns the policy with the given name.
func policy(t rapid.TB, name string) Policy {
	t.Helper()
	return *find(t, name)
}

func find(t rapid.TB, name string) *Policy {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

// job returns a job that takes as long as its estimate.
func job(id string, submit, demand time.Duration) sim.WorkloadJob {
	return sim.WorkloadJob{
		ID: id, Submit: submit, Demand: demand, RequestedNodes: 1, UserEstimate: demand, Fate: sim.OutcomeCompleted, Work: demand,
	}
}

// run simulates a workload with the real allocator.
func run(t rapid.TB, p Policy, config sim.Config, jobs ...sim.WorkloadJob) *sim.Result {
	t.Helper()
	result, err := p.Run(context.Background(), sim.Workload{Name: "test", Jobs: jobs}, config, newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// times returns the start and completion times of a job, in seconds.
func times(job sim.JobResult) [2]int64 {
	return [2]int64{int64(job.Start / second), int64(job.End / second)}
}

// checkLegal checks the sizes of a decision, their sum and the limits of groups.
func checkLegal(t rapid.TB, s *solver.Snapshot, d solver.Decision) {
	t.Helper()
	if len(d.Allocations) != len(s.Jobs) {
		t.Fatalf("%d allocations of %d jobs", len(d.Allocations), len(s.Jobs))
	}
	nodes, used := make(map[string]int), make(map[string]int)
	for i, a := range d.Allocations {
		job := &s.Jobs[i]
		sizes := append(job.LegalSizes(), 0, job.CurrentNodes)
		if len(s.NodeTypes) == 0 && !slices.Contains(sizes, a.Nodes) {
			t.Fatalf("job %s has %d nodes; must be one of %v", job.ID, a.Nodes, sizes)
		}
		nodes[a.NodeType] += a.Nodes
		for id := job.GroupID; id != ""; {
			used[id] += a.Nodes
			n := slices.IndexFunc(s.Groups, func(g solver.Group) bool { return g.ID == id })
			if n < 0 {
				break
			}
			id = s.Groups[n].ParentID
		}
	}
	for _, nodeType := range s.NodeTypes {
		if nodes[nodeType.ID] > nodeType.Nodes {
			t.Fatalf("%d of %d nodes of %s are allocated", nodes[nodeType.ID], nodeType.Nodes, nodeType.ID)
		}
	}
	if len(s.NodeTypes) == 0 && nodes[""] > s.TotalNodes {
		t.Fatalf("%d of %d nodes are allocated", nodes[""], s.TotalNodes)
	}
	for _, group := range s.Groups {
		if group.Limit != nil && used[group.ID] > *group.Limit {
			t.Fatalf("group %q has %d nodes; its limit is %d", group.ID, used[group.ID], *group.Limit)
		}
	}
}

// maxMinNodes is the maximum of MinNodes of a random job.
const maxMinNodes = 4

// randomWorkload returns a workload of jobs in the teams a, b and c, which have errors of their ETAs.
func randomWorkload(t *rapid.T) sim.Workload {
	trace := make(sim.Trace, rapid.IntRange(1, 8).Draw(t, "jobs"))
	submit := time.Duration(0)
	for i := range trace {
		trace[i] = sim.TraceJob{
			ID: fmt.Sprint("job ", i), Submit: submit, Duration: time.Duration(rapid.Int64Range(0, int64(3*time.Minute)).Draw(t, "duration")),
			GPUs: rapid.IntRange(1, 200).Draw(t, "GPUs"), Group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "team"),
			Shape: sim.Shape{
				MinNodes: rapid.SampledFrom([]int{0, 1, 2, maxMinNodes}).Draw(t, "min"), MaxNodes: rapid.SampledFrom([]int{0, 4, 8, 32}).Draw(t, "max"),
				Weight: rapid.SampledFrom([]float64{0, 0.5, 8}).Draw(t, "weight"),
			},
		}
		submit += time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "wait"))
	}
	d := sim.Disturbance{BugShare: 0.2, KillShare: 0.2, ETAError: rapid.Float64Range(0, 0.5).Draw(t, "error")}
	return sim.NewWorkload("random", trace, sim.WorkloadOptions{GPUsPerNode: 8}).Disturb(d, rapid.Uint64().Draw(t, "seed"))
}

// randomTeams returns a tree of groups with the teams a, b and c.
func randomTeams(t *rapid.T) []solver.Group {
	upTo12 := func(name string, lowest int) int { return rapid.IntRange(lowest, 12).Draw(t, name) }
	groups := []solver.Group{
		{ID: "a", ParentID: "department", Quota: upTo12("quota", 0)}, {ID: "department", Quota: upTo12("quota", 0)},
		{ID: "b", ParentID: "department", Quota: upTo12("quota", 0)}, {ID: "c", Quota: upTo12("quota", 0)},
	}
	for i := range groups {
		if rapid.Bool().Draw(t, "has a limit") {
			groups[i].Limit = new(upTo12("limit", maxMinNodes))
		}
	}
	return groups
}

// exceptIdeal ignores the times under ideal fair shares.
func exceptIdeal() gocmp.Option { return cmpopts.IgnoreFields(sim.JobResult{}, "Ideal") }

func TestRankByETA(t *testing.T) {
	trained := func(name string) []time.Duration {
		var times []time.Duration
		config := sim.DefaultConfig(1)
		config.Observe = func(s *solver.Snapshot, _ solver.Decision) {
			times = append(times, s.Jobs[0].TrainingTime)
		}
		run(t, policy(t, name), config, job("a", 0, 400*second))
		return times
	}
	if diff := gocmp.Diff([]time.Duration{0, 300 * second}, trained("greedy")); diff != "" {
		t.Errorf("training times of greedy (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]time.Duration{400 * second, 100 * second}, trained("greedy-eta")); diff != "" {
		t.Errorf("training times of greedy-eta (-want +got):\n%s", diff)
	}
}

// TestOptimizes checks which policies are rules without optimization.
func TestOptimizes(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		rule := slices.Contains([]string{
			"greedy", "greedy-eta", "recorded", "fifo", "fifo-backfill", "fifo-partitions",
			"srpt", "max-min", "hesrpt", "hesrpt-event", "borrowing", "borrowing-waiting",
		}, p.Name)
		if p.Optimizes() == rule {
			t.Errorf("%s: Optimizes is %v; TestOptimizes lists the policies without optimization", p.Name, p.Optimizes())
		}
	}
}

// workloadOf returns the workload of a trace in CSV on nodes of one GPU.
func workloadOf(t *testing.T, text string) sim.Workload {
	t.Helper()
	trace, err := sim.ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return sim.NewWorkload("trace", trace, sim.WorkloadOptions{GPUsPerNode: 1})
}

// TestPools checks which pools the policies support.
func TestPools(t *testing.T) {
	small := job("small", 0, time.Minute)
	member := small
	member.Group = "a"
	halves := sim.DefaultConfig(8)
	halves.Placer = noPlace{}
	limited := sim.DefaultConfig(8)
	limited.SizeLimits = []solver.SizeLimit{{Size: 4, Nodes: 4}}
	teams := halves
	teams.Groups = []solver.Group{{ID: "a", Quota: 8}}
	typed := sim.DefaultConfig(8)
	typed.NodeTypes = []solver.NodeType{{ID: "t", Nodes: 8}}
	for _, test := range []struct {
		policy string
		config sim.Config
		job    sim.WorkloadJob
		want   string
	}{
		{"optimal", limited, small, "the policy optimal does not support size limits"},
		{"max-min", limited, small, ""},
		{Partitions, teams, member, "the policy static-partitions does not support machines"},
		{"borrowing", limited, small, "the policy borrowing needs teams"},
		{"sia", limited, small, "the policy sia needs node types"},
		{"total-time", typed, small, ""},
		{"max-min", typed, small, "the policy max-min does not support node types (must be one of " +
			"total-time, total-time-waiting, total-time-steady, static-partitions, total-time-open, total-time-weights, total-time-usage, " +
			"type-partitions, team-type-partitions, type-kept, sia, sia-ramp)"},
		{Recorded, typed, small, `job "small" of w has no start_s; the policy recorded needs it`},
	} {
		w := sim.Workload{Name: "w", Jobs: []sim.WorkloadJob{test.job}}
		err := find(t, test.policy).Check(&w, &test.config)
		if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%s: the error is %v; want %q", test.policy, err, test.want)
		}
	}
}

// noPlace is a Placer that places every job nowhere.
type noPlace struct{}

func (noPlace) Place(_, jobs []sim.PlacedJob) ([]map[string]int, error) {
	return make([]map[string]int, len(jobs)), nil
}

// TestTablesUnderEveryPolicy checks that every policy without teams and node types runs jobs with lists of
// sizes and speeds. Lists that are equivalent to min_nodes, max_nodes and doubling_efficiency have the same
// results. If both are set, the lists are used.
func TestTablesUnderEveryPolicy(t *testing.T) {
	const header = "job_id,submit_s,duration_s,gpus,min_nodes,max_nodes,doubling_efficiency,allowed_nodes,speeds,start_s\n"
	const jobs = "a,0,3600,4,%\nb,60,1200,2,%\nc,120,600,1,%\nd,2000,1800,8,%\n"
	workload := func(shape string) sim.Workload {
		text := strings.ReplaceAll(jobs, "%", shape)
		return workloadOf(t, header+strings.NewReplacer("@a", "0", "@b", "3600", "@c", "3600", "@d", "7200").Replace(text))
	}
	curve, table := workload(",8,0.8,,,9000"), workload("64,128,0.5,1 2 4 8,1 1.6 2.56 4.096,9000")
	other := workload("1,1,,1 3 6,1 2.2 3.1,9000")
	allocator := newAllocator()
	for _, policy := range All() {
		if policy.Pools > AllPools || strings.HasPrefix(policy.Name, "optimal-cbc") || strings.HasPrefix(policy.Name, "optimal-highs") {
			continue
		}
		config := sim.DefaultConfig(8)
		run := func(w sim.Workload) *sim.Result {
			if err := policy.Check(&w, &config); err != nil {
				t.Fatalf("%s: %v", policy.Name, err)
			}
			result, err := policy.Run(t.Context(), w, config, allocator)
			if err != nil {
				t.Fatalf("%s: %v", policy.Name, err)
			}
			return result
		}
		if diff := gocmp.Diff(run(curve).Jobs, run(table).Jobs, cmpopts.EquateNaNs(), exceptIdeal()); diff != "" {
			t.Errorf("%s: results of the curve and an equivalent table differ:\n%s", policy.Name, diff)
		}
		for _, job := range run(other).Jobs {
			for _, period := range job.Nodes {
				if policy.Name != Recorded && period.Nodes != 0 && period.Nodes != 1 && period.Nodes != 3 && period.Nodes != 6 {
					t.Errorf("%s: job %s has %d nodes; its sizes are 1, 3 and 6", policy.Name, job.ID, period.Nodes)
				}
			}
		}
	}
}

func TestRunAll(t *testing.T) {
	trace, err := workloads.Synthetic(workloads.Heterogeneous, 1)
	if err != nil {
		t.Fatal(err)
	}
	workload := sim.NewWorkload("w", trace[:60], sim.WorkloadOptions{GPUsPerNode: sim.DefaultGPUsPerNode}).
		Disturb(sim.Disturbance{ETAError: 0.1, BugShare: 0.15, KillShare: 0.1}, 1)
	var tasks []Task
	for _, nodes := range []int{8, 12} {
		for _, name := range []string{"optimal", "greedy", "srpt", "optimal-preemptive"} {
			tasks = append(tasks, Task{Workload: workload, Policy: policy(t, name), Config: sim.DefaultConfig(nodes)})
		}
	}
	var alone []*sim.Result
	for i, task := range tasks {
		alone = append(alone, run(t, task.Policy, task.Config, task.Workload.Jobs...))
		alone[i].Workload = "w"
	}
	done := 0
	together, err := RunAll(t.Context(), tasks, newAllocator(), 4, func(*sim.Result) { done++ })
	if err != nil {
		t.Fatal(err)
	}
	for _, results := range [][]*sim.Result{alone, together} {
		for _, result := range results {
			for i := range result.Decisions {
				result.Decisions[i].SolveTime = 0
			}
		}
	}
	if diff := gocmp.Diff(alone, together); diff != "" {
		t.Errorf("results (-sequential +concurrent):\n%s", diff)
	}
	if done != len(tasks) {
		t.Errorf("%d runs were reported; want %d", done, len(tasks))
	}
}

func TestRunAllReturnsTheFirstError(t *testing.T) {
	w := sim.Workload{Name: "w", Jobs: []sim.WorkloadJob{job("a", 0, time.Hour)}}
	tasks := slices.Repeat([]Task{{Workload: w, Policy: policy(t, "optimal"), Config: sim.DefaultConfig(4)}}, 5)
	tasks[0].Config.Nodes = 0
	if _, err := RunAll(t.Context(), tasks, newAllocator(), 1, nil); err == nil || !strings.Contains(err.Error(), "nodes: is 0") {
		t.Errorf("the error is %v; want the error of the first task", err)
	}
}

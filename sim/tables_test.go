package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// workloadOf returns the workload of a trace in CSV on nodes of one GPU.
func workloadOf(t *testing.T, text string) Workload {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return NewWorkload("trace", trace, WorkloadOptions{GPUsPerNode: 1})
}

// TestTablesUnderEveryPolicy checks that every policy without teams and node types runs jobs with lists of
// sizes and speeds. Lists that are equivalent to min_nodes, max_nodes and doubling_efficiency have the same
// results. If both are set, the lists are used.
func TestTablesUnderEveryPolicy(t *testing.T) {
	const header = "job_id,submit_s,duration_s,gpus,min_nodes,max_nodes,doubling_efficiency,allowed_nodes,speeds,start_s\n"
	const jobs = "a,0,3600,4,%\nb,60,1200,2,%\nc,120,600,1,%\nd,2000,1800,8,%\n"
	workload := func(shape string) Workload {
		text := strings.ReplaceAll(jobs, "%", shape)
		return workloadOf(t, header+strings.NewReplacer("@a", "0", "@b", "3600", "@c", "3600", "@d", "7200").Replace(text))
	}
	curve, table := workload(",8,0.8,,,9000"), workload("64,128,0.5,1 2 4 8,1 1.6 2.56 4.096,9000")
	other := workload("1,1,,1 3 6,1 2.2 3.1,9000")
	allocator := newAllocator()
	for _, policy := range Policies() {
		if policy.NeedsTeams || policy.NeedsTypes || strings.HasPrefix(policy.Name, "optimal-cbc") || strings.HasPrefix(policy.Name, "optimal-highs") {
			continue
		}
		config := DefaultConfig(8)
		run := func(w Workload) *Result {
			if err := w.CheckPolicy(&policy, &config); err != nil {
				t.Fatalf("%s: %v", policy.Name, err)
			}
			result, err := Run(t.Context(), w, policy, config, allocator)
			if err != nil {
				t.Fatalf("%s: %v", policy.Name, err)
			}
			return result
		}
		if diff := cmp.Diff(run(curve).Jobs, run(table).Jobs, cmpopts.EquateNaNs(), exceptIdeal()); diff != "" {
			t.Errorf("%s: results of the curve and an equivalent table differ:\n%s", policy.Name, diff)
		}
		for _, job := range run(other).Jobs {
			for _, period := range job.Nodes {
				if policy.Name != RecordedPolicy && period.Nodes != 0 && period.Nodes != 1 && period.Nodes != 3 && period.Nodes != 6 {
					t.Errorf("%s: job %s has %d nodes; its sizes are 1, 3 and 6", policy.Name, job.ID, period.Nodes)
				}
			}
		}
	}
}

// TestGPUsAsNodes checks a trace in which a node is a GPU. The maximum size of a job of 64 GPUs without
// max_nodes is 64. Under FIFO with fixed sizes it takes as long as in the trace.
func TestGPUsAsNodes(t *testing.T) {
	w := workloadOf(t, "job_id,submit_s,duration_s,gpus,max_nodes\nlarge,0,3600,64,\nsmall,0,600,1,\ncapped,0,60,64,8\n")
	if cut := w.Cut; cut.Jobs != 0 || cut.GPUs != 0 {
		t.Errorf("%+v is cut; want no cut", cut)
	}
	var sizes []int
	for i := range w.Jobs {
		spec := w.Jobs[i].SnapshotJob()
		sizes = append(sizes, spec.MaxNodes)
	}
	if diff := cmp.Diff([]int{64, 16, 8}, sizes); diff != "" {
		t.Errorf("largest sizes (-want +got):\n%s", diff)
	}
	result, err := Run(t.Context(), w, policy(t, "fifo"), DefaultConfig(80), newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	if took := result.Jobs[0].End - result.Jobs[0].Start; took != time.Hour || result.Jobs[0].Nodes[0].Nodes != 64 {
		t.Errorf("the large job has %v and takes %v; want 64 GPUs for an hour", result.Jobs[0].Nodes, took)
	}
	speeds, err := ReadSpeeds(strings.NewReader("application,node_type,nodes,speed\nbert,a100,1,1\nbert,a100,32,20\n"))
	if err != nil {
		t.Fatal(err)
	}
	applied := NewWorkload("trace", Trace{{ID: "a", Duration: time.Hour, GPUs: 4, Application: "bert"}}, WorkloadOptions{GPUsPerNode: 1, Speeds: speeds})
	if got := applied.Jobs[0].MaxNodes; got != 32 {
		t.Errorf("the maximum size of a job whose application runs on 32 GPUs is %d", got)
	}
	trace := Trace{{ID: "large", Duration: time.Hour, GPUs: 64}}
	if job := SnapshotAt(trace, 100, time.Minute, 1).Jobs[0]; job.CurrentNodes != 64 || job.MaxNodes != 64 {
		t.Errorf("a snapshot has the job on %d nodes of at most %d; want 64", job.CurrentNodes, job.MaxNodes)
	}
}

// TestRigidTables checks that a pinned job keeps the speed of its table.
func TestRigidTables(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader("job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,3600,3,1 3 6,1 2.2 3.1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		varied, err := trace.Vary([]Variation{VaryRigidMost}, seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(varied[0].AllowedNodes) == 3 {
			continue
		}
		if diff := cmp.Diff(Shape{AllowedNodes: []int{3}, Speeds: []float64{2.2}}, varied[0].Shape); diff != "" {
			t.Errorf("a pinned job (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("no seed pins the job")
}

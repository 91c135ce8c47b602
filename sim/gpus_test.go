package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
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
	result, err := policy(t, "fifo").run(t.Context(), w, DefaultConfig(80), newAllocator())
	if err != nil {
		t.Fatal(err)
	}
	if took := result.Jobs[0].End - result.Jobs[0].Start; took != time.Hour || result.Jobs[0].Nodes[0].Nodes != 64 {
		t.Errorf("the large job has %v and takes %v; want 64 GPUs for an hour", result.Jobs[0].Nodes, took)
	}
	speeds := Speeds{
		"bert": {
			Phases: []Phase{
				{Until: 1, Speeds: []solver.TypeSpeed{{NodeType: "a100", Factor: 1,
					AllowedNodes: []int{1, 32}, Scaling: solver.Scaling{Speeds: []float64{1, 20}}}}},
			},
		},
	}
	applied := NewWorkload("trace", Trace{{ID: "a", Duration: time.Hour, GPUs: 4, Application: "bert"}},
		WorkloadOptions{GPUsPerNode: 1, Speeds: speeds})
	if got := applied.Jobs[0].MaxNodes; got != 32 {
		t.Errorf("the maximum size of a job whose application runs on 32 GPUs is %d", got)
	}
	trace := Trace{{ID: "large", Duration: time.Hour, GPUs: 64}}
	if job := SnapshotAt(trace, 100, time.Minute, 1).Jobs[0]; job.CurrentNodes != 64 || job.MaxNodes != 64 {
		t.Errorf("a snapshot has the job on %d nodes of at most %d; want 64", job.CurrentNodes, job.MaxNodes)
	}
}

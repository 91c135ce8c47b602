package elastalloc_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// A scheduler decides in process. Two running jobs and one queued job share 16 nodes. Steps that free
// nodes are first.
func Example() {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	snapshot := &solver.Snapshot{
		TotalNodes: 16,
		Jobs: []solver.Job{
			{ID: "gpt", RemainingETA: 12 * time.Hour, MinNodes: 2, Weight: new(2.0)},
			{ID: "resnet", RemainingETA: 30 * time.Minute, ETANodes: 4, CurrentNodes: 4, RestartTime: time.Minute},
			{ID: "bert", RemainingETA: 40 * time.Hour, ETANodes: 8, CurrentNodes: 8, RestartTime: time.Minute},
		},
	}
	decision, err := allocator.Allocate(context.Background(), snapshot, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range decision.Steps() {
		fmt.Printf("%-6s %d -> %d (%s)\n", step.JobID, step.Current, step.Nodes, step.Change)
	}
	fmt.Println(decision.Report.Reason)
	// Output:
	// bert   8 -> 4 (scale-down)
	// gpt    0 -> 8 (start)
	// optimal
}

// Between two decisions, queued jobs start on the nodes of a completed job.
func ExampleAllocator_FillIdle() {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	decision, err := allocator.FillIdle(context.Background(), &solver.Snapshot{
		TotalNodes: 16,
		Jobs: []solver.Job{
			{ID: "running", RemainingETA: time.Hour, CurrentNodes: 8},
			{ID: "first", RemainingETA: time.Hour, MaxNodes: 4},
			{ID: "second", RemainingETA: time.Hour},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range decision.Allocations {
		fmt.Printf("%-7s %d -> %d\n", a.JobID, a.Current, a.Nodes)
	}
	// Output:
	// running 8 -> 8
	// first   0 -> 4
	// second  0 -> 4
}

// A bad request is one error that names every bad field.
func ExampleAllocator_Allocate_badFields() {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = allocator.Allocate(context.Background(), &solver.Snapshot{
		TotalNodes: -1,
		Jobs:       []solver.Job{{ID: "a"}},
	}, solver.Options{RelativeGap: 2})

	var invalid *solver.InvalidError
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			fmt.Println(v.Path, v.Description)
		}
	}
	// Output:
	// snapshot.total_nodes is -1; must be at least 0
	// snapshot.jobs[0].remaining_eta is 0s; must be greater than 0
	// options.relative_gap is 2; must be at least 0 and less than 1
}

package client_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// TestSteps applies decisions on random snapshots step by step. The jobs never occupy more nodes
// than the pool has or than they occupied before. Finally, each job occupies its allocated nodes.
func TestSteps(t *testing.T) {
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	inProcess := apiconv.InProcess{Allocator: allocator}
	overSubscribed := 0 // snapshots whose pool the order of the response would oversubscribe
	rapid.Check(t, func(rt *rapid.T) {
		s := solvertest.Snapshots().Draw(rt, "snapshot")
		request := apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: solver.Options{
			Admission: rapid.SampledFrom(solver.Admissions()).Draw(rt, "admission"),
			Objective: rapid.SampledFrom([]solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime}).Draw(rt, "objective"),
		}})
		var response interface {
			GetAllocations() []*elastallocv1.Allocation
		}
		if rapid.IntRange(0, 3).Draw(rt, "fill idle") == 0 {
			response, err = inProcess.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: request.GetSnapshot()})
		} else {
			response, err = inProcess.Allocate(t.Context(), request)
		}
		if err != nil {
			rt.Fatal(err)
		}

		occupied, total := make(map[string]int32), int32(0)
		for _, job := range request.GetSnapshot().GetJobs() {
			occupied[job.GetId()] = job.GetCurrentNodes()
			total += job.GetCurrentNodes()
		}
		capacity := max(total, request.GetSnapshot().GetTotalNodes())
		inOrder := total
		for _, a := range response.GetAllocations() {
			inOrder += a.GetNodes() - occupied[a.GetJobId()]
			if inOrder > capacity {
				overSubscribed++
				break
			}
		}
		for _, step := range client.Steps(response) {
			change := step.Nodes - occupied[step.JobID]
			if change == 0 || step.Frees() != (change < 0) {
				rt.Fatalf("step %+v of a job that occupies %d nodes", step, occupied[step.JobID])
			}
			if total += change; total > capacity {
				rt.Fatalf("after %+v the jobs occupy %d of %d nodes", step, total, capacity)
			}
			occupied[step.JobID] = step.Nodes
		}
		for _, a := range response.GetAllocations() {
			if occupied[a.GetJobId()] != a.GetNodes() {
				rt.Fatalf("after all steps, job %s occupies %d nodes; want %d", a.GetJobId(), occupied[a.GetJobId()], a.GetNodes())
			}
		}
	})
	// One run in four of 20 random snapshots has no such snapshot.
	if !t.Failed() && overSubscribed == 0 && testtier.Conformance.Selected() {
		t.Error("no snapshot needs an order of steps")
	}
}

func TestStepsOfNilResponse(t *testing.T) {
	if steps := client.Steps((*elastallocv1.AllocateResponse)(nil)); steps != nil {
		t.Errorf("steps are %v; want none", steps)
	}
}

// TestStepsOfMove checks that a job that moves to another node type is paused before other jobs start.
func TestStepsOfMove(t *testing.T) {
	var got []string
	for _, step := range client.Steps(&elastallocv1.AllocateResponse{Allocations: []*elastallocv1.Allocation{
		{JobId: "new", Nodes: 2, NodeType: "a", Change: elastallocv1.Change_CHANGE_START},
		{JobId: "moved", Nodes: 4, NodeType: "b", Change: elastallocv1.Change_CHANGE_MOVE},
		{JobId: "kept", Nodes: 1, NodeType: "a", Change: elastallocv1.Change_CHANGE_KEEP},
		{JobId: "shrunk", Nodes: 1, NodeType: "b", Change: elastallocv1.Change_CHANGE_SCALE_DOWN},
	}}) {
		got = append(got, fmt.Sprintf("%s %d%s frees: %t", step.JobID, step.Nodes, step.NodeType, step.Frees()))
	}
	want := []string{"moved 0 frees: true", "shrunk 1b frees: true", "new 2a frees: false", "moved 4b frees: false"}
	if !slices.Equal(got, want) {
		t.Errorf("steps are %q; want %q", got, want)
	}
}

// TestSetEstimate checks that a job gets all fields of an estimate.
func TestSetEstimate(t *testing.T) {
	job := &elastallocv1.Job{Id: "a", CurrentNodes: 2}
	client.SetEstimate(job, eta.Estimate{ETA: time.Hour, Nodes: 4, Error: 0.5, Overrun: 1.5, WorkDone: 2 * time.Hour})
	want := &elastallocv1.Job{
		Id: "a", CurrentNodes: 2, RemainingEta: durationpb.New(time.Hour), EtaNodes: new(int32(4)), EtaError: new(0.5),
		Overrun: 1.5, WorkDone: durationpb.New(2 * time.Hour),
	}
	if !proto.Equal(job, want) {
		t.Errorf("the job is %v; want %v", job, want)
	}
}

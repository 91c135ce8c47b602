package client_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// TestSteps carries decisions on random snapshots out, step by step: the jobs never hold
// more than the pool has, or than they held before, and in the end hold what was decided.
func TestSteps(t *testing.T) {
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	inProcess := apiconv.InProcess{Allocator: allocator}
	overSubscribed := 0 // by how many snapshots the order of the answer would be
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

		held, total := make(map[string]int32), int32(0)
		for _, job := range request.GetSnapshot().GetJobs() {
			held[job.GetId()] = job.GetCurrentNodes()
			total += job.GetCurrentNodes()
		}
		most := max(total, request.GetSnapshot().GetTotalNodes())
		inOrder := total
		for _, a := range response.GetAllocations() {
			inOrder += a.GetNodes() - held[a.GetJobId()]
			if inOrder > most {
				overSubscribed++
				break
			}
		}
		for _, step := range client.Steps(response) {
			change := step.Nodes - held[step.JobID]
			if change == 0 || step.Frees() != (change < 0) {
				rt.Fatalf("step %+v of a job that holds %d", step, held[step.JobID])
			}
			if total += change; total > most {
				rt.Fatalf("after %+v the jobs hold %d of %d nodes", step, total, most)
			}
			held[step.JobID] = step.Nodes
		}
		for _, a := range response.GetAllocations() {
			if held[a.GetJobId()] != a.GetNodes() {
				rt.Fatalf("job %s holds %d nodes in the end; want %d", a.GetJobId(), held[a.GetJobId()], a.GetNodes())
			}
		}
	})
	// Among 20 random snapshots, one run in four has none.
	if !t.Failed() && overSubscribed == 0 && testtier.Conformance.Selected() {
		t.Error("no snapshot needed an order at all")
	}
}

func TestStepsOfNothing(t *testing.T) {
	if steps := client.Steps((*elastallocv1.AllocateResponse)(nil)); steps != nil {
		t.Errorf("steps %v of no response", steps)
	}
}

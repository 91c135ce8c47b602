package audit_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestOverfull removes a node of the pool, or of the limit of a group, from under correct responses.
func TestOverfull(t *testing.T) {
	t.Parallel()
	request := readRequest(t, "../examples/teams.json")
	request.Options = &elastallocv1.AllocateOptions{Admission: elastallocv1.Admission_ADMISSION_PREEMPTIVE}
	response := decide(t, request)
	idle := response.GetReport().GetIdleNodes()
	request.Snapshot.TotalNodes -= idle + 1
	response.Report.IdleNodes = -1
	got := audit.Check(t.Context(), request, response, audit.Options{})
	if got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "the pool has") {
		t.Errorf("more nodes than the pool has: %v", got)
	}
	request.Snapshot.TotalNodes += idle + 1
	response.Report.IdleNodes = idle
	for g, of := range response.GetReport().GetGroups() {
		limit := request.Snapshot.Groups[g].Limit
		request.Snapshot.Groups[g].Limit = new(of.GetNodes() - 1)
		got := audit.Check(t.Context(), request, response, audit.Options{})
		if got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "its limit is") {
			t.Errorf("more nodes than the limit of group %q: %v", of.GetId(), got)
		}
		request.Snapshot.Groups[g].Limit = limit
	}
}

// TestStartFirstSkips checks that START_FIRST skips a job that does not fit the limit of its group, and
// that jobs after it must have nodes.
func TestStartFirstSkips(t *testing.T) {
	t.Parallel()
	job := func(id string, weight float64, sizes ...int32) *elastallocv1.Job {
		return &elastallocv1.Job{Id: id, GroupId: "team", RemainingEta: durationpb.New(time.Hour), AllowedNodes: sizes, Weight: &weight}
	}
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			TotalNodes: 8, Groups: []*elastallocv1.Group{{Id: "team", Limit: new(int32(4))}},
			Jobs: []*elastallocv1.Job{job("first", 1, 3, 4), job("skipped", 1, 3), job("behind", 1e-6, 1)},
		},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME, Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
		},
	}
	response := decide(t, request)
	if nodes := response.GetAllocations()[2].GetNodes(); nodes != 1 {
		t.Fatalf("the job behind has %d nodes; want 1", nodes)
	}
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
		t.Error(got)
	}
}

// TestNegativeNodes checks that an allocation with a negative number of nodes is refuted.
func TestNegativeNodes(t *testing.T) {
	t.Parallel()
	start := func(id string, nodes int32, progress float64) *elastallocv1.Allocation {
		return &elastallocv1.Allocation{
			JobId: id, Nodes: nodes, Change: elastallocv1.Change_CHANGE_START, PlannedNodes: []int32{nodes}, PlannedProgress: []float64{progress},
		}
	}
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 1, Horizon: &elastallocv1.Horizon{Steps: new(int32(1))}, Jobs: []*elastallocv1.Job{
			{Id: "borrows", RemainingEta: durationpb.New(time.Hour), MaxNodes: new(int32(2))},
			{Id: "lends", RemainingEta: durationpb.New(time.Hour)},
		}},
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Admission: elastallocv1.Admission_ADMISSION_PREEMPTIVE,
		},
	}
	progress := 1.6 * 300 / 3600
	got := audit.Check(t.Context(), request, &elastallocv1.AllocateResponse{
		Allocations: []*elastallocv1.Allocation{start("borrows", 2, progress), start("lends", -1, 0)},
		Report: &elastallocv1.SolveReport{
			Backend: elastallocv1.Backend_BACKEND_EXACT, Reason: elastallocv1.Reason_REASON_OPTIMAL, Limit: elastallocv1.Limit_LIMIT_NONE,
			Objective: progress, Bound: progress,
		},
	}, audit.Options{})
	if got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "none of its sizes") {
		t.Error(got)
	}
}

package apiconv

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestWhatIf calls WhatIf with messages of the API, with valid and invalid scenarios.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	request := parsed(t, `{
		"snapshot": {"id": "now", "totalNodes": 8, "jobs": [{"id": "a", "remainingEta": "3600s"}, {"id": "b", "remainingEta": "7200s"}]},
		"options": {"timeBudget": "60s"},
		"scenarios": [
			{"name": "as it is"},
			{"name": "more", "totalNodes": 32, "removeJobIds": ["a"], "options": {"includePlan": true, "timeBudget": "60s"}},
			{"name": "bad job", "putJobs": [{"id": "b", "remainingEta": "60s", "maxNodes": 0}]},
			{"name": "bad options", "options": {"timeBudget": "0s"}},
			{"name": "bad pool", "totalNodes": -1}
		]}`, new(elastallocv1.WhatIfRequest))
	response, err := inProcess(t).WhatIf(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	results := response.GetResults()
	if len(results) != 5 || len(response.GetBase().GetAllocations()) != 2 {
		t.Fatalf("response %v", response)
	}
	if r := results[0]; len(r.GetChangedJobIds()) != 0 || r.GetDecision().GetAllocations()[0].GetPlannedNodes() != nil {
		t.Errorf("result %v; want the base decision", r)
	}
	if r := results[1]; len(r.GetChangedJobIds()) != 2 ||
		r.GetDecision().GetAllocations()[0].GetPlannedNodes() == nil || r.GetDecision().GetSnapshotId() != "now" {
		t.Errorf("result %v; want both jobs changed, and the plan", r)
	}
	for n, want := range map[int]string{
		2: "scenarios[2].put_jobs[0].max_nodes", 3: "scenarios[3].options.time_budget", 4: "scenarios[4].total_nodes",
	} {
		s := status.FromProto(results[n].GetError())
		if s.Code() != codes.InvalidArgument || len(s.Details()) != 1 || results[n].GetDecision() != nil {
			t.Fatalf("error %v of scenario %d", s, n)
		}
		fields := s.Details()[0].(*errdetails.BadRequest).GetFieldViolations()
		if len(fields) != 1 || fields[0].GetField() != want {
			t.Errorf("bad fields %v; want %s", fields, want)
		}
	}
}

package audit_test

import (
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestOverfull takes a node of the pool, or of the limit of a group, away from right answers.
func TestOverfull(t *testing.T) {
	t.Parallel()
	request := readRequest(t, "../examples/teams.json")
	request.Options.Admission = elastallocv1.Admission_ADMISSION_PREEMPTIVE
	response := decide(t, request)
	idle := response.GetReport().GetIdleNodes()
	request.Snapshot.TotalNodes -= idle + 1
	response.Report.IdleNodes = -1
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "the pool has") {
		t.Errorf("more nodes than the pool has: %v", got)
	}
	request.Snapshot.TotalNodes += idle + 1
	response.Report.IdleNodes = idle
	for g, of := range response.GetReport().GetGroups() {
		limit := request.Snapshot.Groups[g].Limit
		request.Snapshot.Groups[g].Limit = new(of.GetNodes() - 1)
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Refuted || !strings.Contains(got.Reason, "its limit is") {
			t.Errorf("more nodes than group %q may hold: %v", of.GetId(), got)
		}
		request.Snapshot.Groups[g].Limit = limit
	}
}

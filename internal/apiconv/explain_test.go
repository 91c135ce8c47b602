package apiconv

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestExplain calls Explain with messages of the API.
func TestExplain(t *testing.T) {
	t.Parallel()
	request := parsed(t, `{
		"snapshot": {"totalNodes": 8, "jobs": [
			{"id": "a", "remainingEta": "36000s", "maxNodes": 4, "currentNodes": 4},
			{"id": "b", "remainingEta": "36000s", "minNodes": 4, "currentNodes": 4},
			{"id": "large", "remainingEta": "60s", "minNodes": 16}]},
		"jobIds": ["large", "b"], "options": {"objective": "OBJECTIVE_PROGRESS"}}`, new(elastallocv1.ExplainRequest))
	a := inProcess(t)
	got, err := a.Explain(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetDecision().GetAllocations()) != 3 {
		t.Errorf("decision %v", got.GetDecision())
	}
	want := parsed(t, `{"jobs": [
		{"jobId": "b", "nodes": 4, "why": "WHY_NO_ROOM",
		 "text": "b has 4 nodes: no larger size fits in addition to the smallest sizes of the other jobs; `+
		`it would get 8 with a pool of 10 (a larger one may not help).",
		 "sizes": [{"nodes": 4, "proven": true}], "remedies": [{"totalNodes": 10, "nodes": 8}]},
		{"jobId": "large", "why": "WHY_NEVER_FITS",
		 "text": "large waits: it needs at least 16 nodes, and the pool has 8; it would get 2 with min_nodes 2.",
		 "remedies": [{"minNodes": 2, "nodes": 2}]}]}`, new(elastallocv1.ExplainResponse))
	got.Decision = nil
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	request.JobIds = []string{"a", "ghost"}
	_, err = a.Explain(t.Context(), request)
	if want := `invalid request: job_ids[1]: is "ghost"; must be a job of the snapshot`; err == nil || err.Error() != want {
		t.Errorf("error %v; want %q", err, want)
	}
	request.Options = &elastallocv1.AllocateOptions{TimeBudget: new(durationpb.Duration)}
	_, err = a.Explain(t.Context(), request)
	const both = `invalid request: options.time_budget: is 0s; must be greater than 0; job_ids[1]: is "ghost"; must be a job of the snapshot`
	if err == nil || err.Error() != both {
		t.Errorf("error %v; want %q", err, both)
	}
}

package audit_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestEmptyPool checks that an answer without a plan is not refuted where no job is admitted.
func TestEmptyPool(t *testing.T) {
	t.Parallel()
	request, response := new(elastallocv1.AllocateRequest), new(elastallocv1.AllocateResponse)
	if err := protojson.Unmarshal([]byte(`{"snapshot": {"totalNodes": 0, "jobs": [{"id": "a", "remainingEta": "3600s"}]}}`), request); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal([]byte(`{"allocations": [{"jobId": "a", "change": "CHANGE_WAIT", "waitReason": "WAIT_REASON_NEVER_FITS"}],
		"report": {"backend": "BACKEND_EXACT", "reason": "REASON_OPTIMAL", "limit": "LIMIT_NONE", "warnings": [{"code": "WARNING_CODE_EMPTY_POOL"}]}}`), response); err != nil {
		t.Fatal(err)
	}
	if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
		t.Errorf("the answer is %s: %s", got.Verdict, got.Reason)
	}
}

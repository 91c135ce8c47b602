package apiconv

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestHold checks that a job which the core's types cannot even express is held as one
// that they can.
func TestHold(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := onJob(func(j *elastallocv1.Job) {
		j.RemainingEta, j.MinNodes, j.CurrentNodes = &durationpb.Duration{Seconds: 1e12}, new(int32(0)), 3
	})
	r.Options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_HOLD
	r.Snapshot.Jobs = append(r.Snapshot.Jobs, nil)
	response, err := InProcess{allocator}.Allocate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if nodes := response.GetAllocations()[1].GetNodes(); nodes != 3 {
		t.Errorf("the bad job has %d nodes; want the 3 that it held", nodes)
	}
	if nodes := response.GetAllocations()[0].GetNodes(); nodes != 4 { // Its largest size within 8 - 3.
		t.Errorf("the good job has %d nodes; want 4", nodes)
	}
	var messages []string
	for _, w := range response.GetReport().GetWarnings() {
		if w.GetCode() == elastallocv1.WarningCode_WARNING_CODE_BAD_JOB_HELD {
			messages = append(messages, w.GetMessage())
		}
	}
	if len(messages) != 2 || !strings.Contains(messages[0], "snapshot.jobs[1].remaining_eta: is not a valid duration") ||
		!strings.Contains(messages[0], "snapshot.jobs[1].min_nodes: is 0; want at least 1") ||
		!strings.Contains(messages[1], "snapshot.jobs[2].id: is empty") {
		t.Errorf("warnings %q", messages)
	}
}

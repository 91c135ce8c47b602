package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestLogsHaveNoContent checks that log lines contain only the id of the snapshot and the names of invalid fields
// of a request.
func TestLogsHaveNoContent(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	request := smallRequest()
	for _, job := range request.GetSnapshot().GetJobs() {
		job.Id = "secret-" + job.GetId()
	}
	h.allocate(t, request)
	request.Snapshot.Jobs[1].Id = request.GetSnapshot().GetJobs()[0].GetId()
	if _, err := h.client.Allocate(t.Context(), request); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "secret") {
		t.Fatalf("error is %v; want one that quotes the id", err)
	}
	if h.logs.Line(`"level":"INFO"`, `"snapshot_id":"small"`, `"jobs":2`, "bad fields: snapshot.jobs[1].id") == "" ||
		h.logs.Line("secret") != "" {
		t.Errorf("the log lacks the bad field, or quotes the request:\n%s", h.logs)
	}
}

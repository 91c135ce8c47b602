package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestAudit audits a recording of right answers, with plans and without, and one with an
// answer that says too much.
func TestAudit(t *testing.T) {
	allocator, err := cli.NewInProcess(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded := func(change func(*elastallocv1.AllocateResponse)) string {
		var calls []recording.Entry
		for n := range 6 {
			request := &elastallocv1.AllocateRequest{
				Snapshot: &elastallocv1.Snapshot{Id: "moment", TotalNodes: 11},
				Options:  &elastallocv1.AllocateOptions{IncludePlan: n%2 == 0, Objective: elastallocv1.Objective(n % 3)},
			}
			for i, id := range []string{"a", "b", "c", "d"} {
				request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
					Id: id, CurrentNodes: int32(i), RemainingEta: durationpb.New(time.Duration(100*(i+n+1)) * time.Second),
				})
			}
			response, err := allocator.Allocate(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			change(response)
			calls = append(calls, recording.Entry{Time: time.Date(2026, 11, 2, 9, n, 0, 0, time.UTC), Request: request, Response: response})
		}
		return record(t, calls...)
	}

	stdout := succeed(t, "audit", "--recording", recorded(func(*elastallocv1.AllocateResponse) {}))
	if strings.Join(strings.Fields(stdout), " ") != "DECISIONS CONFIRMED REFUTED OPEN progress, optimal 4 0 0 total-time, optimal 2 0 0 all 6 0 0" {
		t.Errorf("stdout:\n%s", stdout)
	}
	stdout, stderr, status := runWith(t, nil, "audit", "--recording", recorded(func(r *elastallocv1.AllocateResponse) {
		r.Allocations[0].Change = elastallocv1.Change_CHANGE_PREEMPT
	}))
	if status != cli.ExitFailed || !strings.Contains(stderr, "6 decisions refuted") || !strings.Contains(stdout, "CHANGE_PREEMPT") {
		t.Errorf("exit status %d, stderr %q, stdout:\n%s", status, stderr, stdout)
	}
}

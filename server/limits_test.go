package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

// fullRequest returns a request with plans, in which every job has a long id and all fields that schedulers
// set, including five speeds.
func fullRequest(jobs int) *elastallocv1.AllocateRequest {
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{TotalNodes: 1000},
		Options:  &elastallocv1.AllocateOptions{IncludePlan: true, Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
	}
	for i := range jobs {
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, &elastallocv1.Job{
			Id:           fmt.Sprintf("namespace/some-team/some-job-with-a-long-name-%06d", i),
			RemainingEta: durationpb.New(time.Duration(3600+i) * time.Second), CurrentNodes: int32(i % 3), AllowedNodes: []int32{1, 2, 4, 8, 16},
			Scaling: &elastallocv1.Scaling{
				Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: []float64{1, 1.8, 3.1, 5.2, 8.7}}},
			},
			Weight: new(1.5), TrainingTime: durationpb.New(time.Hour),
			WaitingTime: durationpb.New(time.Minute), RestartTime: durationpb.New(time.Minute),
		})
	}
	return request
}

// TestMemoryOfRequests checks the sizes of requests that the API and docs/operators/size-and-upgrade.md state for
// --max-memory, and that a larger request is rejected without a retry delay and with the name of the flag.
func TestMemoryOfRequests(t *testing.T) {
	t.Parallel()
	need := methods(solver.DefaultMaxJobs)["Allocate"].Memory
	check := func(jobs int, maxMemory int64) error {
		message, err := proto.Marshal(fullRequest(jobs))
		if err != nil {
			t.Fatal(err)
		}
		config := DefaultConfig()
		config.Allocator = fakeAllocator(smallest)
		if limit := config.messageBytes(); len(message) > limit {
			t.Errorf("%d jobs have %d bytes; a server accepts %d", jobs, len(message), limit)
		}
		_, err = need.Bytes(need.Size(message), guard.NewMemory(int(maxMemory)).MaxCall()-len(message))
		return err
	}
	for jobs, maxMemory := range map[int]int64{50_000: DefaultConfig().MaxMemory, 100_000: 512 << 20} {
		if err := check(jobs, maxMemory); err != nil {
			t.Errorf("%d jobs within %d MiB: %v", jobs, maxMemory>>20, err)
		}
	}
	var rejected guard.RefusedError
	err := check(100_000, DefaultConfig().MaxMemory)
	if !errors.As(err, &rejected) || rejected.Status.Code() != codes.ResourceExhausted || rejected.RetryAfter >= 0 {
		t.Fatalf("100,000 jobs within the default: %v", err)
	}
	if len(rejected.Status.Details()) > 0 {
		t.Errorf("the error has the details %v; want no RetryInfo", rejected.Status.Details())
	}
	if !strings.Contains(rejected.Error(), "(--max-memory of the server)") {
		t.Errorf("the error is %q; want it to name the flag", rejected.Error())
	}
}

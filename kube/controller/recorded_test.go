package controller

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// halfUp decides and cannot fill.
type halfUp struct{ Allocator }

func (halfUp) Allocate(context.Context, *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	return &elastallocv1.AllocateResponse{SnapshotId: "answered"}, nil
}

func (halfUp) FillIdle(context.Context, *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	return nil, status.Error(codes.Unavailable, "gone")
}

type kept []recording.Entry

func (k *kept) Record(e recording.Entry, _ int) { *k = append(*k, e) }

func TestCallsAreRecorded(t *testing.T) {
	now := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	var entries kept
	r := recorded{halfUp{}, &entries, "pool-a", func() time.Time { return now }}
	request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Id: "s"}}
	if _, err := r.Allocate(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	request.Snapshot.Id = "changed afterwards"
	if _, err := r.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{}); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Fatalf("%d calls are kept; want 2", len(entries))
	}
	decided, failed := entries[0], entries[1]
	if decided.Method != "Allocate" || decided.Caller != "pool-a" || !decided.Time.Equal(now) || decided.Status != nil ||
		!proto.Equal(decided.Request, &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Id: "s"}}) ||
		!proto.Equal(decided.Response, &elastallocv1.AllocateResponse{SnapshotId: "answered"}) {
		t.Errorf("a decision is kept as %+v", decided)
	}
	if failed.Method != "FillIdle" || failed.Response != nil || codes.Code(failed.Status.GetCode()) != codes.Unavailable {
		t.Errorf("a failure is kept as %+v", failed)
	}
}

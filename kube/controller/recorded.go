package controller

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// CallRecorder keeps the calls of loops for elastalloc-lab replay, as *recording.Writer does.
type CallRecorder interface {
	// Record takes a call without waiting for anything.
	Record(e recording.Entry, requestBytes int)
}

// recorded is an allocator whose decisions are kept, under the name of the pool, so that a
// replay can choose one.
type recorded struct {
	Allocator
	recorder CallRecorder
	pool     string
	now      func() time.Time
}

// Allocate decides and keeps the decision.
func (r recorded) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	began := r.now()
	response, err := r.Allocator.Allocate(ctx, request)
	r.record(began, "Allocate", request, response, err)
	return response, err
}

// FillIdle fills idle nodes and keeps what it was told.
func (r recorded) FillIdle(ctx context.Context, request *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	began := r.now()
	response, err := r.Allocator.FillIdle(ctx, request)
	r.record(began, "FillIdle", request, response, err)
	return response, err
}

// record keeps a call. The loop is done with the messages only later, so they are copied.
func (r recorded) record(began time.Time, method string, request, response proto.Message, err error) {
	e := recording.Entry{Time: began, Method: method, Caller: r.pool, Request: proto.Clone(request)}
	if err != nil {
		e.Status = status.Convert(err).Proto()
	} else {
		e.Response = proto.Clone(response)
	}
	r.recorder.Record(e, 16*proto.Size(request)) // Both messages, decoded.
}

package controller

import (
	"context"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// CallRecorder records the calls of loops for elastalloc-lab replay. *recording.Writer implements it.
type CallRecorder interface {
	// Record records a call without blocking.
	Record(e recording.Entry, requestBytes int)
}

// recorded is an allocator that records its calls under the name of the pool.
type recorded struct {
	Allocator
	recorder CallRecorder
	pool     string
	now      func() time.Time
}

// Allocate calls the allocator and records the call.
func (r recorded) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	began := r.now()
	response, err := r.Allocator.Allocate(ctx, request)
	r.record(began, "Allocate", request, response, err)
	return response, err
}

// FillIdle calls the allocator and records the call.
func (r recorded) FillIdle(ctx context.Context, request *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	began := r.now()
	response, err := r.Allocator.FillIdle(ctx, request)
	r.record(began, "FillIdle", request, response, err)
	return response, err
}

// record records a call. It copies the messages because the loop still uses them.
func (r recorded) record(began time.Time, method string, request, response proto.Message, err error) {
	e := recording.Entry{Time: began, Method: method, Caller: r.pool, Request: proto.Clone(request)}
	if err != nil {
		e.Status = status.Convert(err).Proto()
	} else {
		e.Response = proto.Clone(response)
	}
	r.recorder.Record(e, 16*proto.Size(request)) // Both messages, decoded.
}

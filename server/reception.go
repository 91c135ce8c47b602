package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Errors of a request that never came to be one.
var (
	errSlow      = errors.New("the request did not arrive in time")
	errMalformed = errors.New("the message is no elastalloc.v1.AllocateRequest")
)

// frame is a message as it arrived.
type frame struct{ message mem.Buffer }

// unmarshal makes a request of the message, once.
func (f frame) unmarshal(request *elastallocv1.AllocateRequest) error {
	defer f.message.Free()
	if err := proto.Unmarshal(f.message.ReadOnlyData(), request); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

// frameCodec is the codec of Protocol Buffers, but leaves a frame as it is: to gRPC,
// bytes that are no message would be an internal error, and it is for us to say that
// they are the caller's fault.
type frameCodec struct{ encoding.CodecV2 }

func newFrameCodec() frameCodec { return frameCodec{encoding.GetCodecV2(grpcproto.Name)} }

// Unmarshal decodes what was received.
func (c frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.message = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// reception receives requests and has them decided when it is their turn.
type reception struct {
	// timeout is how long a request may take to arrive.
	timeout   time.Duration
	arrivals  *arrivals
	admission *admission
}

// service describes the AllocatorService with a handler that receives the request
// within the interceptors, not before them: so these measure, log and refuse calls
// whose request never comes, is too large, or is none.
func (r *reception) service() *grpc.ServiceDesc {
	service := elastallocv1.AllocatorService_ServiceDesc
	service.Methods = slices.Clone(service.Methods)
	for i := range service.Methods {
		if "/"+service.ServiceName+"/"+service.Methods[i].MethodName == elastallocv1.AllocatorService_Allocate_FullMethodName {
			service.Methods[i].Handler = r.allocate
		}
	}
	return &service
}

// allocate is the handler of Allocate. Its signature is gRPC's.
func (r *reception) allocate(
	server any, ctx context.Context, receive func(any) error, intercept grpc.UnaryServerInterceptor, //nolint:revive // See above.
) (any, error) {
	request := &elastallocv1.AllocateRequest{}
	info := &grpc.UnaryServerInfo{Server: server, FullMethod: elastallocv1.AllocatorService_Allocate_FullMethodName}
	return intercept(ctx, request, info, func(ctx context.Context, _ any) (any, error) {
		if compressed(ctx) {
			return nil, toCallError(ctx, errCompressed)
		}
		message, err := r.receive(ctx, receive)
		if err != nil {
			return nil, toCallError(ctx, err)
		}
		if err := message.unmarshal(request); err != nil {
			return nil, toCallError(ctx, err)
		}
		done, err := r.admission.await(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		return server.(elastallocv1.AllocatorServiceServer).Allocate(ctx, request)
	})
}

// receive waits for a request to arrive, but no longer than the timeout, or than there
// is room: clients that send slowly, or half a request, must not collect. What still
// waits then ends with the call.
func (r *reception) receive(ctx context.Context, receive func(any) error) (frame, error) {
	_, stage := tracing.Start(ctx, tracing.StageReceive)
	defer stage.End()
	crowdedOut, done := r.arrivals.begin()
	defer done()
	var message frame
	received := make(chan error, 1)
	go func() { received <- receive(&message) }()
	timer := time.NewTimer(r.timeout)
	defer timer.Stop()
	select {
	case err := <-received:
		return message, receptionError(err)
	case <-timer.C:
		return frame{}, errSlow
	case <-crowdedOut:
		return frame{}, r.admission.shed(ctx)
	}
}

// receptionError returns what an error of the transport means. What it calls internal
// is none of our bugs but a stream of none or of two messages; gRPC has told the
// caller so, and our metrics and logs shall not tell the operator of a bug.
func receptionError(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	if s.Code() == codes.Internal || s.Code() == codes.Unknown {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return &callError{status: s, cause: err}
}

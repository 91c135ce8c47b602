package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

func TestHugeMessageIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	err := h.conn.Invoke(t.Context(), elastallocv1.AllocatorService_Allocate_FullMethodName,
		make([]byte, 200<<20), nil, grpc.ForceCodecV2(rawCodec{}))
	if s := status.Convert(err); s.Code() != codes.ResourceExhausted || !strings.Contains(s.Message(), "larger than max") {
		t.Errorf("error is %v", err)
	}
	if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil {
		t.Errorf("after a huge message the error is %v", err)
	}
	h.await(t, handledSeries(codes.ResourceExhausted), "1")
}

// TestNoRequestIsTheCallersFault checks that bytes which are no request are not
// called a bug of ours.
func TestNoRequestIsTheCallersFault(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	for name, sent := range map[string][]byte{
		"not a message":     {0xff, 0xff, 0xff},
		"cut short":         {0x0a, 0x7f, 0x01},
		"a bad string":      {0x0a, 0x03, 0x0a, 0x01, 0xff},
		"a group too much":  {0x0c},
		"a zero field":      {0x00, 0x00},
		"a string for jobs": {0x0a, 0x04, 0x22, 0x02, 0xff, 0xff},
	} {
		err := h.conn.Invoke(t.Context(), elastallocv1.AllocatorService_Allocate_FullMethodName, sent, nil, grpc.ForceCodecV2(rawCodec{}))
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	for name, messages := range map[string]int{"no message": 0, "two messages": 2} {
		stream := h.openCall(t)
		for range messages {
			if err := stream.SendMsg(smallRequest()); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		// What gRPC itself calls it is for gRPC to say.
		if err := stream.RecvMsg(&elastallocv1.AllocateResponse{}); err == nil {
			t.Errorf("%s: answered", name)
		}
	}
	h.await(t, handledSeries(codes.InvalidArgument), "8")
	if h.logs.Line(`"level":"ERROR"`) != "" {
		t.Errorf("a caller's fault is logged as an error:\n%s", h.logs)
	}
}

// TestCompressedMessagesAreRefused checks that nothing is decompressed, for any
// service, and that the caller of Allocate reads the code that gRPC has for that.
func TestCompressedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	_, err := h.client.Allocate(t.Context(), smallRequest(), grpc.UseCompressor(gzip.Name))
	_, ofHealth := grpc_health_v1.NewHealthClient(h.conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{Service: "x"}, grpc.UseCompressor(gzip.Name))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("error is %v", err)
	}
	for _, err := range []error{err, ofHealth} {
		if !strings.Contains(status.Convert(err).Message(), "no compressed messages") {
			t.Errorf("error is %v", err)
		}
	}
	h.await(t, handledSeries(codes.Unimplemented), "1")
	if h.logs.Line(`"level":"ERROR"`) != "" {
		t.Errorf("a caller's fault is logged as an error:\n%s", h.logs)
	}
}

// openCall begins a call and sends nothing of its request.
func (h *harness) openCall(t *testing.T) grpc.ClientStream {
	t.Helper()
	stream, err := h.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, elastallocv1.AllocatorService_Allocate_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestRequestsMustArrive checks that a call whose request does not come is ended.
func TestRequestsMustArrive(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.ReceiveTimeout = time.Millisecond })
	stream := h.openCall(t)
	err := stream.RecvMsg(&elastallocv1.AllocateResponse{})
	if s := status.Convert(err); s.Code() != codes.Canceled || s.Message() != errSlow.Error() {
		t.Errorf("the call ends with %v", err)
	}
	h.await(t, handledSeries(codes.Canceled), "1")
}

// TestCallsThatDoNotArriveMakeRoom checks that calls whose requests do not come are
// not taken without end, and that they, not others, are the ones who lose.
func TestCallsThatDoNotArriveMakeRoom(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.MaxReceiving, c.ReceiveTimeout = 2, time.Hour })
	first := h.openCall(t)
	poll(t, "one request is awaited", func() bool { return h.arrivals.count() == 1 })
	second := h.openCall(t)
	poll(t, "two requests are awaited", func() bool { return h.arrivals.count() == 2 })
	if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil {
		t.Errorf("the error of a good call is %v", err)
	}
	if err := first.RecvMsg(&elastallocv1.AllocateResponse{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the first of the calls ends with %v", err)
	}
	h.await(t, "elastalloc_shed_total", "1")
	// A request that comes after all is answered.
	if err := second.SendMsg(smallRequest()); err != nil {
		t.Fatal(err)
	}
	if err := second.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := second.RecvMsg(&elastallocv1.AllocateResponse{}); err != nil {
		t.Errorf("the late request is answered with %v", err)
	}
	if n := h.arrivals.count(); n != 0 {
		t.Errorf("%d requests are awaited", n)
	}
}

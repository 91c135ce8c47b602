package guard

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

const method = "/test.Service/Method"

// serve starts a gRPC server of a receiver whose only method is a handler, and returns a client.
func serve(t testing.TB, receiver *Receiver, handler grpc.MethodHandler) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(Options(maxBytes), grpc.Creds(receiver.Credentials(insecure.NewCredentials())))...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Method", Handler: handler}},
	}, nil)
	grpc_health_v1.RegisterHealthServer(limited{server, receiver}, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// limited registers services whose requests are limited.
type limited struct {
	*grpc.Server
	receiver *Receiver
}

// RegisterService registers a service.
func (l limited) RegisterService(service *grpc.ServiceDesc, implementation any) {
	l.Server.RegisterService(l.receiver.Limit(service), implementation)
}

// maxBytes is the maximum size of a request of the tests.
const maxBytes = 1 << 20

// newReceiver returns a receiver for 16 MiB and two requests at the same time.
func newReceiver() *Receiver {
	return &Receiver{Memory: NewMemory(16 << 20), MaxCalls: 2, Timeout: wait.Timeout, Reclaim: func() {}}
}

// usedBytes returns the memory in use.
func usedBytes(m *Memory) int {
	used, _ := m.Usage()
	return used
}

// largeValue is larger than several windows of a stream.
func largeValue() *wrapperspb.StringValue { return wrapperspb.String(strings.Repeat("x", 300<<10)) }

// TestGRPC checks undocumented behavior of gRPC on which this package depends. If it fails with a new version, a
// guard of the server has no effect.
func TestGRPC(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"a handler starts before its request has arrived, whose bytes count while they arrive":            testArrivingBytesCount,
		"the memory of a rejected request is released":                                                    testRejectedRequest,
		"a connection without memory for its requests rejects older ones of its caller, and then its own": testNoMemory,
		"requests to services of gRPC are small":                                                          testServicesOfGRPC,
		"the memory of a small response is released after it is sent":                                     testSmallResponse,
		"the memory of a large response is released after it is sent":                                     testLargeResponse,
		"a response that is not read reserves memory until its connection is closed":                      testUnreadResponse,
		"a connection with too many canceled calls is closed":                                             testCanceledCalls,
		"requests are not decompressed":                                                                   testCompression,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

func testArrivingBytesCount(t *testing.T) {
	t.Helper()
	large := largeValue()
	receiver, reading, got := newReceiver(), make(chan struct{}), 0
	client := serve(t, receiver, func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		close(reading)
		message, memory, err := receiver.Receive(ctx, receive)
		if got = len(message); err == nil {
			memory.Release()
		}
		return wrapperspb.String("response"), err
	})
	stream, err := client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-reading:
	case <-time.After(wait.Timeout):
		t.Fatal("the handler waits for the request")
	}
	if err := stream.SendMsg(large); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the memory of the request is reserved", func() bool { return usedBytes(receiver.Memory) > len(large.GetValue()) })
	if err := errors.Join(stream.CloseSend(), stream.RecvMsg(new(wrapperspb.StringValue))); err != nil {
		t.Fatal(err)
	}
	if want := proto.Size(large); got != want {
		t.Errorf("a message of %d bytes is received; want %d", got, want)
	}
	wait.Until(t, "the memory is released", func() bool { return usedBytes(receiver.Memory) == 0 })
}

func testRejectedRequest(t *testing.T) {
	t.Helper()
	large := largeValue()
	receiver := newReceiver()
	client := serve(t, receiver, func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		_, _, err := receiver.Receive(ctx, receive)
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	})
	var streams []grpc.ClientStream
	for range receiver.MaxCalls {
		stream, err := client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.SendMsg(large); err != nil { // The call is not closed.
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	wait.Until(t, "the requests have arrived", func() bool { return usedBytes(receiver.Memory) > len(large.GetValue()) })
	receiver.mutex.Lock()
	receiver.rejectIf(func(*arrival) bool { return true })
	receiver.mutex.Unlock()
	for _, stream := range streams {
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("the error of a rejected call is %v", err)
		}
	}
	wait.Until(t, "the memory is released", func() bool { return usedBytes(receiver.Memory) == 0 })
}

func testNoMemory(t *testing.T) {
	t.Helper()
	receiver := newReceiver()
	receiver.Memory = NewMemory(2 << 20)
	handler := func(_ any, ctx context.Context, receive func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		_, memory, err := receiver.Receive(ctx, receive)
		if err != nil {
			return nil, status.Error(codes.ResourceExhausted, err.Error())
		}
		memory.Release()
		return wrapperspb.String("response"), nil
	}
	request, response := wrapperspb.String(strings.Repeat("x", 900<<10)), new(wrapperspb.StringValue)
	older, err := serve(t, receiver, handler).NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, method)
	if err == nil {
		err = older.SendMsg(request) // The call is not closed.
	}
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the older request has arrived", func() bool { return usedBytes(receiver.Memory) > 850<<10 })
	client := serve(t, receiver, handler)
	if err := client.Invoke(t.Context(), method, wrapperspb.String(strings.Repeat("x", 600<<10)), response); err != nil {
		t.Errorf("the error of the newer request is %v", err)
	}
	if err := older.RecvMsg(response); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error of the older request is %v", err)
	}
	wait.Until(t, "the memory is released", func() bool { return usedBytes(receiver.Memory) == 0 })
	if !receiver.Memory.NewReservation("another caller").Set(receiver.Memory.MaxCall()) {
		t.Fatal("another caller cannot use the memory")
	}
	if err := client.Invoke(t.Context(), method, request, response); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error without memory is %v", err)
	}
	wait.Until(t, "its memory is released", func() bool { return usedBytes(receiver.Memory) == receiver.Memory.MaxCall() })
}

func testServicesOfGRPC(t *testing.T) {
	t.Helper()
	receiver := newReceiver()
	client := grpc_health_v1.NewHealthClient(serve(t, receiver, nil))
	for bytes, code := range map[int]codes.Code{
		0: codes.OK, 10: codes.NotFound, otherMessageBytes: codes.ResourceExhausted, maxBytes: codes.ResourceExhausted,
	} {
		request := &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", bytes)}
		if _, err := client.Check(t.Context(), request); status.Code(err) != code {
			t.Errorf("Check with %d bytes: %v; want %v", bytes, err, code)
		}
		watch, err := client.Watch(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		_, err = watch.Recv() // Watch returns the status of an unknown service.
		if tooLarge := code == codes.ResourceExhausted; tooLarge != (status.Code(err) == codes.ResourceExhausted) {
			t.Errorf("Watch with %d bytes: %v; want %v", bytes, err, code)
		}
	}
	wait.Until(t, "the memory is released", func() bool { return usedBytes(receiver.Memory) == 0 })
}

func testSmallResponse(t *testing.T) {
	t.Helper()
	testSentResponse(t, wrapperspb.String("x"))
}

func testLargeResponse(t *testing.T) {
	t.Helper()
	testSentResponse(t, largeValue())
}

func testSentResponse(t *testing.T, response *wrapperspb.StringValue) {
	t.Helper()
	memory, connections := NewMemory(16<<20), make(chan *connection, 10)
	client := serve(t, newReceiver(), func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		reservation := memory.NewReservation("caller")
		reservation.Set(8 << 20)
		connections <- connectionOf(ctx)
		proto.Size(response)
		return Response(ctx, response, reservation, time.Hour)
	})
	for range cap(connections) {
		if err := client.Invoke(t.Context(), method, wrapperspb.String("x"), new(wrapperspb.StringValue)); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the memory is released", func() bool { used, _ := memory.Usage(); return used == 0 })
	}
	if first, second := <-connections, <-connections; first != second {
		t.Fatal("the calls of a connection have different connections")
	}
}

func testUnreadResponse(t *testing.T) {
	t.Helper()
	large := largeValue()
	own, connections := NewMemory(1<<20), make(chan *connection, 1)
	client := serve(t, newReceiver(), func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		connections <- connectionOf(ctx)
		reservation := own.NewReservation("caller")
		reservation.Set(1)
		proto.Size(large)
		return Response(ctx, large, reservation, 300*time.Millisecond)
	})
	stream, err := client.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(wrapperspb.String("x")); err != nil {
		t.Fatal(err)
	}
	connection := <-connections
	wait.Until(t, "the response is in memory", func() bool { used, _ := own.Usage(); return used > len(large.GetValue()) })
	wait.Until(t, "the connection is closed", func() bool { return errors.Is(connection.SetDeadline(time.Time{}), net.ErrClosed) })
	wait.Until(t, "the memory is released", func() bool { used, _ := own.Usage(); return used == 0 })
}

func testCanceledCalls(t *testing.T) {
	t.Helper()
	connections := make(chan *connection, 1)
	client := serve(t, newReceiver(), func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		for range maxCancellations {
			Canceled(ctx)
		}
		connections <- connectionOf(ctx)
		return wrapperspb.String("response"), nil
	})
	for i := range 2 {
		_ = client.Invoke(t.Context(), method, wrapperspb.String("x"), new(wrapperspb.StringValue))
		if closed := errors.Is((<-connections).SetDeadline(time.Time{}), net.ErrClosed); closed != (i == 1) {
			t.Errorf("after %d canceled calls the connection is closed: %t", (i+1)*maxCancellations, closed)
		}
	}
}

func testCompression(t *testing.T) {
	t.Helper()
	client := serve(t, newReceiver(), func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return wrapperspb.String("response"), decode(new(wrapperspb.StringValue))
	})
	err := client.Invoke(t.Context(), method, wrapperspb.String("x"), new(wrapperspb.StringValue), grpc.UseCompressor(gzip.Name))
	if err == nil || !strings.Contains(err.Error(), errCompressed.Error()) {
		t.Errorf("the error of a compressed request is %v", err)
	}
}

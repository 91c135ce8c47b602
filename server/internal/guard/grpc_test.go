package guard

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

const method = "/test.Service/Method"

// serve starts a gRPC server with interceptors whose only method is a handler, and returns a client.
func serve(t *testing.T, handler grpc.MethodHandler) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(Options()...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Method", Handler: handler}},
	}, nil)
	go func() { _ = server.Serve(Listen(listener)) }()
	t.Cleanup(server.Stop)
	client, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// inParts is a stream that checks that parts have at most the requested size.
type inParts struct {
	Stream
	t *testing.T
}

// Read reads a part.
func (p inParts) Read(n int) (mem.BufferSlice, error) {
	data, err := p.Stream.Read(n)
	if data.Len() > n {
		p.t.Errorf("%d bytes are read at once; %d were requested", data.Len(), n)
	}
	return data, err
}

// TestGRPC checks undocumented behavior of gRPC on which this package depends. If it fails with a new version, a
// guard of the server has no effect.
func TestGRPC(t *testing.T) {
	t.Parallel()
	large := wrapperspb.String(strings.Repeat("x", 300<<10)) // several windows

	t.Run("a handler starts before its request has arrived, and reads it in parts", func(t *testing.T) {
		t.Parallel()
		receiver := &Receiver{Memory: NewMemory(16 << 20), MaxCalls: 1, MaxBytes: 1 << 20, Timeout: wait.Timeout, Reclaim: func() {}}
		reading, got := make(chan struct{}), 0
		client := serve(t, func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			stream, err := StreamOf(ctx)
			if err != nil {
				return nil, err
			}
			close(reading)
			message, _, err := receiver.Receive(ctx, inParts{stream, t}, "caller")
			got = len(message)
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
		if err := errors.Join(stream.SendMsg(large), stream.CloseSend(), stream.RecvMsg(new(wrapperspb.StringValue))); err != nil {
			t.Fatal(err)
		}
		if want := proto.Size(large); got != want {
			t.Errorf("a message of %d bytes is received; want %d", got, want)
		}
	})

	for name, response := range map[string]*wrapperspb.StringValue{"small": wrapperspb.String("x"), "large": large} {
		t.Run("the memory of a "+name+" response is released after it is sent", func(t *testing.T) {
			t.Parallel()
			memory, connections := NewMemory(16<<20), make(chan *connection, 10)
			client := serve(t, func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				reservation := memory.NewReservation("caller")
				reservation.Set(8 << 20)
				connections <- connectionOf(ctx)
				return Response(ctx, response, reservation, time.Hour), nil
			})
			for range cap(connections) {
				if err := client.Invoke(t.Context(), method, wrapperspb.String("x"), new(wrapperspb.StringValue)); err != nil {
					t.Fatal(err)
				}
				wait.Until(t, "the memory is released", func() bool { used, _ := memory.Usage(); return used == 0 })
			}
			if first := <-connections; first == nil || first != <-connections {
				t.Fatal("the calls of a connection have different connections")
			}
		})
	}

	t.Run("a response that is not read reserves memory until its connection is closed", func(t *testing.T) {
		t.Parallel()
		own, connections := NewMemory(1<<20), make(chan *connection, 1)
		client := serve(t, func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			connections <- connectionOf(ctx)
			reservation := own.NewReservation("caller")
			reservation.Set(1)
			return Response(ctx, large, reservation, 300*time.Millisecond), nil
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
	})

	t.Run("a connection with too many canceled calls is closed", func(t *testing.T) {
		t.Parallel()
		connections := make(chan *connection, 1)
		client := serve(t, func(_ any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
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
	})

	t.Run("requests are not decompressed", func(t *testing.T) {
		t.Parallel()
		client := serve(t, func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return wrapperspb.String("response"), decode(new(wrapperspb.StringValue))
		})
		err := client.Invoke(t.Context(), method, wrapperspb.String("x"), new(wrapperspb.StringValue), grpc.UseCompressor(gzip.Name))
		if err == nil || !strings.Contains(err.Error(), errCompressed.Error()) {
			t.Errorf("the error of a compressed request is %v", err)
		}
	})
}

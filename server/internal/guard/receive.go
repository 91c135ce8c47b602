package guard

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// MaxWait is the maximum time that a call waits for memory or for a slot. Decisions are urgent, and another
// server may be idle.
const MaxWait = 500 * time.Millisecond

// Receiver receives requests within limits. If there are too many, it rejects the oldest one that is still
// arriving, because usual requests arrive within milliseconds.
type Receiver struct {
	Memory *Memory
	// MaxCalls is the maximum number of requests that are being received, and Timeout the maximum time to
	// receive one.
	MaxCalls int
	Timeout  time.Duration
	// Reclaim interrupts work that can be interrupted, so that memory is freed.
	Reclaim func()

	mutex    sync.Mutex
	arrivals list.List // of *arrival that are not rejected, the oldest first
}

// arrival is a request that is arriving.
type arrival struct {
	connection *connection
	caller     string
	from       int           // connection.received at the start
	rejected   chan struct{} // closed when the request is rejected
	element    *list.Element // in Receiver.arrivals
}

// begin registers a request of a call. end unregisters it.
func (r *Receiver) begin(c *connection, caller string) *arrival {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.arrivals.Len() >= r.MaxCalls {
		r.reject(r.arrivals.Front())
	}
	a := &arrival{connection: c, caller: caller, rejected: make(chan struct{})}
	a.element = r.arrivals.PushBack(a)
	c.begin(a, r)
	return a
}

// end unregisters a request after gRPC has received or discarded it. It has no effect the second time.
func (r *Receiver) end(a *arrival) {
	r.mutex.Lock()
	r.arrivals.Remove(a.element) // This does nothing if the request was rejected.
	r.mutex.Unlock()
	a.connection.end(a)
}

// reject rejects a request.
func (r *Receiver) reject(element *list.Element) {
	close(r.arrivals.Remove(element).(*arrival).rejected)
}

// rejectAll rejects all requests that arrive over a connection.
func (r *Receiver) rejectAll(c *connection) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.rejectIf(func(a *arrival) bool { return a.connection == c })
}

// rejectOther rejects the requests that arrive over one other connection of the same caller that uses at least
// as much memory, if there is one. It prefers the connection with the oldest request.
func (r *Receiver) rejectOther(c *connection) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var other *connection
	r.rejectIf(func(a *arrival) bool {
		if other == nil && a.connection != c && a.connection.memory.caller == c.memory.caller && a.connection.memory.Bytes() >= c.memory.Bytes() {
			other = a.connection
		}
		return a.connection == other
	})
}

// rejectIf rejects requests by a condition. The caller has locked the receiver.
func (r *Receiver) rejectIf(condition func(*arrival) bool) {
	for element := r.arrivals.Front(); element != nil; {
		next := element.Next()
		if condition(element.Value.(*arrival)) {
			r.reject(element)
		}
		element = next
	}
}

// Receive receives the request of a call by a function of gRPC, and returns it with its memory. If Receive fails,
// the memory of what has arrived stays reserved until gRPC discards it.
func (r *Receiver) Receive(ctx context.Context, receive func(any) error) ([]byte, *Reservation, error) {
	caller := Caller(ctx)
	a, memory := r.begin(connectionOf(ctx), caller), r.Memory.NewReservation(caller)
	type result struct {
		message []byte
		err     error
	}
	received := make(chan result, 1)
	go func() {
		message, err := r.read(ctx, receive, a, memory)
		received <- result{message, err}
	}()
	var err error
	select {
	case got := <-received:
		if got.err == nil {
			return got.message, memory, nil
		}
		memory.Release()
		return nil, nil, transportError(got.err)
	case <-time.After(r.Timeout):
		// This is not DEADLINE_EXCEEDED, which counts as a failure of the server.
		err = Refuse(codes.Canceled, "the request did not arrive in time")
	case <-a.rejected:
		err = Overload()
	}
	go func() {
		<-received
		memory.Release()
	}()
	return nil, nil, err
}

// read receives the request. The connection reserves memory until the request has arrived, and then the call.
func (r *Receiver) read(ctx context.Context, receive func(any) error, a *arrival, memory *Reservation) ([]byte, error) {
	defer r.end(a)
	if err := r.await(ctx, a.connection, a.connection.reserve); err != nil {
		return nil, err
	}
	var m message
	defer m.free()
	if err := receive(&m); err != nil {
		return nil, err
	}
	length := m.data.Len()
	if err := r.await(ctx, a.connection, func() bool { return memory.Set(CallBytes + length) }); err != nil {
		return nil, err
	}
	r.end(a)
	if err := r.await(ctx, a.connection, func() bool { return memory.Set(CallBytes + 2*length) }); err != nil {
		return nil, err
	}
	return m.data.Materialize(), nil
}

// await calls reserve until it succeeds. If not enough memory is free for a connection, await rejects other requests
// of the same caller, interrupts other work and waits until memory is freed.
func (r *Receiver) await(ctx context.Context, c *connection, reserve func() bool) error {
	if reserve() {
		return nil
	}
	timeout := time.After(MaxWait)
	for {
		freed := r.Memory.awaitFreed()
		if reserve() {
			return nil
		}
		r.rejectOther(c)
		r.Reclaim()
		select {
		case <-freed:
		case <-timeout:
			return Overload()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transportError converts an error of gRPC. Unknown and internal errors are calls with no message, with several,
// or with an incomplete one. The end of a stream is no error of a call.
func transportError(err error) error {
	if errors.As(err, new(RefusedError)) || errors.Is(err, io.EOF) {
		return err
	}
	s := status.FromContextError(err)
	if s.Code() == codes.Unknown {
		s = status.Convert(err)
	}
	if s.Code() == codes.Internal || s.Code() == codes.Unknown {
		return Refuse(codes.InvalidArgument, "receive request: %s", s.Message())
	}
	return RefusedError{Status: s}
}

// Limit returns a service whose requests are received within the limits and have at most otherMessageBytes. It is
// for services of gRPC itself.
func (r *Receiver) Limit(service *grpc.ServiceDesc) *grpc.ServiceDesc {
	limited := *service
	limited.Methods, limited.Streams = slices.Clone(service.Methods), slices.Clone(service.Streams)
	for i, method := range service.Methods {
		limited.Methods[i].Handler = func(server any, ctx context.Context,
			receive func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			return method.Handler(server, ctx, func(request any) error { return r.receiveOther(ctx, receive, request) }, intercept)
		}
	}
	for i, stream := range service.Streams {
		limited.Streams[i].Handler = func(server any, s grpc.ServerStream) error {
			return stream.Handler(server, limitedStream{s, r})
		}
	}
	return &limited
}

// limitedStream is a stream whose requests are received within the limits.
type limitedStream struct {
	grpc.ServerStream
	receiver *Receiver
}

// RecvMsg receives a request.
func (s limitedStream) RecvMsg(request any) error {
	return s.receiver.receiveOther(s.Context(), s.ServerStream.RecvMsg, request)
}

// receiveOther receives and decodes a request of a service of gRPC.
func (r *Receiver) receiveOther(ctx context.Context, receive func(any) error, request any) error {
	data, memory, err := r.Receive(ctx, receive)
	if refused := (RefusedError{}); errors.As(err, &refused) {
		return refused.Status.Err()
	}
	if err != nil {
		return err
	}
	defer memory.Release()
	if len(data) > otherMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", len(data), otherMessageBytes)
	}
	m, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("request: is a %T; must be a protobuf message", request)
	}
	return proto.Unmarshal(data, m)
}

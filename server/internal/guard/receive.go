package guard

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const (
	// MaxWait is the maximum time that a call waits for memory or for a slot. Decisions are urgent, and
	// another server may be idle.
	MaxWait = 500 * time.Millisecond

	// headerBytes is the length of a message header: a compression flag and the length of the message.
	headerBytes = 5

	// readBytes is the maximum number of bytes of a message per read. gRPC allocates a buffer for each
	// frame that it reads, and a frame may have a single byte.
	readBytes = 4 << 10

	// partBytes is the maximum size of a part of a message. Memory is allocated for each part as it
	// arrives, not for the announced length.
	partBytes = 1 << 20
)

// Stream has methods of gRPC's transport streams that are not in their public interface. They read a
// message in parts. gRPC's own methods return a message after all of it has arrived.
type Stream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// StreamOf returns the stream of the call of ctx.
func StreamOf(ctx context.Context) (Stream, error) {
	transport := grpc.ServerTransportStreamFromContext(ctx)
	stream, ok := transport.(Stream)
	if !ok {
		return nil, fmt.Errorf("gRPC's stream %T cannot be read in parts", transport)
	}
	return stream, nil
}

// Receiver receives requests within limits. If there are too many, it rejects the oldest one that is still
// arriving, because usual requests arrive within milliseconds.
type Receiver struct {
	Memory *Memory
	// MaxCalls is the maximum number of requests that are being received, MaxBytes the maximum size of a
	// request, and Timeout the maximum time to receive one.
	MaxCalls, MaxBytes int
	Timeout            time.Duration
	// Reclaim interrupts work that can be interrupted, so that memory is freed.
	Reclaim func()

	mutex sync.Mutex
	calls list.List // of *arrival, the oldest first
}

// arrival is a call whose request is arriving.
type arrival struct {
	memory   *Reservation
	rejected chan struct{} // closed when the call is rejected
}

// begin registers a call. end unregisters it.
func (r *Receiver) begin(caller string) (a *arrival, end func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.calls.Len() >= r.MaxCalls {
		r.reject(r.calls.Front())
	}
	a = &arrival{memory: r.Memory.NewReservation(caller), rejected: make(chan struct{})}
	element := r.calls.PushBack(a)
	return a, func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.calls.Remove(element) // This does nothing if the call was rejected.
	}
}

// reject rejects a call.
func (r *Receiver) reject(element *list.Element) {
	close(r.calls.Remove(element).(*arrival).rejected)
}

// rejectOlder rejects the oldest other call of the same caller that uses at least as much memory, if there
// is one.
func (r *Receiver) rejectOlder(a *arrival) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	bytes := a.memory.Bytes()
	for element := r.calls.Front(); element != nil; element = element.Next() {
		if other := element.Value.(*arrival); other != a && other.memory.caller == a.memory.caller && other.memory.Bytes() >= bytes {
			r.reject(element)
			return
		}
	}
}

// Receive receives the request of a call, and returns it with its memory. If Receive fails, the memory of
// the received parts stays reserved until the stream ends.
func (r *Receiver) Receive(ctx context.Context, stream Stream, caller string) ([]byte, *Reservation, error) {
	a, end := r.begin(caller)
	defer end()
	type result struct {
		message []byte
		err     error
	}
	received := make(chan result, 1)
	go func() {
		message, err := r.read(ctx, stream, a)
		received <- result{message, err}
	}()
	var err error
	select {
	case got := <-received:
		if got.err == nil {
			return got.message, a.memory, nil
		}
		a.memory.Release()
		return nil, nil, transportError(got.err)
	case <-time.After(r.Timeout):
		// This is not DEADLINE_EXCEEDED, which counts as a failure of the server.
		err = Refuse(codes.Canceled, "the request did not arrive in time")
	case <-a.rejected:
		err = Overload()
	}
	go func() {
		<-received
		a.memory.Release()
	}()
	return nil, nil, err
}

// read reads the only message of a stream. It reserves the memory of each part before reading the part.
func (r *Receiver) read(ctx context.Context, stream Stream, a *arrival) ([]byte, error) {
	if err := r.reserve(ctx, a, CallBytes); err != nil {
		return nil, err
	}
	var header [headerBytes]byte
	if err := stream.ReadMessageHeader(header[:]); err != nil {
		return nil, err
	}
	if header[0] != 0 {
		return nil, Refuse(codes.InvalidArgument, "%v", errCompressed)
	}
	length := int(binary.BigEndian.Uint32(header[1:]))
	if length > r.MaxBytes {
		return nil, Refuse(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", length, r.MaxBytes)
	}
	var parts [][]byte
	for read := 0; read < length; {
		part := make([]byte, 0, min(length-read, partBytes, max(read, 16*readBytes)))
		if err := r.reserve(ctx, a, CallBytes+read+cap(part)); err != nil {
			return nil, err
		}
		for len(part) < cap(part) {
			data, err := stream.Read(min(readBytes, cap(part)-len(part)))
			if err != nil {
				return nil, err
			}
			for _, buffer := range data {
				part = append(part, buffer.ReadOnlyData()...)
			}
			data.Free()
		}
		read += len(part)
		parts = append(parts, part)
	}
	// The stream must end here.
	switch err := stream.ReadMessageHeader(header[:]); {
	case err == nil:
		return nil, errors.New("more than one message")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	if err := r.reserve(ctx, a, CallBytes+2*length); err != nil {
		return nil, err
	}
	message := make([]byte, 0, length)
	for i, part := range parts {
		message = append(message, part...)
		parts[i] = nil
	}
	return message, nil
}

// reserve sets the memory of a call that is being received. If not enough memory is free, reserve rejects
// older calls of the same caller, interrupts other work and waits until memory is freed.
func (r *Receiver) reserve(ctx context.Context, a *arrival, bytes int) error {
	if a.memory.Set(bytes) {
		return nil
	}
	timeout := time.After(MaxWait)
	for {
		freed := r.Memory.awaitFreed()
		if a.memory.Set(bytes) {
			return nil
		}
		r.rejectOlder(a)
		r.Reclaim()
		select {
		case <-freed:
		case <-timeout:
			return Overload()
		case <-a.rejected:
			return Overload()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transportError converts an error of gRPC's transport. Unknown and internal errors are calls with no
// message, with several, or with an incomplete one.
func transportError(err error) error {
	if errors.As(err, new(RefusedError)) {
		return err
	}
	s := status.FromContextError(err)
	if s.Code() == codes.Unknown {
		s = status.Convert(err)
	}
	if s.Code() == codes.Internal || s.Code() == codes.Unknown {
		return Refuse(codes.InvalidArgument, "receive request: %v", err)
	}
	return RefusedError{Status: s}
}

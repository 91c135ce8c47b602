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
	// LongestWait is how long a call waits for memory or its turn at most. A decision is
	// most useful now, and another server may be idle.
	LongestWait = 500 * time.Millisecond

	// headerBytes is the length of what goes before a message: whether it is compressed,
	// and its length.
	headerBytes = 5

	// readBytes is how much of a message is read at once. gRPC allocates for every frame
	// of what is read, and a frame may have a single byte.
	readBytes = 4 << 10

	// partBytes is the largest part in which a message is kept while it arrives, so that
	// no memory is set aside for what is only announced.
	partBytes = 1 << 20
)

// Stream is what the streams of gRPC's transport offer beside their public interface: a
// message in parts. gRPC itself returns a message when all of it is there.
type Stream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// StreamOf returns the stream of the call that ctx belongs to.
func StreamOf(ctx context.Context) (Stream, error) {
	found := grpc.ServerTransportStreamFromContext(ctx)
	stream, ok := found.(Stream)
	if !ok {
		return nil, fmt.Errorf("gRPC's stream %T cannot be read in parts", found)
	}
	return stream, nil
}

// Receiver receives requests within limits. With one too many, the oldest that is still
// arriving is turned away: honest ones arrive within milliseconds.
type Receiver struct {
	Memory *Memory
	// MaxCalls is the number of requests that may arrive at once, MaxBytes the size of the
	// largest and Timeout how long one may take.
	MaxCalls, MaxBytes int
	Timeout            time.Duration
	Reclaim            func() // asks for memory that is lent

	mutex sync.Mutex
	calls list.List // of *arrival, the oldest first
}

// arrival is a call whose request is arriving.
type arrival struct {
	memory     *Reservation
	turnedAway chan struct{} // closed for a call that is turned away
}

// begin adds a call; end removes it.
func (r *Receiver) begin(caller string) (a *arrival, end func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.calls.Len() >= r.MaxCalls {
		r.turnAway(r.calls.Front())
	}
	a = &arrival{memory: r.Memory.Reservation(caller), turnedAway: make(chan struct{})}
	element := r.calls.PushBack(a)
	return a, func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.calls.Remove(element) // Does nothing if it has been turned away.
	}
}

func (r *Receiver) turnAway(element *list.Element) {
	close(r.calls.Remove(element).(*arrival).turnedAway)
}

// makeRoom turns away the oldest other call of the same caller that holds at least as
// much memory as this one, if there is one.
func (r *Receiver) makeRoom(a *arrival) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	held := a.memory.Held()
	for element := r.calls.Front(); element != nil; element = element.Next() {
		if other := element.Value.(*arrival); other != a && other.memory.caller == a.memory.caller && other.memory.Held() >= held {
			r.turnAway(element)
			return
		}
	}
}

// Receive receives the request of a call, with the memory that it takes. When it fails,
// what has been received is held until the stream ends.
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
		// Not DEADLINE_EXCEEDED, which would be our failure.
		err = Refuse(codes.Canceled, "the request did not arrive in time")
	case <-a.turnedAway:
		err = Overload()
	}
	go func() {
		<-received
		a.memory.Release()
	}()
	return nil, nil, err
}

// read reads the only message of a stream, and takes the memory for each part of it
// before it is read.
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
	for had := 0; had < length; {
		part := make([]byte, 0, min(length-had, partBytes, max(had, 16*readBytes)))
		if err := r.reserve(ctx, a, CallBytes+had+cap(part)); err != nil {
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
		had += len(part)
		parts = append(parts, part)
	}
	// The end, or a second message.
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

// reserve sets the memory of an arriving call. Where it does not fit, older calls of its
// caller that are still arriving are turned away, lent memory is reclaimed, and it waits
// for what they and others give back.
func (r *Receiver) reserve(ctx context.Context, a *arrival, bytes int) error {
	if a.memory.Set(bytes) {
		return nil
	}
	longest := time.After(LongestWait)
	for {
		freed := r.Memory.awaitFreed()
		if a.memory.Set(bytes) {
			return nil
		}
		r.makeRoom(a)
		r.Reclaim()
		select {
		case <-freed:
		case <-longest:
			return Overload()
		case <-a.turnedAway:
			return Overload()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transportError returns what an error of gRPC's transport means here. What is unknown
// is a call with no message or two, or with half of one.
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

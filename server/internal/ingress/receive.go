package ingress

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
	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
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

// receiving are the calls whose requests are arriving, oldest first. One too many, and
// the oldest is turned away: an honest request arrives within milliseconds, so calls that
// send nothing cannot keep others out.
type receiving struct {
	limit int

	mutex sync.Mutex
	calls list.List // of *arrival
}

// arrival is a call whose request is arriving.
type arrival struct {
	memory *reservation
	// turnedAway is closed for a call that is turned away.
	turnedAway chan struct{}
}

// begin adds a call; end removes it.
func (r *receiving) begin(memory *reservation) (a *arrival, end func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.calls.Len() >= r.limit {
		r.turnAway(r.calls.Front())
	}
	a = &arrival{memory: memory, turnedAway: make(chan struct{})}
	element := r.calls.PushBack(a)
	return a, func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.calls.Remove(element) // Does nothing if it has been turned away.
	}
}

func (r *receiving) turnAway(element *list.Element) {
	close(r.calls.Remove(element).(*arrival).turnedAway)
}

// makeRoom turns away the oldest other call of the same caller that holds at least as
// much memory as this one. It reports whether there is one.
func (r *receiving) makeRoom(a *arrival) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	held := a.memory.held()
	for element := r.calls.Front(); element != nil; element = element.Next() {
		if other := element.Value.(*arrival); other != a && other.memory.caller == a.memory.caller && other.memory.held() >= held {
			r.turnAway(element)
			return true
		}
	}
	return false
}

// messageReader is what the streams of gRPC's transport offer beside their public
// interface: a message in parts. gRPC's own way returns a message when it is there as a
// whole, with no word about its length before.
type messageReader interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// readerOf returns what reads the message of the call that ctx belongs to.
func readerOf(ctx context.Context) (messageReader, error) {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	reader, ok := stream.(messageReader)
	if !ok {
		return nil, fmt.Errorf("gRPC's stream %T cannot be read in parts", stream)
	}
	return reader, nil
}

// receive receives the request of a call. When it fails, what still waits for the
// request ends with the call, which holds its memory until then.
func (in *Ingress) receiveMessage(ctx context.Context, c *call) error {
	a, end := in.receiving.begin(c.memory)
	defer end()
	type result struct {
		message []byte
		err     error
	}
	received := make(chan result, 1)
	go func() {
		message, err := in.read(ctx, c.reader, a)
		received <- result{message, err}
	}()
	timer := time.NewTimer(in.config.ReceiveTimeout)
	defer timer.Stop()
	abandon := func(err error) error {
		memory := c.memory
		c.memory = in.memory.reservation(memory.caller)
		go func() {
			<-received
			memory.release()
		}()
		return err
	}
	select {
	case r := <-received:
		c.message = r.message
		return transportError(r.err)
	case <-timer.C:
		return abandon(errSlow)
	case <-a.turnedAway:
		return abandon(newOverloadError())
	}
}

// read reads the only message of a stream, and takes the memory for each part of it
// before it is read.
func (in *Ingress) read(ctx context.Context, reader messageReader, a *arrival) ([]byte, error) {
	if err := in.reserve(ctx, a, callBytes); err != nil {
		return nil, err
	}
	var header [headerBytes]byte
	if err := reader.ReadMessageHeader(header[:]); err != nil {
		return nil, err
	}
	if header[0] != 0 {
		return nil, malformedError{errCompressed}
	}
	length := int(binary.BigEndian.Uint32(header[1:]))
	if length > in.config.MaxMessageBytes {
		return nil, status.Errorf(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", length, in.config.MaxMessageBytes)
	}
	var parts [][]byte
	for had := 0; had < length; {
		part := make([]byte, 0, min(length-had, partBytes, max(had, 16*readBytes)))
		if err := in.reserve(ctx, a, callBytes+had+cap(part)); err != nil {
			return nil, err
		}
		for len(part) < cap(part) {
			data, err := reader.Read(min(readBytes, cap(part)-len(part)))
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
	switch err := reader.ReadMessageHeader(header[:]); {
	case err == nil:
		return nil, errors.New("more than one message")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	if err := in.reserve(ctx, a, callBytes+2*length); err != nil {
		return nil, err
	}
	message := make([]byte, 0, length)
	for i, part := range parts {
		message = append(message, part...)
		parts[i] = nil
	}
	return message, nil
}

// reserve sets the memory of an arriving call. Where it does not fit, older
// calls of its caller that are still arriving are turned away, lent turns are reclaimed, and
// it waits for what they and others give back.
func (in *Ingress) reserve(ctx context.Context, a *arrival, bytes int) error {
	if a.memory.set(bytes) {
		return nil
	}
	timer := time.NewTimer(longestWait)
	defer timer.Stop()
	for {
		freed := in.memory.awaitFreed()
		if a.memory.set(bytes) {
			return nil
		}
		in.receiving.makeRoom(a)
		in.turns.reclaim()
		select {
		case <-freed:
		case <-timer.C:
			return newOverloadError()
		case <-a.turnedAway:
			return newOverloadError()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transportError returns what an error of gRPC's transport means here. What is unknown
// is a call with no message or two, or with half of one.
func transportError(err error) error {
	if err == nil || errors.As(err, new(overloadError)) || errors.As(err, new(malformedError)) {
		return err
	}
	s := status.FromContextError(err)
	if s.Code() == codes.Unknown {
		s = status.Convert(err)
	}
	if s.Code() == codes.Internal || s.Code() == codes.Unknown {
		return malformedError{fmt.Errorf("receive request: %w", err)}
	}
	return &callError{status: s, cause: err}
}

// decode is what a generated handler decodes its request with.
func (c *call) decode(request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("request is a %T; want a protobuf message", request)
	}
	err := proto.Unmarshal(c.message, message)
	c.message = nil
	if err != nil {
		return malformedError{fmt.Errorf("parse %s: %w", message.ProtoReflect().Descriptor().Name(), err)}
	}
	c.event.Request = message
	if r, ok := request.(interface{ GetSnapshot() *elastallocv1.Snapshot }); ok && r.GetSnapshot() != nil {
		snapshot := r.GetSnapshot()
		c.event.HasSnapshot, c.event.SnapshotID = true, snapshot.GetId()
		c.event.Jobs, c.event.Nodes = len(snapshot.GetJobs()), int(snapshot.GetTotalNodes())
	}
	return nil
}

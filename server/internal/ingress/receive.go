package ingress

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// receiving are the calls whose requests are arriving, oldest first. One too many, and
// the oldest is turned away: an honest request arrives within milliseconds, so calls that
// send nothing cannot keep others out.
type receiving struct {
	limit int

	mutex sync.Mutex
	calls list.List // of chan struct{}, closed for a call that is turned away
}

// begin adds a call. The channel is closed when it is turned away; end removes it.
func (r *receiving) begin() (turnedAway <-chan struct{}, end func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.calls.Len() >= r.limit {
		close(r.calls.Remove(r.calls.Front()).(chan struct{}))
	}
	channel := make(chan struct{})
	element := r.calls.PushBack(channel)
	return channel, func() {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.calls.Remove(element) // Does nothing if it has been turned away.
	}
}

// receive receives the request of a call. When it fails, what still waits for the
// request ends with the call.
func (r *receiving) receive(c *call, timeout time.Duration) error {
	turnedAway, end := r.begin()
	defer end()
	var message frame
	received := make(chan error, 1)
	go func() { received <- c.receive(&message) }()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case err := <-received:
		c.message = message
		return transportError(err)
	case <-timer.C:
		return errSlow
	case <-turnedAway:
		return newOverloadError()
	}
}

// transportError returns what an error of gRPC's transport means here. INTERNAL is none
// of our bugs but a call with no message or two, or with a compressed one.
func transportError(err error) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	if s.Code() == codes.Internal || s.Code() == codes.Unknown {
		return malformedError{fmt.Errorf("receive request: %s", s.Message())}
	}
	return &callError{status: s, cause: err}
}

// frame is a request as it arrived.
type frame struct{ data mem.BufferSlice }

// free gives the memory back, at the latest when the call ends.
func (f *frame) free() {
	f.data.Free()
	f.data = nil
}

// decode is what a generated handler decodes its request with.
func (c *call) decode(request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("request is a %T; want a protobuf message", request)
	}
	buffer := c.message.data.MaterializeToBuffer(mem.DefaultBufferPool())
	c.message.free()
	defer buffer.Free()
	if err := proto.Unmarshal(buffer.ReadOnlyData(), message); err != nil {
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

// codec is gRPC's codec of Protocol Buffers, but keeps a frame as it is. A request that
// gRPC cannot decode would be INTERNAL, which is for bugs of ours.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Unmarshal decodes what was received, or keeps it.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		data.Ref()
		f.data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

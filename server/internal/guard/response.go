package guard

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// response is the response of a call. The caller may not read it, so its memory stays reserved until it
// is sent.
type response struct {
	message proto.Message
	memory  *Reservation
	// connection is closed if the caller has not read the response within timeout.
	connection *connection
	timeout    time.Duration
}

// Response returns a response for gRPC to send for the call of ctx. Its memory is released after it is
// sent. If that takes longer than timeout, the connection is closed and the memory released.
func Response(ctx context.Context, message proto.Message, memory *Reservation, timeout time.Duration) any {
	return &response{message, memory, connectionOf(ctx), timeout}
}

// codec is gRPC's codec for Protocol Buffers. It accounts for the memory of responses.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// minPooledBytes is the smallest capacity of a buffer that gRPC returns to its pool.
const minPooledBytes = 1025

// Marshal encodes a message. The memory of a response shrinks to its encoded size. It is released after
// the response is sent or has timed out.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	sized := proto.MarshalOptions{UseCachedSize: true} // The ingress computed the size.
	data := make([]byte, 0, max(sized.Size(r.message), minPooledBytes))
	data, err := sized.MarshalAppend(data, r.message)
	if err != nil {
		r.memory.Release()
		return nil, fmt.Errorf("marshal %s: %w", r.message.ProtoReflect().Descriptor().Name(), err)
	}
	r.message = nil
	r.memory.Set(CallBytes + cap(data))
	// gRPC does not free buffers that are queued for a closed connection. The timer does.
	pool := &unsent{memory: r.memory}
	pool.timer = time.AfterFunc(r.timeout, func() {
		if r.connection != nil {
			_ = r.connection.Close()
		}
		pool.memory.Release()
	})
	return mem.BufferSlice{mem.NewBuffer(&data, pool)}, nil
}

// unsent is the pool of one response. gRPC returns the buffer of the response to it after sending it.
type unsent struct {
	memory *Reservation
	timer  *time.Timer
}

// Get returns a new buffer. gRPC does not call it.
func (*unsent) Get(length int) *[]byte {
	buffer := make([]byte, length)
	return &buffer
}

// Put releases the memory of the response.
func (u *unsent) Put(*[]byte) {
	u.timer.Stop()
	u.memory.Release()
}

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

// answer is the answer of a call. Its caller may leave it unread, so the call holds memory for
// it until it is on the wire.
type answer struct {
	message proto.Message
	memory  *Reservation
	// connection is closed if the caller takes longer than timeout to read.
	connection *connection
	timeout    time.Duration
}

// Answer returns what gRPC is to send as the answer to the call that ctx belongs to. The
// memory is given back once it is sent, or after the timeout with the connection closed.
func Answer(ctx context.Context, message proto.Message, memory *Reservation, timeout time.Duration) any {
	return &answer{message, memory, connectionOf(ctx), timeout}
}

// codec is gRPC's codec of Protocol Buffers, but counts the bytes of answers.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// leastCounted is the smallest capacity of which gRPC tells that a buffer is free.
const leastCounted = 1025

// Marshal encodes a message. An answer's memory shrinks to its bytes, and is given back
// when they have been sent, or will not be.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*answer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	sized := proto.MarshalOptions{UseCachedSize: true} // It was sized when it was counted.
	data := make([]byte, 0, max(sized.Size(a.message), leastCounted))
	data, err := sized.MarshalAppend(data, a.message)
	if err != nil {
		a.memory.Release()
		return nil, fmt.Errorf("marshal %s: %w", a.message.ProtoReflect().Descriptor().Name(), err)
	}
	a.message = nil
	a.memory.Set(CallBytes + cap(data))
	// gRPC does not free what is queued for a connection that has ended: the timer does.
	sent := &unread{memory: a.memory}
	sent.timer = time.AfterFunc(a.timeout, func() {
		if a.connection != nil {
			_ = a.connection.Close()
		}
		sent.memory.Release()
	})
	return mem.BufferSlice{mem.NewBuffer(&data, sent)}, nil
}

// unread is an answer that is not yet on the wire. It is the pool to which gRPC returns
// the answer's buffer.
type unread struct {
	memory *Reservation
	timer  *time.Timer
}

// Get is for buffers to be filled, of which there are none.
func (*unread) Get(length int) *[]byte {
	buffer := make([]byte, length)
	return &buffer
}

// Put takes the answer's buffer back.
func (u *unread) Put(*[]byte) {
	u.timer.Stop()
	u.memory.Release()
}

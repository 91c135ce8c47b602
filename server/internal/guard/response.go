package guard

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// minPooledBytes is the smallest capacity of a buffer that gRPC returns to its pool.
const minPooledBytes = 1025

// Response encodes the response of the call of ctx, for gRPC to send. The memory shrinks to the encoded size. It
// is released after the response is sent. If that takes longer than timeout, the connection is closed and the
// memory released. If Response fails, the memory stays reserved. The size of the message must be cached.
func Response(ctx context.Context, response proto.Message, memory *Reservation, timeout time.Duration) (any, error) {
	sized := proto.MarshalOptions{UseCachedSize: true}
	data := make([]byte, 0, max(sized.Size(response), minPooledBytes))
	data, err := sized.MarshalAppend(data, response)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", response.ProtoReflect().Descriptor().Name(), err)
	}
	memory.Set(CallBytes + cap(data))
	// gRPC does not free buffers that are queued for a closed connection. The timer does.
	pool, connection := &unsent{memory: memory}, connectionOf(ctx)
	pool.timer = time.AfterFunc(timeout, func() {
		_ = connection.Close()
		memory.Release()
	})
	return &message{mem.BufferSlice{mem.NewBuffer(&data, pool)}}, nil
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

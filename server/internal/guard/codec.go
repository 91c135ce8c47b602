package guard

import (
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// message is an encoded request or response. gRPC passes its bytes on as they are.
type message struct {
	data mem.BufferSlice
}

// free releases the bytes.
func (m *message) free() {
	m.data.Free()
	m.data = nil
}

// codec is gRPC's codec for Protocol Buffers, and the identity for messages that are encoded.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal encodes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return m.data, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a message, or keeps its bytes for a later decision.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*message); ok {
		m.free()
		data.Ref()
		m.data = data
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

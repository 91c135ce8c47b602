package client

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/elastalloc/elastalloc/internal/protosize"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// boundedCodec is the Protocol Buffers codec of gRPC with a limit on the memory of a decoded
// response. Without the limit, decoding could exceed any deadline.
type boundedCodec struct {
	encoding.CodecV2
	estimators map[protoreflect.FullName]*protosize.Estimator
}

func newBoundedCodec() boundedCodec {
	c := boundedCodec{encoding.GetCodecV2(grpcproto.Name), make(map[protoreflect.FullName]*protosize.Estimator)}
	file := elastallocv1.File_elastalloc_v1_allocator_proto
	for s := range file.Services().Len() {
		methods := file.Services().Get(s).Methods()
		for m := range methods.Len() {
			response := methods.Get(m).Output().FullName()
			if t, err := protoregistry.GlobalTypes.FindMessageByName(response); err == nil { // It is generated with the file.
				c.estimators[response] = protosize.New(t.Zero().Interface(), nil)
			}
		}
	}
	return c
}

// Unmarshal decodes a response.
func (c boundedCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(proto.Message); ok {
		if estimator := c.estimators[m.ProtoReflect().Descriptor().FullName()]; estimator != nil {
			buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
			defer buffer.Free()
			data = mem.BufferSlice{buffer} // Avoids a second copy of a large response.
			if bytes := estimator.Size(buffer.ReadOnlyData()).Bytes; bytes > maxDecodedBytes {
				return fmt.Errorf("the decoded response takes about %d MiB of memory; must be at most %d MiB", bytes>>20, maxDecodedBytes>>20)
			}
		}
	}
	return c.CodecV2.Unmarshal(data, v)
}

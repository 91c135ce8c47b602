package server

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
)

// errCompressed means that a request is compressed.
var errCompressed = errors.New("this server takes no compressed messages")

// compressed reports whether the messages of the call that ctx belongs to are said to
// be compressed. To say so before one is received is better than what gRPC makes of
// the refusal below, INTERNAL.
func compressed(ctx context.Context) bool {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	return ok && stream.RecvCompress() != "" && stream.RecvCompress() != encoding.Identity
}

// refuseCompression makes the server refuse compressed messages. Of 64 KB that it has
// received, gzip makes 64 MB, so that no limit on what is received bounds what is
// held; and a request is small. gRPC takes gzip as soon as any package of the program
// imports it, such as the exporter of traces, and only this option of its first days
// is that of one server alone.
func refuseCompression() grpc.ServerOption {
	return grpc.RPCDecompressor(refusingDecompressor{}) //nolint:staticcheck // See above; it stays throughout 1.x.
}

// refusingDecompressor takes no message.
type refusingDecompressor struct{}

// Do returns an error.
func (refusingDecompressor) Do(io.Reader) ([]byte, error) {
	return nil, errCompressed
}

// Type returns the only compression that a dependency registers.
func (refusingDecompressor) Type() string { return "gzip" }

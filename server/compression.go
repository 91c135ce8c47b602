package server

import (
	"errors"
	"io"

	"google.golang.org/grpc"
)

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
	return nil, errors.New("this server takes no compressed messages")
}

// Type returns the only compression that a dependency registers.
func (refusingDecompressor) Type() string { return "gzip" }

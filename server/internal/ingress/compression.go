package ingress

import (
	"errors"
	"io"

	"google.golang.org/grpc"
)

// errCompressed means that a request is compressed.
var errCompressed = errors.New("this server accepts no compressed requests")

// refuseCompression makes a server refuse compressed requests, of all services. gRPC limits
// the size of each once it is decompressed, but not what all together take: gzip makes 64 MB
// of 64 KB. gRPC knows gzip as soon as any package of the program imports it, such as the
// exporter of traces, and has no other option that is not global.
func refuseCompression() grpc.ServerOption {
	return grpc.RPCDecompressor(refusing{}) //nolint:staticcheck // Deprecated, but supported throughout 1.x.
}

// refusing is a decompressor that refuses.
type refusing struct{}

// Do returns an error.
func (refusing) Do(io.Reader) ([]byte, error) { return nil, errCompressed }

// Type returns the only compression that a dependency registers.
func (refusing) Type() string { return "gzip" }

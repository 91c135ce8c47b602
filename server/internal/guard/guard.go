// Package guard protects the server against callers that use too much memory, time or connections. It
// reserves memory for what a connection receives while requests arrive, for each request and for each
// response, and can close connections. docs/explanation/admission-control.md describes which attack each part
// prevents.
//
// The package uses the public API of gRPC: transport credentials, a codec and handlers of methods. TestGRPC
// checks what gRPC does but does not promise.
package guard

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/text"
)

const (
	// maxStreams is the maximum number of concurrent calls of a connection. A client with more calls
	// waits or opens another connection.
	maxStreams = 256

	// handshakeTimeout is the maximum duration of a handshake. gRPC's default of 2 minutes is too long,
	// because draining waits for handshakes.
	handshakeTimeout = 5 * time.Second

	// maxHeaderBytes is the maximum size of a call's metadata. gRPC's default is 16 MB, which it
	// allocates before a call begins.
	maxHeaderBytes = 64 << 10

	// otherMessageBytes is the maximum size of a request to gRPC's own services.
	otherMessageBytes = 64 << 10

	// windowBytes is the number of bytes of a message that gRPC receives before the call reads it. The
	// window does not grow with the bandwidth, because it would grow for every call.
	windowBytes = 64<<10 - 1
)

// Options returns options for a gRPC server. They limit connections, requests to maxBytes and the bytes
// received before a call reads them, account for the memory of messages, and reject compressed requests.
func Options(maxBytes int) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.RPCDecompressor(noDecompressor{}), //nolint:staticcheck // Deprecated, but supported throughout 1.x.
		grpc.MaxRecvMsgSize(maxBytes), grpc.StaticStreamWindowSize(windowBytes),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes), grpc.ConnectionTimeout(handshakeTimeout),
	}
}

// noDecompressor rejects compressed requests, because gzip can expand 64 KB to 64 MB. gRPC supports gzip
// if any package of the program imports it, such as the exporter of traces. It has no other option that
// is not global.
type noDecompressor struct{}

// Do returns an error.
func (noDecompressor) Do(io.Reader) ([]byte, error) { return nil, errCompressed }

// Type returns the only compression that a dependency registers.
func (noDecompressor) Type() string { return "gzip" }

// errCompressed is the error for compressed requests.
var errCompressed = errors.New("this server accepts no compressed requests")

// RefusedError is the error of a call that is rejected, with the status that its caller receives.
type RefusedError struct {
	Status *status.Status
	// RetryAfter is the time after which the client should retry. If it is negative, the client should
	// not retry. If it is 0, the response does not state a time.
	RetryAfter time.Duration
}

// Error returns the message that the caller receives.
func (e RefusedError) Error() string { return e.Status.Message() }

// Refuse returns a RefusedError.
func Refuse(code codes.Code, format string, args ...any) error {
	return RefusedError{Status: status.New(code, text.Shorten(fmt.Sprintf(format, args...)))}
}

// Overload returns an error for a call that exceeds the capacity of the server. It may be retried after
// about the duration of a decision. The time is random, so that calls which are rejected together are
// not retried together.
func Overload() error {
	e := RefusedError{
		Status:     status.New(codes.ResourceExhausted, "too many requests in flight; retry later"),
		RetryAfter: time.Duration(100+rand.IntN(200)) * time.Millisecond,
	}
	if detailed, err := e.Status.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)}); err == nil {
		e.Status = detailed
	}
	return e
}

// TooLarge returns an error for a call that needs more than limit bytes. part is what needs the largest
// part of them.
func TooLarge(bytes, limit int, part string) error {
	const format = "the call needs about %d MiB of memory, most of it for %s; must be at most %d MiB (--max-memory of the server)"
	return RefusedError{Status: status.Newf(codes.ResourceExhausted, format, bytes>>20, part, limit>>20), RetryAfter: -1}
}

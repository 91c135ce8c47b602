// Package guard stops callers from taking the service away, and alone knows the insides of
// gRPC: requests are received in parts, each part and each answer is counted before it takes
// memory, and connections can be hung up on. docs/explanation/admission-control.md says which attack each part stops,
// and TestGRPC fails where a version of gRPC breaks what they rely on.
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
	// maxStreams is the maximum number of calls open at once over one connection; a client
	// with more waits or opens another.
	maxStreams = 256

	// handshakeTimeout is how long a new connection may take for its handshake. gRPC's own
	// 2 minutes are too long, since draining waits for it.
	handshakeTimeout = 5 * time.Second

	// maxHeaderBytes is the maximum size of a call's metadata. gRPC's own 16 MB would be
	// held for calls that have not even begun.
	maxHeaderBytes = 64 << 10

	// otherMessageBytes is the size of the largest request to gRPC's own services, which
	// are received by gRPC.
	otherMessageBytes = 64 << 10

	// windowBytes is how much of a message gRPC receives before it is read. That it grows
	// with the bandwidth is turned off: it would grow for every call.
	windowBytes = 64<<10 - 1
)

// Options make a gRPC server bound its connections and what it receives before it is read,
// count answers and refuse compressed requests, of all services.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.RPCDecompressor(refusing{}), //nolint:staticcheck // Deprecated, but supported throughout 1.x.
		grpc.MaxRecvMsgSize(otherMessageBytes), grpc.StaticStreamWindowSize(windowBytes),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderBytes), grpc.ConnectionTimeout(handshakeTimeout),
	}
}

// refusing is a decompressor that refuses: gzip makes 64 MB of 64 KB. gRPC knows gzip as soon as
// any package of the program imports it, such as the exporter of traces, and has no other option
// that is not global.
type refusing struct{}

// Do returns an error.
func (refusing) Do(io.Reader) ([]byte, error) { return nil, errCompressed }

// Type returns the only compression that a dependency registers.
func (refusing) Type() string { return "gzip" }

// errCompressed is what callers read who compress.
var errCompressed = errors.New("this server accepts no compressed requests")

// RefusedError means that a call is refused, with the status that its caller sees.
type RefusedError struct {
	Status *status.Status
	// RetryAfter is after how long a client is told to retry, -1 for never, and 0 where it
	// is told nothing.
	RetryAfter time.Duration
}

// Error returns what the caller reads.
func (e RefusedError) Error() string { return e.Status.Message() }

// Refuse returns an error for a call that is refused.
func Refuse(code codes.Code, format string, args ...any) error {
	return RefusedError{Status: status.New(code, text.Shorten(fmt.Sprintf(format, args...)))}
}

// Overload returns an error for a call that is one too many. It may be retried after about the
// time in which a decision ends; calls that are turned away together do not return together.
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

// TooLarge returns an error for a call that needs more memory than any may hold, most of it
// for a part.
func TooLarge(need, most int, part string) error {
	const format = "the call needs some %d MiB of memory, most of it for %s; it may hold %d (--max-memory of the server)"
	return RefusedError{Status: status.Newf(codes.ResourceExhausted, format, need>>20, part, most>>20), RetryAfter: -1}
}

package ingress

import (
	"context"
	"crypto/rand"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/elastalloc/elastalloc/internal/tracing"
)

// requestIDKey is the metadata key of a call's id: in the request, in the trailer of the
// response, and in its header if the call succeeds.
const requestIDKey = "x-request-id"

// maxRequestIDLength is the length of the longest id that is accepted, in bytes.
const maxRequestIDLength = 128

// identify gives the call the id it brought, or a new one, and returns it to the caller.
func identify(ctx context.Context, c *call, next rest) (any, error) {
	id := rand.Text()
	if brought := metadata.ValueFromIncomingContext(ctx, requestIDKey); len(brought) > 0 && acceptable(brought[0]) {
		id = brought[0]
	}
	trace.SpanFromContext(ctx).SetAttributes(tracing.RequestID.String(id))
	echo := metadata.Pairs(requestIDKey, id)
	// Now, since gRPC itself answers a request that is too large, and only in the trailer of
	// a call that fails: to gRPC a header means that it was begun, and must not be retried.
	_ = grpc.SetTrailer(ctx, echo)
	c.event.RequestID = id
	response, err := next(ctx, c)
	if err == nil {
		_ = grpc.SetHeader(ctx, echo)
	}
	return response, err
}

// acceptable reports whether an id is fit for headers and logs: printable ASCII
// without spaces, and not too long.
func acceptable(id string) bool {
	printable := func(r rune) bool { return r > ' ' && r <= '~' }
	return id != "" && len(id) <= maxRequestIDLength && strings.IndexFunc(id, func(r rune) bool { return !printable(r) }) < 0
}

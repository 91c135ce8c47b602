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

// identify assigns the request id of the metadata, or a new one, and returns it to the caller.
func identify(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	id := rand.Text()
	if ids := metadata.ValueFromIncomingContext(ctx, requestIDKey); len(ids) > 0 && acceptable(ids[0]) {
		id = ids[0]
	}
	trace.SpanFromContext(ctx).SetAttributes(tracing.RequestID.String(id))
	echo := metadata.Pairs(requestIDKey, id)
	// The trailer is set now because gRPC itself rejects requests that it cannot receive. A failed call has
	// no header: gRPC clients take a header as a sign that the call began, and do not retry it.
	_ = grpc.SetTrailer(ctx, echo)
	request.(*call).event.RequestID = id
	response, err := next(ctx, request)
	if err == nil {
		_ = grpc.SetHeader(ctx, echo)
	}
	return response, err
}

// acceptable reports whether an id is suitable for headers and logs: printable ASCII without spaces, up
// to maxRequestIDLength bytes.
func acceptable(id string) bool {
	printable := func(r rune) bool { return r > ' ' && r <= '~' }
	return id != "" && len(id) <= maxRequestIDLength && strings.IndexFunc(id, func(r rune) bool { return !printable(r) }) < 0
}

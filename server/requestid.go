package server

import (
	"context"
	"crypto/rand"
	"strings"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/elastalloc/elastalloc/internal/tracing"
)

// requestIDKey is the metadata key under which a call may bring its id, and under
// which the response's header returns it, or its trailer where the call failed.
const requestIDKey = "x-request-id"

// maxRequestIDLength is the longest id that is taken over, in bytes.
const maxRequestIDLength = 128

// requestIDContextKey is the key of the request id in a context.
type requestIDContextKey struct{}

// requestID returns the id of the call that ctx belongs to, "" outside of one.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDContextKey{}).(string)
	return id
}

// identify gives the call the id it brought, or a new one, tells its span and echoes it.
func identify(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	id := rand.Text()
	if brought := metadata.ValueFromIncomingContext(ctx, requestIDKey); len(brought) > 0 && acceptable(brought[0]) {
		id = brought[0]
	}
	trace.SpanFromContext(ctx).SetAttributes(tracing.RequestID.String(id))
	response, err := handler(context.WithValue(ctx, requestIDContextKey{}, id), request)
	// Both can be set here for sure: nothing has been sent yet. An error goes without a
	// header, which would tell clients that the call was begun: gRPC retries no such call.
	if echo := metadata.Pairs(requestIDKey, id); err != nil {
		_ = grpc.SetTrailer(ctx, echo)
	} else {
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

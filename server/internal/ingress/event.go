package ingress

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

// Event describes a completed call.
type Event struct {
	Method    string // without its service
	RequestID string // from the metadata of the call, or generated
	Caller    string // the name in the client's certificate, or its address without the port
	// Began is the start of the call in the server, Waited how long it waited for a slot, and Total
	// its duration.
	Began         time.Time
	Waited, Total time.Duration
	// RequestBytes is the encoded size of the request, 0 if it did not arrive, and Size the estimated
	// size of the decoded request.
	RequestBytes int
	Size         guard.Size
	// HasSnapshot reports that the request has a snapshot. The next fields describe it. It may be
	// invalid, and its id can have any length and characters.
	HasSnapshot bool
	SnapshotID  string
	Jobs, Nodes int
	// Request is nil if it was not decoded, and Response is nil if there is none. They are not
	// modified any more, so observers may keep them.
	Request, Response proto.Message
	Outcome
	// Err is nil for a successful call. Its text is suitable for logs. Its status is the status that
	// the caller receives.
	Err error
}

// Outcome is what the method of a call did, in addition to its response. It is zero if the method
// did not run.
type Outcome struct {
	Decision *solver.Decision // also of FillIdle; nil if nothing was decided
	Resizes  map[string]int   // number of jobs that Decision resizes, by reason
	// Objective is the objective that Decision maximizes, and Report the report of Decision. Report
	// is nil for FillIdle, which does not search.
	Objective solver.Objective
	Report    *solver.Report
	Audit     bool // the response was sampled for an audit
	// Contradiction describes how an optimality proof contradicted itself, which is a bug. It is
	// empty otherwise.
	Contradiction string
}

// Code returns the status code of the call.
func (e *Event) Code() codes.Code { return status.Code(e.Err) }

// Observer observes every completed call, including rejected calls.
type Observer interface {
	// Observe observes a call with the context of the call. It must not modify the event, and may keep
	// only the messages and the allocations.
	Observe(ctx context.Context, event *Event)
}

// observe converts the error of a call to an error that the caller may see, and calls the observers.
func (in *Ingress) observe(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	event := &request.(*call).event
	event.Began, event.Caller = time.Now(), guard.Caller(ctx)
	response, err := next(ctx, request)
	if err != nil {
		err = &callError{status: statusOf(event.RequestID, err), cause: err}
		in.setRetryPushback(ctx, err)
		if status.Code(err) == codes.Canceled {
			guard.Canceled(ctx)
		}
	}
	event.Total, event.Err = time.Since(event.Began), err
	for _, observer := range in.config.Observers {
		observer.Observe(ctx, event)
	}
	return response, err
}

// pushbackKey is the trailer with the milliseconds after which a client retries. A negative value
// disables retries (gRFC A6).
const pushbackKey = "grpc-retry-pushback-ms"

// setRetryPushback counts a call that is rejected for load, and sets the time after which the client
// retries. The client does not retry if its deadline is earlier.
func (in *Ingress) setRetryPushback(ctx context.Context, err error) {
	var refused guard.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter == 0 {
		return
	}
	retry := int64(-1)
	if refused.RetryAfter > 0 {
		in.rejected.Add(1)
		if deadline, limited := ctx.Deadline(); !limited || time.Until(deadline) >= refused.RetryAfter {
			retry = refused.RetryAfter.Milliseconds()
		}
	}
	// An error means that the caller has disconnected.
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, strconv.FormatInt(retry, 10)))
}

// address returns the remote address of a call, with the port.
func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return p.Addr.String()
}

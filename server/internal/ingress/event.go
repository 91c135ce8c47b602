package ingress

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

// Event describes a call that has ended.
type Event struct {
	Method    string // without its service
	RequestID string // that the call brought, or was given
	Caller    string // the name in the client's certificate, or else its address without the port
	// Began is when the server heard of the call, Waited how long it waited for its turn, and
	// Total how long all of it took.
	Began         time.Time
	Waited, Total time.Duration
	// RequestBytes is the size of the request, 0 if it did not arrive, and Size that of what
	// it decodes to.
	RequestBytes int
	Size         guard.Size
	// HasSnapshot says that the request holds a snapshot, and the others describe it. It
	// may be invalid, and its id of any length and characters.
	HasSnapshot bool
	SnapshotID  string
	Jobs, Nodes int
	// Request is nil if it was not decoded, and Response if there is none. Nothing changes
	// them any more, so that they alone may be kept.
	Request, Response proto.Message
	Outcome
	// Err is nil for a call that was answered. Its text is fit for a log, its status is
	// what the caller sees.
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

// Observer is told of every call when it ends, also of those that were refused.
type Observer interface {
	// Observe takes note of an event, whose parts are not to be changed or, but for the
	// messages and the allocations, kept. The context is that of the call.
	Observe(ctx context.Context, event *Event)
}

// observe makes the error of a call one that its caller may see, and tells the observers.
func (in *Ingress) observe(ctx context.Context, c *call, next rest) (any, error) {
	event := &c.event
	event.Began, event.Caller = time.Now(), caller(ctx)
	response, err := next(ctx, c)
	if err != nil {
		err = &callError{status: statusOf(event.RequestID, err), cause: err}
		in.pushBack(ctx, err)
		if status.Code(err) == codes.Canceled {
			guard.Cancelled(ctx)
		}
	}
	event.Total, event.Err = time.Since(event.Began), err
	if err == nil {
		event.Response, _ = response.(proto.Message)
	}
	for _, observer := range in.config.Observers {
		observer.Observe(ctx, event)
	}
	return response, err
}

// pushbackKey is the trailer that tells a client of gRPC after how many milliseconds to
// retry, or, if negative, not to (gRFC A6).
const pushbackKey = "grpc-retry-pushback-ms"

// pushBack counts a call that is turned away for load, and tells its client when to
// retry: not at all if the deadline comes before that.
func (in *Ingress) pushBack(ctx context.Context, err error) {
	var refused guard.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter == 0 {
		return
	}
	retry := int64(-1)
	if refused.RetryAfter > 0 {
		in.shed.Add(1)
		if deadline, limited := ctx.Deadline(); !limited || time.Until(deadline) >= refused.RetryAfter {
			retry = refused.RetryAfter.Milliseconds()
		}
	}
	// An error means that the caller has gone.
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, strconv.FormatInt(retry, 10)))
}

// address returns the address of the connection of a call, port included.
func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return p.Addr.String()
}

// caller returns who makes a call.
func caller(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
		certificate := info.State.PeerCertificates[0]
		switch {
		case len(certificate.DNSNames) > 0:
			return text.Shorten(certificate.DNSNames[0])
		case len(certificate.URIs) > 0:
			return text.Shorten(certificate.URIs[0].String())
		case certificate.Subject.CommonName != "":
			return text.Shorten(certificate.Subject.CommonName)
		}
	}
	if p.Addr.Network() == "unix" {
		return "unix" // Such callers have no addresses.
	}
	if host, _, err := net.SplitHostPort(address(ctx)); err == nil {
		return host
	}
	return address(ctx)
}

package ingress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/solver"
)

var (
	errDraining = errors.New("server is draining")
	errSlow     = errors.New("the request did not arrive in time")
)

// malformedError means that what the caller sent is not a request.
type malformedError struct{ error }

// Unwrap returns the cause.
func (e malformedError) Unwrap() error { return e.error }

// overloadError means that there are too many calls.
type overloadError struct{ retryAfter time.Duration }

// newOverloadError returns an error for a call that may be retried after about the time
// in which a decision ends. Calls that are turned away together do not return together.
func newOverloadError() overloadError {
	return overloadError{retryAfter: time.Duration(100+rand.IntN(200)) * time.Millisecond}
}

// Error returns what the caller reads.
func (overloadError) Error() string { return "too many requests in flight; retry later" }

// tooLargeError means that a call needs more memory than any may hold.
type tooLargeError struct{ need, most int }

// Error returns what the caller reads.
func (e tooLargeError) Error() string {
	return fmt.Sprintf("the request needs some %d MiB of memory; a call may hold %d (--max-memory of the server)", e.need>>20, e.most>>20)
}

// callError is an error with the status that the caller sees. Within the process
// errors.Is and errors.As find the cause.
type callError struct {
	status *status.Status
	cause  error
}

// Error returns a text for logs at any level: the cause of a bug, the names of bad fields
// without their values, and otherwise what the caller reads, which is bounded in length.
func (e *callError) Error() string {
	var invalid *solver.InvalidError
	switch {
	case e.status.Code() == codes.Internal:
		return e.cause.Error()
	case errors.As(e.cause, &invalid):
		return "bad fields: " + badFields(invalid.Violations)
	default:
		return e.status.Message()
	}
}

// badFields names the first bad fields and says how many more there are.
func badFields(violations []solver.Violation) string {
	const most = 10
	var names []string
	for _, v := range violations[:min(len(violations), most)] {
		names = append(names, v.Path)
	}
	if more := len(violations) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Unwrap returns the cause.
func (e *callError) Unwrap() error { return e.cause }

// GRPCStatus returns what the caller sees.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// toCallError is the one place where errors become statuses. An unknown error is a bug of
// ours: the caller learns the id under which it is logged, and nothing else.
func toCallError(ctx context.Context, err error) error {
	var known *callError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &callError{status: statusOf(ctx, err), cause: err}
}

func statusOf(ctx context.Context, err error) *status.Status {
	var invalid *solver.InvalidError
	var overload overloadError
	var malformed malformedError
	switch {
	case errors.As(err, &invalid):
		return apiconv.StatusOfViolations(invalid.Violations)
	case errors.As(err, &overload):
		return withDetails(status.New(codes.ResourceExhausted, overload.Error()),
			&errdetails.RetryInfo{RetryDelay: durationpb.New(overload.retryAfter)})
	case errors.As(err, new(tooLargeError)):
		return status.New(codes.ResourceExhausted, err.Error())
	case errors.Is(err, errSlow):
		// Not DEADLINE_EXCEEDED, which would be our failure.
		return status.New(codes.Canceled, errSlow.Error())
	case errors.As(err, &malformed):
		return status.New(codes.InvalidArgument, text.Shorten(err.Error()))
	case errors.Is(err, errDraining):
		return status.New(codes.Unavailable, "server is draining; retry on another one")
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "call was canceled")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, solver.ErrTimedOut):
		return status.New(codes.DeadlineExceeded, "no backend had an allocation in time")
	default:
		return status.New(codes.Internal, "internal error; request id "+requestID(ctx))
	}
}

// withDetails adds details to a status. That fails only for a status of OK or a
// message that does not marshal; the status is sent without them then.
func withDetails(s *status.Status, details protoadapt.MessageV1) *status.Status {
	if detailed, err := s.WithDetails(details); err == nil {
		return detailed
	}
	return s
}

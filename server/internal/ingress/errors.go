package ingress

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

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

// statusOf returns the status of an error. An unknown one is a bug of ours: the caller learns
// the id under which it is logged, and nothing else.
func statusOf(requestID string, err error) *status.Status {
	var invalid *solver.InvalidError
	var refused guard.RefusedError
	switch {
	case errors.As(err, &invalid):
		return apiconv.StatusOfViolations(invalid.Violations)
	case errors.As(err, &refused):
		return refused.Status
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "call was canceled")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, solver.ErrTimedOut):
		return status.New(codes.DeadlineExceeded, "no backend had an allocation in time")
	default:
		return status.New(codes.Internal, "internal error; request id "+requestID)
	}
}

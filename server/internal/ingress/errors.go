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

// callError is an error with the status that the caller receives. Unwrap returns its cause.
type callError struct {
	status *status.Status
	cause  error
}

// Error returns a text for logs at any level. For an internal error it is the cause, for bad fields their
// names without the values, and otherwise the status message, whose length is bounded.
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

// badFields returns the names of the first bad fields and the number of further ones.
func badFields(violations []solver.Violation) string {
	const maxNames = 10
	var names []string
	for _, v := range violations[:min(len(violations), maxNames)] {
		names = append(names, v.Path)
	}
	if more := len(violations) - maxNames; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Unwrap returns the cause.
func (e *callError) Unwrap() error { return e.cause }

// GRPCStatus returns the status that the caller receives.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// statusOf returns the status of an error. An unknown error is a bug. The caller receives only the
// request id, under which the error is logged.
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

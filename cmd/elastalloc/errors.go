package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The exit statuses.
const (
	exitDone     = 0
	exitFailed   = 1
	exitBadInput = 2
)

// failedError marks an error of the work itself. Every other error is one of
// usage or of input.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

// failed marks an error, unless it is nil, as one of the work itself.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return failedError{err}
}

// exitStatus returns the exit status that an error stands for.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, new(failedError)):
		return exitFailed
	default:
		return exitBadInput
	}
}

// printError writes an error for a person: one message, with a line of its own
// for each bad field of a request.
func printError(w io.Writer, command *cobra.Command, err error) {
	fmt.Fprintf(w, "%s: %v\n", command.CommandPath(), err)
}

// allocateError turns the status an allocator refused a request with into an
// error of this program: a bad request is bad input, anything else is a failure.
func allocateError(err error) error {
	refusal := status.Convert(err)
	if refusal.Code() != codes.InvalidArgument {
		return failed(fmt.Errorf("%s: %s", refusal.Code(), refusal.Message()))
	}
	var lines []string
	for _, detail := range refusal.Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, field := range request.GetFieldViolations() {
				line := "\n  " + field.GetDescription()
				if field.GetField() != "" {
					line = "\n  " + field.GetField() + ": " + field.GetDescription()
				}
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return errors.New(refusal.Message())
	}
	return errors.New("the request is invalid" + strings.Join(lines, ""))
}

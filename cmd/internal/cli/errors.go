package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// The exit statuses.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitBadInput = 2
)

// failedError marks an error of the work itself. Every other error is one of
// usage or of input.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

// Failed marks an error, unless it is nil, as one of the work itself.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return failedError{err}
}

// ExitStatus returns the exit status that an error stands for: ExitBadInput unless
// Failed has marked it.
func ExitStatus(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, new(failedError)):
		return ExitFailed
	default:
		return ExitBadInput
	}
}

// PrintError writes an error for a person: one message, with a line of its own
// for each bad field of a request.
func PrintError(w io.Writer, command *cobra.Command, err error) {
	fmt.Fprintf(w, "%s: %v\n", command.CommandPath(), err)
}

package cli

import "errors"

// The exit statuses.
const (
	ExitDone     = 0
	ExitFailed   = 1
	ExitBadInput = 2
)

// failedError marks a failure of the work. Every other error is bad usage or bad input.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

// Failed marks an error, unless it is nil, as a failure of the work.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return failedError{err}
}

// ErrInterrupted is the failure of a command that a signal ended.
var ErrInterrupted = Failed(errors.New("interrupted"))

// ExitStatus returns the exit status for an error: ExitFailed if Failed has marked it,
// else ExitBadInput.
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

// Package recorded finds calls in the recordings of a server for the command lines.
package recorded

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/text"
)

// Flags is flags for recordings and a time.
type Flags struct {
	// Dirs is the folders of the recordings. It is empty if the flag is not set.
	Dirs   []string
	at     string
	caller string
}

// Add adds the flags to a command.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Dirs, "recording", nil, "folders of recordings, of several servers as well")
	flags.StringVar(&f.at, "at", "",
		"time in the recording: RFC 3339, or the last 14:05 in local time, with its whole minute (default its end)")
	cli.SetVariable(flags, "at", "ELASTALLOC_RECORDING_AT") // snapshot also has a flag --at
	flags.StringVar(&f.caller, "caller", "", "caller of the call in the recording (default any)")
}

// Last returns the last matching call at or before the time of the flags. The error without a matching call
// names what was searched. Last prints unreadable parts of the recordings to standard error.
func (f *Flags) Last(cmd *cobra.Command, what string, wanted func(*recording.Entry) bool) (*recording.Entry, error) {
	var first, last time.Time
	read := func(each func(recording.Entry)) ([]recording.ReadError, error) {
		readErrors, err := recording.Read(f.Dirs, func(e recording.Entry) error {
			each(e)
			return cmd.Context().Err()
		})
		switch {
		case cmd.Context().Err() != nil:
			return nil, cli.ErrInterrupted
		case err != nil:
			return nil, fmt.Errorf("--recording: %w", err)
		}
		return readErrors, nil
	}
	// The calls are read twice: the last day is known only at the end, and they may be too many to keep.
	readErrors, err := read(func(e recording.Entry) {
		if first.IsZero() || e.Time.Before(first) {
			first = e.Time
		}
		if e.Time.After(last) {
			last = e.Time
		}
	})
	if err != nil {
		return nil, err
	}
	for _, readError := range readErrors {
		fmt.Fprintln(cmd.ErrOrStderr(), text.Printable(readError.String()))
	}
	at, err := f.time(first, last)
	if err != nil {
		return nil, err
	}
	if f.caller != "" {
		what += fmt.Sprintf(" of the caller %s", text.Printable(f.caller))
	}
	var found *recording.Entry
	if _, err := read(func(e recording.Entry) {
		if !e.Time.After(at) && (found == nil || !e.Time.Before(found.Time)) && (f.caller == "" || e.Caller == f.caller) && wanted(&e) {
			found = &e
		}
	}); err != nil {
		return nil, err
	}
	switch {
	case found != nil:
		return found, nil
	case last.IsZero():
		return nil, fmt.Errorf("--recording: no calls in %v", f.Dirs)
	default:
		return nil, fmt.Errorf("--at: is %s; no %s is recorded until then: the calls are from %s to %s",
			cmp.Or(f.at, "not set"), what, Time(first), Time(last))
	}
}

// time returns the time of the flags, for recordings from first to last. A time of day is the last one before the
// end of the recordings, with its whole minute or second. If the recordings begin after it, it is on their last day.
func (f *Flags) time(first, last time.Time) (time.Time, error) {
	if f.at == "" {
		return last, nil
	}
	if at, err := time.Parse(time.RFC3339, f.at); err == nil {
		return at, nil
	}
	for layout, precision := range map[string]time.Duration{"15:04": time.Minute, time.TimeOnly: time.Second} {
		clock, err := time.Parse(layout, f.at)
		if err != nil {
			continue
		}
		year, month, day := last.Local().Date()
		on := func(day int) time.Time {
			return time.Date(year, month, day, clock.Hour(), clock.Minute(), clock.Second(), 0, time.Local)
		}
		at := on(day)
		if yesterday := on(day - 1).Add(precision - 1); at.After(last) && !yesterday.Before(first) {
			return yesterday, nil
		}
		return at.Add(precision - 1), nil
	}
	return time.Time{}, fmt.Errorf("--at: is %q; must be a time in RFC 3339, such as 2026-05-04T14:05:00Z, or of a day, such as 14:05", f.at)
}

// Time formats the time of a call, in a format of --at.
func Time(t time.Time) string { return t.Local().Format(time.RFC3339Nano) }

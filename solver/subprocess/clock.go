package subprocess

import (
	"context"
	"time"
)

// How the time that a backend has is split: writing the model takes what it takes,
// then the solver runs, then its solution is read.
const (
	// Reading a solution takes no longer than writing the model took. That and ending a
	// solver that does not end by itself get no more than this share of the time left.
	longestReserveShare = 1.0 / 4
	// The solver is told to end this share of its time before it is made to: it
	// looks at its clock now and then only, and has to write the solution.
	earlyShare = 1.0 / 5
	// grace is what a solver has between the signals TERM and KILL.
	grace = 20 * time.Millisecond
)

// clock is what the time limits of one run of a solver are.
type clock struct {
	// kill is when the solver is made to end; the zero time is never.
	kill time.Time
	// limit is what the solver is told; 0 means no limit.
	limit time.Duration
}

// newClock splits the time from now to the deadline of ctx, if it has one, for a
// model that took the given time to write.
func newClock(ctx context.Context, now time.Time, writing time.Duration) clock {
	deadline, ok := ctx.Deadline()
	if !ok {
		return clock{}
	}
	left := max(0, deadline.Sub(now))
	run := left - min(writing+grace, share(left, longestReserveShare))
	return clock{kill: now.Add(run), limit: run - share(run, earlyShare)}
}

// until returns ctx with the clock's end.
func (c clock) until(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.kill.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, c.kill)
}

func share(d time.Duration, part float64) time.Duration { return time.Duration(float64(d) * part) }

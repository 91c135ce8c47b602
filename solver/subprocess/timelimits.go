package subprocess

import (
	"context"
	"time"
)

// Division of the time of a backend: writing the model, running the solver, and reading its solution.
const (
	// The reserve for reading the solution and for killing a solver that does not stop by itself is the
	// time that writing the model took plus killDelay, but at most this share of the remaining time.
	maxReserveShare = 1.0 / 4
	// The solver's own time limit is shorter than its time until it is killed by this share, because a
	// solver checks its clock only now and then, and has to write the solution.
	killMarginShare = 1.0 / 5
	// killDelay is the time between the signals TERM and KILL.
	killDelay = 20 * time.Millisecond
)

// timeLimits are the time limits of one run of a solver.
type timeLimits struct {
	// kill is the time when the solver is stopped by a signal. The zero time means never.
	kill time.Time
	// solver is the time limit that is passed to the solver, 0 for no limit.
	solver time.Duration
}

// newTimeLimits divides the time from now to the deadline of ctx. writing is the time that writing the
// model took. Without a deadline there are no limits.
func newTimeLimits(ctx context.Context, now time.Time, writing time.Duration) timeLimits {
	deadline, ok := ctx.Deadline()
	if !ok {
		return timeLimits{}
	}
	remaining := max(0, deadline.Sub(now))
	run := remaining - min(writing+killDelay, fraction(remaining, maxReserveShare))
	return timeLimits{kill: now.Add(run), solver: run - fraction(run, killMarginShare)}
}

// withKillTime returns a copy of ctx that is done at l.kill at the latest.
func (l timeLimits) withKillTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.kill.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, l.kill)
}

func fraction(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

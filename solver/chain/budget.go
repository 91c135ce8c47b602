package chain

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Division of the time of a decision.
const (
	// A response is due before the caller's deadline by this share of the time until the deadline, but
	// by at most maxMargin, because the response has to be transmitted. The time that greedy and the
	// construction of the model took is subtracted too, because the response takes about as long.
	marginShare = 1.0 / 10
	maxMargin   = 100 * time.Millisecond

	// This share of the budget, but at least minReserve and at most half of the budget, is reserved for
	// the work after the backends: greedy, the check of the plan and the bound.
	reserveShare = 1.0 / 10
	minReserve   = 20 * time.Millisecond

	// A backend leaves this share of the remaining time to the backends after it and to the
	// verification of its claim, so that a backend that hangs does not use all of the time. The prover
	// has the whole search time, because it always returns a plan.
	fallbackShare = 1.0 / 4
)

// budget has the deadlines of a decision. The zero time means no deadline.
type budget struct {
	// deadline is when the decision is complete, and searchDeadline when the backends before greedy are.
	deadline, searchDeadline time.Time
	// responseDeadline is when the caller gets the best plan so far, even if computations are still
	// in progress.
	responseDeadline time.Time
}

// newBudget returns the budget of a decision that starts now. Its length is requested or, if that is 0,
// defaultLength, and it is limited by the deadline of ctx minus the time of the response.
func newBudget(ctx context.Context, now time.Time, responseTime, requested, defaultLength time.Duration) budget {
	length := cmp.Or(requested, defaultLength)
	var responseDeadline time.Time
	if deadline, ok := ctx.Deadline(); ok {
		remaining := max(0, deadline.Sub(now))
		remaining = max(0, remaining-min(fraction(remaining, marginShare), maxMargin)-responseTime)
		responseDeadline = now.Add(remaining)
		if length == 0 || length > remaining {
			length = remaining
		}
	} else if length == 0 {
		return budget{}
	}
	reserve := min(max(fraction(length, reserveShare), minReserve), length/2)
	return budget{
		deadline: now.Add(length), searchDeadline: now.Add(length - reserve), responseDeadline: responseDeadline,
	}
}

// backendDeadline returns the deadline of a backend that is called now. If last is set, the backend gets
// all of the remaining search time.
func (b budget) backendDeadline(now time.Time, last bool) time.Time {
	if b.searchDeadline.IsZero() || last {
		return b.searchDeadline
	}
	return b.searchDeadline.Add(-fraction(b.searchDeadline.Sub(now), fallbackShare))
}

// withDeadline is context.WithDeadline, except that the zero time adds no deadline.
func withDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// withInterrupt returns a copy of ctx that is also done when interrupt is done, then with the error
// context.DeadlineExceeded. interrupt may be nil.
func withInterrupt(ctx, interrupt context.Context) (context.Context, context.CancelFunc) {
	if interrupt == nil {
		return ctx, func() {}
	}
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(interrupt, func() { cancel(context.DeadlineExceeded) })
	return interruptContext{ctx, inner}, func() {
		stop()
		cancel(nil)
	}
}

// interruptContext is the context of withInterrupt.
type interruptContext struct {
	context.Context
	inner context.Context
}

// Done returns a channel that is closed when the context is done.
func (c interruptContext) Done() <-chan struct{} { return c.inner.Done() }

// Err returns the reason why the context is done.
func (c interruptContext) Err() error {
	if errors.Is(context.Cause(c.inner), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return c.inner.Err()
}

// AfterFunc lets derived contexts propagate cancellation without a goroutine.
func (c interruptContext) AfterFunc(f func()) func() bool { return context.AfterFunc(c.inner, f) }

func fraction(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }

package chain

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// How the time for a decision is split.
const (
	// The caller's deadline is kept by this share of the time until it, but no more
	// than the longest margin: the answer has to travel. What greedy and the model took
	// comes on top, since the answer takes about as long to be made.
	marginShare   = 1.0 / 10
	longestMargin = 100 * time.Millisecond

	// What comes after the backends (greedy, the check, the bound) is kept this
	// share of the budget, or the shortest reserve if that is more, but never more
	// than half of the budget.
	reserveShare    = 1.0 / 10
	shortestReserve = 20 * time.Millisecond

	// A backend leaves this share of the time left to those after it and to the
	// verification of what it claims, lest one that hangs spend it all; the prover has
	// until the end of the search.
	fallbackShare = 1.0 / 4
)

// budget is until when a decision may take. Zero times mean without limit.
type budget struct {
	end       time.Time // of the decision
	searchEnd time.Time // of the backends before greedy
	// cutoff is when the caller gets the best so far, whatever is still being computed.
	cutoff time.Time
}

// newBudget returns the budget that begins now, of the length asked for, or the
// default where that is 0, within the deadline of ctx, of an answer made in about answering.
func newBudget(ctx context.Context, now time.Time, answering, asked, byDefault time.Duration) budget {
	length := cmp.Or(asked, byDefault)
	var cutoff time.Time
	if deadline, ok := ctx.Deadline(); ok {
		left := max(0, deadline.Sub(now))
		left = max(0, left-min(share(left, marginShare), longestMargin)-answering)
		cutoff = now.Add(left)
		if length == 0 || length > left {
			length = left
		}
	} else if length == 0 {
		return budget{}
	}
	reserve := min(max(share(length, reserveShare), shortestReserve), length/2)
	return budget{end: now.Add(length), searchEnd: now.Add(length - reserve), cutoff: cutoff}
}

// slice returns until when a backend that is asked now may take, all the time there is
// or a part of it.
func (b budget) slice(now time.Time, all bool) time.Time {
	if b.searchEnd.IsZero() || all {
		return b.searchEnd
	}
	left := b.searchEnd.Sub(now)
	return b.searchEnd.Add(-share(left, fallbackShare))
}

// until returns ctx with one more end; the zero time adds none.
func until(ctx context.Context, end time.Time) (context.Context, context.CancelFunc) {
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end)
}

// hurried returns ctx with one more end: where hurry ends, it ends with
// context.DeadlineExceeded, as at a deadline. With nil there is none.
func hurried(ctx, hurry context.Context) (context.Context, context.CancelFunc) {
	if hurry == nil {
		return ctx, func() {}
	}
	ended, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(hurry, func() { end(context.DeadlineExceeded) })
	return hurriedContext{ctx, ended}, func() {
		stop()
		end(nil)
	}
}

// hurriedContext is a context that may end before its parent.
type hurriedContext struct {
	context.Context
	ended context.Context
}

// Done returns a channel that is closed when the context ends.
func (h hurriedContext) Done() <-chan struct{} { return h.ended.Done() }

// Err returns why it has ended.
func (h hurriedContext) Err() error {
	if errors.Is(context.Cause(h.ended), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return h.ended.Err()
}

// AfterFunc has contexts of this one end without a goroutine that waits for it.
func (h hurriedContext) AfterFunc(f func()) func() bool { return context.AfterFunc(h.ended, f) }

func share(d time.Duration, part float64) time.Duration { return time.Duration(float64(d) * part) }

package ingress

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// longestWait is how long a call waits for its turn at most. A decision is most
	// useful now, and another server may be idle.
	longestWait = 500 * time.Millisecond

	// maxWaitFraction is the fraction of the time until a call's deadline that it may
	// wait: the rest must suffice for deciding, or for asking another server.
	maxWaitFraction = 1.0 / 2
)

// turns limits how many methods run at once. Calls that wait get their turn in the order
// in which they came.
type turns struct {
	// taken holds one token per method that runs; its capacity is the limit.
	taken    chan struct{}
	waiting  *atomic.Int64
	maxQueue int
}

func newTurns(maxInflight, maxQueue int) turns {
	return turns{taken: make(chan struct{}, maxInflight), waiting: new(atomic.Int64), maxQueue: maxQueue}
}

// take waits for a turn, which release ends. It fails at once if the queue is full, and
// later if the turn does not come in time or ctx ends.
func (t turns) take(ctx context.Context) error {
	select {
	case t.taken <- struct{}{}:
		return nil
	default:
	}
	defer t.waiting.Add(-1)
	if t.waiting.Add(1) > int64(t.maxQueue) {
		return newOverloadError()
	}
	wait := longestWait
	if deadline, limited := ctx.Deadline(); limited {
		wait = min(wait, time.Duration(float64(time.Until(deadline))*maxWaitFraction))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-timer.C:
		return newOverloadError()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turns) release() { <-t.taken }

// queued returns how many calls wait.
func (t turns) queued() int { return int(min(t.waiting.Load(), int64(t.maxQueue))) }

package server

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/elastalloc/elastalloc/internal/tracing"
)

const (
	// longestWait is how long a call waits for its turn at most. A decision is worth
	// most now, and another server may be idle.
	longestWait = 500 * time.Millisecond

	// waitShare is the share of the time until a call's deadline that it may spend
	// waiting: what is left must suffice for deciding, or for asking another server.
	waitShare = 1.0 / 2
)

// admission says which calls are taken, and when it is their turn. A call passes it
// twice: enter, before its request is received, and await, before it is decided.
type admission struct {
	// turns holds one token per call being decided; its capacity is the limit.
	// Those who wait for room in it get it in the order in which they came.
	turns    chan struct{}
	waiting  atomic.Int64
	maxQueue int64
	draining atomic.Bool
	// turnedAway counts the calls that were shed.
	turnedAway atomic.Int64
}

func newAdmission(maxInflight, maxQueue int) *admission {
	return &admission{turns: make(chan struct{}, maxInflight), maxQueue: int64(maxQueue)}
}

// enter refuses a call while the server drains, which it may reach over a connection
// that was open already.
func (a *admission) enter(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if a.draining.Load() {
		return nil, toCallError(ctx, errDraining)
	}
	return handler(ctx, request)
}

// await waits until it is the call's turn and returns what ends that. It turns the
// call away at once where the queue is full, and later where the call has waited for
// too long; it returns the context's error if that ends first.
func (a *admission) await(ctx context.Context) (done func(), err error) {
	_, stage := tracing.Start(ctx, tracing.StageAdmission)
	defer stage.End()
	select {
	case a.turns <- struct{}{}:
	default:
		if err := a.queue(ctx); err != nil {
			tracing.Fail(stage, err.Error())
			return nil, err
		}
	}
	return func() { <-a.turns }, nil
}

// queue waits for a turn.
func (a *admission) queue(ctx context.Context) error {
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > a.maxQueue {
		return a.shed(ctx)
	}
	wait := longestWait
	if deadline, limited := ctx.Deadline(); limited {
		wait = min(wait, time.Duration(float64(time.Until(deadline))*waitShare))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case a.turns <- struct{}{}:
		return nil
	case <-timer.C:
		return a.shed(ctx)
	case <-ctx.Done():
		return toCallError(ctx, ctx.Err())
	}
}

// shed counts a call that is turned away and returns its error.
func (a *admission) shed(ctx context.Context) error {
	a.turnedAway.Add(1)
	return toCallError(ctx, errShedding)
}

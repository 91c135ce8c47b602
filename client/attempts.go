package client

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// maxAttempts is how often a call is attempted here. Each attempt has the retries of
	// the service configuration on top, as far as gRPC's budget allows.
	maxAttempts = 4

	// firstPause is the mean pause before the second attempt; each further one is twice
	// as long.
	firstPause = 50 * time.Millisecond

	// The retries of a client: at once, since all calls in flight on a server that dies fail
	// together, and per second in the long run.
	retryBurst, retryRate = 500, 10
)

// attempts makes the attempts of the calls of one client. gRPC itself has no time limit
// for an attempt, and calls that fail together with a server would exhaust its retry budget.
type attempts struct {
	timeout time.Duration
	retries *rate.Limiter
}

func newAttempts(timeout time.Duration) *attempts {
	return &attempts{timeout: timeout, retries: rate.NewLimiter(retryRate, retryBurst)}
}

// intercept gives a call whose context has no deadline one, and each attempt its share.
func (a *attempts) intercept(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	budget := budgetOf(request)
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout+2*min(budget, (math.MaxInt64-a.timeout)/2))
		defer cancel()
	}
	for attempt := 1; ; attempt++ {
		err := limited(ctx, budget, attempt == maxAttempts, func(ctx context.Context) error {
			return invoke(ctx, method, request, response, conn, options...)
		})
		if attempt == maxAttempts || ctx.Err() != nil {
			return err
		}
		// DEADLINE_EXCEEDED is of the attempt alone: the server hangs.
		code := status.Code(err)
		if code != codes.Unavailable && code != codes.DeadlineExceeded || !a.retries.Allow() || !pause(ctx, attempt) {
			return err
		}
	}
}

// budgetOf returns the time budget of a request, 0 if it has none.
func budgetOf(request any) time.Duration {
	if r, ok := request.(interface {
		GetOptions() *elastallocv1.AllocateOptions
	}); ok {
		budget := max(0, r.GetOptions().GetTimeBudget().AsDuration())
		if several, ok := request.(*elastallocv1.WhatIfRequest); ok {
			decisions := int64(1 + len(several.GetScenarios())) // each has it
			budget = time.Duration(min(int64(budget), math.MaxInt64/decisions) * decisions)
		}
		return budget
	}
	return 0
}

// limited makes an attempt, which has half of the time until the deadline or, where that is less
// than the decision may take, that and half of the rest. The last one has all that is left.
func limited(ctx context.Context, budget time.Duration, last bool, attempt func(context.Context) error) error {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	if last || left <= budget {
		return attempt(ctx)
	}
	share := left / 2
	if share < budget {
		share = budget + (left-budget)/2
	}
	ctx, cancel := context.WithTimeout(ctx, share)
	defer cancel()
	return attempt(ctx)
}

// pause waits before the next attempt, and reports whether there is time left for it.
func pause(ctx context.Context, attempt int) bool {
	mean := firstPause << (attempt - 1)
	select {
	case <-time.After(mean/2 + rand.N(mean)):
		return true
	case <-ctx.Done():
		return false
	}
}

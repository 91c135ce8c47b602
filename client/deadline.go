package client

import (
	"context"
	"math"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// maxAttempts is the number of attempts per call. Each attempt has the retries of the
	// service configuration in addition, as far as gRPC's retry budget allows.
	maxAttempts = 4

	// firstBackoff is the mean backoff before the second attempt. It doubles with each attempt.
	firstBackoff = 50 * time.Millisecond
)

// attempts returns the interceptors that limit the time of calls and of their attempts. The
// retries of gRPC's service configuration are not enough: gRPC for Go has no time limit per
// attempt, so that a call to a server that hangs would be lost (TestHangingServer), and
// calls that fail together with a server exhaust its retry budget, which is as small as busy
// servers need it (TestServerExitsDuringCalls, TestRetryBudget).
func attempts(timeout time.Duration) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(deadline(timeout), retry.UnaryClientInterceptor(
		retry.WithMax(maxAttempts), retry.WithCodes(codes.Unavailable),
		retry.WithBackoff(retry.BackoffExponentialWithJitter(firstBackoff, 0.5))))
}

// deadline returns an interceptor that gives a call without a deadline one, and each attempt
// half of the time until the deadline. If that is less than the time budget of the request,
// an attempt has the time budget and half of the rest.
func deadline(timeout time.Duration) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		budget := budgetOf(request)
		if _, limited := ctx.Deadline(); !limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout+2*min(budget, (math.MaxInt64-timeout)/2))
			defer cancel()
		}
		end, _ := ctx.Deadline()
		left := time.Until(end)
		share := left / 2
		if share < budget {
			share = budget + max(0, left-budget)/2
		}
		return invoke(ctx, method, request, response, conn, append(options, retry.WithPerRetryTimeout(share))...)
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

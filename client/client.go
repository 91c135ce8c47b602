// Package client calls an allocator: it spreads calls over all servers behind a
// name, leaves those that are going away, gives every call a deadline and retries
// what another try may cure.
package client

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // The health check of the service configuration.
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// DefaultTimeout is the time for a call whose context has no deadline.
const DefaultTimeout = 2 * time.Second

// maxMessageBytes is the largest response taken, and the largest request kept for
// a retry: 100,000 jobs with their plans need about a third of it.
const maxMessageBytes = 128 << 20

// maxShedRetries is how often a call is tried again that a server turned away
// because it was busy.
const maxShedRetries = 3

// Client calls an allocator. It is safe for concurrent use; a program needs one.
type Client struct {
	conn    *grpc.ClientConn
	stub    elastallocv1.AllocatorServiceClient
	timeout time.Duration
}

// New returns a client of the servers behind a target, which is one of
//
//   - host:port, a name whose addresses are all used, or an IP address;
//   - host1:port,host2:port,…, a list of servers;
//   - any other target of gRPC, such as unix:///run/elastalloc.sock.
//
// It connects in the background: an error is one of the target or the options.
// Connections are in plain text unless WithTLS is given.
func New(target string, options ...Option) (*Client, error) {
	s := settings{timeout: DefaultTimeout, credentials: insecure.NewCredentials()}
	for _, option := range options {
		option(&s)
	}
	if s.timeout <= 0 {
		return nil, fmt.Errorf("client timeout is %v; want more than 0", s.timeout)
	}
	dialOptions := []grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials),
		grpc.WithDefaultServiceConfig(serviceConfig(s.waitForReady)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxRetryRPCBufferSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// A server that was restarted is found again before the next one of a rolling
		// restart leaves. gRPC alone tries after a second first, and in the end every two
		// minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if strings.Contains(target, ",") {
		list, err := listResolver(target)
		if err != nil {
			return nil, err
		}
		dialOptions = append(dialOptions, grpc.WithResolvers(list))
		target = list.Scheme() + ":///elastalloc"
	}
	conn, err := grpc.NewClient(target, append(dialOptions, s.dialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("client of %q: %w", target, err)
	}
	return &Client{conn: conn, stub: elastallocv1.NewAllocatorServiceClient(conn), timeout: s.timeout}, nil
}

// listResolver resolves to a comma-separated list of servers.
func listResolver(list string) (*manual.Resolver, error) {
	var endpoints []resolver.Endpoint
	for address := range strings.SplitSeq(list, ",") {
		address = strings.TrimSpace(address)
		if address == "" {
			return nil, fmt.Errorf("client target %q has an empty address", list)
		}
		// Each server shows a certificate of its own name, not of the list's.
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address, ServerName: address}}})
	}
	r := manual.NewBuilderWithScheme("list")
	r.InitialState(resolver.State{Endpoints: endpoints})
	return r, nil
}

// serviceConfig is how gRPC itself treats calls: in turn to every server whose
// health says that it serves, and again, a little later and perhaps elsewhere,
// where the answer is UNAVAILABLE. Allocate has no side effects, so a retry does
// no harm; while most calls fail, throttling stops retries from adding to it, but not
// before hundreds have failed: all that are in flight on a server fail with it.
func serviceConfig(waitForReady bool) string {
	return fmt.Sprintf(`{
		"loadBalancingConfig": [{"round_robin": {}}],
		"healthCheckConfig": {"serviceName": %[1]q},
		"methodConfig": [{
			"name": [{"service": %[1]q}],
			"waitForReady": %[2]t,
			"retryPolicy": {
				"maxAttempts": 5,
				"initialBackoff": "0.05s",
				"maxBackoff": "0.5s",
				"backoffMultiplier": 2,
				"retryableStatusCodes": ["UNAVAILABLE"]
			}
		}],
		"retryThrottling": {"maxTokens": 1000, "tokenRatio": 1}
	}`, elastallocv1.AllocatorService_ServiceDesc.ServiceName, waitForReady)
}

// Allocate asks for one decision. A context without a deadline gets the client's
// timeout, on top of the time budget where the request names one. UNAVAILABLE is
// retried, and so is RESOURCE_EXHAUSTED of a busy server, after the time it names
// and only if the deadline allows. Errors carry a gRPC status; for INVALID_ARGUMENT
// google.rpc.BadRequest among its details names the bad fields.
func (c *Client) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeLimit(request))
		defer cancel()
	}
	for retries := 0; ; retries++ {
		response, err := c.stub.Allocate(ctx, request)
		delay, retry := retryDelay(err)
		if !retry || retries == maxShedRetries || !wait(ctx, delay) {
			return response, err
		}
	}
}

// FillIdle gives the idle nodes of a snapshot to its queue, with the timeout and the
// errors of Allocate.
func (c *Client) FillIdle(ctx context.Context, request *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	return c.stub.FillIdle(ctx, request)
}

// timeLimit returns the time for a call without a deadline. A budget that makes no
// sense is for the server to refuse.
func (c *Client) timeLimit(request *elastallocv1.AllocateRequest) time.Duration {
	budget := max(0, request.GetOptions().GetTimeBudget().AsDuration())
	return c.timeout + min(budget, math.MaxInt64-c.timeout)
}

// retryDelay returns after what time a call may be tried again: one that a busy
// server turned away, which says so with RetryInfo.
func retryDelay(err error) (delay time.Duration, retry bool) {
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted {
		return 0, false
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

// wait waits for the delay and reports whether there is time left after it; if
// the deadline is going to pass before, it does not wait at all.
func wait(ctx context.Context, delay time.Duration) bool {
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) <= delay {
		return false
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close ends all connections; calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// Package client calls an allocator: it spreads calls over all servers behind a name,
// avoids those that are draining or hang, gives every call a deadline and every attempt a
// share of it, and retries calls that failed for want of a server.
package client

import (
	"context"
	_ "embed" // The service configuration.
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // The health check of the service configuration.
	"google.golang.org/grpc/keepalive"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// DefaultTimeout is the time for a call whose context has no deadline, beside twice its time budget.
const DefaultTimeout = 2 * time.Second

// ServiceConfig is how gRPC itself treats the calls of a client, in the JSON that clients
// of any language take. Calls go in turn to every server whose health says that it serves,
// and again if the answer is UNAVAILABLE, or RESOURCE_EXHAUSTED of a busy server, which says
// when. The retries have a budget: one at first, and one for five calls that were answered.
//
//go:embed service_config.json
var ServiceConfig string

const (
	// maxResponseBytes is the largest response taken: 100,000 jobs with their plans need
	// about a third of it.
	maxResponseBytes = 128 << 20

	// maxDecodedBytes is what a response may take once it is decoded, by estimate.
	maxDecodedBytes = 512 << 20

	// maxRetriedBytes is the largest request that gRPC retries: a larger one may be refused for its
	// size, with the code of a busy server.
	maxRetriedBytes = 16 << 20
)

// Client calls an allocator. It is safe for concurrent use; a program needs one.
type Client struct {
	conn *grpc.ClientConn
	stub elastallocv1.AllocatorServiceClient
}

// New returns a client of the servers behind a target, which is one of
//
//   - host:port, a name whose addresses are all used, or an IP address;
//   - host1:port,host2:port,…, a list of servers;
//   - any other target of gRPC, such as unix:///run/elastalloc.sock.
//
// White space around it, such as the newline of a file, is ignored.
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
	target = strings.TrimSpace(target)
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	dialOptions := []grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials),
		grpc.WithDefaultServiceConfig(ServiceConfig),
		attempts(s.timeout),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newBoundedCodec()), grpc.MaxCallRecvMsgSize(maxResponseBytes), grpc.MaxRetryRPCBufferSize(maxRetriedBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		// A server that was restarted is found again before the next one of a rolling
		// restart leaves.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if strings.Contains(target, ",") {
		list := listResolver(target)
		dialOptions = append(dialOptions, grpc.WithResolvers(list))
		target = list.Scheme() + ":///elastalloc"
	}
	conn, err := grpc.NewClient(target, append(dialOptions, s.dialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("client of %q: %w", target, err)
	}
	return &Client{conn: conn, stub: elastallocv1.NewAllocatorServiceClient(conn)}, nil
}

// Allocate asks for one decision. An attempt has half of the time, and at least the time budget
// of the request; then, or after UNAVAILABLE, the next server is asked, within the deadline.
// RESOURCE_EXHAUSTED is retried when the server says, for one call in five at most. Errors carry
// a gRPC status; google.rpc.BadRequest among its details names bad fields.
func (c *Client) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	return c.stub.Allocate(ctx, request)
}

// FillIdle gives the idle nodes of a snapshot to its queue, with the retries and errors
// of Allocate.
func (c *Client) FillIdle(ctx context.Context, request *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	return c.stub.FillIdle(ctx, request)
}

// Explain asks for a decision with its reasons, with the retries and errors of Allocate.
func (c *Client) Explain(ctx context.Context, request *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error) {
	return c.stub.Explain(ctx, request)
}

// WhatIf asks for the decision on a snapshot and on variations of it, with the retries and
// errors of Allocate. What is wrong with one variation is in its result.
func (c *Client) WhatIf(ctx context.Context, request *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error) {
	return c.stub.WhatIf(ctx, request)
}

// Forecast asks when the jobs of a snapshot start and end, with the retries and errors of
// Allocate.
func (c *Client) Forecast(ctx context.Context, request *elastallocv1.ForecastRequest) (*elastallocv1.ForecastResponse, error) {
	return c.stub.Forecast(ctx, request)
}

// Close ends all connections; calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

// Package client calls elastalloc servers and carries decisions out. A Client balances calls over
// all servers of a name, avoids servers that drain or hang, sets a deadline for every call and every
// attempt, and retries calls that fail because a server is unavailable. A Plan is the loop of a
// scheduler around it.
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

// DefaultTimeout is the timeout of a call whose context has no deadline, in addition to twice the time
// budget of the request.
const DefaultTimeout = 2 * time.Second

// ServiceConfig is the gRPC service configuration of a client, as JSON for clients in any language.
// Calls rotate over the healthy servers. gRPC retries UNAVAILABLE, and RESOURCE_EXHAUSTED after the
// delay that the busy server requests. The retry budget is one retry at first, and one more per five
// successful calls.
//
//go:embed service_config.json
var ServiceConfig string

const (
	// maxResponseBytes is the size of the largest response. 100,000 jobs with their plans need about
	// a third of it.
	maxResponseBytes = 128 << 20

	// maxDecodedBytes is the largest estimated size of a decoded response in memory.
	maxDecodedBytes = 512 << 20

	// maxRetriedBytes is the size of the largest request that gRPC retries. A server may refuse a larger
	// one for its size, with the code of a busy server.
	maxRetriedBytes = 16 << 20
)

// Client calls elastalloc servers. It is safe for concurrent use.
type Client struct {
	conn *grpc.ClientConn
	stub elastallocv1.AllocatorServiceClient
}

// New returns a client of the servers of a target, which is one of
//
//   - host:port, a name whose addresses are all used, or an IP address;
//   - host1:port,host2:port,…, a list of servers;
//   - dns:///host:port, ipv4:10.0.0.1:50051, or unix:///run/elastalloc.sock, a Unix socket;
//   - any other target of gRPC whose scheme is registered.
//
// White space around the target, such as the newline of a file, is ignored. The client connects in the
// background, so an error is about the target or an option. Connections are in plain text without
// WithTLS.
func New(target string, options ...Option) (*Client, error) {
	s := settings{timeout: DefaultTimeout, credentials: insecure.NewCredentials()}
	for _, option := range options {
		option(&s)
	}
	if s.timeout <= 0 {
		return nil, fmt.Errorf("client timeout is %v; must be greater than 0", s.timeout)
	}
	target, err := parseTarget(strings.TrimSpace(target), len(s.dialOptions) > 0)
	if err != nil {
		return nil, err
	}
	dialOptions := []grpc.DialOption{
		grpc.WithTransportCredentials(s.credentials),
		grpc.WithDefaultServiceConfig(ServiceConfig),
		attempts(s.timeout),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newBoundedCodec()), grpc.MaxCallRecvMsgSize(maxResponseBytes), grpc.MaxRetryRPCBufferSize(maxRetriedBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 5 * time.Second}),
		// The client reconnects to a restarted server before the next server of a rolling restart
		// stops.
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

// Allocate returns a decision. An attempt has half of the remaining time, and at least the time budget
// of the request. If it times out or returns UNAVAILABLE, Allocate calls the next server, within the
// deadline. It retries RESOURCE_EXHAUSTED after the delay that the server requests, for at most one
// call in five. An error has a gRPC status. For INVALID_ARGUMENT its detail google.rpc.BadRequest
// names every bad field.
func (c *Client) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	return c.stub.Allocate(ctx, request)
}

// FillIdle allocates the idle nodes of a snapshot to queued jobs. It has the retries and errors of
// Allocate.
func (c *Client) FillIdle(ctx context.Context, request *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	return c.stub.FillIdle(ctx, request)
}

// Explain returns a decision with its reasons. It has the retries and errors of Allocate.
func (c *Client) Explain(ctx context.Context, request *elastallocv1.ExplainRequest) (*elastallocv1.ExplainResponse, error) {
	return c.stub.Explain(ctx, request)
}

// WhatIf returns the decision on a snapshot and on variations of it. It has the retries and errors of
// Allocate. The error of one variation is in its result.
func (c *Client) WhatIf(ctx context.Context, request *elastallocv1.WhatIfRequest) (*elastallocv1.WhatIfResponse, error) {
	return c.stub.WhatIf(ctx, request)
}

// Forecast estimates when the jobs of a snapshot start and complete. It has the retries and errors of
// Allocate.
func (c *Client) Forecast(ctx context.Context, request *elastallocv1.ForecastRequest) (*elastallocv1.ForecastResponse, error) {
	return c.stub.Forecast(ctx, request)
}

// Close closes all connections. Calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longTimeout is a timeout that no call exceeds, even on a busy machine.
var longTimeout = client.WithTimeout(time.Minute)

const serviceName = "elastalloc.v1.AllocatorService"

// fakeServer is an allocator on its own port whose responses a test defines.
type fakeServer struct {
	elastallocv1.UnimplementedAllocatorServiceServer
	address string
	grpc    *grpc.Server
	health  *health.Server
	calls   atomic.Int64
	// respond gets the number of the call, counted from 1, and returns its error.
	respond func(ctx context.Context, call int64) error
}

// startServer starts a server on which every call succeeds unless respond returns an error.
func startServer(t *testing.T, respond func(context.Context, int64) error, options ...grpc.ServerOption) *fakeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{
		address: listener.Addr().String(), respond: respond, health: health.NewServer(),
		grpc: grpc.NewServer(append([]grpc.ServerOption{grpc.MaxRecvMsgSize(64 << 20)}, options...)...),
	}
	elastallocv1.RegisterAllocatorServiceServer(s.grpc, s)
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(serviceName, grpc_health_v1.HealthCheckResponse_SERVING)
	served := make(chan error, 1)
	go func() { served <- s.grpc.Serve(listener) }()
	t.Cleanup(func() {
		s.grpc.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s
}

// Allocate returns the address of the server as the id of the snapshot.
func (s *fakeServer) Allocate(ctx context.Context, _ *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	call := s.calls.Add(1)
	if s.respond != nil {
		if err := s.respond(ctx, call); err != nil {
			return nil, err
		}
	}
	return &elastallocv1.AllocateResponse{SnapshotId: s.address}, nil
}

// newClient returns a client that is closed at the end of the test.
func newClient(t *testing.T, target string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close returned %v", err)
		}
	})
	return c
}

// mustCall makes a call that must succeed, and returns the address of the server.
func mustCall(t *testing.T, c *client.Client) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	response, err := c.Allocate(ctx, &elastallocv1.AllocateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return response.GetSnapshotId()
}

// callUntilBoth makes calls until both servers have responded.
func callUntilBoth(t *testing.T, c *client.Client) {
	t.Helper()
	for responded := map[string]bool{}; len(responded) < 2; {
		responded[mustCall(t, c)] = true
	}
}

func TestCallsAreBalanced(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, nil), startServer(t, nil)
	c := newClient(t, a.address+", "+b.address)
	callUntilBoth(t, c)
	// If both are connected, they alternate.
	calls := map[string]int{}
	for range 10 {
		calls[mustCall(t, c)]++
	}
	if calls[a.address] != 5 || calls[b.address] != 5 {
		t.Errorf("10 calls went to %v; want 5 to each server", calls)
	}
}

func TestStoppedServer(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, nil), startServer(t, nil)
	c := newClient(t, a.address+","+b.address)
	callUntilBoth(t, c)
	a.grpc.Stop()
	for range 20 {
		if by := mustCall(t, c); by != b.address {
			t.Errorf("the call went to %s, which is stopped", by)
		}
	}
}

// TestServerExitsDuringCalls checks that calls in progress on a server that exits are retried on
// another server, although all of them fail at the same time.
func TestServerExitsDuringCalls(t *testing.T) {
	t.Parallel()
	entered, forever := make(chan struct{}, 100), make(chan struct{})
	a := startServer(t, func(ctx context.Context, _ int64) error {
		entered <- struct{}{}
		select {
		case <-forever:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	b := startServer(t, nil)
	c := newClient(t, a.address+","+b.address, longTimeout)
	const calls = 50
	failed := make(chan error, 2*calls)
	// Until both are connected, one of them gets all calls. Then each gets half of them.
	for range calls {
		go func() {
			for {
				response, err := c.Allocate(context.Background(), &elastallocv1.AllocateRequest{})
				if err != nil || response.GetSnapshotId() == b.address && a.calls.Load() >= calls {
					failed <- err
					return
				}
			}
		}()
	}
	for range calls {
		<-entered
	}
	a.grpc.Stop()
	for range calls {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func TestDrainingServer(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, nil), startServer(t, nil)
	c := newClient(t, a.address+","+b.address)
	callUntilBoth(t, c)
	// The server still responds, but reports that it is draining.
	a.health.SetServingStatus(serviceName, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	for consecutive := 0; consecutive < 10; {
		if consecutive++; mustCall(t, c) == a.address {
			consecutive = 0
		}
	}
	a.health.SetServingStatus(serviceName, grpc_health_v1.HealthCheckResponse_SERVING)
	callUntilBoth(t, c)
}

func TestUnavailableIsRetried(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(_ context.Context, call int64) error {
		if call < 3 {
			return status.Error(codes.Unavailable, "not now")
		}
		return nil
	})
	c := newClient(t, s.address, longTimeout)
	// Larger than what gRPC by default keeps for a retry.
	large := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Id: strings.Repeat("x", 4<<20)}}
	if _, err := c.Allocate(t.Context(), large); err != nil {
		t.Errorf("error is %v", err)
	}
	if calls := s.calls.Load(); calls != 3 {
		t.Errorf("%d calls; want 3", calls)
	}
}

func TestBusyServerIsRetried(t *testing.T) {
	t.Parallel()
	busy := func(ctx context.Context, pushback string) error {
		if pushback != "" {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback)); err != nil {
				return err
			}
		}
		return status.Error(codes.ResourceExhausted, "busy")
	}
	tests := map[string]struct {
		respond   func(ctx context.Context, call int64) error
		wantCode  codes.Code
		wantCalls int64
	}{
		"after the pushback": {func(ctx context.Context, call int64) error {
			if call < 2 {
				return busy(ctx, "1")
			}
			return nil
		}, codes.OK, 2},
		"only once":                       {func(ctx context.Context, _ int64) error { return busy(ctx, "1") }, codes.ResourceExhausted, 2},
		"not if the pushback is negative": {func(ctx context.Context, _ int64) error { return busy(ctx, "-1") }, codes.ResourceExhausted, 1},
		"without a pushback":              {func(ctx context.Context, _ int64) error { return busy(ctx, "") }, codes.ResourceExhausted, 2},
		"not for a bug":                   {func(context.Context, int64) error { return status.Error(codes.Internal, "bug") }, codes.Internal, 1},
		"not for a bad request": {
			func(context.Context, int64) error { return status.Error(codes.InvalidArgument, "bad") }, codes.InvalidArgument, 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, test.respond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := newClient(t, s.address).Allocate(ctx, &elastallocv1.AllocateRequest{})
			if status.Code(err) != test.wantCode || s.calls.Load() != test.wantCalls {
				t.Errorf("%d calls, error %v; want %d and %v", s.calls.Load(), err, test.wantCalls, test.wantCode)
			}
		})
	}
}

// TestHangingServer checks that no call fails because of a server that hangs, and that the server gets
// few calls afterwards.
func TestHangingServer(t *testing.T) {
	t.Parallel()
	hanging := startServer(t, func(ctx context.Context, _ int64) error {
		<-ctx.Done()
		return ctx.Err()
	})
	healthy := startServer(t, nil)
	// An attempt has 3 s, and the call has 6 s.
	c := newClient(t, hanging.address+","+healthy.address, client.WithTimeout(2*time.Second))
	request := &elastallocv1.AllocateRequest{Options: &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(2 * time.Second)}}
	const callers, calls = 4, 100
	failed := make(chan error, callers*calls)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				if response, err := c.Allocate(t.Context(), request); err != nil || response.GetSnapshotId() != healthy.address {
					failed <- fmt.Errorf("response of %v, error %w", response.GetSnapshotId(), err)
				}
			}
		})
	}
	group.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	// The concurrent calls fail, and again after each attempt to use the server.
	if lost := hanging.calls.Load(); lost > 10*callers {
		t.Errorf("%d of %d calls went to the server that hangs", lost, callers*calls)
	}
}

// TestRetryBudget checks that retries do not multiply the load of a server that rejects all calls,
// independent of its RetryInfo.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	for name, pushback := range map[string]string{"pushback": "1", "zero pushback": "0", "no pushback": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(ctx context.Context, _ int64) error {
				if pushback != "" {
					if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", pushback)); err != nil {
						return err
					}
				}
				return status.Error(codes.ResourceExhausted, "busy")
			})
			const clients, calls = 100, 5
			var group sync.WaitGroup
			for range clients {
				c := newClient(t, s.address, longTimeout)
				group.Go(func() {
					for range calls {
						if _, err := c.Allocate(t.Context(), &elastallocv1.AllocateRequest{}); status.Code(err) != codes.ResourceExhausted {
							t.Errorf("error is %v; want RESOURCE_EXHAUSTED", err)
						}
					}
				})
			}
			group.Wait()
			if perCall := float64(s.calls.Load()) / (clients * calls); perCall >= 1.3 {
				t.Errorf("%.2f attempts per call; want less than 1.3", perCall)
			}
		})
	}
}

// TestTooLargeRequestIsSentOnce checks that a request that gRPC rejects because of its size is not
// retried, although the code is that of a busy server.
func TestTooLargeRequestIsSentOnce(t *testing.T) {
	t.Parallel()
	var received atomic.Int64
	s := startServer(t, nil, grpc.MaxRecvMsgSize(16<<20), grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		if strings.HasSuffix(info.FullMethodName, "/Allocate") {
			received.Add(1)
		}
		return ctx, nil
	}))
	large := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Id: strings.Repeat("x", 16<<20)}}
	if _, err := newClient(t, s.address, longTimeout).Allocate(t.Context(), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("error is %v; want RESOURCE_EXHAUSTED", err)
	}
	if received.Load() != 1 {
		t.Errorf("%d calls; want 1", received.Load())
	}
}

// TestServiceConfigOfOtherLanguages checks the documented behavior of the service configuration for
// clients in other languages.
func TestServiceConfigOfOtherLanguages(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, func(_ context.Context, call int64) error {
		if call == 3 {
			return status.Error(codes.Unavailable, "not now")
		}
		return nil
	}), startServer(t, nil)
	list := manual.NewBuilderWithScheme("both")
	list.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: a.address}, {Addr: b.address}}})
	// Clients in other languages do not have this load balancing policy.
	config := strings.Replace(client.ServiceConfig, `{"elastalloc_awake": {}}, `, "", 1)
	if config == client.ServiceConfig {
		t.Fatal("the policy is not in the configuration")
	}
	conn, err := grpc.NewClient("both:///", grpc.WithResolvers(list), grpc.WithDefaultServiceConfig(config),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for a.calls.Load() < 5 || b.calls.Load() < 5 {
		if _, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(t.Context(), &elastallocv1.AllocateRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	a.health.SetServingStatus(serviceName, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	for consecutive := 0; consecutive < 10; consecutive++ {
		response, err := elastallocv1.NewAllocatorServiceClient(conn).Allocate(t.Context(), &elastallocv1.AllocateRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if response.GetSnapshotId() == a.address {
			consecutive = 0
		}
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	budget := func(d *durationpb.Duration) *elastallocv1.AllocateRequest {
		return &elastallocv1.AllocateRequest{Options: &elastallocv1.AllocateOptions{TimeBudget: d}}
	}
	tests := map[string]struct {
		request  *elastallocv1.AllocateRequest
		deadline time.Duration // of the context; 0 means none
		options  []client.Option
		min, max time.Duration // of the time that the server has
	}{
		"default": {&elastallocv1.AllocateRequest{}, 0, nil, 0, client.DefaultTimeout},
		// An attempt has half of the time, or half of the time beyond the budget.
		"option": {
			&elastallocv1.AllocateRequest{}, 0, []client.Option{client.WithTimeout(time.Hour)}, 25 * time.Minute, 30 * time.Minute,
		},
		"on top of budget":            {budget(durationpb.New(time.Hour)), 0, nil, 50 * time.Minute, time.Hour + client.DefaultTimeout},
		"overlong budget":             {budget(&durationpb.Duration{Seconds: 1e11}), 0, nil, time.Hour, math.MaxInt64},
		"negative budget":             {budget(durationpb.New(-time.Hour)), 0, nil, 0, client.DefaultTimeout},
		"deadline of the context":     {budget(durationpb.New(time.Minute)), time.Hour, nil, 29 * time.Minute, 31 * time.Minute},
		"little more than the budget": {budget(durationpb.New(40 * time.Minute)), time.Hour, nil, 49 * time.Minute, 50 * time.Minute},
		"no more than the budget":     {budget(durationpb.New(time.Hour)), time.Hour, nil, 50 * time.Minute, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := make(chan time.Duration, 1)
			s := startServer(t, func(ctx context.Context, _ int64) error {
				deadline, limited := ctx.Deadline()
				if !limited {
					return status.Error(codes.FailedPrecondition, "no deadline")
				}
				left <- time.Until(deadline)
				return nil
			})
			ctx := t.Context()
			if test.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.deadline)
				defer cancel()
			}
			if _, err := newClient(t, s.address, test.options...).Allocate(ctx, test.request); err != nil {
				t.Fatal(err)
			}
			if got := <-left; got <= test.min || got > test.max {
				t.Errorf("the server has %v left; want more than %v and at most %v", got, test.min, test.max)
			}
		})
	}
}

// TestHostileResponse checks that a response of many small elements, whose decoding would take
// gigabytes and minutes, is rejected.
func TestHostileResponse(t *testing.T) {
	t.Parallel()
	// A field of two bytes each: empty allocations.
	hostile := []byte(strings.Repeat("\x12\x00", 10<<20))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		if method, _ := grpc.MethodFromServerStream(stream); method != elastallocv1.AllocatorService_Allocate_FullMethodName {
			return status.Error(codes.Unimplemented, "health is not served")
		}
		return stream.SendMsg(hostile)
	}))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	c := newClient(t, listener.Addr().String(), client.WithTimeout(time.Minute))
	_, err = c.Allocate(t.Context(), &elastallocv1.AllocateRequest{})
	if err == nil || !strings.Contains(err.Error(), "of memory; must be at most 512 MiB") {
		t.Errorf("the error is %v", err)
	}
}

// rawCodec sends bytes unchanged.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

func TestNoServer(t *testing.T) {
	t.Parallel()
	const unserved = "127.0.0.1:1"
	if _, err := newClient(t, unserved, longTimeout).Allocate(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("error is %v; want UNAVAILABLE", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	// The standard library's test server brings a certificate for 127.0.0.1.
	https := httptest.NewTLSServer(nil)
	certificate, authority := https.TLS.Certificates[0], https.Certificate()
	https.Close()
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	trust.RootCAs.AddCert(authority)

	creds := grpc.Creds(credentials.NewServerTLSFromCert(&certificate))
	a, b := startServer(t, nil, creds), startServer(t, nil, creds)
	callUntilBoth(t, newClient(t, a.address+","+b.address, client.WithTLS(trust)))
	if by := mustCall(t, newClient(t, a.address, client.WithTLS(trust))); by != a.address {
		t.Errorf("the call went to %s", by)
	}
	if _, err := newClient(t, a.address, longTimeout).Allocate(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("error of a plain text connection is %v", err)
	}
}

// TestTrimsTarget checks that white space around a target is ignored.
func TestTrimsTarget(t *testing.T) {
	t.Parallel()
	server := startServer(t, nil)
	for _, target := range []string{" " + server.address + "\n", "\tdns:///" + server.address + "\r\n"} {
		if by := mustCall(t, newClient(t, target)); by != server.address {
			t.Errorf("the call to %q went to %q", target, by)
		}
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	const target = "; must be host:port, for example localhost:50051"
	for name, test := range map[string]struct {
		target string
		option client.Option
		want   string
	}{
		"no target":     {"", nil, `target is ""` + target},
		"a URL":         {"http://localhost:50051", nil, `target is "http://localhost:50051"` + target},
		"no port":       {"localhost", nil, `target is "localhost"` + target},
		"an empty port": {"localhost:", nil, target},
		"no host":       {":50051", nil, target},
		"IPv6 bare":     {"::1", nil, target},
		"a path":        {"localhost:50051/v1", nil, target},
		"a list":        {"a:1,b", nil, `target is "a:1,b"` + target},
		"an empty one":  {"a:1,,b:1", nil, target},
		"two words":     {"a:1 b:1", nil, `target is "a:1 b:1"` + target},
		"only a space":  {" \n", nil, `target is ""` + target},
		"no timeout":    {"a:1", client.WithTimeout(0), "client timeout is 0s"},
		"bad option":    {"a:1", client.WithDialOptions(grpc.WithDefaultServiceConfig("{")), "service config"},
	} {
		options := []client.Option{test.option}
		if test.option == nil {
			options = nil
		}
		c, err := client.New(test.target, options...)
		if err == nil {
			_ = c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v; want %q", name, err, test.want)
		}
	}
	for _, target := range []string{
		"localhost:50051", "[::1]:50051", "a:1, b:1", "dns:///a:1", "dns:a:1", "unix:///run/elastalloc.sock", "unix:relative",
	} {
		newClient(t, target)
		newClient(t, " "+target+"\r\n")
	}
	newClient(t, "own:///a", client.WithDialOptions(grpc.WithResolvers(manual.NewBuilderWithScheme("own"))))
}

// TestTargets checks which targets are valid. TestPython of cmd/elastalloc checks the same ones in Python.
func TestTargets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/targets.json")
	if err != nil {
		t.Fatal(err)
	}
	var targets map[string]string
	if err := json.Unmarshal(text, &targets); err != nil || len(targets) == 0 {
		t.Fatal(err)
	}
	for target, want := range targets {
		c, err := client.New(target)
		if err == nil {
			_ = c.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), "; "+want)) {
			t.Errorf("%q: error %v; want %q", target, err, want)
		}
	}
}

package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a running server with an in-memory connection to it.
type harness struct {
	*Server
	conn     *grpc.ClientConn
	client   elastallocv1.AllocatorServiceClient
	listener *bufconn.Listener
	logs     *syncbuffer.Buffer
	// stop stops the server. result then has the result of Run.
	stop   context.CancelFunc
	result chan error
}

// start starts a server with a fake chain that gives every job its smallest size. change may modify its
// configuration. At the end of the test, the server must drain without an error.
func start(t testing.TB, change func(*Config)) *harness {
	t.Helper()
	return startWith(t, change, func(*Server) {})
}

// startWith is start with a function that prepares the server before it runs.
func startWith(t testing.TB, change func(*Config), prepare func(*Server)) *harness {
	t.Helper()
	h := &harness{listener: bufconn.Listen(1 << 20), logs: &syncbuffer.Buffer{}, result: make(chan error, 1)}
	config := DefaultConfig()
	config.listener = h.listener
	config.AdminListen = "127.0.0.1:0"
	config.DrainDelay, config.DrainTimeout = 0, time.Minute
	config.Allocator = fakeAllocator(smallest)
	config.Backends = []Backend{
		{Name: solver.BackendExact, State: up}, {Name: solver.BackendCBC, State: down}, {Name: solver.BackendGreedy, State: up},
	}
	config.Logger = slog.New(slog.NewJSONHandler(h.logs, nil))
	config.Version = "v0.0.0-test"
	if change != nil {
		change(&config)
	}
	var err error
	if h.Server, err = config.Complete(); err != nil {
		t.Fatal(err)
	}
	prepare(h.Server)
	h.conn = dial(t, h.listener, insecure.NewCredentials())
	h.client = elastallocv1.NewAllocatorServiceClient(h.conn)

	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	go func() { h.result <- h.Run(ctx) }()
	t.Cleanup(func() {
		_ = h.conn.Close()
		cancel()
		if err := <-h.result; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	return h
}

// up returns the state of a working backend.
func up() chain.BackendState { return chain.BackendState{Up: true} }

// down returns the state of a backend whose breaker is open.
func down() chain.BackendState {
	return chain.BackendState{OpenUntil: time.Now().Add(time.Hour), Cause: "no program"}
}

// get returns the status code and the body of an admin page.
func (h *harness) get(t *testing.T, path string) (int, string) {
	t.Helper()
	// The client is not shared, so that no connection remains after the test.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + h.AdminAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// series returns the value of a series of /metrics, and whether the series exists. name includes the labels.
func (h *harness) series(t *testing.T, name string) (string, bool) {
	t.Helper()
	_, page := h.get(t, "/metrics")
	for line := range strings.Lines(page) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// handledSeries returns the name of the counter of Allocate calls with a code.
func handledSeries(code codes.Code) string {
	return `grpc_server_handled_total{grpc_code="` + code.String() +
		`",grpc_method="Allocate",grpc_service="elastalloc.v1.AllocatorService",grpc_type="unary"}`
}

// withinSeries returns the name of the bucket of Allocate calls that took at most the given number of
// seconds.
func withinSeries(seconds string) string {
	return `grpc_server_handling_seconds_bucket{grpc_method="Allocate",grpc_service="elastalloc.v1.AllocatorService",` +
		`grpc_type="unary",le="` + seconds + `"}`
}

// await waits until a series of /metrics has a value.
func (h *harness) await(t *testing.T, name, want string) {
	t.Helper()
	wait.Until(t, name+" is "+want, func() bool {
		value, _ := h.series(t, name)
		return value == want
	})
}

// dial connects to an in-memory listener.
func dial(t testing.TB, listener *bufconn.Listener, security credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///memory",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(security))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// gate blocks the searches of a backend until a test opens it.
type gate struct {
	entered chan struct{}
	open    chan struct{}
	test    context.Context
}

func newGate(t *testing.T) *gate {
	t.Helper()
	return &gate{entered: make(chan struct{}, 100), open: make(chan struct{}), test: t.Context()}
}

// solveWithoutContext returns the smallest sizes when the gate is open. It ignores its context.
func (g *gate) solveWithoutContext(_ context.Context, p *problem.Problem) (problem.Result, error) {
	return g.solve(g.test, p)
}

// solve returns the smallest sizes when the gate is open, or an error if ctx is done first.
func (g *gate) solve(ctx context.Context, p *problem.Problem) (problem.Result, error) {
	g.entered <- struct{}{}
	select {
	case <-g.open:
		return smallest(ctx, p)
	case <-ctx.Done():
		return problem.Result{}, ctx.Err()
	}
}

// occupy starts a call that waits in the gate and returns a channel with its error. occupyAnalysis
// does the same with a WhatIf call.
func (h *harness) occupy(t *testing.T, g *gate) <-chan error {
	t.Helper()
	return g.occupy(func() error {
		_, err := h.client.Allocate(t.Context(), smallRequest())
		return err
	})
}

func (h *harness) occupyAnalysis(t *testing.T, g *gate) <-chan error {
	t.Helper()
	return g.occupy(func() error {
		_, err := h.client.WhatIf(t.Context(), searchRequest())
		return err
	})
}

func (g *gate) occupy(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	<-g.entered
	return result
}

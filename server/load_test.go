package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestShedding(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h := start(t, func(c *Config) { c.Allocator, c.MaxInflight, c.MaxQueue = fakeAllocator(g.solveWithoutContext), 1, 0 })
	first := h.occupyAnalysis(t, g)

	_, err := h.client.WhatIf(t.Context(), searchRequest())
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted || len(s.Details()) != 1 {
		t.Fatalf("error is %v", err)
	}
	if retry, ok := s.Details()[0].(*errdetails.RetryInfo); !ok || retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("detail is %v; want RetryInfo", s.Details()[0])
	}
	if value, _ := h.series(t, "elastalloc_inflight_requests"); value != "1" {
		t.Errorf("%q requests are in flight; want 1", value)
	}
	if check, err := grpc_health_v1.NewHealthClient(h.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil ||
		check.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health under load is %v, %v", check, err)
	}

	close(g.open)
	if err := <-first; err != nil {
		t.Errorf("the call in flight failed: %v", err)
	}
	if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil {
		t.Errorf("after the load the error is %v", err)
	}
	for name, want := range map[string]string{
		"elastalloc_shed_total":        "1",
		"elastalloc_inflight_requests": "0",
		`grpc_server_handled_total{grpc_code="ResourceExhausted",grpc_method="WhatIf",` +
			`grpc_service="elastalloc.v1.AllocatorService",grpc_type="unary"}`: "1",
	} {
		if value, _ := h.series(t, name); value != want {
			t.Errorf("%s is %q; want %s", name, value, want)
		}
	}
}

// TestGreedyWithoutASlot checks that the response to an Allocate call without a slot for a search is
// the greedy baseline with a warning, and that a FillIdle call needs no such slot.
func TestGreedyWithoutASlot(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h := start(t, func(c *Config) { c.Allocator, c.MaxInflight = fakeAllocator(g.solveWithoutContext), 1 })
	first := h.occupy(t, g)
	response, err := h.client.Allocate(t.Context(), smallRequest())
	if err != nil {
		t.Fatal(err)
	}
	report := response.GetReport()
	if report.GetBackend() != elastallocv1.Backend_BACKEND_GREEDY || report.GetReason() != elastallocv1.Reason_REASON_HEURISTIC ||
		report.GetBound() < report.GetObjective() || report.GetBound() == 0 {
		t.Errorf("the report is %v", report)
	}
	if w := report.GetWarnings(); len(w) == 0 || w[len(w)-1].GetCode() != elastallocv1.WarningCode_WARNING_CODE_LOAD_SHED_TO_GREEDY {
		t.Errorf("the warnings are %v", w)
	}
	if _, err := h.client.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: smallRequest().GetSnapshot()}); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{
		"elastalloc_shed_total":                                 "0",
		`elastalloc_warnings_total{code="load-shed-to-greedy"}`: "1",
	} {
		if value, _ := h.series(t, name); value != want {
			t.Errorf("%s is %q; want %s", name, value, want)
		}
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestMaxBudget checks that no request gets more time than the server allows.
func TestMaxBudget(t *testing.T) {
	t.Parallel()
	left := make(chan time.Duration, 1)
	h := start(t, func(c *Config) {
		c.MaxBudget = 5 * time.Second
		c.Allocator = fakeAllocator(func(ctx context.Context, p *problem.Problem) (problem.Result, error) {
			deadline, _ := ctx.Deadline()
			left <- time.Until(deadline)
			return smallest(ctx, p)
		})
	})
	request := smallRequest()
	request.Options.TimeBudget = durationpb.New(time.Hour)
	if _, err := h.client.Allocate(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if got := <-left; got > 5*time.Second {
		t.Errorf("the search has %v; want at most 5 s", got)
	}
}

// TestQueue checks that calls wait for a slot if all slots are in use, and that calls are rejected only if the
// queue is full.
func TestQueue(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h := start(t, func(c *Config) { c.Allocator, c.MaxInflight, c.MaxQueue = fakeAllocator(g.solveWithoutContext), 1, 2 })
	const calls = 3
	results := make(chan error, calls)
	for range calls {
		go func() {
			for {
				_, err := h.client.WhatIf(t.Context(), searchRequest())
				if status.Code(err) == codes.ResourceExhausted {
					continue // It has waited for half a second, and is retried.
				}
				results <- err
				return
			}
		}()
	}
	<-g.entered
	h.await(t, "elastalloc_queued_requests", "2")
	if value, _ := h.series(t, "elastalloc_inflight_requests"); value != "1" {
		t.Errorf("%q requests are in progress; want 1", value)
	}
	if _, err := h.client.WhatIf(t.Context(), searchRequest()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error of a call beyond the queue is %v", err)
	}
	close(g.open)
	for range calls {
		if err := <-results; err != nil {
			t.Errorf("a queued call failed: %v", err)
		}
	}
	h.await(t, "elastalloc_queued_requests", "0")
	h.await(t, "elastalloc_inflight_requests", "0")
}

// TestCallerDisconnects checks that a decision stops if its caller has disconnected, so that the next call gets
// its slot.
func TestCallerDisconnects(t *testing.T) {
	t.Parallel()
	g := newGate(t) // It never opens.
	h := start(t, func(c *Config) { c.Allocator, c.MaxInflight = fakeAllocator(g.solve), 1 })
	for range 2 {
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := h.client.Allocate(ctx, smallRequest())
			ended <- err
		}()
		<-g.entered
		leave()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("the error of the call is %v", err)
		}
	}
	h.await(t, "elastalloc_inflight_requests", "0")
}

// TestClientRetries checks that package client, which uses the retries of gRPC, retries a call to a server that
// was too busy.
func TestClientRetries(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h := start(t, func(c *Config) {
		c.Allocator, c.MaxInflight, c.MaxQueue = fakeAllocator(g.solveWithoutContext), 1, 0
		c.Logger = slog.New(slog.NewTextHandler(onRejection(sync.OnceFunc(func() { close(g.open) })), nil))
	})
	first := h.occupyAnalysis(t, g)
	c, err := client.New("passthrough:///memory", client.WithTimeout(time.Minute), client.WithDialOptions(
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.listener.DialContext(ctx) })))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.WhatIf(t.Context(), searchRequest()); err != nil {
		t.Errorf("the call that was rejected at first failed: %v", err)
	}
	if err := <-first; err != nil {
		t.Errorf("the call in flight failed: %v", err)
	}
	if shed, _ := h.series(t, "elastalloc_shed_total"); shed == "0" {
		t.Error("no call was rejected")
	}
}

// onRejection is a log that is called for each line about a rejected call.
type onRejection func()

// Write handles a line.
func (f onRejection) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("code=ResourceExhausted")) {
		f()
	}
	return len(line), nil
}

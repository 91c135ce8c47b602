package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h := start(t, func(c *Config) { c.Allocator = fakeAllocator(g.solveWithoutContext) })
	// A client that watches health is notified before its calls fail.
	ctx, unwatch := context.WithCancel(t.Context())
	watch, err := grpc_health_v1.NewHealthClient(h.conn).Watch(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: "elastalloc.v1.AllocatorService"})
	if err != nil {
		t.Fatal(err)
	}
	for want := grpc_health_v1.HealthCheckResponse_SERVING; ; {
		update, err := watch.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if update.GetStatus() == want {
			break
		}
	}
	if code, _ := h.get(t, "/readyz"); code != 200 {
		t.Errorf("/readyz is %d while serving", code)
	}
	inflight := h.occupy(t, g)

	h.stop()
	if update, err := watch.Recv(); err != nil || update.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health is %v, %v", update, err)
	}
	if code, _ := h.get(t, "/readyz"); code != 503 {
		t.Errorf("/readyz is %d while draining", code)
	}
	if code, _ := h.get(t, "/healthz"); code != 200 {
		t.Errorf("/healthz is %d while draining", code)
	}
	// New calls are rejected after the drain delay, which is 0. The request is invalid, so that it does not
	// wait in the gate.
	for code := codes.InvalidArgument; code != codes.Unavailable; {
		_, err := h.client.Allocate(t.Context(), nil)
		if code = status.Code(err); code != codes.InvalidArgument && code != codes.Unavailable {
			t.Fatalf("while draining the error is %v", err)
		}
	}
	close(g.open)
	if err := <-inflight; err != nil {
		t.Errorf("the call in flight failed: %v", err)
	}
	unwatch()
	h.result <- <-h.result // Run must return. start checks its result.
}

func TestDrainTimeoutCancelsCalls(t *testing.T) {
	t.Parallel()
	g := newGate(t) // It never opens.
	h := start(t, func(c *Config) { c.Allocator, c.DrainTimeout = fakeAllocator(g.solve), time.Millisecond })
	inflight := h.occupy(t, g)
	h.stop()
	if err := <-inflight; status.Code(err) != codes.Unavailable {
		t.Errorf("the error of the canceled call is %v", err)
	}
	h.result <- <-h.result
	if h.logs.Line("aborted") == "" {
		t.Errorf("the cancellation is not logged:\n%s", h.logs)
	}
}

func TestClosedListenerStopsServer(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(*harness) error{
		"gRPC":       func(h *harness) error { return h.listener.Close() },
		"admin HTTP": func(h *harness) error { return h.adminListener.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, nil)
			if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil {
				t.Fatal(err)
			}
			if err := kill(h); err != nil {
				t.Fatal(err)
			}
			if err := <-h.result; err == nil || !strings.Contains(err.Error(), "serve "+name) {
				t.Errorf("Run returned %v", err)
			}
			h.result <- nil
		})
	}
}

func TestRunWithCanceledContext(t *testing.T) {
	t.Parallel()
	config := DefaultConfig()
	config.Listen, config.AdminListen, config.DrainDelay = "127.0.0.1:0", "127.0.0.1:0", 0
	config.Allocator = fakeAllocator(smallest)
	s, err := config.Complete()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestCompleteReportsAllErrors(t *testing.T) {
	t.Parallel()
	_, err := Config{DrainDelay: -1, MaxQueue: -1, ClientCA: "ca.pem", TLSKey: "key.pem"}.Complete()
	if err == nil {
		t.Fatal("an empty configuration is complete")
	}
	for _, want := range []string{"allocator", "--listen", "--admin-listen", "--max-inflight", "--max-queue",
		"--drain-delay", "--drain-timeout", "--tls-cert", "--client-ca"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not name %s: %v", want, err)
		}
	}
}

func TestCompleteClosesListeners(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := DefaultConfig()
	config.Allocator = fakeAllocator(smallest)
	config.listener, config.AdminListen = free, taken.Addr().String()
	if _, err := config.Complete(); err == nil {
		t.Fatal("Complete succeeds although an address is in use")
	}
	if _, err := free.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the first listener is open: %v", err)
	}
}

//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// fleet is a group of servers that one client uses.
type fleet struct {
	servers []*servertest.Server
	flags   []string
}

// startFleet starts servers. Their number of concurrent decisions exceeds the number of cores, because the calls of a
// load mostly wait.
func startFleet(t *testing.T, size int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{flags: append([]string{"--backends=exact,cbc", "--cbc=" + sleepingSolver(t, 0.5), "--max-inflight=32"}, flags...)}
	for range size {
		f.servers = append(f.servers, startServer(t, append(f.flags, "--listen="+portToKeep(t))...))
	}
	return f
}

// portToKeep examines this many ports after a first one, which differs between processes.
var (
	firstPort  = 20_000 + rand.Int64N(6000)
	triedPorts atomic.Int64
)

// portToKeep returns an address on which a server can be restarted. The system assigns ports from 32768 on, also to
// connections, and could assign the port of a stopped server.
func portToKeep(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+triedPorts.Add(1))
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
}

func (f *fleet) addresses() (addresses []string) {
	for _, server := range f.servers {
		addresses = append(addresses, server.Addr)
	}
	return addresses
}

// terminate sends SIGTERM to a server and checks that it drains.
func (f *fleet) terminate(t *testing.T, i int) {
	t.Helper()
	server := f.servers[i]
	if err := server.Stop(); err != nil {
		t.Errorf("Stop returned %v", err)
	}
	if logs := server.Logs(); !strings.Contains(logs, `"msg":"drained"`) || strings.Contains(logs, "aborted") {
		t.Errorf("the server did not drain; the end of its log:\n%s", logs[max(0, len(logs)-2000):])
	}
}

// restart starts a stopped server again on its port, and waits until the client uses it.
func (f *fleet) restart(t *testing.T, i int) {
	t.Helper()
	f.servers[i] = startServer(t, append(f.flags, "--listen="+f.servers[i].Addr)...)
	f.awaitResponses(t, i)
}

// awaitResponses waits until a server has completed calls.
func (f *fleet) awaitResponses(t *testing.T, i int) {
	t.Helper()
	wait.For(t, "the server completes calls", func() (bool, string) {
		return f.completed(t, i) > 10, ""
	})
}

// completed returns the number of calls that a server has completed.
func (f *fleet) completed(t *testing.T, i int) float64 {
	t.Helper()
	return sumOf(servertest.Metrics(t, f.servers[i]), "grpc_server_handled_total", `grpc_code="OK"`, `grpc_method="Allocate"`)
}

// drains returns the drain delays of the tests. After a delay, even one much shorter than the default, the client does
// not use the server anymore. Without a delay, the client has to retry calls.
func drains() map[string]string {
	return map[string]string{"with a delay": "--drain-delay=500ms", "at once": "--drain-delay=0s"}
}

func TestTermination(t *testing.T) {
	t.Parallel()
	for name, drain := range drains() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, 2, drain)
			l := startLoad(t, f.addresses()...)
			f.awaitResponses(t, 0)
			f.awaitResponses(t, 1)
			f.terminate(t, 0)
			l.awaitCalls(t, 20)
			f.restart(t, 0)
			l.stop(t)
		})
	}
}

// TestRollingRestart checks that servers can be restarted sequentially, each as soon as the previous one is ready, as
// an orchestrator does.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for name, drain := range drains() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, 3, drain)
			l := startLoad(t, f.addresses()...)
			l.awaitCalls(t, 20)
			for i := range f.servers {
				f.terminate(t, i)
				f.servers[i] = startServer(t, append(f.flags, "--listen="+f.servers[i].Addr)...)
			}
			for i := range f.servers {
				f.awaitResponses(t, i)
			}
			l.stop(t)
		})
	}
}

// TestKill checks that calls in flight on a killed server are retried on another server.
func TestKill(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	l := startLoad(t, f.addresses()...)
	f.awaitResponses(t, 0)
	f.awaitResponses(t, 1)
	wait.For(t, "calls are in flight", func() (bool, string) {
		return servertest.Metrics(t, f.servers[0])["elastalloc_inflight_requests"] >= slowCallers/2, ""
	})
	if err := f.servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	l.awaitCalls(t, 20)
	f.restart(t, 0)
	l.stop(t)
}

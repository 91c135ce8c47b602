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

// fleet are servers behind one client.
type fleet struct {
	servers []*servertest.Server
	flags   []string
}

// startFleet starts servers. They decide on more calls at once than there are cores,
// since those of a load mostly wait.
func startFleet(t *testing.T, size int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{flags: append([]string{"--backends=exact,cbc", "--cbc=" + sleepingSolver(t, 0.5), "--max-inflight=32"}, flags...)}
	for range size {
		f.servers = append(f.servers, startServer(t, append(f.flags, "--listen="+portToKeep(t))...))
	}
	return f
}

// portToKeep looks at this many ports after a first one, which differs between processes.
var (
	firstPort  = 20_000 + rand.Int64N(6000)
	triedPorts atomic.Int64
)

// portToKeep returns an address to restart servers on: the system gives out ports from
// 32768 on, to connections as well, and would not keep that of a server which is away.
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

// terminate sends a server SIGTERM and checks that it leaves in good order.
func (f *fleet) terminate(t *testing.T, i int) {
	t.Helper()
	server := f.servers[i]
	if err := server.Stop(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if logs := server.Logs(); !strings.Contains(logs, `"msg":"drained"`) || strings.Contains(logs, "aborted") {
		t.Errorf("the server did not drain; the end of its log:\n%s", logs[max(0, len(logs)-2000):])
	}
}

// restart starts a server that has ended again, on its port, and waits until the
// client has found it.
func (f *fleet) restart(t *testing.T, i int) {
	t.Helper()
	f.servers[i] = startServer(t, append(f.flags, "--listen="+f.servers[i].Addr)...)
	f.awaitAnswers(t, i)
}

// awaitAnswers waits until a server has answered calls.
func (f *fleet) awaitAnswers(t *testing.T, i int) {
	t.Helper()
	wait.For(t, "the server answers calls", func() (bool, string) {
		return f.answered(t, i) > 10, ""
	})
}

// answered returns how many calls a server has answered.
func (f *fleet) answered(t *testing.T, i int) float64 {
	t.Helper()
	return sumOf(servertest.Metrics(t, f.servers[i]), "grpc_server_handled_total", `grpc_code="OK"`, `grpc_method="Allocate"`)
}

// drains are the ways in which a server may be told to leave: with a delay, by the end
// of which the client has heard of it, be it far shorter than the default, and at once,
// where only the client's retries are in between.
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
			f.awaitAnswers(t, 0)
			f.awaitAnswers(t, 1)
			f.terminate(t, 0)
			l.awaitCalls(t, 20)
			f.restart(t, 0)
			l.stop(t)
		})
	}
}

// TestRollingRestart checks that servers can be restarted one after the other, each
// as soon as the one before is ready, which is when the orchestrator goes on: the
// client has to have found that by then.
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
				f.awaitAnswers(t, i)
			}
			l.stop(t)
		})
	}
}

// TestKill checks that calls in flight on a server that dies are answered by another.
func TestKill(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	l := startLoad(t, f.addresses()...)
	f.awaitAnswers(t, 0)
	f.awaitAnswers(t, 1)
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

//go:build unix

package faults

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// needFiles skips a test if this process and its servers may not open this many files. The Go runtime raises the
// soft limit.
func needFiles(t *testing.T, files uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Max < files {
		t.Skipf("at most %d files may be open; must be %d (ulimit -Hn)", limit.Max, files)
	}
}

// TestHostileConnections checks that honest clients get responses during attacks on 1,000 connections, and that the
// server releases all resources of the connections afterwards.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	needFiles(t, 3000)
	server := startServer(t)
	honest := startHonestClient(t, server)
	honest.awaitResponses(t, 5)
	before := readGauges(t, server)

	ctx, cancel := context.WithCancel(t.Context())
	var running, acting sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
	}()
	connections := 0
	for name, a := range attacks() {
		for range a.connections {
			connections++
			acting.Add(1)
			running.Go(func() { runAttack(ctx, t, name, server, a, &acting) })
		}
	}
	if connections < 1000 {
		t.Errorf("%d connections; want 1,000", connections)
	}
	acting.Wait()
	honest.awaitResponses(t, 30)
	under := readGauges(t, server)
	t.Logf("before: %v; under attack: %v", before, under)
	if grown := under.Memory - before.Memory; grown > 400<<20 {
		t.Errorf("the attacks use %.0f MB of memory", grown/1e6)
	}
	cancel()
	running.Wait()
	honest.awaitResponses(t, 5)
	settles(t, server, before, 150<<20)
	honest.stop(t)
}

// runAttack opens a connection and runs an attack. It calls acting.Done after it has sent everything, and closes the
// connection when ctx is canceled.
func runAttack(ctx context.Context, t *testing.T, name string, server *servertest.Server, a attack, acting *sync.WaitGroup) {
	t.Helper()
	address := server.Addr
	if a.onAdmin {
		address = server.AdminAddr
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		acting.Done()
		t.Errorf("%s: %v", name, err)
		return
	}
	defer connection.Close()
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { connection.Close() })
	defer stop()
	go func() {
		defer close(done)
		_ = a.do(ctx, newHostileConnection(connection))
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second): // The server does not read, or the attack continues.
	case <-ctx.Done():
	}
	acting.Done()
	<-ctx.Done()
	<-done
}

// TestCanceledCalls checks that hundreds of canceled calls leave no processes and files, and that other callers do
// not wait for them.
func TestCanceledCalls(t *testing.T) {
	t.Parallel()
	server := startServer(t, "--backends=exact,cbc", "--cbc="+sleepingSolver(t, 1000), "--max-inflight=64")
	honest := startHonestClient(t, server)
	honest.awaitResponses(t, 5)
	before := readGauges(t, server)
	allocator := newAllocator(t, server)
	var group sync.WaitGroup
	for range 300 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel) // CBC would continue to sleep.
			_, err := allocator.Allocate(ctx, slowRequest(1))
			if code := status.Code(err); code != codes.Canceled && code != codes.ResourceExhausted {
				t.Errorf("the error of a canceled call is %v", err)
			}
		})
	}
	group.Wait()
	settles(t, server, before, 64<<20)
	honest.stop(t)
}

// TestIncompleteCallsTakeNoSlot checks that many calls without a request do not prevent other calls.
func TestIncompleteCallsTakeNoSlot(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	honest := startHonestClient(t, server)
	honest.awaitResponses(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	var running, acting sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
	}()
	for range 20 {
		acting.Add(1)
		running.Go(func() {
			runAttack(ctx, t, "half calls", server, attack{do: callAndSend(250, lengthPrefix(0, 1000))}, &acting)
		})
	}
	acting.Wait()
	honest.awaitResponses(t, 20)
	wait.For(t, "the calls have started", func() (bool, string) {
		started := sumOf(servertest.Metrics(t, server), "grpc_server_started_total", `grpc_method="Allocate"`)
		return started >= 4000, fmt.Sprintf("%v calls", started)
	})
	honest.stop(t)
}

// TestServerClosesConnections checks that the server closes connections that send nothing and calls without a
// request.
func TestServerClosesConnections(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	before := readGauges(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	var running, acting sync.WaitGroup
	defer func() {
		cancel()
		running.Wait()
	}()
	const each = 50
	silent := []string{"send nothing", "send half a preface", "speak TLS"}
	half := []string{"call and send no message", "send half a message", "send a byte at a time"}
	for _, name := range append(half, silent...) {
		for range each {
			acting.Add(1)
			running.Go(func() { runAttack(ctx, t, name, server, attacks()[name], &acting) })
		}
	}
	acting.Wait()
	wait.For(t, "the server closes silent connections", func() (bool, string) {
		now := readGauges(t, server)
		return now.Files <= before.Files+float64(each*len(half))+8, fmt.Sprint(now)
	})
	wait.For(t, "the server rejects calls without a request", func() (bool, string) {
		shown := servertest.Metrics(t, server)
		started := sumOf(shown, "grpc_server_started_total", `grpc_method="Allocate"`)
		handled := sumOf(shown, "grpc_server_handled_total", `grpc_method="Allocate"`)
		return started >= 150 && handled == started, fmt.Sprintf("%v calls started, %v completed", started, handled)
	})
}

// TestSilentConnectionsDoNotDelayDrain checks that a draining server does not wait for
// connections that have sent nothing.
func TestSilentConnectionsDoNotDelayDrain(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	before := readGauges(t, server)
	// Repeat if the server closed the connections before they were counted.
	wait.For(t, "the connections are open", func() (bool, string) {
		for range 10 {
			connection, err := net.Dial("tcp", server.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { connection.Close() })
		}
		now := readGauges(t, server)
		return now.Files >= before.Files+5, fmt.Sprint(now)
	})
	if err := server.Stop(); err != nil {
		t.Errorf("Stop returned %v", err)
	}
	if logs := server.Logs(); !strings.Contains(logs, `"msg":"drained"`) || strings.Contains(logs, "aborted") {
		t.Errorf("the server did not drain:\n%s", logs)
	}
}

// honestClient makes calls sequentially. Each of them must succeed within its deadline.
type honestClient struct {
	responses atomic.Int64
	cancel    context.CancelFunc
	ended     chan struct{}
	failed    []error
	stopped   sync.Once
}

// startHonestClient starts a client that calls a server until the test stops it or is complete.
func startHonestClient(t *testing.T, server *servertest.Server) *honestClient {
	t.Helper()
	allocator, err := client.New(server.Addr, client.WithTimeout(generous))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &honestClient{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		defer func() { _ = allocator.Close() }()
		for seed := uint64(0); ctx.Err() == nil; seed++ {
			request := randomRequest(40, 70, seed%50)
			response, err := allocateWhenNotBusy(ctx, allocator, request)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = checkResponse(request, response)
			}
			if err != nil {
				c.failed = append(c.failed, err)
			}
			c.responses.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { c.stop(t) })
	return c
}

// awaitResponses waits until the client has received this many more responses.
func (c *honestClient) awaitResponses(t *testing.T, more int64) {
	t.Helper()
	want := c.responses.Load() + more
	wait.For(t, "the honest client gets responses", func() (bool, string) {
		return c.responses.Load() >= want, fmt.Sprintf("%d responses", c.responses.Load())
	})
}

// stop stops the client and reports all failed calls. Further calls have no effect.
func (c *honestClient) stop(t *testing.T) {
	t.Helper()
	c.stopped.Do(func() {
		c.cancel()
		<-c.ended
		t.Logf("the honest client: %d calls, %d failed", c.responses.Load(), len(c.failed))
		for _, err := range c.failed[:min(5, len(c.failed))] {
			t.Errorf("the honest client: %v", err)
		}
	})
}

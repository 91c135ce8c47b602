package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// TestFreeze suspends one of two servers during its work, as a debugger or a swapping machine would. Its connections
// stay open, but it does not respond.
func TestFreeze(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	// An attempt may take longer on a busy machine. The default of the client is a second.
	allocator, err := client.New(strings.Join(f.addresses(), ","), client.WithTimeout(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = allocator.Close() }()
	calls, failed, slow := 0, 0, 0
	ask := func(number int) {
		for range number {
			calls++
			start := time.Now()
			if _, err := allocator.Allocate(t.Context(), randomRequest(40, 70, uint64(calls%50))); err != nil {
				failed++
				t.Log(err)
			}
			if time.Since(start) > 4*time.Second {
				slow++
			}
		}
	}
	ask(50)
	f.awaitResponses(t, 0)
	f.awaitResponses(t, 1)
	if err := syscall.Kill(f.servers[0].PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(f.servers[0].PID(), syscall.SIGCONT) })
	// Some calls wait for the frozen server at first, then the client skips it, and no call fails.
	wait.Until(t, "a call to wait for the frozen server", func() bool { ask(1); return slow > 0 })
	ask(200)
	t.Logf("%d calls, %d waited for the frozen server", calls, slow)
	if slow > 20 {
		t.Errorf("%d of %d calls waited for the frozen server; want a few", slow, calls)
	}
	// The client uses the server again after it continues.
	if err := syscall.Kill(f.servers[0].PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	before := f.completed(t, 0)
	wait.Until(t, "the server to be used again", func() bool { ask(1); return f.completed(t, 0) >= before+5 })
	if failed > 0 {
		t.Errorf("%d of %d calls failed", failed, calls)
	}
}

package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/client"
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
	for end := time.Now().Add(37 * time.Second); time.Now().Before(end); {
		ask(10)
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d calls, %d failed, %d waited for the frozen server", calls, failed, slow)
	if failed > 2 {
		t.Errorf("%d of %d calls failed", failed, calls)
	}
	// The client uses the server again after it continues.
	if err := syscall.Kill(f.servers[0].PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	before := f.completed(t, 0)
	for f.completed(t, 0) < before+5 {
		ask(1)
	}
}

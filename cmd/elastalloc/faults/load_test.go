//go:build unix

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// load makes calls through one client, as a scheduler would, until it is stopped.
type load struct {
	calls, slow atomic.Int64

	client  *client.Client
	cancel  context.CancelFunc
	group   sync.WaitGroup
	stopped sync.Once
	mutex   sync.Mutex
	failed  []error
}

// The callers of a load. Slow callers nearly always have a call in flight, so that faults of a server affect calls
// in flight.
const (
	smallCallers = 10
	slowCallers  = 12
	largeCallers = 1
)

// startLoad starts callers of the servers with the given addresses. Most requests have 40 jobs on 70 nodes, some have
// a thousand jobs, and some take long if the CBC of the servers is that of sleepingSolver. Every response is checked.
// The load stops at the end of the test.
func startLoad(t *testing.T, addresses ...string) *load {
	t.Helper()
	// The timeout is long, because deadlines are not tested. The default of the client is 2 s.
	allocator, err := client.New(strings.Join(addresses, ","), client.WithTimeout(generous))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{client: allocator, cancel: cancel}
	t.Cleanup(func() { l.stop(t) })

	caller := func(pause time.Duration, calls *atomic.Int64, request func(seed uint64) *elastallocv1.AllocateRequest) {
		l.group.Go(func() {
			for seed := uint64(0); ctx.Err() == nil; seed++ {
				l.call(ctx, request(seed%50))
				calls.Add(1)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	for range smallCallers {
		caller(100*time.Millisecond, &l.calls, func(seed uint64) *elastallocv1.AllocateRequest { return randomRequest(40, 70, seed) })
	}
	for range largeCallers {
		caller(500*time.Millisecond, &l.calls, func(seed uint64) *elastallocv1.AllocateRequest { return randomRequest(1000, 1500, seed) })
	}
	for range slowCallers {
		caller(0, &l.slow, slowRequest)
	}
	return l
}

// slowRequest returns a request that takes as long as the CBC of sleepingSolver sleeps, and little CPU time.
func slowRequest(seed uint64) *elastallocv1.AllocateRequest {
	request := randomRequest(10, 16, seed)
	request.Options = &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS,
		Backend:   elastallocv1.Backend_BACKEND_CBC, TimeBudget: durationpb.New(generous),
		// The solver returns the plan of greedy, which is legal then.
		Admission: elastallocv1.Admission_ADMISSION_OPTIMIZED,
	}
	return request
}

// sleepingSolver returns a program that prints the version of CBC, sleeps for every problem, and then returns the
// warm start as its solution.
func sleepingSolver(t *testing.T, seconds float64) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "cbc")
	script := "#!/bin/sh\n" +
		"[ \"$1\" = -quit ] && echo 'Welcome to the CBC MILP Solver' && echo 'Version: 2.10.12' && exit\n" +
		fmt.Sprintf("sleep %g\n", seconds) +
		"for solution; do :; done\n" + // the last argument
		"cp start.txt \"$solution\"\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

// allocateWhenNotBusy repeats a call while the server is too busy. The number of attempts depends on the machine.
func allocateWhenNotBusy(
	ctx context.Context, c *client.Client, request *elastallocv1.AllocateRequest,
) (*elastallocv1.AllocateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, generous)
	defer cancel()
	for {
		response, err := c.Allocate(ctx, request)
		if status.Code(err) != codes.ResourceExhausted || ctx.Err() != nil {
			return response, err
		}
	}
}

// call makes a call that must succeed.
func (l *load) call(ctx context.Context, request *elastallocv1.AllocateRequest) {
	response, err := allocateWhenNotBusy(ctx, l.client, request)
	if ctx.Err() != nil {
		return // The load is stopping.
	}
	if err == nil {
		err = checkResponse(request, response)
	}
	if err != nil {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.failed = append(l.failed, fmt.Errorf("%s: %s of %s: %w", time.Now().Format(time.StampMilli),
			request.GetOptions().GetBackend(), request.GetSnapshot().GetId(), err))
	}
}

// awaitCalls waits until this many more calls of every kind have completed.
func (l *load) awaitCalls(t *testing.T, more int64) {
	t.Helper()
	calls, slow := l.calls.Load()+more, l.slow.Load()+more
	wait.For(t, "calls complete", func() (bool, string) {
		return l.calls.Load() >= calls && l.slow.Load() >= slow, fmt.Sprintf("%d calls, %d slow ones", l.calls.Load(), l.slow.Load())
	})
}

// stop stops the load and reports all failed calls. Further calls have no effect.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.stopped.Do(func() {
		l.cancel()
		l.group.Wait()
		if err := l.client.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("%d calls, %d slow ones, %d failed", l.calls.Load(), l.slow.Load(), len(l.failed))
		for _, err := range l.failed[:min(5, len(l.failed))] {
			t.Error(err)
		}
		if n := len(l.failed); n > 5 {
			t.Errorf("%d more failed", n-5)
		}
	})
}

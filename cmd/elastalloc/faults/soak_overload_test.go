//go:build unix

package faults

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestSoakOverload checks that a server with the resources of the chart survives requests of all sizes from three
// callers, that less than 1% of the calls of another caller fail, and that its memory does not grow.
func TestSoakOverload(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the time of -soak")
	}
	t.Parallel()
	const name = "requests of all sizes, of 3 callers"
	s := startTarget(t, amplified()[name], false)
	honest := startHonest(t, s.Server)
	overloadFor := func(length time.Duration) (memory float64) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		awaitExit := s.startAttacker(ctx, name)
		time.Sleep(length)
		cancel()
		awaitExit()
		return s.settled()
	}
	before := overloadFor(min(2*time.Minute, *soakTime/2)) // Then the code and the tables of the runtime are in memory.
	after := overloadFor(*soakTime)
	calls, lost := honest.stop()
	peak := s.peakMemory()
	t.Logf("%d calls, %d lost; memory %.0f MiB before, %d at most, %.0f after", calls, len(lost), before/(1<<20), peak>>20, after/(1<<20))
	for _, err := range lost[:min(5, len(lost))] {
		t.Log(err)
	}
	if len(lost)*100 > calls {
		t.Errorf("%d of %d honest calls failed; want less than 1%%", len(lost), calls)
	}
	if peak > s.limit {
		t.Errorf("the server used %d MiB; want at most %d", peak>>20, s.limit>>20)
	}
	kept := 0.0
	if *soakTime < 10*time.Minute {
		kept = 16 << 20 // The tables of the runtime are not complete after a short time.
	}
	if after > 1.2*before+kept {
		t.Errorf("the server uses %.0f MiB after the overload; want at most a fifth more than %.0f", after/(1<<20), before/(1<<20))
	}
}

// settled returns the minimum memory of the server over some time with garbage collections, because Go releases
// memory slowly.
func (s *target) settled() float64 {
	s.t.Helper()
	lowest := math.Inf(1)
	for range min(30, max(15, int(soakTime.Minutes()*3))) {
		time.Sleep(time.Second)
		servertest.Page(s.t, s.Server, "/debug/pprof/heap?gc=1")
		lowest = min(lowest, readGauges(s.t, s.Server).Memory)
	}
	return lowest
}

// honestLoad makes calls of all methods, like a scheduler and its users: five decisions and one analysis per second.
type honestLoad struct {
	client *client.Client
	cancel context.CancelFunc
	group  sync.WaitGroup

	mutex sync.Mutex
	calls int
	lost  []error
}

// startHonest starts callers, which call a server until they are stopped.
func startHonest(t *testing.T, server *servertest.Server) *honestLoad {
	t.Helper()
	c, err := client.New(server.Addr, client.WithTimeout(generous))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &honestLoad{client: c, cancel: cancel}
	t.Cleanup(func() { h.stop() })
	options := &elastallocv1.AllocateOptions{
		Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, TimeBudget: durationpb.New(300 * time.Millisecond),
	}
	for _, caller := range []struct {
		every time.Duration
		call  func(*elastallocv1.AllocateRequest) error
	}{
		{200 * time.Millisecond, func(r *elastallocv1.AllocateRequest) error {
			response, err := c.Allocate(ctx, r)
			if err == nil {
				err = checkResponse(r, response)
			}
			return err
		}},
		{500 * time.Millisecond, func(r *elastallocv1.AllocateRequest) error {
			_, err := c.FillIdle(ctx, &elastallocv1.FillIdleRequest{Snapshot: r.GetSnapshot()})
			return err
		}},
		{3 * time.Second, func(r *elastallocv1.AllocateRequest) error {
			_, err := c.WhatIf(ctx, &elastallocv1.WhatIfRequest{
				Snapshot: r.GetSnapshot(), Options: options, Scenarios: []*elastallocv1.Scenario{{TotalNodes: new(int32(80))}},
			})
			return err
		}},
		{3 * time.Second, func(r *elastallocv1.AllocateRequest) error {
			_, err := c.Explain(ctx, &elastallocv1.ExplainRequest{Snapshot: r.GetSnapshot(), Options: options})
			return err
		}},
		{3 * time.Second, func(r *elastallocv1.AllocateRequest) error {
			_, err := c.Forecast(ctx, &elastallocv1.ForecastRequest{Snapshot: r.GetSnapshot(), Options: options})
			return err
		}},
	} {
		h.group.Go(func() {
			ticker := time.NewTicker(caller.every)
			defer ticker.Stop()
			for seed := uint64(0); ctx.Err() == nil; seed++ {
				h.count(ctx, caller.call(randomRequest(40, 70, seed)))
				select {
				case <-ctx.Done():
				case <-ticker.C:
				}
			}
		})
	}
	return h
}

// count counts a call, unless the load has stopped.
func (h *honestLoad) count(ctx context.Context, err error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if ctx.Err() != nil {
		return
	}
	h.calls++
	if err != nil {
		h.lost = append(h.lost, err)
	}
}

// stop stops the load, and returns the number of calls and the errors of failed calls.
func (h *honestLoad) stop() (calls int, lost []error) {
	h.cancel()
	h.group.Wait()
	err := h.client.Close()
	if status.Code(err) == codes.Canceled { // The connection was closed before.
		err = nil
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err != nil {
		h.lost = append(h.lost, err)
	}
	return h.calls, h.lost
}

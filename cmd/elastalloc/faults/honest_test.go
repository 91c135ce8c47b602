//go:build unix

package faults

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/process"
	"github.com/elastalloc/elastalloc/cmd/elastalloc/internal/servertest"
	"github.com/elastalloc/elastalloc/internal/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestSoakBesieged checks that a server of the chart's size lives through requests of all
// sizes from three callers, that hardly a call of another caller is lost meanwhile, of any
// method, and that the memory that it takes returns to where it was.
func TestSoakBesieged(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as -soak says")
	}
	t.Parallel()
	const name = "requests of all sizes, of 3 callers"
	s := startBesieged(t, amplified()[name], false)
	honest := startHonest(t, s.Server)
	time.Sleep(max(10*time.Second, *soakTime/10))
	before := s.collected()
	ctx, cancel := context.WithCancel(t.Context())
	ended := s.lay(ctx, name)
	time.Sleep(*soakTime)
	cancel()
	ended()
	calls, lost := honest.stop()
	peak := s.peakMemory()
	t.Logf("%d calls, %d lost; memory %.0f MiB before, %d at most", calls, len(lost), before.Memory/(1<<20), peak>>20)
	for _, err := range lost[:min(5, len(lost))] {
		t.Log(err)
	}
	if len(lost)*100 > calls {
		t.Errorf("%d of %d honest calls are lost; want less than one in a hundred", len(lost), calls)
	}
	if peak > s.limit {
		t.Errorf("the server took %d MiB; want at most %d", peak>>20, s.limit>>20)
	}
	// Code and fragments of a heap that was large stay, whatever it holds.
	const kept = 16 << 20
	wait.For(t, "the server's memory returns", func() (bool, string) {
		time.Sleep(time.Second) // It returns by and by.
		after := s.collected()
		return after.Memory <= 1.2*before.Memory+kept, fmt.Sprintf("before: %v; now: %v", before, after)
	})
	t.Logf("memory %.0f MiB after", s.collected().Memory/(1<<20))
}

// collected returns what the server holds once its garbage is collected.
func (s *besieged) collected() gauges {
	s.t.Helper()
	for range 2 { // What is pooled takes two.
		servertest.Page(s.t, s.Server, "/debug/pprof/heap?gc=1")
	}
	return readGauges(s.t, s.Server)
}

// honestLoad is calls of all methods by a scheduler and the people beside it, five decisions a
// second and one question.
type honestLoad struct {
	client *client.Client
	cancel context.CancelFunc
	group  sync.WaitGroup

	mutex sync.Mutex
	calls int
	lost  []error
}

// startHonest lets callers call a server until they are stopped.
func startHonest(t *testing.T, server *process.Server) *honestLoad {
	t.Helper()
	c, err := client.New(server.Addr, client.WithTimeout(generous))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &honestLoad{client: c, cancel: cancel}
	t.Cleanup(func() { h.stop() })
	options := &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(300 * time.Millisecond)}
	for _, caller := range []struct {
		every time.Duration
		call  func(*elastallocv1.AllocateRequest) error
	}{
		{200 * time.Millisecond, func(r *elastallocv1.AllocateRequest) error {
			answer, err := c.Allocate(ctx, r)
			if err == nil {
				err = checkAnswer(r, answer)
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
				h.count(ctx, caller.call(drawnRequest(40, 70, seed)))
				select {
				case <-ctx.Done():
				case <-ticker.C:
				}
			}
		})
	}
	return h
}

// count counts a call, unless the load has ended.
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

// stop ends the load, and returns how many calls there were and the errors of those lost.
func (h *honestLoad) stop() (calls int, lost []error) {
	h.cancel()
	h.group.Wait()
	err := h.client.Close()
	if status.Code(err) == codes.Canceled { // It was closed before.
		err = nil
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if err != nil {
		h.lost = append(h.lost, err)
	}
	return h.calls, h.lost
}

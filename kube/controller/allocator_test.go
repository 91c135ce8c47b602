package controller_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// altering is an allocator that changes its responses.
type altering struct {
	controller.Allocator
	calls  atomic.Int64
	change func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error)
}

func (a *altering) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	a.calls.Add(1)
	response, err := a.Allocator.Allocate(ctx, r)
	if err != nil {
		return nil, err
	}
	return a.change(response)
}

// TestBadAllocators: allocators that fail or lie change nothing.
func TestBadAllocators(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error)
		result string
	}{
		"fails": {func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			return nil, errors.New("unavailable")
		}, "failed"},
		"gives more than there is": {func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			r.Allocations[0].Nodes = 8
			return r, nil
		}, "refused"},
		"empty": {func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			return &elastallocv1.AllocateResponse{}, nil
		}, "refused"},
		"nil": {func(*elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) { return nil, nil }, "refused"},
		"knows other jobs": {func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) {
			r.Allocations[0].JobId = "Job/kube-system/etcd"
			return r, nil
		}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, busy()...)
			bad := &altering{Allocator: c.allocator, change: test.change}
			c.allocator = bad
			c.start()
			c.step = 20 * time.Second
			began := c.now
			c.passes(50)
			c.want(map[string]int{"long": 8, "short": 0})
			if c.writes.Load() != 0 || c.decisions(test.result) < 2 || c.decisions("decided") != 0 {
				t.Errorf("%d writes, %v decisions %s; want none, and several", c.writes.Load(), c.decisions(test.result), test.result)
			}
			// Without a decision, its age counts from the start.
			if since := c.lastDecision(); since.Before(began) || since.After(began.Add(time.Minute)) {
				t.Errorf("the last decision is at %v; want the start, %v", since, began)
			}
			// The interval between attempts grows.
			if calls := bad.calls.Load(); calls > 30 {
				t.Errorf("%d calls in %v", calls, c.now.Sub(worldtest.Begin().Add(time.Hour)))
			}
			bad.change = func(r *elastallocv1.AllocateResponse) (*elastallocv1.AllocateResponse, error) { return r, nil }
			c.passes(30)
			c.want(map[string]int{"long": 4, "short": 4})
		})
	}
}

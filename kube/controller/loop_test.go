package controller_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/plan"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestApply(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.passes(8)
	c.want(map[string]int{"long": 4, "short": 4})
	if _, annotations := c.job("short"); annotations[world.TargetAnnotation] != "4" {
		t.Errorf("annotations are %v", annotations)
	}
	posted := c.events()
	for _, want := range []string{
		"Normal ScaledDown 8 -> 4 nodes; completes in", "Normal Started start with 4 nodes; completes in 23m26s",
		"no allocation of the pool is better", "better. Job/default/short has 4 nodes, its only size",
	} {
		if !strings.Contains(posted, want) {
			t.Errorf("events do not contain %q: %s", want, posted)
		}
	}
	if n := testutil.CollectAndCount(c.registry, "elastalloc_controller_settle_seconds"); n != 1 {
		t.Errorf("%d settle times; want 1", n)
	}
	// Nothing more is to be done, and nothing more is written.
	writes := c.writes.Load()
	c.passes(30)
	if more := c.writes.Load() - writes; more != 0 {
		t.Errorf("%d more writes", more)
	}
}

// slowAllocator takes twice the cadence for a decision.
type slowAllocator struct {
	controller.Allocator
	c *cluster
}

func (s slowAllocator) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	s.c.now = s.c.now.Add(2 * s.c.pool.Cadence)
	return s.Allocator.Allocate(ctx, r)
}

// TestSlowDecisionsAreCarriedOut checks that the next decision is not due before the one
// that took longer than the cadence was carried out.
func TestSlowDecisionsAreCarriedOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.pool.Cadence, c.step = 5*time.Second, time.Second
	c.allocator = slowAllocator{c.allocator, c}
	c.start()
	c.passes(8)
	c.want(map[string]int{"long": 4, "short": 4})
}

func TestRecommendWritesNoSpecification(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.mode = plan.ModeRecommend
	c.start()
	c.onPatch = func(patch, name string) error {
		if patch != string(types.MergePatchType) {
			t.Errorf("%s of %s", patch, name)
		}
		return nil
	}
	c.step = time.Minute
	c.passes(15)
	c.want(map[string]int{"long": 8, "short": 0})
	if _, annotations := c.job("short"); annotations[world.TargetAnnotation] != "4" {
		t.Errorf("annotations are %v; want a target of 4", annotations)
	}
	if posted := c.events(); strings.Count(posted, "Recommended") != 2 || !strings.Contains(posted, "Normal Recommended 8 -> 4 nodes") {
		t.Errorf("events are %s; want one for each of two jobs", posted)
	}
	// To apply is to decide anew.
	c.onPatch, c.mode = nil, plan.ModeApply
	c.start()
	c.passes(8)
	c.want(map[string]int{"long": 4, "short": 4})
}

// TestMoments counts decisions: at the start, ten seconds after events, and every cadence.
func TestMoments(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.passes(8)
	decided := c.decisions("decided")
	c.step = 2 * time.Second
	for i := range 3 { // They cause one decision.
		job := worldtest.Job(fmt.Sprintf("new-%d", i), 0, map[string]string{"work": "1h", "nodes": "1"})
		job.SetResourceVersion("")
		if err := c.client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		c.passes(1)
	}
	if n := c.decisions("decided") - decided; n != 0 {
		t.Errorf("%v decisions within 10 s of an event; want none", n)
	}
	c.passes(6)
	if n := c.decisions("decided") - decided; n != 1 {
		t.Errorf("%v decisions for three events; want 1", n)
	}
	decided, c.step = c.decisions("decided"), time.Minute
	for began := c.now; c.now.Sub(began) < 16*time.Minute; {
		// A job that reports is no event.
		left := fmt.Sprintf(`{"metadata":{"annotations":{"elastalloc.dev/remaining":"%v"}}}`, 100*time.Hour-c.now.Sub(began))
		long := worldtest.Job("long", 8, nil)
		if err := c.client.Patch(t.Context(), long, client.RawPatch(types.MergePatchType, []byte(left))); err != nil {
			t.Fatal(err)
		}
		c.passes(1)
	}
	if n := c.decisions("decided") - decided; n < 3 || n > 4 {
		t.Errorf("%v decisions in 16 minutes; want one every 5", n)
	}
}

func TestPausedPool(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.pool.Paused = true
	c.start()
	c.passes(3)
	if c.writes.Load() != 0 {
		t.Errorf("%d writes to a paused pool", c.writes.Load())
	}
}

// TestProgressFillsIdleNodes: between its decisions the objective progress leaves running
// jobs alone.
func TestProgressFillsIdleNodes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 12, worldtest.Job("long", 8, map[string]string{"work": "1000h", "nodes": "8"}))
	c.pool.Objective = config.Progress
	c.start()
	c.passes(4)
	job := worldtest.Job("new", 0, map[string]string{"work": "1h", "nodes": "1-16"})
	job.SetResourceVersion("")
	if err := c.client.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	c.passes(8)
	c.want(map[string]int{"long": 8, "new": 4})
}

// pausing is an allocator that pauses every job that may change. It stores the requests.
type pausing struct {
	controller.Allocator
	requests []*elastallocv1.AllocateRequest
}

func (a *pausing) Allocate(_ context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	a.requests = append(a.requests, r)
	response := &elastallocv1.AllocateResponse{SnapshotId: r.GetSnapshot().GetId()}
	for _, j := range r.GetSnapshot().GetJobs() {
		allocation := &elastallocv1.Allocation{JobId: j.GetId()}
		if j.GetKeep() {
			allocation.Nodes = j.GetCurrentNodes()
		}
		response.Allocations = append(response.Allocations, allocation)
	}
	return response, nil
}

// TestRequestsOfOneDecision counts the requests of a decision if responses pause a RayCluster, which must not be paused. The
// second request has the RayCluster in front, the third one the usual order, and the last one omits the RayCluster. If it is
// in front in the usual order, the third request would be the second one again and is not sent.
func TestRequestsOfOneDecision(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		jobs  []string
		calls int
	}{{[]string{multiHost, "Job"}, 3}, {[]string{"Job", multiHost}, 4}} {
		e := newEventful(t, 0, 8, plan.ModeApply)
		e.pool.MinInterval = 0
		e.start()
		for _, kind := range test.jobs {
			e.submit(kind, []int{2, 4}, 0, false, 8)
			e.passUntil(time.Minute)
		}
		a := &pausing{Allocator: e.allocator}
		e.allocator = a
		e.start()
		if _, err := e.loop.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if result := e.loop.Report().Decision.Result; result != "decided" || len(a.requests) != test.calls {
			t.Errorf("%v: the decision has the result %q and %d requests; want %d", test.jobs, result, len(a.requests), test.calls)
		}
		for i := 1; i < len(a.requests); i++ {
			if proto.Equal(a.requests[i-1], a.requests[i]) {
				t.Errorf("%v: request %d is sent twice: %v", test.jobs, i, a.requests[i])
			}
		}
	}
}

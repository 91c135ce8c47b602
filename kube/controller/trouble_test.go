package controller_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestCrash ends the controller after every number of writes; the end is the same.
func TestCrash(t *testing.T) {
	t.Parallel()
	for crash := range int64(5) {
		t.Run(fmt.Sprint(crash), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, busy()...)
			dead := errors.New("the process is dead")
			c.onPatch = func(string, string) error {
				if c.writes.Load() >= crash {
					return dead
				}
				return nil
			}
			c.passes(4)
			c.onPatch = nil
			c.start()
			c.passes(12)
			c.want(map[string]int{"long": 4, "short": 4})
		})
	}
}

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

func TestPinnedJobsAreToldWhy(t *testing.T) {
	t.Parallel()
	jobs := append(busy(), worldtest.Job("bad", 0, map[string]string{"work": "soon", "weight": "x"}),
		worldtest.Job("unknown", 0, map[string]string{"nodes": "1"}))
	c := newCluster(t, 9, jobs...)
	c.passes(20)
	c.want(map[string]int{"long": 4, "short": 4, "bad": 0, "unknown": 1})
	posted := c.events()
	if strings.Count(posted, "Warning BadAnnotations") != 1 || strings.Count(posted, "Warning NoRemainingTime") != 1 ||
		!strings.Contains(posted, "elastalloc.dev/work") || !strings.Contains(posted, "elastalloc.dev/weight") {
		t.Errorf("events are %s", posted)
	}
	pinned := "elastalloc_controller_pinned"
	if n := testutil.CollectAndCount(c.registry, pinned); n != len(world.Reasons()) {
		t.Errorf("%d series of %s; want one for each reason", n, pinned)
	}
}

// TestLongEvents: an API server takes notes of up to 1024 bytes of UTF-8.
func TestLongEvents(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "x", "xx"} {
		c := newCluster(t, 1, worldtest.Job("bad", 0, map[string]string{"work": before + strings.Repeat("日", 1000)}))
		c.passes(1)
		note, _ := strings.CutPrefix(c.events(), "Warning BadAnnotations ")
		if !utf8.ValidString(note) || len(note) > 1024 || len(note) < 1000 || !strings.HasSuffix(note, "...") {
			t.Errorf("event of %d bytes: %q", len(note), note)
		}
	}
}

// TestRefusedWrites: what the API server refuses for one job is that job's alone.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	jobs := append(busy(), worldtest.Job("other", 0, map[string]string{"work": "1h", "nodes": "2"}))
	c := newCluster(t, 10, jobs...)
	c.onPatch = func(patch, name string) error {
		if name == "other" && patch == string(types.JSONPatchType) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, name, errors.New("a policy"))
		}
		return nil
	}
	c.passes(30)
	c.want(map[string]int{"long": 4, "short": 4, "other": 0})
	if posted := c.events(); strings.Count(posted, "Warning Refused start with 2 nodes") != 1 {
		t.Errorf("events are %s", posted)
	}
}

// TestGang checks that a Job that the API server refuses to resize, as Kubernetes 1.36 does with gangs, keeps its
// nodes and gets one event. The resize is not tried again at each decision, and other jobs use the remaining
// nodes. A gang that waits starts at its own size.
func TestGang(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 11, worldtest.Job("gang", 8, map[string]string{"work": "1000h", "nodes": "4,8"}),
		worldtest.Job("waits", 0, map[string]string{"work": "900h", "nodes": "1,2"}),
		worldtest.Job("other", 0, map[string]string{"work": "4h", "nodes": "2,4", "weight": "3"}))
	refused := make(map[string]int)
	c.onPatch = func(patch, name string) error {
		if patch == string(types.JSONPatchType) && (name == "gang" || name == "waits" && refused["waits"] == 0) {
			refused[name]++
			return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, name,
				errors.New(`cannot change parallelism for a Job referencing gang-scheduled PodGroup "workers"`))
		}
		return nil
	}
	c.step = time.Minute
	c.passUntil(5 * time.Hour)
	c.want(map[string]int{"gang": 8, "waits": 1, "other": 2})
	if refused["gang"] != 1 {
		t.Errorf("%d resizes of the gang were tried within hours; want one", refused["gang"])
	}
	posted := c.events()
	if strings.Count(posted, `Warning Gang keeps its 8 nodes: jobs.batch "gang" is forbidden: cannot change parallelism`) != 1 {
		t.Errorf("events are %s", posted)
	}
	for _, j := range c.loop.Report().State.Jobs {
		if j.ID == "Job/default/gang" && j.Pinned != world.Gang {
			t.Errorf("on the status page it is pinned %q: %s", j.Pinned, j.Message)
		}
	}
}

// TestRefusedNotes: a job that takes no note, such as one that breaks a policy that is newer than
// it, is left alone, and all others go on.
func TestRefusedNotes(t *testing.T) {
	t.Parallel()
	for name, jobs := range map[string][]*unstructured.Unstructured{"one of several": busy(), "the only one": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 10, append(jobs, worldtest.Job("other", 0, map[string]string{"work": "1h", "nodes": "2"}))...)
			c.onPatch = func(_, name string) error {
				if name == "other" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, name, errors.New("a policy"))
				}
				return nil
			}
			for began := c.now; c.now.Sub(began) < 2*time.Minute; {
				c.passes(1)
			}
			if jobs != nil {
				c.want(map[string]int{"long": 4, "short": 4, "other": 0})
			}
			if posted := c.events(); strings.Count(posted, "Warning Refused keeps its 0 nodes") != 1 {
				t.Errorf("events are %s", posted)
			}
			if result := c.loop.Report().Decision.Result; result == "failed" {
				t.Errorf("the last decision %s", result)
			}
		})
	}
}

// TestOneJobFails lets every write on one job fail in one way, either for targets or for resizes. The other jobs must
// get their nodes, and the writes must become rarer until they succeed.
func TestOneJobFails(t *testing.T) {
	t.Parallel()
	jobs := schema.GroupResource{Resource: "jobs"}
	for name, failure := range map[string]error{
		"forbidden":       apierrors.NewForbidden(jobs, "long", errors.New("a policy")),
		"webhook fails":   apierrors.NewInternalError(errors.New("failed calling webhook")),
		"timeout":         apierrors.NewTimeoutError("request did not complete within requested timeout", 0),
		"unavailable":     apierrors.NewServiceUnavailable("the server is currently unable to handle the request"),
		"overloaded":      apierrors.NewTooManyRequests("webhook is overloaded", 1),
		"too large":       apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
		"connection lost": errors.New("http2: client connection lost"),
		"slow":            context.DeadlineExceeded,
	} {
		for _, of := range []types.PatchType{types.MergePatchType, types.JSONPatchType} {
			t.Run(name+" "+string(of), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, 10, append(busy(), worldtest.Job("other", 0, map[string]string{"work": "1h", "nodes": "2"}))...)
				var attempts atomic.Int64
				c.onPatch = func(patch, name string) error {
					if name == "long" && patch == string(of) {
						attempts.Add(1)
						return failure
					}
					return nil
				}
				c.passUntil(time.Minute)
				c.want(map[string]int{"long": 8, "short": 0, "other": 2})
				if posted := c.events(); !strings.Contains(posted, "Warning Refused") {
					t.Errorf("events are %s", posted)
				}
				attempts.Store(0)
				c.step = time.Minute
				c.passUntil(100 * time.Minute)
				if n := attempts.Load(); n < 3 || n > 10 {
					t.Errorf("%d writes in 100 min; want retries at increasing intervals", n)
				}
				c.onPatch = nil
				c.passUntil(70 * time.Minute)
				c.want(map[string]int{"long": 4, "short": 4, "other": 2})
			})
		}
	}
}

// TestRestart lets the API server stop between two writes of a decision, or learn a role between them. The jobs whose
// writes fail are not the cause, so none is refused.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]struct {
		err  error
		last time.Duration
	}{
		"connection lost": {&url.Error{Op: "Patch", URL: "https://apiserver", Err: syscall.ECONNRESET}, 10 * time.Second},
		"role unknown":    {apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "long", errors.New("cannot patch")), 3 * time.Second},
	} {
		for _, of := range []types.PatchType{types.MergePatchType, types.JSONPatchType} {
			t.Run(name+" "+string(of), func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, 10, append(busy(), worldtest.Job("other", 0, map[string]string{"work": "1h", "nodes": "2"}))...)
				c.onPatch = func(patch, name string) error {
					if patch == string(of) && name != "other" {
						return failure.err
					}
					return nil
				}
				c.passUntil(failure.last)
				c.onPatch = nil
				c.passUntil(time.Minute)
				c.want(map[string]int{"long": 4, "short": 4, "other": 2})
				if posted := c.events(); strings.Contains(posted, "Refused") {
					t.Errorf("events are %s", posted)
				}
			})
		}
	}
}

// TestRefusedInABusyPool: where a decision follows the other, a job whose writes are refused is
// found out as well, and then decisions are made without it for a while.
func TestRefusedInABusyPool(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 10, append(busy(), worldtest.Job("other", 0, map[string]string{"work": "1h", "nodes": "2"}))...)
	c.onPatch = func(patch, name string) error {
		if name == "other" && patch == string(types.JSONPatchType) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, name, errors.New("a policy"))
		}
		return nil
	}
	pinned, decided := 0, 0.0
	for began, n := c.now, 0; c.now.Sub(began) < 4*time.Minute; n++ {
		job := worldtest.Job(fmt.Sprint("new-", n), 0, map[string]string{"work": "1h", "nodes": "64"})
		job.SetResourceVersion("")
		if err := c.client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		for came := c.now; c.now.Sub(came) < 15*time.Second; {
			c.passes(1)
		}
		for _, j := range c.loop.Report().State.Jobs {
			if j.Pinned == world.Refused {
				pinned++
			}
		}
		decided = c.decisions("decided")
	}
	if decided < 10 || pinned < 10 {
		t.Errorf("it is pinned after %d of 16 events, on which %v decisions were made; want it to be after most", pinned, decided)
	}
	if n := strings.Count(c.events(), "Warning Refused start with 2 nodes"); n < 1 || n > 2 {
		t.Errorf("%d events; want one each time", n)
	}
}

// TestRefusedForAWhile: an API server that has just started, or whose admission policies have
// changed, may refuse what it takes a few seconds later, of which users hear nothing.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	until, refused := c.now.Add(20*time.Second), 0
	c.onPatch = func(patch, name string) error {
		if patch != string(types.JSONPatchType) || !c.now.Before(until) {
			return nil
		}
		if refused++; refused%2 == 0 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, name, nil)
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, name, errors.New("no roles yet"))
	}
	c.passes(30)
	c.want(map[string]int{"long": 4, "short": 4})
	if posted := c.events(); strings.Contains(posted, "Refused") {
		t.Errorf("events are %s", posted)
	}
	if refused < 2 || refused > 10 {
		t.Errorf("%d writes were refused; want a few, seconds apart", refused)
	}
}

// TestConflicts: another writer between observation and write costs another pass.
func TestConflicts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	times := 0
	c.onPatch = func(patch, name string) error {
		if patch != string(types.JSONPatchType) || name != "long" || times == 3 {
			return nil
		}
		times++
		// What its owner does meanwhile.
		var job batchv1.Job
		key := types.NamespacedName{Namespace: "default", Name: name}
		if err := c.client.Get(t.Context(), key, &job); err != nil {
			return err
		}
		job.Annotations["someone"] = fmt.Sprint(times)
		return c.client.Update(t.Context(), &job)
	}
	c.passes(12)
	c.want(map[string]int{"long": 4, "short": 4})
	if times != 3 {
		t.Errorf("%d conflicts; want 3", times)
	}
}

// TestStuck gives a decision up whose pods do not leave, and makes another one.
func TestStuck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.linger = true
	c.passes(40)
	c.want(map[string]int{"long": 4, "short": 0})
	if posted := c.events(); !strings.Contains(posted, "Warning Stuck gave up start with 4 nodes") {
		t.Errorf("events are %s", posted)
	}
	c.linger, c.step = false, 30*time.Second
	c.passes(20)
	c.want(map[string]int{"long": 4, "short": 4})
}

// TestPodsOutliveTheirJob checks that the nodes of a completed job are not allocated before its pods have
// terminated, however long that takes.
func TestPodsOutliveTheirJob(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.linger, c.pool.SettleTimeout = true, time.Second
	c.end("long")
	c.start()
	for began := c.now; c.now.Sub(began) < 10*time.Minute; {
		c.passes(1)
	}
	c.want(map[string]int{"short": 0})
	if n := c.count("stuck_total", ""); n != 0 {
		t.Errorf("%v decisions were given up; want none", n)
	}
	c.linger = false
	c.kubelet()
	for began := c.now; c.now.Sub(began) < time.Minute; {
		c.passes(1)
	}
	c.want(map[string]int{"short": 4})
}

// TestLostNode: a node is lost once its pods are, and a decision is made at once that only changes the
// job whose pods they were. In an outage nothing is decided at first, and no job is paused whose pods
// run.
func TestLostNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("a", 4, map[string]string{"work": "1000h", "nodes": "1-4"}),
		worldtest.Job("b", 4, map[string]string{"work": "1000h", "nodes": "1-4"}))
	c.scales = true
	c.passes(4)
	c.want(map[string]int{"a": 4, "b": 4})
	lost := c.nodesOf("b")[0]
	c.ready(lost, corev1.ConditionUnknown)
	c.passUntil(6 * time.Minute)
	c.want(map[string]int{"a": 4, "b": 4})
	c.evict(lost)
	c.passes(4)
	c.want(map[string]int{"a": 4, "b": 2})

	decided := c.decisions("decided")
	unreachable := append(c.nodesOf("a")[:3], c.nodesOf("b")...)
	for _, node := range unreachable {
		c.ready(node, corev1.ConditionUnknown)
	}
	c.passUntil(10 * time.Minute)
	if c.decisions("outage") == 0 || c.decisions("decided") != decided {
		t.Errorf("%v outages and %v decisions in an outage", c.decisions("outage"), c.decisions("decided")-decided)
	}
	c.passUntil(time.Hour)
	c.want(map[string]int{"a": 4, "b": 2})
	for _, node := range unreachable {
		c.evict(node)
	}
	c.passUntil(30 * time.Minute)
	if a, _ := c.job("a"); a == 0 {
		t.Error("a is paused, one of whose pods runs")
	}
}

// TestPodsThatStay checks that a job whose pods do not terminate is resized once, and not again until they have,
// whatever the number of decisions.
func TestPodsThatStay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8,
		worldtest.Job("stays", 8, map[string]string{"work": "100000h", "nodes": "1,2,4,8"}),
		worldtest.Job("b", 0, map[string]string{"work": "1h", "nodes": "1-4"}),
		worldtest.Job("c", 0, map[string]string{"work": "1h", "nodes": "1-4"}),
	)
	c.pool.MinInterval, c.pool.Cadence = 0, 10*time.Second
	c.leaving = true
	c.start()
	first := 0
	for began := c.now; c.now.Sub(began) < 6*time.Minute; {
		c.passes(1)
		n, _ := c.job("stays")
		if n < 8 && first == 0 {
			first = n
		}
		if first > 0 && n != first {
			t.Fatalf("after %v it has %d nodes; want it to be left with %d", c.now.Sub(began), n, first)
		}
	}
	if posted := c.events(); strings.Count(posted, "Warning Stuck keeps its") != 1 {
		t.Errorf("events are %s", posted)
	}
	if n := c.count("stuck_total", ""); n < 1 || n > 3 {
		t.Errorf("stuck %v times; want once, and what was given up", n)
	}
	c.leaving = false
	c.kubelet()
	for began := c.now; c.now.Sub(began) < 5*time.Minute; {
		c.passes(1)
	}
	if b, _ := c.job("b"); b == 0 {
		t.Error("b does not start once the pods have gone")
	}
}

// TestForeignSuspension: another owner of a job suspends it each time it was started. It is left
// alone ever longer, and others are not resized for it all the time.
func TestForeignSuspension(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, worldtest.Job("long", 8, map[string]string{"work": "10000h", "nodes": "4,8"}),
		worldtest.Job("owned", 0, map[string]string{"work": "1h", "nodes": "4"}))
	c.step = time.Minute
	starts := 0
	for began := c.now; c.now.Sub(began) < 6*time.Hour; {
		c.passes(1)
		var job batchv1.Job
		if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "owned"}, &job); err != nil {
			t.Fatal(err)
		}
		if !*job.Spec.Suspend {
			starts++
			*job.Spec.Suspend = true
			if err := c.client.Update(t.Context(), &job); err != nil {
				t.Fatal(err)
			}
			c.kubelet()
		}
	}
	if resized := c.count("changes_total", "scale_up") + c.count("changes_total", "scale_down"); starts < 3 || starts > 9 || resized > 14 {
		t.Errorf("started %d times, the other job resized %v times; want about 8 and twice that at most", starts, resized)
	}
	if posted := c.events(); !strings.Contains(posted, "Warning Conflict keeps its 0 nodes: another writer reverted 3 resizes") {
		t.Errorf("events are %s", posted)
	}
}

// TestClockSetBack checks that decisions go on after the clock was set back, and that a new job gets nodes of other
// jobs after their usual cooldown.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for _, back := range []time.Duration{2 * time.Hour, 48 * time.Hour} {
		for _, restarted := range []bool{false, true} {
			c := newCluster(t, 8, worldtest.Job("long", 8, map[string]string{"work": "10000h", "nodes": "2,4,8"}), busy()[1])
			c.passes(8)
			c.want(map[string]int{"long": 4, "short": 4})
			c.now, c.step = c.now.Add(-back), 30*time.Second
			if restarted {
				c.start()
			}
			decided := c.decisions("decided")
			for began := c.now; c.now.Sub(began) < 4*c.pool.Cadence; {
				c.passes(1)
			}
			if n := c.decisions("decided") - decided; n < 3 {
				t.Errorf("the clock went back by %v, restarted: %t: %v decisions in four cadences", back, restarted, n)
			}
			job := worldtest.Job("new", 0, map[string]string{"work": "20m", "nodes": "2"})
			job.SetResourceVersion("")
			if err := c.client.Create(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			for began := c.now; c.now.Sub(began) < 20*time.Minute; {
				c.passes(1)
			}
			if n, _ := c.job("new"); n != 2 {
				t.Errorf("the clock went back by %v, restarted: %t: a new job has %d nodes 20 minutes later", back, restarted, n)
			}
		}
	}
}

// TestForgedRecordAtStart: what a user writes into the record of his job keeps a new controller
// from no decision, and a job from changing for no longer than a cooldown.
func TestForgedRecordAtStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, append(busy(), worldtest.Job("forged", 0, map[string]string{"work": "1000h", "nodes": "2"}))...)
	forge := func(r world.Record) {
		var job batchv1.Job
		if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "forged"}, &job); err != nil {
			t.Fatal(err)
		}
		r.UID, r.Since = job.UID, c.now
		job.Annotations[world.TargetAnnotation], job.Annotations[world.DecisionAnnotation] = "2", r.String()
		job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(10 * 365 * 24 * 60 * 60))
		if err := c.client.Update(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
		c.start()
		for began := c.now; c.now.Sub(began) < 7*time.Minute; {
			c.passes(1)
		}
	}
	forge(world.Record{ID: "z", At: c.now.Add(-time.Second), Mode: "apply", Jobs: 1})
	if n := c.decisions("decided"); n == 0 {
		t.Error("nothing is decided within a cadence")
	}
	c.end("long")
	c.kubelet()
	ahead := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	forge(world.Record{Changed: &ahead})
	c.want(map[string]int{"forged": 2})
}

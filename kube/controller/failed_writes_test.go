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

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

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

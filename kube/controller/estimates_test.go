package controller_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// lastRequests is an allocator that stores the last request of each job.
type lastRequests struct {
	controller.Allocator
	jobs map[string]*elastallocv1.Job
}

func (a lastRequests) Allocate(ctx context.Context, r *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	for _, j := range r.GetSnapshot().GetJobs() {
		if !j.GetKeep() {
			a.jobs[j.GetId()] = j
		}
	}
	return a.Allocator.Allocate(ctx, r)
}

// TestJobsWithoutRemainingTime estimates the remaining work of a job that reports nothing as the median remaining
// work of completed jobs that had reached the same point. Two prior values, 20 and 60 min, count as completed
// jobs, so the first estimate is 40 min.
func TestJobsWithoutRemainingTime(t *testing.T) {
	t.Parallel()
	one := map[string]string{"nodes": "1"}
	c := newCluster(t, 4, worldtest.Job("a", 1, one), worldtest.Job("b", 1, one), worldtest.Job("c", 1, one))
	a := lastRequests{c.allocator, make(map[string]*elastallocv1.Job)}
	c.allocator, c.step = a, time.Minute
	c.start()
	c.submit("queued", one)
	check := func(name string, left, done time.Duration) {
		t.Helper()
		j := a.jobs["Job/default/"+name]
		if got := j.GetRemainingEta().AsDuration(); j.GetEtaError() != eta.UnknownError || math.Abs(got.Seconds()-left.Seconds()) > 600 {
			t.Errorf("%s has %v left with an error of %v; want %v and %v", name, got, j.GetEtaError(), left, eta.UnknownError)
		}
		if got := j.GetWorkDone().AsDuration(); math.Abs(got.Seconds()-done.Seconds()) > 600 {
			t.Errorf("%s has done %v; want %v", name, got, done)
		}
	}
	c.passes(5)
	check("queued", 40*time.Minute, 0)
	check("a", 2*time.Hour, time.Hour) // As much again, or three times that.
	for _, name := range []string{"a", "b", "c"} {
		for c.now.Before(worldtest.Begin().Add(5 * time.Hour)) {
			c.passes(1)
		}
		c.end(name)
	}
	c.passes(10)
	c.submit("late", one)
	c.passes(10)
	check("late", 5*time.Hour, 0)
}

// TestOnlyCompletedJobsCount checks that jobs that fail, are deleted or leave the pool after a few minutes do not
// change the estimate of a job that reports nothing.
func TestOnlyCompletedJobsCount(t *testing.T) {
	t.Parallel()
	for how, counts := range map[string]bool{"Complete": true, "Failed": false, "deleted": false, "unlabeled": false} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			var jobs []*unstructured.Unstructured
			for i := range 4 {
				jobs = append(jobs, worldtest.Job(fmt.Sprint("job-", i), 1, map[string]string{"work": "100h", "nodes": "1"}))
			}
			c := newCluster(t, 4, jobs...)
			a := lastRequests{c.allocator, make(map[string]*elastallocv1.Job)}
			c.allocator, c.step = a, time.Minute
			c.start()
			c.passes(10)
			for i := range 4 {
				var job batchv1.Job
				if err := c.client.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: fmt.Sprint("job-", i)}, &job); err != nil {
					t.Fatal(err)
				}
				var err error
				switch how {
				case "deleted":
					err = c.client.Delete(t.Context(), &job)
				case "unlabeled":
					job.Labels = nil
					err = c.client.Update(t.Context(), &job)
				default:
					job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobConditionType(how), Status: corev1.ConditionTrue}}
					err = c.client.Status().Update(t.Context(), &job)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			c.passes(10)
			c.submit("new", map[string]string{"nodes": "1"})
			c.passes(10)
			// Without completed jobs, the estimate is 40 min.
			if got := a.jobs["Job/default/new"].GetRemainingEta().AsDuration(); (got > 41*time.Minute) != counts {
				t.Errorf("its remaining work is estimated as %v", got)
			}
		})
	}
}

package client_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// sweep is a cluster that runs a hyperparameter sweep: identical jobs, each of an hour on one node.
type sweep struct {
	jobs          []*trial
	nodes         int32
	restart       time.Duration // until a resized job makes progress
	submitEvery   time.Duration // time between two submissions
	countsLoading bool          // training_time includes restarts
}

// trial is a job of a sweep.
type trial struct {
	submitted, trained, waited time.Duration
	left                       time.Duration // remaining training time on one node
	loading                    time.Duration // remaining restart time
	nodes                      int32
	step                       *client.Step // in progress until the next call
	resizes                    int          // without the first start
	started                    bool
}

// TestSweep applies the decisions on identical jobs with a Plan until every job has completed. Each
// decision is optimal for its snapshot, but the sequence of decisions must not resize jobs repeatedly.
func TestSweep(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	decide := func(ctx context.Context, s *elastallocv1.Snapshot) (*elastallocv1.AllocateResponse, error) {
		return apiconv.InProcess{Allocator: allocator}.Allocate(ctx, &elastallocv1.AllocateRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
			Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
			BadJobs:   elastallocv1.BadJobs_BAD_JOBS_HOLD,
		}})
	}
	for _, nodes := range []int32{1, 8} {
		for _, restart := range []time.Duration{10 * time.Minute, 5 * time.Minute}[:testtier.Conformance.Examples(1, 2)] {
			for _, submitEvery := range []time.Duration{0, 7 * time.Minute} {
				for _, countsLoading := range []bool{false, true} {
					c := sweep{nodes: nodes, restart: restart, submitEvery: submitEvery, countsLoading: countsLoading}
					t.Run(fmt.Sprintf("%d nodes, restart %v, every %v, loading %t", nodes, restart, submitEvery, countsLoading), func(t *testing.T) {
						t.Parallel()
						c.run(t, decide)
					})
				}
			}
		}
	}
}

// run runs 20 jobs until they have completed.
func (c *sweep) run(t *testing.T, decide func(context.Context, *elastallocv1.Snapshot) (*elastallocv1.AllocateResponse, error)) {
	t.Helper()
	const (
		count    = 20
		interval = 10 * time.Second // between calls of Reconcile
		maxTime  = 200 * time.Hour  // One after the other on one node, they take less than 24 h.
	)
	plan, start := client.Plan{}, time.Unix(1e9, 0)
	for i := range count {
		c.jobs = append(c.jobs, &trial{submitted: time.Duration(i) * c.submitEvery, left: time.Hour})
	}
	for now := time.Duration(0); ; now += interval {
		s, running := c.snapshot(now)
		if running == 0 {
			break
		}
		if now > maxTime {
			t.Fatalf("%d of %d jobs run after %v", running, count, now)
		}
		steps, _, err := plan.Reconcile(start.Add(now), s, func(s *elastallocv1.Snapshot) (client.Decision, error) {
			return decide(t.Context(), s)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			var n int
			if _, err := fmt.Sscanf(step.JobID, "trial-%d", &n); err != nil {
				t.Fatal(err)
			}
			c.jobs[n].step = &step
		}
		c.advance(now, interval)
	}
	for i, job := range c.jobs {
		if job.resizes > 8 {
			t.Errorf("job %d is resized %d times; want at most 8", i, job.resizes)
		}
	}
}

// snapshot returns the snapshot of the cluster, and the number of jobs that have not completed.
func (c *sweep) snapshot(now time.Duration) (*elastallocv1.Snapshot, int) {
	s, running := &elastallocv1.Snapshot{TotalNodes: c.nodes}, 0
	for i, job := range c.jobs {
		if job.left <= 0 {
			continue
		}
		if running++; job.submitted > now {
			continue
		}
		s.Jobs = append(s.Jobs, &elastallocv1.Job{
			Id: fmt.Sprintf("trial-%d", i), RemainingEta: durationpb.New(job.left), CurrentNodes: job.nodes,
			TrainingTime: durationpb.New(job.trained), WaitingTime: durationpb.New(job.waited), RestartTime: durationpb.New(c.restart),
		})
	}
	return s, running
}

// advance applies the steps and advances the time.
func (c *sweep) advance(now, span time.Duration) {
	for _, job := range c.jobs {
		if job.submitted > now || job.left <= 0 {
			continue
		}
		if job.step != nil {
			if job.started {
				job.resizes++
			}
			job.nodes, job.loading, job.started, job.step = job.step.Nodes, c.restart, true, nil
		}
		switch {
		case job.nodes == 0:
			job.waited += span
		case job.loading > 0:
			job.loading -= span
			if c.countsLoading {
				job.trained += span
			}
		default:
			job.trained += span
			job.left -= time.Duration(float64(span) * float64(job.nodes) * math.Pow(0.8, math.Log2(float64(job.nodes))))
		}
		if job.left <= 0 {
			job.nodes = 0
		}
	}
}

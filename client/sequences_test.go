package client_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/eta"
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
	decide := decideInProcess(t)
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

// decideInProcess returns a function that makes decisions without a server.
func decideInProcess(t *testing.T) func(*elastallocv1.Snapshot) (client.Decision, error) {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	return func(s *elastallocv1.Snapshot) (client.Decision, error) {
		return apiconv.InProcess{Allocator: allocator}.Allocate(t.Context(),
			&elastallocv1.AllocateRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{
				Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
				Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
				BadJobs:   elastallocv1.BadJobs_BAD_JOBS_HOLD,
			}})
	}
}

// TestArrivalsLetJobsProgress runs a job of 10 hours on 8 nodes, which may have 4 or 8, while a job of 5 minutes on one node
// arrives every 15 minutes. Without recent_restarts, each arrival shrinks the long job and each completion grows it, so
// that it restarts all the time.
func TestArrivalsLetJobsProgress(t *testing.T) {
	t.Parallel()
	const (
		interval = 10 * time.Second
		arrival  = 15 * time.Minute
		restart  = 10 * time.Minute
	)
	decide, plan, start := decideInProcess(t), client.Plan{}, time.Unix(1e9, 0)
	long := time.Duration(10 * eta.Speed(8, 0.8) * float64(time.Hour)) // remaining time on one node
	var loading, short time.Duration                                   // remaining times
	var longNodes, shortNodes int32
	for now := time.Duration(0); long > 0; now += interval {
		if now > 28*time.Hour {
			t.Fatalf("the long job has %v left on one node after %v; want it to complete", long, now)
		}
		if now%arrival == 0 {
			short, shortNodes = 5*time.Minute, 0
		}
		s := &elastallocv1.Snapshot{TotalNodes: 8, Jobs: []*elastallocv1.Job{{
			Id: "long", RemainingEta: durationpb.New(long), CurrentNodes: longNodes, RestartTime: durationpb.New(restart),
			MinNodes: proto.Int32(4), MaxNodes: proto.Int32(8), TrainingTime: durationpb.New(now),
		}}}
		if short > 0 {
			s.Jobs = append(s.Jobs, &elastallocv1.Job{
				Id: fmt.Sprint("short-", now/arrival), RemainingEta: durationpb.New(short), CurrentNodes: shortNodes, MaxNodes: proto.Int32(1),
			})
		}
		steps, _, err := plan.Reconcile(start.Add(now), s, decide)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if step.JobID != "long" {
				shortNodes = step.Nodes
				continue
			}
			if now > 0 {
				loading = restart
			}
			longNodes = step.Nodes
		}
		if shortNodes > 0 {
			short -= interval
		}
		if loading -= interval; loading < 0 && longNodes > 0 {
			long -= time.Duration(float64(interval) * eta.Speed(int(longNodes), 0.8))
		}
	}
}

// run runs 20 jobs until they have completed.
func (c *sweep) run(t *testing.T, decide func(*elastallocv1.Snapshot) (client.Decision, error)) {
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
		steps, _, err := plan.Reconcile(start.Add(now), s, decide)
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

// Command scheduler is a whole scheduler loop around elastalloc, on a toy cluster in
// simulated time. cluster.go is what a real cluster does by itself; this file is what you
// write. docs/integrate.md explains it step by step; scheduler.py is the same in Python.
// shadow.go asks in real time and acts on no answer.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/eta"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	decideEvery = 300 // seconds
	halfLife    = 120 // seconds after which half of a measured rate is new
	efficiency  = 0.8 // of each doubling, where it is not measured
)

func main() {
	server := flag.String("server", "localhost:50051", "the server; empty: none, to compare")
	atEvents := flag.Bool("at-events", true, "decide when a job came or ended, too, in place of FillIdle")
	jobs := flag.Int("jobs", 40, "number of jobs")
	seed := flag.Uint64("seed", 1, "seed of the jobs")
	shadow := flag.Duration("shadow", 0, "how long to ask in real time and act on no answer; 0: not")
	flag.Parse()
	s := &scheduler{
		cluster: newCluster(*jobs, *seed), rates: make(map[string]rate), work: make(map[string]float64), speed: 1,
		logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	var err error
	if *shadow > 0 {
		err = s.shadow(context.Background(), *server, *shadow)
	} else {
		err = s.run(context.Background(), *server, *atEvents, os.Stdout)
	}
	if err != nil {
		s.logger.Error("scheduler", "error", err)
		os.Exit(1)
	}
}

// rate is steps a second, smoothed, and the nodes that they are measured on.
type rate struct {
	steps float64
	nodes int
}

type scheduler struct {
	cluster         *cluster
	client          *client.Client
	rates           map[string]rate    // by job
	work            map[string]float64 // done by each job, in seconds on one node
	estimator       eta.Estimator
	speed           float64 // seconds of the cluster in those that are told
	logger          *slog.Logger
	changes, failed int
	down            bool // The last call had no answer.
}

// run schedules until every job of the cluster has ended.
func (s *scheduler) run(ctx context.Context, server string, atEvents bool, out io.Writer) error {
	var err error
	cluster := s.cluster
	if server != "" {
		if s.client, err = client.New(server); err != nil {
			return err
		}
		defer s.client.Close()
	}
	for !cluster.done() {
		event := cluster.tick() // A real loop sleeps here.
		s.measure()
		switch {
		case len(cluster.jobs) == 0:
		case s.client == nil:
			err = s.firstFit()
		case cluster.now%decideEvery == 0, event && atEvents:
			err = s.decide(ctx)
		case event:
			err = s.fill(ctx)
		}
		if err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%d jobs took %.1f min on average, with %d changes of nodes; %d calls failed\n",
		cluster.ended, cluster.meanMinutes(), s.changes, s.failed)
	return err
}

// measure smooths what the jobs report: steps a second, on the nodes that they hold. It adds
// up the work that they do, and learns from what those that ended have done.
func (s *scheduler) measure() {
	for id, work := range s.work {
		if s.cluster.find(id) == nil {
			s.estimator.Ended(time.Duration(work * float64(time.Second)))
			delete(s.work, id)
		}
	}
	for _, j := range s.cluster.jobs {
		if j.reported == 0 {
			continue // It restarts; what was measured before still holds.
		}
		s.work[j.id] += eta.Speed(j.nodes, efficiency)
		r, known := s.rates[j.id]
		if !known || r.nodes != j.nodes {
			r = rate{j.reported, j.nodes} // Another size, a new measurement.
		}
		r.steps += (1 - math.Exp2(-1.0/halfLife)) * (j.reported - r.steps)
		s.rates[j.id] = r
	}
}

// snapshot describes the cluster.
func (s *scheduler) snapshot() *elastallocv1.Snapshot {
	now := s.cluster.now
	snapshot := &elastallocv1.Snapshot{Id: fmt.Sprintf("second-%d", now), TotalNodes: clusterNodes}
	snapshot.Horizon = &elastallocv1.Horizon{Step: s.seconds(decideEvery)}
	for _, j := range s.cluster.jobs { // in the order of submission
		known := eta.Job{
			Told:     time.Duration(j.guess * eta.Speed(j.asked, efficiency) * float64(time.Second)),
			WorkDone: time.Duration(s.work[j.id] * float64(time.Second)),
		}
		if r, measured := s.rates[j.id]; measured {
			known.StepsLeft, known.SecondsPerStep, known.Nodes = j.stepsLeft, 1/r.steps, r.nodes
		}
		estimate := s.estimator.Estimate(known)
		snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{
			Id: j.id, CurrentNodes: int32(j.nodes),
			// On the nodes it was measured on; the server converts it.
			RemainingEta: s.seconds(estimate.ETA.Seconds()), EtaNodes: &estimate.Nodes, EtaError: &estimate.Error,
			WorkDone:     s.seconds(s.work[j.id]),
			TrainingTime: s.seconds(float64(j.trained)), WaitingTime: s.seconds(float64(now - j.submitted - j.trained)),
			RestartTime: s.seconds(restart),
		})
	}
	return snapshot
}

func (s *scheduler) seconds(n float64) *durationpb.Duration {
	return durationpb.New(time.Duration(n / s.speed * float64(time.Second)))
}

// request asks for a decision: all jobs are up for change.
func (s *scheduler) request() *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{
		Snapshot: s.snapshot(),
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
			Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
			BadJobs:   elastallocv1.BadJobs_BAD_JOBS_HOLD,
		},
	}
}

// decide has the service decide.
func (s *scheduler) decide(ctx context.Context) error {
	response, err := s.client.Allocate(ctx, s.request())
	if err != nil {
		return s.withoutDecision(err)
	}
	return s.carryOut(client.Steps(response))
}

// fill, where changes are dear, gives idle nodes to the queue when a job came or ended;
// running jobs stay.
func (s *scheduler) fill(ctx context.Context) error {
	response, err := s.client.FillIdle(ctx, &elastallocv1.FillIdleRequest{Snapshot: s.snapshot()})
	if err != nil {
		return s.withoutDecision(err)
	}
	return s.carryOut(client.Steps(response))
}

// carryOut resizes the jobs in an order that never takes more nodes than are idle. A job
// may have ended since, and a real resize may fail: the rest is left out then, and the
// next decision is on what is.
func (s *scheduler) carryOut(steps []client.Step) error {
	if s.down {
		s.logger.Info("decisions again")
		s.down = false
	}
	for _, step := range steps {
		j := s.cluster.find(step.JobID)
		if j == nil {
			return nil
		}
		if err := s.cluster.resize(j, int(step.Nodes)); err != nil {
			return err
		}
		s.changes++
	}
	return nil
}

// withoutDecision is for when the service is down: no job loses nodes, and the queue starts
// on what is idle.
func (s *scheduler) withoutDecision(cause error) error {
	// A wrong snapshot is a bug of this program, and stays wrong: say so every time.
	if s.failed++; status.Code(cause) == codes.InvalidArgument {
		s.logger.Error("the request is wrong", "error", cause)
	} else if !s.down {
		s.logger.Warn("no decision", "code", status.Code(cause).String(), "error", cause)
		s.down = true
	}
	return s.firstFit()
}

// firstFit starts the queue first come, first served.
func (s *scheduler) firstFit() error {
	for _, j := range s.cluster.jobs {
		if j.nodes > 0 {
			continue
		}
		if j.asked > s.cluster.idle() {
			return nil
		}
		if err := s.cluster.resize(j, j.asked); err != nil {
			return err
		}
		s.changes++
	}
	return nil
}

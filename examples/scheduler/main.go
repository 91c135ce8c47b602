// Command scheduler is a whole scheduler loop around elastalloc, on a toy cluster in
// simulated time. cluster.go is what a real cluster does by itself; this file is what you
// write. docs/schedulers/integrate.md explains it step by step; scheduler.py is the same in Python.
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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/eta"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	decideEvery = 300 // seconds
	turnEvery   = 5   // seconds
	halfLife    = 120 // seconds after which half of a measured rate is new
	efficiency  = 0.8 // of each doubling, where it is not measured
	patience    = 120 // seconds without a step, beside a restart, after which a job hangs
)

func main() {
	server := flag.String("server", "localhost:50051", "the server; empty: none, to compare")
	atEvents := flag.Bool("at-events", true, "decide when a job came or ended, too, instead of FillIdle")
	jobs := flag.Int("jobs", 40, "number of jobs")
	seed := flag.Uint64("seed", 1, "seed of the jobs")
	shadow := flag.Duration("shadow", 0, "how long to ask in real time and act on no answer; 0: not")
	flag.Parse()
	s := &scheduler{
		cluster: newCluster(*jobs, *seed), rates: make(map[string]rate), work: make(map[string]float64), told: make(map[string]float64), silent: make(map[string]int), named: make(map[string]bool),
		atEvents: *atEvents, onlyAsk: *shadow > 0, speed: 1, logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	err := s.main(*server, *shadow)
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
	plan            client.Plan
	rates           map[string]rate    // by job
	work            map[string]float64 // done by each job, in seconds on one node
	told            map[string]float64 // the same, as its user guessed all of it
	silent          map[string]int     // seconds since the last step of each job with nodes
	named           map[string]bool    // jobs that a person should look at
	estimator       eta.Estimator
	atEvents        bool    // decide at events, too
	onlyAsk         bool    // act on no answer
	speed           float64 // seconds of the cluster in those that are told
	logger          *slog.Logger
	changes, failed int
	decided         int  // when all jobs were last up for change
	down            bool // The last call had no answer.
}

// main calls the server, if there is one, and schedules or only asks.
func (s *scheduler) main(server string, shadow time.Duration) (err error) {
	if server != "" {
		if s.client, err = client.New(server); err != nil {
			return err
		}
		defer s.client.Close()
	}
	if s.onlyAsk {
		s.shadow(context.Background(), shadow)
		return nil
	}
	return s.run(context.Background(), os.Stdout)
}

// run schedules until every job of the cluster has ended.
func (s *scheduler) run(ctx context.Context, out io.Writer) error {
	for !s.cluster.done() {
		for range turnEvery { // A real loop sleeps here.
			s.cluster.tick()
			s.measure()
		}
		s.turn(ctx)
	}
	_, err := fmt.Fprintf(out, "%d jobs took %.1f min on average, with %d changes of nodes; %d calls failed\n",
		s.cluster.ended, s.cluster.meanMinutes(), s.changes, s.failed)
	return err
}

// turn decides where that is due, and begins the steps that can be begun.
func (s *scheduler) turn(ctx context.Context) {
	now := time.Unix(int64(s.cluster.now), 0)
	steps, warnings, err := s.plan.Turn(now, s.snapshot(), func(sent *elastallocv1.Snapshot) (client.Decision, error) {
		return s.decide(ctx, sent), nil
	})
	if err != nil {
		s.logger.Warn("jobs keep their nodes", "error", err)
	}
	for _, warning := range warnings {
		s.logger.Warn("decision has a warning", "code", warning.GetCode(), "job", warning.GetJobId(), "message", warning.GetMessage())
	}
	for _, step := range steps {
		if err := s.cluster.resize(s.cluster.find(step.JobID), int(step.Nodes)); err != nil {
			s.plan.Failed(now, step.JobID)
			continue
		}
		s.changes++
	}
}

// measure smooths what the jobs report: steps a second, on the nodes that they hold. It adds
// up the work that they do, and learns from what those that ended have done.
func (s *scheduler) measure() {
	for id, work := range s.work {
		if s.cluster.find(id) == nil {
			s.estimator.Ended(eta.Job{Told: s.time(s.told[id]), WorkDone: s.time(work)})
			delete(s.work, id)
			delete(s.told, id)
		}
	}
	for _, j := range s.cluster.jobs {
		if j.reported == 0 {
			if j.nodes > 0 {
				s.silent[j.id]++
			}
			continue // It restarts; what was measured before still holds.
		}
		s.silent[j.id] = 0
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
		s.told[j.id] = j.guess * eta.Speed(j.asked, efficiency)
		known := eta.Job{Told: s.time(s.told[j.id]), WorkDone: s.time(s.work[j.id])}
		hung := s.silent[j.id] > restart+patience
		if r, measured := s.rates[j.id]; measured && !hung {
			known.StepsLeft, known.SecondsPerStep, known.Nodes = j.stepsLeft, 1/r.steps/s.speed, r.nodes
		}
		estimate := s.estimator.Estimate(known)
		if (hung || estimate.Overrun >= 2) && !s.named[j.id] {
			s.named[j.id] = true
			s.logger.Warn("look at this job", "job", j.id, "hangs", hung, "work of what was told", estimate.Overrun)
		}
		told := &elastallocv1.Job{
			Id: j.id, CurrentNodes: int32(j.nodes + j.leaving),
			TrainingTime: s.seconds(float64(j.trained)), WaitingTime: s.seconds(float64(now - j.submitted - j.trained)),
			RestartTime: s.seconds(restart),
		}
		client.Tell(told, estimate) // On the nodes it was measured on; the server converts it.
		if hung && j.nodes > 0 {
			told.MaxNodes = proto.Int32(int32(j.nodes))
		}
		snapshot.Jobs = append(snapshot.Jobs, told)
	}
	return snapshot
}

// time returns seconds of the cluster as they are told.
func (s *scheduler) time(n float64) time.Duration {
	return time.Duration(n / s.speed * float64(time.Second))
}

func (s *scheduler) seconds(n float64) *durationpb.Duration { return durationpb.New(s.time(n)) }

// decide decides on a snapshot. Where changes are dear, those at events only give idle nodes to the
// queue. Without an answer the queue starts first come, first served, and no job loses nodes.
func (s *scheduler) decide(ctx context.Context, snapshot *elastallocv1.Snapshot) client.Decision {
	if s.client == nil {
		return s.firstFit(snapshot)
	}
	var decision client.Decision
	var err error
	if s.atEvents || s.cluster.now-s.decided >= decideEvery {
		s.decided = s.cluster.now
		decision, err = s.client.Allocate(ctx, &elastallocv1.AllocateRequest{
			Snapshot: snapshot,
			Options: &elastallocv1.AllocateOptions{
				Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
				Admission: elastallocv1.Admission_ADMISSION_START_FIRST,
				BadJobs:   elastallocv1.BadJobs_BAD_JOBS_HOLD,
			},
		})
	} else {
		decision, err = s.client.FillIdle(ctx, &elastallocv1.FillIdleRequest{Snapshot: snapshot})
	}
	switch down := s.down; {
	case err == nil && s.onlyAsk:
		s.show(decision)
	case err == nil:
		if s.down = false; down {
			s.logger.Info("decisions again")
		}
		return decision
	case status.Code(err) == codes.InvalidArgument:
		// A wrong snapshot is a bug of this program, and stays wrong: say so every time.
		s.failed++
		s.logger.Error("the request is wrong", "error", err)
	default:
		if s.failed, s.down = s.failed+1, true; !down {
			s.logger.Warn("no decision", "code", status.Code(err).String(), "error", err)
		}
	}
	return s.firstFit(snapshot)
}

// firstFit is a rule of your own: what is idle goes to the queue, first come, first served.
func (s *scheduler) firstFit(snapshot *elastallocv1.Snapshot) client.Decision {
	idle, decision := snapshot.GetTotalNodes(), &elastallocv1.AllocateResponse{}
	for _, j := range snapshot.GetJobs() {
		idle -= j.GetCurrentNodes()
	}
	for _, j := range snapshot.GetJobs() {
		nodes := j.GetCurrentNodes()
		if nodes == 0 {
			if nodes = int32(s.cluster.find(j.GetId()).asked); nodes > idle {
				idle, nodes = 0, 0
			}
			idle -= nodes
		}
		decision.Allocations = append(decision.Allocations, &elastallocv1.Allocation{JobId: j.GetId(), Nodes: nodes})
	}
	return decision
}

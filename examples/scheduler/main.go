// Command scheduler is a complete scheduler loop around elastalloc, on a toy cluster in
// simulated time. cluster.go is what a real cluster does by itself, and this file is what you
// write. docs/schedulers/integrate.md explains it step by step; scheduler.py is the same in Python.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/client/placement"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	period      = 5   // seconds between two reconciliations
	efficiency  = 0.8 // of each doubling of the nodes
	shadowSpeed = 150 // seconds of the cluster per second in shadow mode
)

func main() {
	server := flag.String("server", "localhost:50051", "the server; empty: first come, first served")
	jobs := flag.Int("jobs", 40, "number of jobs")
	seed := flag.Uint64("seed", 1, "seed of the jobs")
	shadow := flag.Duration("shadow", 0, "request decisions in real time for this long, without applying them; 0: simulate")
	flag.Parse()
	s := &scheduler{
		cluster: &cluster{limit: *jobs, random: rand.New(rand.NewPCG(*seed, 0))}, shadow: *shadow > 0, second: time.Second,
		logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if *server != "" {
		var err error
		if s.client, err = client.New(*server); err != nil {
			s.logger.Error("scheduler", "error", err)
			os.Exit(1)
		}
		defer s.client.Close()
	}
	if s.shadow {
		s.second /= shadowSpeed
	}
	for end := time.Now().Add(*shadow); s.cluster.number < *jobs || len(s.cluster.jobs) > 0; s.reconcile() {
		for range period {
			s.cluster.tick()
		}
		if s.shadow { // So does a real loop, for 5 s.
			time.Sleep(period * s.second)
			if time.Now().After(end) {
				return
			}
		}
	}
	fmt.Fprintf(os.Stdout, "%d jobs took %.1f min on average, with %d resizes and %d moves; %d calls failed\n",
		*jobs, s.cluster.total.Minutes()/float64(*jobs), s.changes, s.moves, s.failed)
}

// scheduler is the state of the loop.
type scheduler struct {
	cluster         *cluster
	client          *client.Client // nil without a server
	plan            client.Plan
	estimator       eta.Estimator
	learned         int           // completed jobs that the estimator has seen
	shadow          bool          // apply no decision of the server
	second          time.Duration // of the cluster
	logger          *slog.Logger
	changes, failed int
	moves           int             // pauses of jobs that go to other machines
	decided         client.Decision // the last decision
}

// sizes are the legal numbers of nodes.
var sizes = []int{1, 2, 4, 8, 16} //nolint:gochecknoglobals // constant

// reconcile requests a decision if one is due, and begins the steps that can be begun.
func (s *scheduler) reconcile() {
	now := time.Unix(int64(s.cluster.now), 0)
	machines, jobs := s.machines()
	if err := s.plan.ObserveMachines(machines, sizes, jobs); err != nil {
		s.logger.Error("machines are not valid", "error", err)
		return
	}
	steps, warnings, err := s.plan.Reconcile(now, s.snapshot(), s.decide)
	if err != nil {
		s.logger.Warn("jobs keep their nodes", "error", err)
	}
	for _, warning := range warnings {
		s.logger.Warn("warning", "message", warning.GetMessage())
	}
	for _, id := range s.plan.Overdue(now) {
		s.cluster.kill(s.cluster.find(id))
		s.plan.Failed(now, id)
	}
	for _, step := range steps {
		if err := s.cluster.resize(s.cluster.find(step.JobID), s.plan.On(step.JobID)); err != nil {
			s.plan.Failed(now, step.JobID)
			continue
		}
		s.changes++
		for _, a := range s.decided.GetAllocations() {
			if a.GetJobId() == step.JobID && a.GetNodes() > 0 && step.Nodes == 0 {
				s.moves++
			}
		}
	}
}

// machines describes the machines, and the jobs on them.
func (s *scheduler) machines() (machines []placement.Node, jobs []placement.Job) {
	releasing := s.cluster.releasing()
	for n := range clusterNodes / gpus { // Omit machines that failed.
		id := fmt.Sprintf("machine-%d", n)
		machines = append(machines, placement.Node{ID: id, Units: gpus, Free: gpus - releasing[id], Releasing: releasing[id]})
	}
	for _, j := range s.cluster.jobs {
		jobs = append(jobs, placement.Job{ID: j.id, On: j.occupied()})
	}
	return machines, jobs
}

// snapshot describes the cluster, with the jobs in the order of submission.
func (s *scheduler) snapshot() *elastallocv1.Snapshot {
	for ; s.learned < len(s.cluster.completed); s.learned++ {
		s.estimator.Completed(s.progress(s.cluster.completed[s.learned]))
	}
	snapshot := &elastallocv1.Snapshot{
		Id: fmt.Sprintf("second-%d", s.cluster.now), TotalNodes: int32(clusterNodes - total(s.cluster.releasing())),
		Horizon: &elastallocv1.Horizon{Step: durationpb.New(s.seconds(300))},
	}
	for _, j := range s.cluster.jobs {
		described := &elastallocv1.Job{
			Id: j.id, CurrentNodes: int32(total(j.occupied())), RestartTime: durationpb.New(s.seconds(restart)),
			TrainingTime: durationpb.New(s.seconds(float64(j.trained))),
			WaitingTime:  durationpb.New(s.seconds(float64(s.cluster.now - j.submitted - j.trained))),
		}
		client.SetEstimate(described, s.estimator.Estimate(s.progress(j)))
		snapshot.Jobs = append(snapshot.Jobs, described)
	}
	return snapshot
}

// progress returns what is known about the remaining work of a job: the user's guess and, while it
// trains, the remaining steps and their time on its nodes.
func (s *scheduler) progress(j *job) eta.Job {
	known := eta.Job{UserEstimate: s.seconds(j.guess * eta.Speed(j.requested, efficiency)), WorkDone: s.seconds(j.workDone)}
	if nodes := total(j.on); nodes > 0 {
		known.StepsLeft, known.SecondsPerStep, known.Nodes = j.stepsLeft, s.second.Seconds()/j.rate(nodes), nodes
	}
	return known
}

// seconds returns a time of the cluster.
func (s *scheduler) seconds(n float64) time.Duration { return time.Duration(n * float64(s.second)) }

// decide returns the decision of the server. If there is none, no job loses nodes.
func (s *scheduler) decide(snapshot *elastallocv1.Snapshot) (client.Decision, error) {
	s.decided = s.request(snapshot)
	return s.decided, nil
}

// request requests a decision.
func (s *scheduler) request(snapshot *elastallocv1.Snapshot) client.Decision {
	if s.client == nil {
		return s.firstFit(snapshot)
	}
	decision, err := s.client.Decide(context.Background(), nil)(snapshot)
	switch {
	case err != nil:
		s.failed++
		s.logger.Warn("no decision", "error", err)
	case s.shadow:
		for _, step := range client.Steps(decision) {
			s.logger.Info("shadow", "job", step.JobID, "nodes", step.Nodes, "change", step.Change)
		}
	default:
		return decision
	}
	return s.firstFit(snapshot)
}

// firstFit is a rule of your own: idle nodes go to the queue, first come, first served.
func (s *scheduler) firstFit(snapshot *elastallocv1.Snapshot) client.Decision {
	idle, decision := snapshot.GetTotalNodes(), &elastallocv1.AllocateResponse{}
	for _, j := range snapshot.GetJobs() {
		idle -= j.GetCurrentNodes()
	}
	for _, j := range snapshot.GetJobs() {
		nodes := j.GetCurrentNodes()
		if nodes == 0 {
			if nodes = int32(s.cluster.find(j.GetId()).requested); nodes > idle {
				idle, nodes = 0, 0
			}
			idle -= nodes
		}
		decision.Allocations = append(decision.Allocations, &elastallocv1.Allocation{JobId: j.GetId(), Nodes: nodes})
	}
	return decision
}

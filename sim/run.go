package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
)

// Run simulates a workload under a policy until all jobs are finished. It calls the allocator from
// one goroutine. Apart from solve times, the result is deterministic as long as no decision exceeds
// its time budget. Run returns a *solver.InvalidError for an invalid config, the error of Workload.Check if a job does
// not fit the pool, and ErrStalled or ErrTooManyDecisions if the run cannot finish.
func Run(ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator) (*Result, error) {
	if err := workload.Check(&config); err != nil {
		return nil, err
	}
	s := newSimulation(workload, policy, config, allocator)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	result := s.result()
	result.SetReferences(&workload, &config)
	return result, nil
}

// simulation is the state of a run.
type simulation struct {
	workload  Workload
	policy    Policy
	config    Config
	allocator Allocator
	horizon   solver.Horizon // of a decision
	jobs      []simulatedJob // in the order of submission
	active    []int          // submitted and not finished, in that order
	arriving  int            // the first job not yet submitted
	now       time.Duration
	// fillAt is the time of the next step 1 of the model of time (see the package comment).
	fillAt    time.Duration
	decisions []Decision
	// decisionCount is the number of decisions, including discarded ones.
	decisionCount     int
	discardsDecisions bool
	// nodes is the current size of the pool. resized lists its future changes.
	nodes   int
	resized []NodesAt
	// unplaced is the number of decisions without a placement.
	unplaced int
	// stalledSince is the last second in which a job made progress or was submitted.
	stalledSince time.Duration
	// estimator estimates remaining work from the completed jobs.
	estimator eta.Estimator
}

// never is later than all events.
const never = time.Duration(math.MaxInt64)

func newSimulation(workload Workload, policy Policy, config Config, allocator Allocator) *simulation {
	s := &simulation{
		workload: workload, policy: policy, config: config, allocator: allocator,
		horizon: solver.Horizon{Step: config.Frequency, Steps: config.Steps},
		jobs:    make([]simulatedJob, len(workload.Jobs)),
		fillAt:  never, nodes: config.available(), resized: config.Resized,
	}
	for i := range s.jobs {
		s.jobs[i] = newSimulatedJob(&workload.Jobs[i], &config)
	}
	return s
}

func (s *simulation) run(ctx context.Context) error {
	for s.arriving < len(s.jobs) || len(s.active) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.step(ctx); err != nil {
			return fmt.Errorf("%s under %s on %d nodes, second %d: %w",
				s.workload.Name, s.config.Name, s.config.Nodes, s.now/time.Second, err)
		}
	}
	return nil
}

// step advances to the next event and processes it.
func (s *simulation) step(ctx context.Context) error {
	s.trainUntil(s.nextEvent())
	decisionDue := s.resize() || s.now%s.config.Frequency == 0
	if s.now == s.fillAt {
		s.fillAt = never
		if !decisionDue {
			if err := s.regularTime(ctx); err != nil {
				return err
			}
		}
	}
	completed := s.endJobs()
	submitted := s.submitJobs()
	if completed || submitted {
		s.fillAt = s.nextRound()
	}
	if decisionDue && len(s.active) > 0 {
		return s.decide(ctx)
	}
	return nil
}

// nextRound returns the time of the step 1 that follows an event now.
func (s *simulation) nextRound() time.Duration {
	round := max(s.config.Round, time.Second)
	return s.now - s.now%round + round
}

// nextEvent returns the next second in which anything other than training can happen.
func (s *simulation) nextEvent() time.Duration {
	next := s.fillAt
	if len(s.resized) > 0 {
		next = min(next, s.resized[0].At)
	}
	if s.arriving < len(s.jobs) {
		next = min(next, s.jobs[s.arriving].Submit)
	}
	if len(s.active) > 0 {
		next = min(next, s.now+s.config.Frequency-s.now%s.config.Frequency)
	}
	for _, i := range s.active {
		next = min(next, s.jobs[i].nextEvent(s.now))
	}
	return next
}

// trainUntil trains the jobs until the given second.
func (s *simulation) trainUntil(at time.Duration) {
	for _, i := range s.active {
		if s.jobs[i].train(at - s.now) {
			s.stalledSince = at
		}
		if s.jobs[i].growsAt == at {
			s.jobs[i].finishGrowth()
		}
	}
	s.now = at
}

// endJobs finishes the jobs that are done and reports whether there were any.
func (s *simulation) endJobs() bool {
	kept := s.active[:0]
	for _, i := range s.active {
		if job := &s.jobs[i]; job.done() {
			job.finish(s.now)
			s.estimator.Completed(job.finalETAInput())
		} else {
			kept = append(kept, i)
		}
	}
	completed := len(kept) < len(s.active)
	s.active = kept
	s.watch()
	return completed
}

// submitJobs queues the jobs that are submitted now and reports whether there were any.
func (s *simulation) submitJobs() bool {
	before := s.arriving
	for s.arriving < len(s.jobs) && s.jobs[s.arriving].Submit == s.now {
		if s.config.AssignType != nil {
			s.jobs[s.arriving].pin = s.config.AssignType(s.snapshot(), s.jobs[s.arriving].spec)
		}
		s.active = append(s.active, s.arriving)
		s.jobs[s.arriving].arrive(s.now)
		s.arriving++
		s.stalledSince = s.now
	}
	return s.arriving > before
}

// regularTime starts queued jobs on idle nodes. With EveryEvent, it makes a decision
// instead.
func (s *simulation) regularTime(ctx context.Context) error {
	if s.config.EveryEvent {
		if len(s.active) == 0 {
			return nil
		}
		return s.rebalance(ctx)
	}
	queued, idle := false, s.nodes
	for _, i := range s.active {
		queued = queued || s.jobs[i].nodes == 0
		idle -= s.jobs[i].nodes
	}
	if !queued || idle <= 0 {
		return nil // The rule would change nothing.
	}
	snapshot := s.snapshot()
	decision, err := s.allocator.FillIdle(ctx, snapshot)
	if err != nil {
		return err
	}
	return s.apply(snapshot, decision)
}

// decide makes a regular decision. One second later, queued jobs start on nodes that are still idle.
// With EveryEvent, this is not needed, since its decision includes the events of this second.
func (s *simulation) decide(ctx context.Context) error {
	if err := s.rebalance(ctx); err != nil {
		return err
	}
	s.fillAt = s.nextRound()
	if s.config.EveryEvent {
		s.fillAt = never
	}
	if stalled := s.now - s.stalledSince; s.arriving == len(s.jobs) && (stalled-1)/s.config.Frequency >= maxStalledDecisions {
		return fmt.Errorf("%w for %v under the decisions of the policy%s", ErrStalled, stalled, s.resizingJobs())
	}
	return nil
}

// resizingJobs returns a clause with the jobs that were resized more than once since the last
// progress, or "" if there are none.
func (s *simulation) resizingJobs() string {
	const named = 3
	var ids []string
	for _, i := range s.active {
		changes := 0
		for _, period := range s.jobs[i].timeline {
			if period.At > s.stalledSince {
				changes++
			}
		}
		if changes > 1 {
			ids = append(ids, strconv.Quote(s.jobs[i].ID))
		}
	}
	switch others := len(ids) - named; {
	case others == 1:
		ids = append(ids[:named], "1 other")
	case others > 1:
		ids = append(ids[:named], fmt.Sprintf("%d others", others))
	}
	if len(ids) == 0 {
		return ""
	}
	if last := len(ids) - 1; last > 0 {
		ids = []string{strings.Join(ids[:last], ", "), ids[last]}
	}
	return ", which keeps resizing " + strings.Join(ids, " and ")
}

// ErrStalled means that a run would not finish, because no job makes progress.
var ErrStalled = errors.New("no job has made progress")

// ErrTooManyDecisions means that a run needs more than Config.MaxDecisions decisions.
var ErrTooManyDecisions = errors.New("too many decisions")

// maxStalledDecisions is the number of consecutive regular decisions without progress, after the last
// submission, that a run allows. It is longer than a restart in any sensible setting.
const maxStalledDecisions = 1000

func (s *simulation) rebalance(ctx context.Context) error {
	if limit := s.config.MaxDecisions; limit > 0 && s.decisionCount >= limit {
		return fmt.Errorf("%w: more than %d, one every %v", ErrTooManyDecisions, limit, s.config.Frequency)
	}
	snapshot := s.snapshot()
	s.watch()
	decision, err := s.policy.Decide(ctx, Input{Snapshot: snapshot, Allocator: s.allocator, Config: &s.config, Job: s.jobState})
	if err != nil {
		return err
	}
	s.decisionCount++
	if !s.discardsDecisions {
		report := &decision.Report
		s.decisions = append(s.decisions, Decision{
			At: s.now, Jobs: len(snapshot.Jobs), SolveTime: report.SolveTime, Reason: report.Reason, Prices: report.NodePrices,
		})
	}
	return s.apply(snapshot, decision)
}

// jobState returns the state of the n-th active job.
func (s *simulation) jobState(n int) JobState {
	job := &s.jobs[s.active[n]]
	state := JobState{Job: job.WorkloadJob, Restarting: job.growsAt != never}
	for k, period := range job.timeline {
		state.LargestNodes = max(state.LargestNodes, period.Nodes)
		if k > 0 && period.Nodes > 0 {
			state.Restarts++
		}
	}
	return state
}

// watch calls Config.Watch.
func (s *simulation) watch() {
	if s.config.Watch == nil {
		return
	}
	nodes := make(map[string]int)
	for _, i := range s.active {
		nodes[s.jobs[i].Group] += s.jobs[i].nodes
	}
	s.config.Watch(s.now, nodes)
}

// snapshot returns the snapshot of the active jobs.
func (s *simulation) snapshot() *solver.Snapshot {
	snapshot := &solver.Snapshot{
		ID:         fmt.Sprintf("%s@%v", s.workload.Name, s.now),
		TotalNodes: s.nodes,
		NodeTypes:  s.config.NodeTypes,
		SizeLimits: s.config.SizeLimits,
		Horizon:    s.horizon,
		Jobs:       make([]solver.Job, len(s.active)),
	}
	if s.config.GroupLimits {
		snapshot.Groups = s.config.Groups
	}
	for n, i := range s.active {
		job := &s.jobs[i]
		spec := job.spec
		s.estimate(&spec, job)
		spec.CurrentNodes = job.nodes
		if job.nodes > 0 {
			spec.CurrentNodeType = job.nodeType
		}
		if job.pin != "" {
			spec.Speeds = speedsOn(spec.Speeds, job.pin)
		}
		spec.TrainingTime = job.History.Trained + job.trained
		spec.WaitingTime = job.History.Waited + s.now - job.Submit - job.trained
		spec.ResizeDelay = job.delay
		spec.RestartTime = job.restart
		if !s.config.NoRestartBudget {
			spec.RecentRestarts = job.recentRestarts()
		}
		if s.config.FixedSize {
			size := job.atMost(min(job.RequestedNodes, nodeLimit(s.config.available(), snapshot.Groups, spec.GroupID)))
			spec.AllowedNodes = []int{size}
			if spec.Scaling.Speeds != nil {
				spec.Scaling.Speeds = []float64{job.speed(size)}
			}
		}
		snapshot.Jobs[n] = spec
	}
	return snapshot
}

// estimate sets the remaining ETA, the ETA error and the work done of a job in a snapshot. If the job
// has no user estimate, or one with an error, it uses the estimates of client/eta.
func (s *simulation) estimate(spec *solver.Job, job *simulatedJob) {
	if job.ReportsWork {
		spec.WorkDone = job.workDone()
	}
	if job.UserEstimate > 0 && job.UserError == 0 {
		spec.RemainingETA = job.remainingETA()
		return
	}
	estimate := s.estimator.Estimate(job.etaInput())
	spec.RemainingETA, spec.ETAError = estimate.ETA, &estimate.Error
	if job.UserError > 0 {
		spec.ETAError = &job.UserError
	}
}

// apply places and resizes the active jobs.
func (s *simulation) apply(snapshot *solver.Snapshot, decision solver.Decision) error {
	allocations, err := allocationsOf(snapshot, decision)
	if err != nil {
		return err
	}
	if err := s.place(snapshot, allocations); err != nil {
		return err
	}
	for n, i := range s.active {
		job := &s.jobs[i]
		job.resize(allocations[n], s.now)
		if s.config.KeepType && job.start != never {
			job.pin = job.nodeType
		}
	}
	s.watch()
	return nil
}

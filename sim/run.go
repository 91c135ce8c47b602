package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/client/teams"
	"github.com/elastalloc/elastalloc/solver"
)

// Run simulates a workload under a policy until all jobs are finished. It calls the allocator from
// one goroutine. Apart from solve times, the result is deterministic as long as no decision exceeds
// its time budget. Run returns a *solver.InvalidError for an invalid config, and ErrStalled or
// ErrTooManyDecisions if the run cannot finish.
func Run(ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator) (*Result, error) {
	if bad := config.Validate(); len(bad) > 0 {
		return nil, &solver.InvalidError{Violations: bad}
	}
	if err := workload.CheckPolicy(&policy, &config); err != nil {
		return nil, err
	}
	if policy.Rounds > 0 {
		config.Frequency, config.Round = policy.Rounds, policy.Rounds
	}
	end := func() error { return nil }
	if session, is := policy.Decider.(Session); is {
		var err error
		if allocator, end, err = session.Open(); err != nil {
			return nil, fmt.Errorf("%s: %w", policy.Name, err)
		}
	}
	result, err := runPolicy(ctx, workload, policy, config, allocator)
	if err := cmp.Or(err, end()); err != nil {
		return nil, err
	}
	result.setIdeal(&workload, &config)
	return result, nil
}

func runPolicy(ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator) (*Result, error) {
	switch {
	case policy.Name == RecordedPolicy:
		return recordedResult(workload, policy, config), nil
	case policy.Partitioned:
		return runPartitions(ctx, workload, policy, config, allocator)
	}
	s := newSimulation(workload, policy, config, allocator)
	if policy.OverTime {
		usage, err := newUsage(&config)
		if err != nil {
			return nil, err
		}
		s.usage = usage
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.result(), nil
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
	// usage is the node time of the teams, nil for a policy without OverTime.
	usage *teams.Usage
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
				s.workload.Name, s.policy.Name, s.config.Nodes, s.now/time.Second, err)
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
	s.observeUsage()
	return completed
}

// submitJobs queues the jobs that are submitted now and reports whether there were any.
func (s *simulation) submitJobs() bool {
	before := s.arriving
	for s.arriving < len(s.jobs) && s.jobs[s.arriving].Submit == s.now {
		if pools, is := s.policy.Decider.(typePools); is {
			s.jobs[s.arriving].pin = pools.assign(s.snapshot(), s.jobs[s.arriving].spec)
		}
		s.active = append(s.active, s.arriving)
		s.jobs[s.arriving].arrive(s.now)
		s.arriving++
		s.stalledSince = s.now
	}
	return s.arriving > before
}

// regularTime starts queued jobs on idle nodes. For a policy with EveryEvent, it makes a decision
// instead.
func (s *simulation) regularTime(ctx context.Context) error {
	if s.policy.EveryEvent {
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
	allocations, err := fillIdle(ctx, s.allocator, snapshot)
	if err != nil {
		return err
	}
	return s.apply(snapshot, allocations)
}

// decide makes a regular decision. One second later, queued jobs start on nodes that are still idle.
// A policy with EveryEvent does not need this, since its decision includes the events of this second.
func (s *simulation) decide(ctx context.Context) error {
	if err := s.rebalance(ctx); err != nil {
		return err
	}
	s.fillAt = s.nextRound()
	if s.policy.EveryEvent {
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
	allocations, decision, err := s.policy.decide(ctx, &decisionInput{
		snapshot: snapshot, allocator: s.allocator, histories: s.histories, budget: s.config.DecisionBudget, observe: s.config.Observe,
	})
	if err != nil {
		return err
	}
	decision.At = s.now
	if s.decisionCount++; !s.discardsDecisions {
		s.decisions = append(s.decisions, decision)
	}
	return s.apply(snapshot, allocations)
}

// histories returns the histories of the active jobs.
func (s *simulation) histories() []jobHistory {
	list := make([]jobHistory, len(s.active))
	for n, i := range s.active {
		job := &s.jobs[i]
		list[n].restarting = job.growsAt != never
		for k, period := range job.timeline {
			list[n].maxNodes = max(list[n].maxNodes, period.Nodes)
			if k > 0 && period.Nodes > 0 {
				list[n].restarts++
			}
		}
	}
	return list
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
	_, isRule := s.policy.Decider.(Rule)
	if s.policy.Teams {
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
		if !isRule { // A Rule has no restart budget.
			spec.RecentRestarts = job.recentRestarts()
		}
		if s.policy.FixedSize {
			size := job.atMost(min(job.RequestedNodes, nodeLimit(s.config.available(), snapshot.Groups, spec.GroupID)))
			spec.AllowedNodes = []int{size}
			if spec.Scaling.Speeds != nil {
				spec.Scaling.Speeds = []float64{job.speed(size)}
			}
		}
		if s.policy.UserLimits {
			job.withUserLimit(&spec)
		}
		snapshot.Jobs[n] = spec
	}
	if s.policy.Prepare != nil {
		s.policy.Prepare(snapshot, s.config.Groups)
	}
	if s.usage != nil {
		s.weighByUsage(snapshot)
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
func (s *simulation) apply(snapshot *solver.Snapshot, allocations []allocation) error {
	if err := s.place(snapshot, allocations); err != nil {
		return err
	}
	for n, i := range s.active {
		job := &s.jobs[i]
		job.resize(allocations[n], s.now)
		if s.policy.KeepsType && job.start != never {
			job.pin = job.nodeType
		}
	}
	s.observeUsage()
	return nil
}

// Task is one simulation to be run.
type Task struct {
	Workload Workload
	Policy   Policy
	Config   Config
}

// RunAll runs tasks in the given number of workers and returns their results in the order of the
// tasks. After each task, RunAll calls done if it is not nil, one call at a time. The first error
// cancels all tasks. Solve times are meaningful only if the number of workers does not exceed the
// number of idle processors.
func RunAll(ctx context.Context, tasks []Task, allocator Allocator, workers int, done func(*Result)) ([]*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]*Result, len(tasks))
	queue := make(chan int, len(tasks))
	for i := range tasks {
		queue <- i
	}
	close(queue)

	var workersDone sync.WaitGroup
	var doneMutex sync.Mutex
	for range max(1, workers) {
		workersDone.Go(func() {
			for i := range queue {
				task := &tasks[i]
				result, err := Run(ctx, task.Workload, task.Policy, task.Config, allocator)
				if err != nil {
					cancel(err) // The first cause is kept.
					return
				}
				results[i] = result
				if done != nil {
					doneMutex.Lock()
					done(result)
					doneMutex.Unlock()
				}
			}
		})
	}
	workersDone.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return results, nil
}

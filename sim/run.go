package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
)

// Run simulates a workload under a policy until every job has ended. The allocator is asked
// from one goroutine. The result depends on the arguments alone, decision times apart, as long
// as no decision is cut short by its budget.
func Run(ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator) (*Result, error) {
	if bad := config.Validate(); len(bad) > 0 {
		return nil, &solver.InvalidError{Violations: bad}
	}
	if err := workload.Suits(&policy, &config); err != nil {
		return nil, err
	}
	if policy.Rounds > 0 {
		config.Frequency, config.Round = policy.Rounds, policy.Rounds
	}
	switch {
	case policy.Name == RecordedPolicy:
		return recorded(workload, policy, config), nil
	case policy.Partitioned:
		return runPartitions(ctx, workload, policy, config, allocator)
	}
	s := newSimulation(workload, policy, config, allocator)
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
	active    []int          // submitted and not ended, in that order
	arriving  int            // the first job not yet submitted
	now       time.Duration
	// fillAt is when the regular-time rule acts next, or a policy that decides at
	// every event.
	fillAt    time.Duration
	decisions []Decision
	// decided is the number of decisions, also where the simulation forgets them.
	decided int
	forgets bool
	// nodes is the size of the pool now, and resized are the changes to come.
	nodes   int
	resized []NodesAt
	// stalledSince is the last second in which a job made progress or was submitted.
	stalledSince time.Duration
	// estimator knows the jobs that have ended.
	estimator eta.Estimator
}

// never is later than anything that happens.
const never = time.Duration(math.MaxInt64)

func newSimulation(workload Workload, policy Policy, config Config, allocator Allocator) *simulation {
	s := &simulation{
		workload: workload, policy: policy, config: config, allocator: allocator,
		horizon: solver.Horizon{Step: config.Frequency, Steps: config.Steps},
		jobs:    make([]simulatedJob, len(workload.Jobs)),
		fillAt:  never, nodes: config.Nodes, resized: config.Resized,
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

// step moves to the next second in which something happens and lets it happen.
func (s *simulation) step(ctx context.Context) error {
	s.trainUntil(s.nextEvent())
	scalingMoment := s.resize() || s.now%s.config.Frequency == 0
	if s.now == s.fillAt {
		s.fillAt = never
		if !scalingMoment {
			if err := s.regularTime(ctx); err != nil {
				return err
			}
		}
	}
	ended := s.endJobs()
	submitted := s.submitJobs()
	if ended || submitted {
		s.fillAt = s.nextRound()
	}
	if scalingMoment && len(s.active) > 0 {
		return s.scalingMoment(ctx)
	}
	return nil
}

// nextRound returns when the regular-time rule acts that follows what happens now.
func (s *simulation) nextRound() time.Duration {
	round := max(s.config.Round, time.Second)
	return s.now - s.now%round + round
}

// nextEvent returns the next second in which anything but training can happen.
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

// trainUntil lets the jobs train until the given second.
func (s *simulation) trainUntil(at time.Duration) {
	for _, i := range s.active {
		if s.jobs[i].train(at - s.now) {
			s.stalledSince = at
		}
		if s.jobs[i].growsAt == at {
			s.jobs[i].grown()
		}
	}
	s.now = at
}

// endJobs ends the jobs that are done and reports whether there were any.
func (s *simulation) endJobs() bool {
	kept := s.active[:0]
	for _, i := range s.active {
		if job := &s.jobs[i]; job.done() {
			job.endAt(s.now)
			s.estimator.Completed(job.ended())
		} else {
			kept = append(kept, i)
		}
	}
	ended := len(kept) < len(s.active)
	s.active = kept
	return ended
}

// submitJobs queues the jobs that are submitted now and reports whether there were any.
func (s *simulation) submitJobs() bool {
	before := s.arriving
	for s.arriving < len(s.jobs) && s.jobs[s.arriving].Submit == s.now {
		if s.policy.pin != nil {
			s.jobs[s.arriving].pin = s.policy.pin(s.snapshot(), s.jobs[s.arriving].told)
		}
		s.active = append(s.active, s.arriving)
		s.jobs[s.arriving].arrive(s.now)
		s.arriving++
		s.stalledSince = s.now
	}
	return s.arriving > before
}

// regularTime lets the queue take what is idle, or has a policy that decides at
// every event decide.
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
	holdings, err := fillIdle(ctx, s.allocator, s.snapshot())
	if err != nil {
		return err
	}
	s.carryOut(holdings)
	return nil
}

// scalingMoment has the policy decide. The queue takes what it leaves idle a second later; a
// policy that decides at every event has already seen what happened in this second.
func (s *simulation) scalingMoment(ctx context.Context) error {
	if err := s.rebalance(ctx); err != nil {
		return err
	}
	s.fillAt = s.nextRound()
	if s.policy.EveryEvent {
		s.fillAt = never
	}
	if stalled := s.now - s.stalledSince; s.arriving == len(s.jobs) && (stalled-1)/s.config.Frequency >= mostStalledMoments {
		return fmt.Errorf("%w for %v under the decisions of the policy%s", ErrStalled, stalled, s.swapping())
	}
	return nil
}

// swapping names the jobs whose nodes changed more than once since no job makes progress; "" if there
// are none.
func (s *simulation) swapping() string {
	const named = 3
	var ids []string
	for _, i := range s.active {
		changes := 0
		for _, held := range s.jobs[i].held {
			if held.At > s.stalledSince {
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

// ErrStalled means that a run would not end, since its policy lets no job make progress.
var ErrStalled = errors.New("no job has made progress")

// ErrTooManyDecisions means that a run took as many decisions as its Config allows.
var ErrTooManyDecisions = errors.New("too many decisions")

// mostStalledMoments is how many scaling moments in a row, after the last submission, may
// pass without progress: more than a restart takes in any sensible setting.
const mostStalledMoments = 1000

func (s *simulation) rebalance(ctx context.Context) error {
	if most := s.config.MaxDecisions; most > 0 && s.decided >= most {
		return fmt.Errorf("%w: more than %d, one every %v", ErrTooManyDecisions, most, s.config.Frequency)
	}
	snapshot, pasts := s.snapshot(), []past(nil)
	if s.policy.decideTypes != nil {
		pasts = s.pasts()
	}
	holdings, decision, err := s.policy.decide(ctx, s.allocator, snapshot, pasts, s.config.DecisionBudget, s.config.Observe)
	if err != nil {
		return err
	}
	decision.At = s.now
	if s.decided++; !s.forgets {
		s.decisions = append(s.decisions, decision)
	}
	s.carryOut(holdings)
	return nil
}

// pasts returns what is known of the active jobs beyond a snapshot.
func (s *simulation) pasts() []past {
	list := make([]past, len(s.active))
	for n, i := range s.active {
		job := &s.jobs[i]
		list[n].restarting = job.growsAt != never
		for k, held := range job.held {
			list[n].mostHeld = max(list[n].mostHeld, held.Nodes)
			if k > 0 && held.Nodes > 0 {
				list[n].restarts++
			}
		}
	}
	return list
}

// snapshot returns what an allocator is told of the active jobs.
func (s *simulation) snapshot() *solver.Snapshot {
	snapshot := &solver.Snapshot{
		ID:         fmt.Sprintf("%s@%v", s.workload.Name, s.now),
		TotalNodes: s.nodes,
		NodeTypes:  s.config.NodeTypes,
		Horizon:    s.horizon,
		Jobs:       make([]solver.Job, len(s.active)),
	}
	if s.policy.Teams {
		snapshot.Groups = s.config.Groups
	}
	for n, i := range s.active {
		job := &s.jobs[i]
		told := job.told
		s.estimate(&told, job)
		told.CurrentNodes = job.nodes
		if job.nodes > 0 {
			told.CurrentNodeType = job.nodeType
		}
		if job.pin != "" {
			told.Speeds = speedsOn(told.Speeds, job.pin)
		}
		told.TrainingTime = job.History.Trained + job.trained
		told.WaitingTime = job.History.Waited + s.now - job.Submit - job.trained
		told.RescaleDelay = job.delay
		told.RestartTime = job.restart
		if s.policy.FixedSize {
			size := job.atMost(min(job.Asked, mostNodes(s.config.Nodes, snapshot.Groups, told.GroupID)))
			told.AllowedNodes = []int{size}
			if told.Scaling.Speeds != nil {
				told.Scaling.Speeds = []float64{job.speed(size)}
			}
		}
		snapshot.Jobs[n] = told
	}
	if s.policy.Prepare != nil {
		s.policy.Prepare(snapshot, s.config.Groups)
	}
	return snapshot
}

// estimate fills in what is told of a job's work: as it is, or what the library that
// schedulers have makes of what they know.
func (s *simulation) estimate(told *solver.Job, job *simulatedJob) {
	if job.TellsWork {
		told.WorkDone = job.workDone()
	}
	if job.ToldETA > 0 && job.ToldError == 0 {
		told.RemainingETA = job.remainingETA()
		return
	}
	estimate := s.estimator.Estimate(job.known())
	told.RemainingETA, told.ETAError = estimate.ETA, &estimate.Error
	if job.ToldError > 0 {
		told.ETAError = &job.ToldError
	}
}

func (s *simulation) carryOut(holdings []holding) {
	for n, i := range s.active {
		job := &s.jobs[i]
		job.give(holdings[n], s.now)
		if s.policy.KeepsType && job.start != never {
			job.pin = job.nodeType
		}
	}
}

// Task is one simulation to be run.
type Task struct {
	Workload Workload
	Policy   Policy
	Config   Config
}

// RunAll runs simulations, the given number of them at once, and returns their results in the
// order of the tasks. done, which may be nil, is called after each, one call at a time. The
// first error ends all. Decision times mean something only with no more workers than idle
// processors.
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

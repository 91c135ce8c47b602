package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
)

// Config is the setting of a simulation.
type Config struct {
	// Nodes is the size of the pool. At least 1.
	Nodes int
	// Frequency is the elastic training frequency f, the time between two scaling
	// moments and the length of a step: whole seconds, at least one.
	Frequency time.Duration
	// Steps is the number of steps a decision looks ahead.
	Steps int
	// ScalingDelay is how long a job that starts or grows trains on as many nodes
	// as before: whole seconds, less than the frequency, or else jobs could be
	// starting and growing for ever.
	ScalingDelay time.Duration
	// RestartTime is how long a job makes no progress after every change of its nodes,
	// its start included: whole seconds, of any length. Not together with ScalingDelay.
	RestartTime time.Duration
	// DecisionBudget is the time budget of a decision; 0 leaves it to the Allocator.
	DecisionBudget time.Duration
	// Groups are the teams that share the pool, with their departments; empty if the jobs
	// have no teams. Policies that know of teams need them.
	Groups []solver.Group
	// Resized is when the size of the pool changes, ascending, in whole seconds: to at most
	// Nodes, and to Nodes in the end. Policies decide then as well. Empty for a pool that
	// always has Nodes.
	Resized []NodesAt
	// MaxDecisions is after how many decisions a run ends with ErrTooManyDecisions; 0 is no limit.
	MaxDecisions int
	// Observe, where set, is shown every decision of the Allocator at a scaling moment.
	Observe Observer
}

// Observer is shown a snapshot and its decision. It may keep both and must change
// neither.
type Observer func(*solver.Snapshot, solver.Decision)

// DefaultDecisionBudget is ample, so that hardly ever a clock decides what a
// simulation finds.
const DefaultDecisionBudget = 10 * time.Second

// DefaultConfig returns the paper's setting for a pool: a decision every 5 minutes
// that looks 5 steps ahead, and no scaling delay.
func DefaultConfig(nodes int) Config {
	return Config{
		Nodes:          nodes,
		Frequency:      solver.DefaultStep,
		Steps:          solver.DefaultSteps,
		DecisionBudget: DefaultDecisionBudget,
	}
}

// Validate returns every bad field of a setting.
func (c *Config) Validate() []solver.Violation {
	var bad []solver.Violation
	want := func(ok bool, path, format string, args ...any) {
		if !ok {
			bad = append(bad, solver.Violation{Path: path, Description: fmt.Sprintf(format, args...)})
		}
	}
	whole := func(d time.Duration) bool { return d >= 0 && d%time.Second == 0 }
	want(c.Nodes >= 1 && c.Nodes <= math.MaxInt32, "nodes", "is %d; want at least 1", c.Nodes)
	want(whole(c.Frequency) && c.Frequency > 0, "frequency", "is %v; want whole seconds, at least 1s", c.Frequency)
	want(c.Steps >= 1 && c.Steps <= solver.MaxSteps, "steps", "is %d; want 1 to %d", c.Steps, solver.MaxSteps)
	want(whole(c.ScalingDelay) && c.ScalingDelay < max(c.Frequency, 1), "scaling_delay",
		"is %v; want whole seconds, at least 0s and less than the frequency", c.ScalingDelay)
	want(whole(c.RestartTime), "restart_time", "is %v; want whole seconds, at least 0s", c.RestartTime)
	want(c.RestartTime <= 0 || c.ScalingDelay <= 0, "restart_time", "is set beside a scaling delay; want at most one of them")
	want(c.DecisionBudget >= 0, "decision_budget", "is %v; want at least 0s", c.DecisionBudget)
	for i, change := range c.Resized {
		want(whole(change.At) && (i == 0 || change.At > c.Resized[i-1].At), "resized", "is at %v; want whole seconds, ascending", change.At)
		want(change.Nodes >= 0 && change.Nodes <= c.Nodes, "resized", "is to %d nodes; want 0 to %d", change.Nodes, c.Nodes)
	}
	if n := len(c.Resized); n > 0 {
		want(c.Resized[n-1].Nodes == c.Nodes, "resized", "ends with %d nodes; want %d, or jobs could wait for ever", c.Resized[n-1].Nodes, c.Nodes)
	}
	return bad
}

// Result is what became of a workload under a policy.
type Result struct {
	// Workload and Policy are the names of the two.
	Workload, Policy string
	// Nodes is the size of the pool, and Groups are those that shared it.
	Nodes  int
	Groups []solver.Group
	// Utilization is the share of the pool's nodes that jobs held, on average from the
	// first submission to the last; NaN if those coincide or nothing is known.
	Utilization float64
	// Jobs are in the order of the workload.
	Jobs []JobResult
	// Decisions are those at scaling moments, in the order of time.
	Decisions []Decision
}

// JobResult is what became of a job. Times are whole seconds of the simulation.
type JobResult struct {
	ID string
	// Group is the team it belongs to, or "".
	Group string
	// Weight is the job's, 1 by default, and Smallest the least nodes it can
	// train on.
	Weight   float64
	Smallest int
	// Alone is how long the job would have taken, to its own end, alone in the pool on
	// its largest size there, in whole seconds and at least one.
	Alone time.Duration
	// Submit, Start and End are when the job was submitted, first got nodes, and
	// ended.
	Submit, Start, End time.Duration
	// Unserved is how long it held no nodes between its submission and its end, in the
	// queue and in pauses.
	Unserved time.Duration
	// Rescales is how often its nodes changed after its start: by growing, by
	// shrinking, by losing all and by getting some back.
	Rescales int
	// Nodes is what the job held, from its start to its end.
	Nodes []NodesAt
	// Outcome is how it ended.
	Outcome Outcome
}

// QueueTime returns how long the job waited for its first nodes.
func (j *JobResult) QueueTime() time.Duration { return j.Start - j.Submit }

// TotalTime returns how long the job took from its submission to its end.
func (j *JobResult) TotalTime() time.Duration { return j.End - j.Submit }

// Slowdown returns by what factor the job took longer than alone in the pool.
func (j *JobResult) Slowdown() float64 {
	return j.TotalTime().Seconds() / max(j.Alone, time.Second).Seconds()
}

// Pauses returns how often the job lost all its nodes before its end.
func (j *JobResult) Pauses() int {
	pauses := 0
	for _, held := range j.Nodes[:max(1, len(j.Nodes))-1] {
		if held.Nodes == 0 {
			pauses++
		}
	}
	return pauses
}

// Decision is what is known of one decision.
type Decision struct {
	// At is the second of the simulation.
	At time.Duration
	// Jobs is the number of active jobs.
	Jobs int
	// SolveTime is the report's solve time; of a comparator, the time of its rule.
	SolveTime time.Duration
	// Backend is the one that answered; "" for a comparator.
	Backend solver.BackendName
	// Reason and RelativeGap are the report's.
	Reason      solver.Reason
	RelativeGap float64
	// NodePrice is what one more node in the first step was worth, in units of the
	// objective; nil where the report does not say.
	NodePrice *float64
}

// Run simulates a workload under a policy, second by second in effect (see the
// package's documentation), until every job has ended. The allocator is asked from
// one goroutine. The result depends on the arguments alone, decision times apart,
// as long as no decision is cut short by its budget.
func Run(ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator) (*Result, error) {
	if bad := config.Validate(); len(bad) > 0 {
		return nil, &solver.InvalidError{Violations: bad}
	}
	if err := workload.Suits(&policy, &config); err != nil {
		return nil, err
	}
	if policy.place != nil {
		return policy.place.run(ctx, workload, policy, config, allocator)
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
	// servedAt is the last second in which a job made progress.
	servedAt time.Duration
	// estimator knows the jobs that have ended.
	estimator eta.Estimator
	// held is the nodes that jobs held times how long, until measuredUntil, the last
	// submission.
	held          time.Duration
	measuredUntil time.Duration
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
		s.measuredUntil = workload.Jobs[i].Submit
	}
	return s
}

// run simulates until every job has ended.
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
		s.fillAt = s.now + time.Second
	}
	if scalingMoment && len(s.active) > 0 {
		return s.scalingMoment(ctx)
	}
	return nil
}

// nextEvent returns the next second in which something can happen. Nothing but
// training happens before it.
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
	measured := max(0, min(at, s.measuredUntil)-s.now)
	for _, i := range s.active {
		s.held += time.Duration(s.jobs[i].nodes) * measured
		if s.jobs[i].train(at - s.now) {
			s.servedAt = at
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
			s.estimator.Ended(job.workDone())
		} else {
			kept = append(kept, i)
		}
	}
	ended := len(kept) < len(s.active)
	s.active = kept
	return ended
}

// submitJobs puts the jobs that are submitted now into the queue and reports
// whether there were any.
func (s *simulation) submitJobs() bool {
	before := s.arriving
	for s.arriving < len(s.jobs) && s.jobs[s.arriving].Submit == s.now {
		s.active = append(s.active, s.arriving)
		s.jobs[s.arriving].arrive(s.now)
		s.arriving++
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
	nodes, err := fillIdle(ctx, s.allocator, s.snapshot())
	if err != nil {
		return err
	}
	s.carryOut(nodes)
	return nil
}

// scalingMoment has the policy decide. The queue takes what it leaves idle a second later,
// unless the policy decides at every event: such a policy has already seen what happened in
// this second.
func (s *simulation) scalingMoment(ctx context.Context) error {
	if err := s.rebalance(ctx); err != nil {
		return err
	}
	s.fillAt = s.now + time.Second
	if s.policy.EveryEvent {
		s.fillAt = never
	}
	if stalled := s.now - s.servedAt; s.arriving == len(s.jobs) && stalled > mostStalledMoments*s.config.Frequency {
		return fmt.Errorf("%w for %v under the decisions of the policy", errStalled, stalled)
	}
	return nil
}

// errStalled means that a simulation would not end.
var errStalled = errors.New("no job has made progress")

// ErrTooManyDecisions means that a run took as many decisions as its Config allows.
var ErrTooManyDecisions = errors.New("too many decisions")

// mostStalledMoments is how many scaling moments in a row, after the last submission,
// may pass without progress of any job: more than a restart takes in any sensible
// setting.
const mostStalledMoments = 1000

// rebalance has the policy decide and carries its decision out.
func (s *simulation) rebalance(ctx context.Context) error {
	if most := s.config.MaxDecisions; most > 0 && s.decided >= most {
		return fmt.Errorf("%w: more than %d, one every %v", ErrTooManyDecisions, most, s.config.Frequency)
	}
	nodes, decision, err := s.policy.decide(
		ctx, s.allocator, s.snapshot(), s.config.DecisionBudget, s.config.Observe)
	if err != nil {
		return err
	}
	decision.At = s.now
	if s.decided++; !s.forgets {
		s.decisions = append(s.decisions, decision)
	}
	s.carryOut(nodes)
	return nil
}

// snapshot returns what an allocator is told of the active jobs.
func (s *simulation) snapshot() *solver.Snapshot {
	snapshot := &solver.Snapshot{
		ID:         fmt.Sprintf("%s@%v", s.workload.Name, s.now),
		TotalNodes: s.nodes,
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
	estimate := s.estimator.Estimate(eta.Job{Told: job.ToldETA, ToldError: job.ToldError, WorkDone: job.served})
	told.RemainingETA, told.ETAError = estimate.ETA, &estimate.Error
	if job.ToldError > 0 {
		told.ETAError = &job.ToldError
	}
}

// carryOut gives the active jobs the nodes of a decision.
func (s *simulation) carryOut(nodes []int) {
	for n, i := range s.active {
		s.jobs[i].give(nodes[n], s.now)
	}
}

// result returns what became of the jobs.
func (s *simulation) result() *Result {
	r := &Result{
		Workload: s.workload.Name, Policy: s.policy.Name, Nodes: s.config.Nodes, Groups: s.config.Groups,
		Utilization: s.utilization(), Jobs: make([]JobResult, len(s.jobs)), Decisions: s.decisions,
	}
	for i := range s.jobs {
		job := &s.jobs[i]
		r.Jobs[i] = JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), Smallest: job.smallest(), Alone: job.alone(s.config.Nodes),
			Submit: job.Submit, Start: job.start, End: job.end, Unserved: job.end - job.Submit - job.trained,
			Rescales: job.rescales, Nodes: job.held, Outcome: job.outcome(),
		}
	}
	return r
}

// utilization returns the share of the pool that jobs held until the last submission.
func (s *simulation) utilization() float64 {
	if len(s.jobs) == 0 {
		return math.NaN()
	}
	span := s.measuredUntil - s.jobs[0].Submit
	return s.held.Seconds() / (span.Seconds() * float64(s.config.Nodes))
}

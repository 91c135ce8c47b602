package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Future is the result of Forecast.
type Future struct {
	// Jobs are in the order of the snapshot.
	Jobs []JobFuture
	// Decisions is the number of decisions, without FillIdle.
	Decisions int
	// Cut reports that the simulation was stopped by its context, MaxDecisions or MaxSubmissions.
	Cut bool
	// Stalled reports that the simulation stopped because no job made progress, or because of the size
	// limits no job ever will, although an unfinished job of the snapshot fits the pool.
	Stalled bool
}

// MaxDecisions is the largest number of decisions of a forecast. It covers almost two years with one
// decision every 5 min.
const MaxDecisions = 200_000

// JobFuture is the forecast for a job. Times are whole seconds since the snapshot.
type JobFuture struct {
	// Start is the time at which the job first has nodes, and End the time of its completion. They are
	// nil if this does not happen within the simulation.
	Start, End *time.Duration
	// Resizes is the number of resizes, without the first start.
	Resizes int
}

// ForecastInput contains the assumptions of a forecast that are not in the snapshot.
type ForecastInput struct {
	// Work is the actual remaining work of each job of the snapshot, as run time on one node.
	Work []time.Duration
	// Next returns the next submission, in order of time. nil means no submissions. A forecast stops
	// after MaxSubmissions.
	Next func() Submission
	// EveryEvent adds decisions after submissions and completions. See Terms.
	EveryEvent bool
}

// Submission is a queued job that is submitted At whole seconds after the snapshot. Work is its actual
// work, as run time on one node.
type Submission struct {
	At   time.Duration
	Job  solver.Job
	Work time.Duration
}

// MaxSubmissions is the largest number of submissions of a forecast.
const MaxSubmissions = 10_000

// Forecast simulates the future of a valid snapshot with defaults. The simulation starts with a regular
// decision and follows the rules of Run. A resize costs the resize_delay or the restart_time of the job.
// Jobs with nodes initially train on all of them. With node types, ETAs are for one reference node. For
// jobs with an ETA error, later snapshots contain the estimates of client/eta.
//
// The simulation stops when all jobs of the snapshot are complete, at time until, or when no remaining
// job of the snapshot has nodes or fits the pool and its size limits. It also stops if it stalls (Future.Stalled), and if ctx
// is done, a decision exceeds its deadline, or MaxDecisions or MaxSubmissions is reached (Future.Cut). In
// these cases, Forecast returns the results so far.
func Forecast(
	ctx context.Context, s *solver.Snapshot, ahead ForecastInput, policy Policy, frequency, until time.Duration, allocator Allocator,
) (Future, error) {
	sim := &simulation{
		policy: policy, allocator: allocator, horizon: s.Horizon, nodes: s.TotalNodes, fillAt: never,
		config: Config{
			Nodes: s.TotalNodes, NodeTypes: s.NodeTypes, SizeLimits: s.SizeLimits, Frequency: frequency, Groups: s.Groups,
			MaxDecisions: MaxDecisions, Terms: Terms{Name: "forecast", EveryEvent: ahead.EveryEvent, GroupLimits: true},
		},
		workload: Workload{Name: s.ID, Jobs: make([]WorkloadJob, len(s.Jobs))},
		jobs:     make([]simulatedJob, len(s.Jobs)),
		arriving: len(s.Jobs), discardsDecisions: true,
	}
	for i := range s.Jobs {
		sim.jobs[i] = sim.resumedJob(&s.Jobs[i], ahead.Work[i], &sim.workload.Jobs[i])
		sim.active = append(sim.active, i)
	}
	err := sim.forecast(ctx, s, ahead.Next, until)
	future := Future{Jobs: make([]JobFuture, len(s.Jobs)), Decisions: sim.decisionCount}
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, ErrTooManyDecisions) || errors.Is(err, errTooManySubmissions) {
		future.Cut, err = true, nil
	}
	if errors.Is(err, ErrStalled) {
		future.Stalled, err = true, nil
	}
	for i := range s.Jobs {
		job := &sim.jobs[i]
		future.Jobs[i].Resizes = job.resizes
		future.Jobs[i].Start = job.firstAllocated()
		if job.end != never {
			future.Jobs[i].End = new(job.end) // A copy, because &job.end would keep the simulation in memory.
		}
	}
	return future, err
}

// longestSpan is the upper limit of the times of a job in a forecast, 73 years. Sums of such times fit a
// time.Duration.
const longestSpan = never / 4

// resumedJob returns the state of a job of a snapshot and sets its data in job.
func (s *simulation) resumedJob(spec *solver.Job, work time.Duration, job *WorkloadJob) simulatedJob {
	work = min(work, longestSpan)
	*job = WorkloadJob{
		ID: spec.ID, Group: spec.GroupID, Demand: work, Work: work,
		UserEstimate: min(DemandOf(spec), longestSpan), ReportsWork: spec.WorkDone > 0, Fate: OutcomeCompleted,
		History: History{
			Nodes: spec.CurrentNodes, NodeType: spec.CurrentNodeType, Work: min(spec.WorkDone, longestSpan),
			Trained: min(spec.TrainingTime, longestSpan), Waited: min(spec.WaitingTime, longestSpan),
		},
	}
	j := simulatedJob{
		WorkloadJob: job, spec: *spec, types: s.config.NodeTypes, start: never, end: never, growsAt: never,
		delay: WholeSeconds(min(spec.ResizeDelay, longestSpan)), restart: WholeSeconds(min(spec.RestartTime, longestSpan)),
	}
	if spec.CurrentNodes > 0 {
		job.History.Trained = max(1, job.History.Trained) // A job with nodes has started.
	}
	if j.move = j.restart; spec.MoveTime != nil {
		j.move = WholeSeconds(min(*spec.MoveTime, longestSpan))
	}
	for _, since := range spec.RecentRestarts {
		j.restartedAt = append(j.restartedAt, -since)
	}
	j.spec.ETANodes = 0 // UserEstimate is on one node.
	if sigma := spec.ETAError; sigma != nil && *sigma > 0 {
		// The first estimate of client/eta then equals the remaining ETA of the snapshot.
		job.UserError, job.UserEstimate = *sigma, max(1, Scale(job.UserEstimate, math.Exp(-*sigma**sigma/2)))
	}
	j.arrive(0)
	return j
}

// firstAllocated returns the time at which the job first had nodes for more than 0 s, nil if it never did.
func (j *simulatedJob) firstAllocated() *time.Duration {
	for n, now := range j.timeline {
		if now.Nodes > 0 && (n+1 == len(j.timeline) || j.timeline[n+1].At > now.At || j.timeline[n+1].Nodes > 0) {
			return new(now.At)
		}
	}
	return nil
}

// DemandOf returns the remaining run time of a job on one node.
func DemandOf(job *solver.Job) time.Duration {
	if job.ETANodes == 0 {
		return job.RemainingETA
	}
	return max(1, Scale(time.Second, job.Demand()))
}

// errTooManySubmissions means that a forecast needs more than MaxSubmissions.
var errTooManySubmissions = errors.New("too many submissions")

// forecast simulates the jobs of a snapshot up to a time, starting with a decision.
func (s *simulation) forecast(ctx context.Context, from *solver.Snapshot, next func() Submission, until time.Duration) error {
	jobs := len(from.Jobs)
	if len(s.active) == 0 {
		return nil
	}
	if err := s.decide(ctx); err != nil {
		return err
	}
	for s.canProgress(from) {
		if next != nil && s.arriving == len(s.jobs) {
			if len(s.jobs) == jobs+MaxSubmissions {
				return errTooManySubmissions
			}
			submission, job := next(), new(WorkloadJob)
			s.jobs = append(s.jobs, s.resumedJob(&submission.Job, submission.Work, job))
			job.Submit = submission.At
		}
		if s.nextEvent() > until {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	for _, i := range s.active {
		if i < jobs && from.Fits(i) {
			return fmt.Errorf("%w: the size limits never let the remaining jobs run", ErrStalled)
		}
	}
	return nil
}

// canProgress reports whether an active job of the snapshot has nodes or fits the pool and the size limits.
func (s *simulation) canProgress(from *solver.Snapshot) bool {
	rows := from.Rows()
	for _, i := range s.active {
		if i < len(from.Jobs) && (s.jobs[i].nodes > 0 || from.FitsRows(i, rows)) {
			return true
		}
	}
	return false
}

package sim

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Future is what becomes of the jobs of a snapshot.
type Future struct {
	// Jobs are in the order of the snapshot.
	Jobs []JobFuture
	// Decisions is the number of those at scaling moments and events.
	Decisions int
	// Cut says that the context, or MaxDecisions, ended the simulation.
	Cut bool
	// Stalled reports whether the simulation stopped because no job made progress any more,
	// although one of the snapshot's that has not ended fits the pool.
	Stalled bool
}

// MaxDecisions is after how many decisions a forecast is cut: those of almost two years at one
// every 5 minutes.
const MaxDecisions = 200_000

// JobFuture is what becomes of a job. Times are whole seconds from the snapshot on.
type JobFuture struct {
	// Start is when the job first holds nodes, and End when it ends; nil where that does
	// not happen within the simulation.
	Start, End *time.Duration
	// Rescales is how often its nodes change, its first start not counted.
	Rescales int
}

// Ahead is what a snapshot does not tell of the time after it.
type Ahead struct {
	// Work is what is really left of each job of the snapshot, in run time on one node.
	Work []time.Duration
	// Next returns the next submission, none before the last; nil if there are none. A forecast
	// is cut after MaxSubmissions.
	Next func() Submission
}

// Submission is a queued job that is submitted At whole seconds after the snapshot. Work is what it
// really takes.
type Submission struct {
	At   time.Duration
	Job  solver.Job
	Work time.Duration
}

// MaxSubmissions is after how many submissions a forecast is cut.
const MaxSubmissions = 10_000

// Forecast simulates on from a valid snapshot with its defaults, as Run does from a scaling
// moment on. Changes cost the rescale_delay or the restart_time that each job names, and a job
// that holds nodes now trains on all of them. Where there are node types, ETAs are on one
// reference node. Of a job with an ETA error the allocator is told the estimate of client/eta.
//
// The simulation ends with the last job of the snapshot, at the given time, or when the jobs that
// are left hold no nodes and never fit the pool. It stops if it stalls, as Run does. It is cut when
// ctx ends, the allocator runs out of time or there were too many decisions, and returns what it has
// simulated by then.
func Forecast(
	ctx context.Context, s *solver.Snapshot, ahead Ahead, policy Policy, frequency, until time.Duration, allocator Allocator,
) (Future, error) {
	policy.Teams = len(s.Groups) > 0
	sim := &simulation{
		policy: policy, allocator: allocator, horizon: s.Horizon, nodes: s.TotalNodes, fillAt: never,
		config:   Config{Nodes: s.TotalNodes, NodeTypes: s.NodeTypes, Frequency: frequency, Groups: s.Groups, MaxDecisions: MaxDecisions},
		workload: Workload{Name: s.ID, Jobs: make([]WorkloadJob, len(s.Jobs))},
		jobs:     make([]simulatedJob, len(s.Jobs)),
		arriving: len(s.Jobs), forgets: true,
	}
	for i := range s.Jobs {
		sim.jobs[i] = sim.goingOn(&s.Jobs[i], ahead.Work[i], &sim.workload.Jobs[i])
		sim.active = append(sim.active, i)
	}
	err := sim.forecast(ctx, s, ahead.Next, until)
	future := Future{Jobs: make([]JobFuture, len(s.Jobs)), Decisions: sim.decided}
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTooManyDecisions) || errors.Is(err, errTooManySubmissions) {
		future.Cut, err = true, nil
	}
	if errors.Is(err, ErrStalled) {
		future.Stalled, err = true, nil
	}
	for i := range s.Jobs {
		job := &sim.jobs[i]
		future.Jobs[i].Rescales = job.rescales
		future.Jobs[i].Start = job.firstHeld()
		if job.end != never {
			future.Jobs[i].End = new(job.end) // A pointer to it would keep all of the simulation.
		}
	}
	return future, err
}

// longestSpan is where a forecast cuts a job's time off, 73 years:
// sums of such times fit a time.Duration.
const longestSpan = never / 4

// goingOn returns the state of a job of a snapshot, whose data go into job.
func (s *simulation) goingOn(told *solver.Job, work time.Duration, job *WorkloadJob) simulatedJob {
	work = min(work, longestSpan)
	*job = WorkloadJob{
		ID: told.ID, Group: told.GroupID, Demand: work, Work: work,
		ToldETA: min(DemandOf(told), longestSpan), TellsWork: told.WorkDone > 0, Fate: OutcomeCompleted,
		History: History{
			Nodes: told.CurrentNodes, NodeType: told.CurrentNodeType, Work: min(told.WorkDone, longestSpan),
			Trained: min(told.TrainingTime, longestSpan), Waited: min(told.WaitingTime, longestSpan),
		},
	}
	j := simulatedJob{
		WorkloadJob: job, told: *told, types: s.config.NodeTypes, start: never, end: never, growsAt: never,
		delay: wholeSeconds(min(told.RescaleDelay, longestSpan)), restart: wholeSeconds(min(told.RestartTime, longestSpan)),
	}
	if told.CurrentNodes > 0 {
		job.History.Trained = max(1, job.History.Trained) // It has started, whatever is told.
	}
	if j.move = j.restart; told.MoveTime != nil {
		j.move = wholeSeconds(min(*told.MoveTime, longestSpan))
	}
	j.told.ETANodes = 0 // ToldETA is on one node.
	if sigma := told.ETAError; sigma != nil && *sigma > 0 {
		// The estimate is then what is told, and shrinks as a mean does.
		job.ToldError, job.ToldETA = *sigma, max(1, scale(job.ToldETA, math.Exp(-*sigma**sigma/2)))
	}
	j.arrive(0)
	return j
}

// firstHeld returns when the job first held nodes for a while, nil if it never did.
func (j *simulatedJob) firstHeld() *time.Duration {
	for n, now := range j.held {
		if now.Nodes > 0 && (n+1 == len(j.held) || j.held[n+1].At > now.At || j.held[n+1].Nodes > 0) {
			return new(now.At)
		}
	}
	return nil
}

// DemandOf returns the run time left on exactly one node.
func DemandOf(job *solver.Job) time.Duration {
	if job.ETANodes == 0 {
		return job.RemainingETA
	}
	return max(1, scale(time.Second, job.Demand()))
}

// errTooManySubmissions means that a forecast has had as many submissions as it may.
var errTooManySubmissions = errors.New("too many submissions")

// forecast simulates the jobs of a snapshot up to a time, the first decision at once.
func (s *simulation) forecast(ctx context.Context, from *solver.Snapshot, next func() Submission, until time.Duration) error {
	jobs := len(from.Jobs)
	if len(s.active) == 0 {
		return nil
	}
	if err := s.scalingMoment(ctx); err != nil {
		return err
	}
	for s.canGoOn(from) {
		if next != nil && s.arriving == len(s.jobs) {
			if len(s.jobs) == jobs+MaxSubmissions {
				return errTooManySubmissions
			}
			submission, job := next(), new(WorkloadJob)
			s.jobs = append(s.jobs, s.goingOn(&submission.Job, submission.Work, job))
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
	return nil
}

// canGoOn reports whether a job of the snapshot holds nodes or is one that the pool can hold.
func (s *simulation) canGoOn(from *solver.Snapshot) bool {
	for _, i := range s.active {
		if i < len(from.Jobs) && (s.jobs[i].nodes > 0 || from.Fits(i)) {
			return true
		}
	}
	return false
}

package catalog

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// longestSpan is the upper limit of user limits, 73 years. Sums of such times fit a time.Duration.
const longestSpan = time.Duration(math.MaxInt64) / 4

// defaultLimitFactor is the ratio of a job's user limit to its duration if the trace has no limit.
const defaultLimitFactor = 2

// backfill is EASY backfill (Lifka, JSSPP 1995) for jobs of fixed size, whose remaining ETA is what is left of
// their user limits. Queued jobs start in the order of submission. The first job that does not fit has a
// reservation at the time at which enough running jobs have reached their limits. A later job starts
// before it if it reaches its limit by then, or if it only uses nodes that the reservation leaves idle. Running
// jobs keep their nodes, unless the pool has become too small for all of them.
func backfill(s *solver.Snapshot) []solver.Option {
	type running struct {
		left  time.Duration // until the user limit
		nodes int
	}
	var runs []running
	options := make([]solver.Option, len(s.Jobs))
	idle := s.TotalNodes
	start := func(i, size int) {
		options[i] = solver.NewOption(0, size)
		runs = append(runs, running{limitLeft(&s.Jobs[i]), size})
		idle -= size
	}
	var queue []int
	for i := range s.Jobs {
		if size := s.Jobs[i].CurrentNodes; size == 0 {
			queue = append(queue, i)
		} else if size <= idle {
			start(i, size)
		}
	}
	for len(queue) > 0 && fixedSize(&s.Jobs[queue[0]]) <= idle {
		start(queue[0], fixedSize(&s.Jobs[queue[0]]))
		queue = queue[1:]
	}
	if len(queue) == 0 {
		return options
	}
	slices.SortFunc(runs, func(a, b running) int { return cmp.Compare(a.left, b.left) })
	reserved, spare := longestSpan, idle-fixedSize(&s.Jobs[queue[0]])
	for _, run := range runs {
		if spare >= 0 && run.left > reserved {
			break
		}
		if spare += run.nodes; spare >= 0 {
			reserved = run.left
		}
	}
	for _, i := range queue[1:] {
		size := fixedSize(&s.Jobs[i])
		done := limitLeft(&s.Jobs[i]) <= reserved
		if size > idle || !done && size > spare {
			continue
		}
		if !done {
			spare -= size
		}
		start(i, size)
	}
	return options
}

// fixedSize returns the smallest legal size of a job, which is the only one under policies with FixedSize.
func fixedSize(job *solver.Job) int { return job.LegalSizes()[0] }

// limitLeft returns what is left of the user limit of a job in whole seconds, given a remaining ETA from withUserLimit.
func limitLeft(job *solver.Job) time.Duration {
	seconds := math.Round(job.RemainingETA.Seconds() / job.Speed(fixedSize(job)))
	return time.Duration(min(seconds, longestSpan.Seconds())) * time.Second
}

// byUserLimits is a policy that decides on snapshots in which the remaining ETA of every job is what is left of its user
// limit. It requires fixed sizes.
type byUserLimits struct{ sim.Policy }

// Decide returns the decision by user limits.
func (p byUserLimits) Decide(ctx context.Context, in sim.Input) (solver.Decision, error) {
	return preparing{p.Policy, func(s *solver.Snapshot) {
		for i := range s.Jobs {
			setUserLimit(&s.Jobs[i], in.Job(i).Job)
		}
	}}.Decide(ctx, in)
}

// setUserLimit sets the remaining ETA of a job in a snapshot to what is left of its user limit.
func setUserLimit(spec *solver.Job, job *sim.WorkloadJob) {
	limit := job.UserLimit
	speed := spec.Speed(fixedSize(spec))
	if limit == 0 {
		limit = sim.WholeSeconds(sim.Scale(defaultLimitFactor*time.Second,
			min(job.Demand.Seconds()/speed, longestSpan.Seconds()/defaultLimitFactor)))
	}
	left := max(0, limit-spec.TrainingTime)
	spec.RemainingETA = max(1, sim.Scale(time.Second, min(left.Seconds()*speed, longestSpan.Seconds())))
}

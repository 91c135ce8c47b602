package solvertest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

// Limits limits the size of random snapshots.
type Limits struct {
	Jobs  int // queued and running jobs
	Steps int // steps of the horizon
	Sizes int // legal sizes of a job, above 0
	Nodes int // nodes of the pool
}

// SmallLimits returns limits within which Exhaustive takes milliseconds.
func SmallLimits() Limits { return Limits{Jobs: 4, Steps: 3, Sizes: 4, Nodes: 20} }

// Snapshots generates valid snapshots within SmallLimits.
func Snapshots() *rapid.Generator[*solver.Snapshot] { return SnapshotsWithin(SmallLimits()) }

// SnapshotsWithin generates valid snapshots within the given limits, which must be at least 1. Every
// feature of the model occurs. Ties and boundary values are frequent. The limits of the API occur too:
// weights over 18 orders of magnitude, and a job with solver.MaxSizes sizes, with at most two other
// jobs and at most two steps.
func SnapshotsWithin(limits Limits) *rapid.Generator[*solver.Snapshot] {
	return rapid.Custom(func(t *rapid.T) *solver.Snapshot {
		s := &solver.Snapshot{
			ID: "random",
			TotalNodes: rapid.OneOf(
				rapid.IntRange(limits.Nodes/2, limits.Nodes), // Most pools are large enough for a choice.
				rapid.IntRange(0, limits.Nodes),
			).Draw(t, "total nodes"),
			Horizon: solver.Horizon{
				Step:  rapid.SampledFrom(stepLengths()).Draw(t, "step"),
				Steps: rapid.IntRange(1, limits.Steps).Draw(t, "steps"),
			},
		}
		jobs := rapid.OneOf(
			rapid.IntRange(min(2, limits.Jobs), limits.Jobs),
			rapid.IntRange(0, limits.Jobs),
		).Draw(t, "jobs")
		for i := range jobs {
			var job solver.Job
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "twin") == 0 {
				job = s.Jobs[i-1] // Identical jobs cause ties.
			} else {
				job = drawJob(t, limits, s.Horizon)
			}
			if rapid.IntRange(0, 3).Draw(t, "redraw current nodes") == 0 {
				job.CurrentNodes = drawCurrentNodes(t, limits, &job)
			}
			job.ID = fmt.Sprintf("job-%d", i+1)
			s.Jobs = append(s.Jobs, job)
		}
		if len(s.Jobs) > 0 && rapid.IntRange(0, 9).Draw(t, "most sizes") == 0 {
			s.Jobs, s.Horizon.Steps = s.Jobs[:min(3, len(s.Jobs))], min(2, s.Horizon.Steps)
			drawMostSizes(t, s, &s.Jobs[rapid.IntRange(0, len(s.Jobs)-1).Draw(t, "job of most sizes")])
		}
		return s
	})
}

func stepLengths() []time.Duration {
	return []time.Duration{
		solver.DefaultStep, time.Minute, time.Second, 100 * time.Millisecond, 37 * time.Second, time.Hour,
	}
}

func drawJob(t *rapid.T, limits Limits, horizon solver.Horizon) solver.Job {
	job := solver.NewJob("", drawRemainingETA(t, horizon))
	drawSizes(t, limits, &job)
	drawScaling(t, &job)
	job.CurrentNodes = drawCurrentNodes(t, limits, &job)
	job.TrainingTime = time.Duration(rapid.IntRange(0, 5).Draw(t, "training time")) * 20 * time.Minute
	weight := rapid.OneOf(
		rapid.Just(1.0),
		rapid.SampledFrom([]float64{0, 0.5, 2, 3, 1e-9, 1e-3, 1e3, 1e9, solver.MaxWeight}),
		rapid.Float64Range(0, 10),
	).Draw(t, "weight")
	job.Weight = &weight
	drawChangeCost(t, &job, horizon)
	if rapid.IntRange(0, 2).Draw(t, "has waited") == 0 {
		job.WaitingTime = time.Duration(rapid.IntRange(1, 50).Draw(t, "waiting time")) * time.Hour / 2
	}
	drawETANodes(t, limits, &job)
	drawHistory(t, &job)
	return job
}

// drawHistory sets random restarts, half of which use the restart budget, and work beyond the estimate.
func drawHistory(t *rapid.T, job *solver.Job) {
	job.FreeResizes = job.RestartTime == 0 && rapid.Bool().Draw(t, "free resizes")
	since := time.Duration(0)
	for range rapid.IntRange(0, solver.MaxRecentRestarts).Draw(t, "recent restarts") {
		since += job.RestartTime * time.Duration(rapid.IntRange(0, 8).Draw(t, "restart times between restarts"))
		job.RecentRestarts = append(job.RecentRestarts, since)
	}
	job.Overrun = rapid.SampledFrom([]float64{0, 0, 0, 0.99, 1, 3}).Draw(t, "overrun")
	if job.Overrun > 0 {
		job.WorkDone = job.RemainingETA * time.Duration(rapid.SampledFrom([]int{0, 2, 8}).Draw(t, "work done in remaining ETAs"))
	}
}

// drawChangeCost sets a random `ResizeDelay` or `RestartTime`.
func drawChangeCost(t *rapid.T, job *solver.Job, horizon solver.Horizon) {
	cost := rapid.OneOf(
		rapid.Just(time.Duration(0)),
		rapid.SampledFrom([]time.Duration{
			15 * time.Second, horizon.Step / 3, horizon.Step, horizon.Step + time.Second,
		}),
	).Draw(t, "cost of a change")
	if rapid.Bool().Draw(t, "restarts") {
		job.RestartTime = cost
	} else {
		job.ResizeDelay = cost
	}
}

// drawETANodes sets the number of nodes on which the remaining ETA is measured. For most jobs it is one.
func drawETANodes(t *rapid.T, limits Limits, job *solver.Job) {
	if rapid.IntRange(0, 2).Draw(t, "eta on several nodes") != 0 {
		return
	}
	smallest, largest := 1, limits.Nodes
	if job.Scaling.Speeds != nil {
		sizes := job.LegalSizes()
		if len(job.Scaling.Speeds) == len(job.AllowedNodes) {
			sizes = job.AllowedNodes
		}
		smallest, largest = sizes[0], sizes[len(sizes)-1]
	}
	if job.ETANodes = rapid.IntRange(smallest, largest).Draw(t, "eta nodes"); job.Demand() < time.Nanosecond.Seconds() {
		job.ETANodes = 0 // The demand would be less than a nanosecond.
	}
}

// drawRemainingETA returns a random ETA. Jobs complete immediately, in the horizon, at the end of a
// step, or not at all.
func drawRemainingETA(t *rapid.T, horizon solver.Horizon) time.Duration {
	const year = 365 * 24 * time.Hour
	anyMagnitude := rapid.Custom(func(t *rapid.T) time.Duration {
		eta := time.Millisecond
		for range rapid.IntRange(0, 11).Draw(t, "decades") {
			eta *= 10
		}
		return min(eta*time.Duration(rapid.IntRange(1, 9).Draw(t, "leading digit")), 10*year)
	})
	quarterSteps := rapid.Custom(func(t *rapid.T) time.Duration {
		return horizon.Step / 4 * time.Duration(rapid.IntRange(1, 40*horizon.Steps).Draw(t, "quarter steps"))
	})
	uneven := rapid.Custom(func(t *rapid.T) time.Duration {
		longest := int64(8 * time.Duration(horizon.Steps) * horizon.Step)
		return time.Duration(rapid.Int64Range(int64(time.Millisecond), longest).Draw(t, "nanoseconds"))
	})
	return rapid.OneOf(
		uneven,
		quarterSteps,
		anyMagnitude,
		rapid.SampledFrom([]time.Duration{time.Second, time.Millisecond, 10 * year}),
	).Draw(t, "remaining eta")
}

// drawSizes sets a random range and, for half of the jobs, explicit sizes, which may be outside of the range.
func drawSizes(t *rapid.T, limits Limits, job *solver.Job) {
	count := rapid.IntRange(1, limits.Sizes).Draw(t, "sizes")
	if rapid.Bool().Draw(t, "powers of two") {
		smallest := 1 << rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "smallest power")
		largest := min(smallest<<(count-1), 1<<30) // Twice as many would exceed the limit of a job.
		job.MinNodes = rapid.IntRange(smallest/2+1, smallest).Draw(t, "min nodes")
		job.MaxNodes = rapid.IntRange(largest, 2*largest-1).Draw(t, "max nodes")
		return
	}
	below := rapid.IntRange(0, 1).Draw(t, "sizes below the range")
	above := rapid.IntRange(0, 1).Draw(t, "sizes above the range")
	size := 0
	for range below + count + above {
		size += rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "distance to the next size")
		job.AllowedNodes = append(job.AllowedNodes, size)
	}
	job.MinNodes = job.AllowedNodes[below]
	job.MaxNodes = job.AllowedNodes[below+count-1]
}

// DrawMostSizes sets the maximum number of legal sizes of a job and a random speed for each. Half of
// the speed tables are increasing.
func DrawMostSizes(t *rapid.T, job *solver.Job) {
	job.AllowedNodes, job.Scaling, job.ETANodes = nil, solver.Scaling{}, 0
	nodes := 0
	for range solver.MaxSizes {
		nodes += rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "distance to the next size")
		job.AllowedNodes = append(job.AllowedNodes, nodes)
		job.Scaling.Speeds = append(job.Scaling.Speeds, rapid.Float64Range(0.1, 8).Draw(t, "speed"))
	}
	if rapid.Bool().Draw(t, "growing speeds") {
		slices.Sort(job.Scaling.Speeds)
	}
	job.MinNodes, job.MaxNodes = 1, nodes
}

// drawMostSizes is DrawMostSizes for a job of a snapshot. In most cases it also sets a pool and a
// remaining ETA for which every size matters: the job nearly completes at its largest size.
func drawMostSizes(t *rapid.T, s *solver.Snapshot, job *solver.Job) {
	DrawMostSizes(t, job)
	if rapid.IntRange(0, 3).Draw(t, "room for all sizes") > 0 {
		s.TotalNodes = job.MaxNodes + rapid.IntRange(0, 12).Draw(t, "more nodes")
		work := slices.Max(job.Scaling.Speeds) * s.Horizon.Step.Seconds()
		share := rapid.SampledFrom([]float64{0.5, 1, 1.9, 2, 3}).Draw(t, "steps to the end")
		job.RemainingETA, job.ResizeDelay, job.RestartTime = time.Duration(share*work*float64(time.Second)), 0, 0
	}
}

// drawScaling sets a random doubling efficiency or speed table. At an efficiency of 0.5 or less, more
// nodes bring no speed. Tables need not be concave or increasing.
func drawScaling(t *rapid.T, job *solver.Job) {
	if rapid.IntRange(0, 2).Draw(t, "speed table") != 0 {
		job.Scaling.DoublingEfficiency = rapid.OneOf(
			rapid.SampledFrom([]float64{0.8, 1, 0.5, 0.3}),
			rapid.Float64Range(0.05, 1),
		).Draw(t, "doubling efficiency")
		return
	}
	sizes := job.LegalSizes()
	if job.AllowedNodes != nil && rapid.Bool().Draw(t, "speeds of all allowed sizes") {
		sizes = job.AllowedNodes
	}
	speeds := rapid.SliceOfN(rapid.Float64Range(0.1, 8), len(sizes), len(sizes)).Draw(t, "speeds")
	if rapid.Bool().Draw(t, "growing speeds") {
		slices.Sort(speeds)
	}
	job.Scaling = solver.Scaling{Speeds: speeds}
}

// drawCurrentNodes returns 0, a legal size, or any other number of nodes.
func drawCurrentNodes(t *rapid.T, limits Limits, job *solver.Job) int {
	return rapid.OneOf(
		rapid.Just(0),
		rapid.SampledFrom(job.LegalSizes()),
		rapid.IntRange(0, limits.Nodes+4),
	).Draw(t, "current nodes")
}

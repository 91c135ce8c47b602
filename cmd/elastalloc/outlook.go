package main

import (
	"fmt"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/format"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// outlook is the time to the completion of each job of a snapshot: now with its current nodes, and then
// with the nodes of a decision.
type outlook struct{ now, then []ending }

// ending is the time to the completion of a job. A job without nodes does not complete.
type ending struct {
	in   time.Duration
	ends bool
}

// inCore converts a decided snapshot to the types of the core.
func inCore(s *elastallocv1.Snapshot) *solver.Snapshot {
	snapshot, err := apiconv.FromSnapshot(s, math.MaxInt)
	if err != nil {
		return new(solver.Snapshot) // Another version of the server decided it.
	}
	return snapshot.WithDefaults()
}

// newOutlook returns the outlook of a decision, without frozen jobs.
func newOutlook(snapshot *solver.Snapshot, allocations []*elastallocv1.Allocation) outlook {
	o := outlook{now: make([]ending, len(allocations)), then: make([]ending, len(allocations))}
	good, frozen := snapshot.Freeze(true)
	all := frozen.Snapshot().Jobs
	for i, n := 0, 0; i < len(allocations) && n < len(good.Jobs); i++ {
		job := &good.Jobs[n]
		if job.ID != all[i].ID {
			continue // It is frozen.
		}
		o.now[i] = endingOf(good, n, good.Current(n))
		o.then[i] = endingOf(good, n, good.Option(allocations[i].GetNodeType(), int(allocations[i].GetNodes())))
		n++
	}
	return o
}

// endingOf returns the time to the completion of job i with the nodes of an option. If its nodes
// change, the time includes its restart. If they increase, the job runs at its current speed during its
// resize_delay.
func endingOf(s *solver.Snapshot, i int, option solver.Option) ending {
	job, current := &s.Jobs[i], s.Current(i)
	left, before, speed := s.Demand(i), s.Speed(i, current), s.Speed(i, option)
	if speed <= 0 {
		return ending{}
	}
	seconds := left / speed
	moves := option.MovesFrom(current)
	grows := moves || option.Nodes > current.Nodes
	switch delay := job.ResizeDelay.Seconds(); {
	case option == current:
	case job.Restart(moves) > 0 && !job.NeverStarted():
		seconds += job.Restart(moves).Seconds()
	case grows && delay*before >= left:
		seconds = left / before
	case grows:
		seconds = delay + (left-delay*before)/speed
	}
	return ending{in: time.Duration(seconds * float64(time.Second)), ends: true}
}

// describe formats both times of job i, or one time if they are the same.
func (o *outlook) describe(i int) string {
	now, then := o.now[i].String(), o.then[i].String()
	if now == then {
		return now
	}
	return now + " → " + then
}

// String formats the time. It returns a dash if there is none.
func (e ending) String() string {
	if !e.ends {
		return "–"
	}
	return format.CoarseDuration(e.in)
}

// seconds formats the time in seconds. It returns "" if there is none.
func (e ending) seconds() string {
	if !e.ends {
		return ""
	}
	return seconds(e.in)
}

// soon is the time within which rows counts completions.
const soon = time.Hour

// rows returns a summary of all jobs, as names and texts.
func (o *outlook) rows() [][2]string {
	count := func(endings []ending, is func(ending) bool) (n int) {
		for _, e := range endings {
			if is(e) {
				n++
			}
		}
		return n
	}
	row := func(name string, is func(ending) bool) [2]string {
		return [2]string{name, fmt.Sprintf("%s (%d without changes)", format.Plural(count(o.then, is), "job"), count(o.now, is))}
	}
	return [][2]string{
		row("done in 1h", func(e ending) bool { return e.ends && e.in <= soon }),
		row("without nodes", func(e ending) bool { return !e.ends }),
	}
}

// horizonOf formats the length of the horizon, for example 25m.
func horizonOf(s *elastallocv1.Snapshot) string {
	horizon := solver.DefaultHorizon()
	if step := s.GetHorizon().GetStep(); step != nil {
		horizon.Step = step.AsDuration()
	}
	if h := s.GetHorizon(); h != nil && h.Steps != nil {
		horizon.Steps = int(h.GetSteps())
	}
	return format.ShortDuration(time.Duration(horizon.Steps) * horizon.Step)
}

package main

import (
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

func TestEndingOf(t *testing.T) {
	running := func(nodes int) solver.Job {
		job := solver.NewJob("a", 1000*time.Second)
		job.CurrentNodes, job.TrainingTime = nodes, time.Minute
		return job
	}
	with := func(job solver.Job, change func(*solver.Job)) *solver.Job {
		change(&job)
		return &job
	}
	restart := func(j *solver.Job) { j.RestartTime = 100 * time.Second }
	delay := func(j *solver.Job) { j.ResizeDelay = 100 * time.Second }
	same := func(*solver.Job) {}
	for name, test := range map[string]struct {
		job   *solver.Job
		nodes int
		want  time.Duration // 0 if the job does not complete
	}{
		"no nodes":                     {with(running(2), same), 0, 0},
		"unchanged":                    {with(running(2), restart), 2, 625 * time.Second},
		"more nodes":                   {with(running(1), same), 2, 625 * time.Second},
		"more nodes after a restart":   {with(running(1), restart), 2, 725 * time.Second},
		"fewer nodes after a restart":  {with(running(4), restart), 2, 725 * time.Second},
		"a resume after a restart":     {with(running(0), restart), 2, 725 * time.Second},
		"a start is not a restart":     {with(solver.NewJob("a", 1000*time.Second), restart), 2, 625 * time.Second},
		"more nodes after a delay":     {with(running(1), delay), 2, 662500 * time.Millisecond},
		"fewer nodes need no delay":    {with(running(4), delay), 2, 625 * time.Second},
		"completion in the delay":      {with(running(1), func(j *solver.Job) { j.ResizeDelay = 2 * time.Hour }), 2, 1000 * time.Second},
		"an ETA on four nodes":         {with(running(1), func(j *solver.Job) { j.ETANodes = 4 }), 1, 2560 * time.Second},
		"a start after the same delay": {with(solver.NewJob("a", 1000*time.Second), delay), 2, 725 * time.Second},
	} {
		got := endingOf(&solver.Snapshot{Jobs: []solver.Job{*test.job}}, 0, solver.NewOption(0, test.nodes))
		if got.ends != (test.want > 0) || (got.in-test.want).Abs() > time.Millisecond {
			t.Errorf("%s: the job completes in %v (%v); want %v", name, got.in, got.ends, test.want)
		}
	}
}

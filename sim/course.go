package sim

import (
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Course says how much work a real job did on the nodes that it really held, with the delays
// and restarts of a simulation.
type Course struct {
	job simulatedJob
	now time.Duration
}

// NewCourse returns the course of a job from its submission on.
func NewCourse(job *WorkloadJob, types []solver.NodeType) *Course {
	c := &Course{job: newSimulatedJob(job, &Config{NodeTypes: types}), now: job.Submit}
	c.job.arrive(c.now)
	return c
}

// Give changes the job's nodes at a time, in whole seconds and not before the last.
func (c *Course) Give(to NodesAt) {
	c.trainUntil(to.At)
	c.job.give(holding{to.Nodes, to.NodeType}, to.At)
}

// Served returns the work done by a time, as Give has it, in run time on one node.
func (c *Course) Served(at time.Duration) time.Duration {
	c.trainUntil(at)
	return c.job.served
}

// End returns when an amount of work is done if the nodes stay as they are, and false for never.
func (c *Course) End(work time.Duration) (time.Duration, bool) {
	if c.job.served >= work {
		return c.now, true
	}
	rest, now := c.job, c.now // a copy, so that the course goes on from where it is
	if rest.growsAt != never {
		if done := rest.served + time.Duration(int64((rest.growsAt-c.now)/time.Second)*int64(rest.perSecond)); done < work {
			now = rest.growsAt
			rest.train(now - c.now)
			rest.grown()
		}
	}
	end := rest.reaches(work, now)
	return end, end != never
}

func (c *Course) trainUntil(at time.Duration) {
	if c.job.growsAt <= at {
		c.job.train(c.job.growsAt - c.now)
		c.now = c.job.growsAt
		c.job.grown()
	}
	c.job.train(at - c.now)
	c.now = at
}

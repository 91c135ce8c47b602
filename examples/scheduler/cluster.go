package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	clusterNodes = 32 // GPUs: a node of elastalloc is a GPU here
	gpus         = 8  // of a machine
	restart      = 60 // seconds that a job needs to continue after a resize or on other machines
	grace        = 10 // seconds until released nodes are free
)

// job is a job of the toy cluster. Times are in seconds.
type job struct {
	id                           string
	submitted                    int
	requested                    int            // nodes that the user requested
	on                           map[string]int // nodes that it has now, by machine
	releasing                    map[string]int // nodes in addition that it is releasing, until the time released
	released                     int
	trained, restarting          int
	speed, efficiency, stepsLeft float64
	guess                        float64 // the user's estimate of the run time on the requested nodes, wrong by a factor of up to 2
	workDone                     float64 // in seconds on one node
}

// total returns the number of nodes on all machines.
func total(on map[string]int) (nodes int) {
	for _, n := range on {
		nodes += n
	}
	return nodes
}

// rate returns the steps per second on some nodes.
func (j *job) rate(nodes int) float64 {
	return j.speed * float64(nodes) * math.Pow(j.efficiency, math.Log2(float64(nodes)))
}

// cluster runs jobs in steps of one second.
type cluster struct {
	now, limit, number, resizes int
	jobs, completed             []*job
	random                      *rand.Rand
	total                       time.Duration // sum of the completion times
}

// tick lets a second pass.
func (c *cluster) tick() {
	c.now++
	for _, j := range slices.Concat(c.jobs, c.completed) {
		if c.now >= j.released {
			j.releasing = nil
		}
	}
	c.check()
	c.jobs = slices.DeleteFunc(c.jobs, func(j *job) bool {
		if len(j.on) == 0 {
			return false
		}
		j.trained++
		if j.restarting > 0 {
			j.restarting--
			return false
		}
		rate := j.rate(total(j.on))
		j.stepsLeft -= rate
		j.workDone += rate / j.rate(1)
		if j.stepsLeft > 0 {
			return false
		}
		j.leave(nil, c.now+grace)
		c.completed = append(c.completed, j)
		c.total += time.Duration(c.now-j.submitted) * time.Second
		return true
	})
	if c.number < c.limit && c.random.IntN(600) == 0 {
		c.number++
		j := &job{
			id: fmt.Sprintf("job-%03d", c.number), submitted: c.now, requested: 1 << c.random.IntN(4),
			speed: 5 + 15*c.random.Float64(), efficiency: 0.7 + 0.2*c.random.Float64(),
		}
		j.stepsLeft = j.speed * 14400 * c.random.ExpFloat64()
		j.guess = j.stepsLeft / j.rate(j.requested) * math.Exp2(2*c.random.Float64()-1)
		c.jobs = append(c.jobs, j)
	}
}

// find returns an active job.
func (c *cluster) find(id string) *job {
	return c.jobs[slices.IndexFunc(c.jobs, func(j *job) bool { return j.id == id })]
}

// resize changes the nodes of a job. It fails every twentieth time. Every fiftieth time the job does not
// release its nodes before it is killed.
func (c *cluster) resize(j *job, on map[string]int) error {
	c.resizes++
	if c.resizes%20 == 0 {
		return errors.New("the cluster is busy")
	}
	if j.trained > 0 {
		j.restarting = restart
	}
	j.leave(on, c.now+grace)
	if c.resizes%50 == 49 && len(j.releasing) > 0 {
		j.released = math.MaxInt
	}
	return nil
}

// kill sends SIGTERM to the processes of a job and, after a grace period, SIGKILL.
func (c *cluster) kill(j *job) { j.leave(nil, c.now+grace) }

// leave releases the nodes of a job that it does not keep, at a time.
func (j *job) leave(on map[string]int, released int) {
	releasing := make(map[string]int)
	for machine, nodes := range j.occupied() {
		if left := nodes - on[machine]; left > 0 {
			releasing[machine] = left
		}
	}
	j.on, j.releasing, j.released = on, releasing, released
}

// occupied returns the nodes that a job has or is releasing, by machine.
func (j *job) occupied() map[string]int {
	occupied := make(map[string]int)
	for _, nodes := range []map[string]int{j.on, j.releasing} {
		for machine, n := range nodes {
			occupied[machine] += n
		}
	}
	return occupied
}

// releasing returns the nodes that completed jobs are still releasing, by machine.
func (c *cluster) releasing() map[string]int {
	releasing := make(map[string]int)
	for _, j := range c.completed {
		for machine, nodes := range j.releasing {
			releasing[machine] += nodes
		}
	}
	return releasing
}

// check panics if a machine has more nodes in use and being released than it has.
func (c *cluster) check() {
	used := c.releasing()
	for _, j := range c.jobs {
		for machine, nodes := range j.occupied() {
			if used[machine] += nodes; used[machine] > gpus {
				panic(fmt.Sprintf("%s has %d nodes in use and being released", machine, used[machine]))
			}
		}
	}
}

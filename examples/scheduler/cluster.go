package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/client/placement"
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
	requested, nodes             int            // nodes that the user requested, and has now
	on                           map[string]int // nodes that it has now, by machine
	releasing, released          int            // nodes in addition that it is releasing, until the time released
	trained, restarting          int
	speed, efficiency, stepsLeft float64
	guess                        float64 // the user's estimate of the run time on the requested nodes, wrong by a factor of up to 2
	workDone                     float64 // in seconds on one node
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
	c.jobs = slices.DeleteFunc(c.jobs, func(j *job) bool {
		if c.now >= j.released {
			j.releasing = 0
		}
		if j.nodes == 0 {
			return false
		}
		j.trained++
		if j.restarting > 0 {
			j.restarting--
			return false
		}
		j.stepsLeft -= j.rate(j.nodes)
		j.workDone += j.rate(j.nodes) / j.rate(1)
		if j.stepsLeft > 0 {
			return false
		}
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

// resize changes the nodes of a job, and restarts the jobs that move to make place for it. It fails
// every twentieth time, and panics if the cluster or a machine has too few nodes.
func (c *cluster) resize(j *job, nodes int, placed placement.Placement) error {
	idle := clusterNodes
	for _, other := range c.jobs {
		idle -= other.nodes + other.releasing
	}
	if nodes-j.nodes > idle {
		panic(fmt.Sprintf("%s would get %d nodes with %d idle", j.id, nodes, idle))
	}
	if c.resizes++; c.resizes%20 == 0 {
		return errors.New("the cluster is busy")
	}
	if j.trained > 0 {
		j.restarting = restart
	}
	j.releasing, j.released, j.nodes = max(0, j.nodes-nodes), c.now+grace, nodes
	for _, id := range placed.Moved {
		c.find(id).restarting = restart
	}
	used := make(map[string]int)
	for _, other := range c.jobs {
		other.on = placed.On[other.id]
		for machine, units := range other.on {
			if used[machine] += units; used[machine] > gpus {
				panic(fmt.Sprintf("%s has %d nodes in use", machine, used[machine]))
			}
		}
	}
	return nil
}

package main

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

const (
	clusterNodes = 32
	restart      = 60 // seconds that a job needs to go on after its nodes changed
	grace        = 10 // seconds until the nodes that a job leaves are free
)

// job is a job of the toy cluster. Times are seconds.
type job struct {
	id                string
	submitted         int
	asked, nodes      int
	leaving, gone     int // leaving are nodes beside those, until the second gone
	trained, stopped  int // stopped is how long it still restarts
	stall             int // seconds at half of its work during which a hung job makes no step
	speed, efficiency float64
	stepsLeft, half   float64
	// reported is what the job reports: the steps of the last second.
	reported float64
	// guess is the user's, wrong by a factor of up to 2: seconds on what was asked.
	guess float64
}

// rate returns steps a second.
func (j *job) rate(nodes int) float64 {
	return j.speed * float64(nodes) * math.Pow(j.efficiency, float64(bits.Len(uint(nodes))-1))
}

// cluster runs jobs, second by second.
type cluster struct {
	now, coming, number int
	jobs                []*job
	random              *rand.Rand
	resizes             int
	ended, totalSeconds int
}

func newCluster(jobs int, seed uint64) *cluster {
	return &cluster{coming: jobs, random: rand.New(rand.NewPCG(seed, 0))}
}

// tick lets a second pass.
func (c *cluster) tick() {
	c.now++
	c.jobs = slices.DeleteFunc(c.jobs, func(j *job) bool {
		j.reported = 0
		if c.now >= j.gone {
			j.leaving = 0
		}
		if j.nodes == 0 {
			return false
		}
		j.trained++
		if j.stopped > 0 {
			j.stopped--
			return false
		}
		if j.stepsLeft < j.half && j.stall > 0 {
			j.stall--
			return false
		}
		j.reported = j.rate(j.nodes)
		j.stepsLeft -= j.reported
		if j.stepsLeft > 0 {
			return false
		}
		c.ended++
		c.totalSeconds += c.now - j.submitted
		return true
	})
	if c.number < c.coming && c.random.IntN(600) == 0 {
		c.number++
		c.jobs = append(c.jobs, c.newJob())
	}
}

func (c *cluster) newJob() *job {
	j := &job{
		id: fmt.Sprintf("job-%03d", c.number), submitted: c.now, asked: 1 << c.random.IntN(4),
		speed: 5 + 15*c.random.Float64(), efficiency: 0.7 + 0.2*c.random.Float64(),
	}
	j.stepsLeft = j.speed * 14400 * c.random.ExpFloat64()
	if j.half = j.stepsLeft / 2; c.number%8 == 0 {
		j.stall = 1800
	}
	j.guess = j.stepsLeft / j.rate(j.asked) * math.Exp2(2*c.random.Float64()-1)
	return j
}

// done reports whether no job is left or will come.
func (c *cluster) done() bool { return c.number == c.coming && len(c.jobs) == 0 }

func (c *cluster) meanMinutes() float64 {
	return float64(c.totalSeconds) / 60 / float64(max(1, c.ended))
}

// find returns a job, nil where it has ended.
func (c *cluster) find(id string) *job {
	i := slices.IndexFunc(c.jobs, func(j *job) bool { return j.id == id })
	if i < 0 {
		return nil
	}
	return c.jobs[i]
}

// resize gives a job other nodes; every twentieth time that fails. It panics if it is to give more
// nodes than are idle.
func (c *cluster) resize(j *job, nodes int) error {
	idle := clusterNodes
	for _, other := range c.jobs {
		idle -= other.nodes + other.leaving
	}
	if nodes-j.nodes > idle {
		panic(fmt.Sprintf("%s would get %d nodes with %d idle", j.id, nodes, idle))
	}
	if c.resizes++; c.resizes%20 == 0 {
		return errors.New("the cluster is busy")
	}
	if j.trained > 0 {
		j.stopped = restart
	}
	j.leaving, j.gone = max(0, j.nodes-nodes), c.now+grace
	j.nodes = nodes
	return nil
}

package client_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/placement"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// gpuCluster simulates machines with GPUs, on which processes start and stop slowly, steps fail, and released
// GPUs may be lost for a while.
type gpuCluster struct {
	intN  func(n int) int
	fail  func(format string, args ...any)
	now   time.Time
	plan  client.Plan
	sizes []int
	nodes []placement.Node // Free has all GPUs that work.
	jobs  []*gpuJob
	// submitted is the number of jobs that were submitted.
	submitted int
	releasing []*gpuRelease
	// quiet reports that nothing fails any more, and that jobs do not change.
	quiet bool
	// due reports whether a decision was due in the last call. decided is the last decision, and before was the
	// last one before the last call.
	due             bool
	decided, before *elastallocv1.AllocateResponse
	recording       bool
	calls           []planCall
	counts          map[string]int // of events
}

type gpuJob struct {
	id    string
	piece int
	on    map[string]int // in use
	to    map[string]int // after its step
	// seconds is the time until the step begins on the machines, 0 without a step.
	seconds int
}

// gpuRelease is the GPUs of a machine that a job has left.
type gpuRelease struct {
	job, node      string
	units, seconds int
	lost           bool // until the cluster is quiet
}

func newGPUCluster(seed uint64, fail func(string, ...any)) *gpuCluster {
	intN := rand.New(rand.NewPCG(seed, 7)).IntN
	c := &gpuCluster{
		intN: intN, fail: fail, now: time.Unix(1e9, 0), sizes: []int{1, 2, 4, 8, 16}, counts: make(map[string]int),
		plan: client.Plan{Patience: patience, Backoff: backoff, Cadence: 4 * interval, CoolDown: time.Duration(intN(2)) * interval, MaxShrink: 1},
	}
	for n := range 2 + intN(4) {
		node := placement.Node{ID: fmt.Sprint("m", n), Units: 8 >> (intN(4) / 3), Block: fmt.Sprint("b", n/3)}
		node.Free = max(0, node.Units-max(0, intN(8)-5))
		c.nodes = append(c.nodes, node)
	}
	return c
}

func total(units map[string]int) (total int32) {
	for _, n := range units {
		total += int32(n)
	}
	return total
}

// occupied returns the GPUs that a job uses or releases, by machine.
func (c *gpuCluster) occupied(id string) map[string]int {
	occupied := make(map[string]int)
	for _, j := range c.jobs {
		if j.id == id {
			maps.Copy(occupied, j.on)
		}
	}
	for _, r := range c.releasing {
		if r.job == id {
			occupied[r.node] += r.units
		}
	}
	return occupied
}

// observe returns the snapshot and the arguments of ObserveMachines.
func (c *gpuCluster) observe() (*elastallocv1.Snapshot, []placement.Node, []placement.Job) {
	s, nodes, jobs := &elastallocv1.Snapshot{}, slices.Clone(c.nodes), make([]placement.Job, 0, len(c.jobs))
	for _, j := range c.jobs {
		on := c.occupied(j.id)
		jobs = append(jobs, placement.Job{ID: j.id, Piece: j.piece, On: on})
		s.Jobs = append(s.Jobs, &elastallocv1.Job{Id: j.id, CurrentNodes: total(on)})
	}
	for _, r := range c.releasing {
		if c.find(r.job) == nil { // It completed.
			n := slices.IndexFunc(nodes, func(n placement.Node) bool { return n.ID == r.node })
			nodes[n].Free, nodes[n].Releasing = nodes[n].Free-r.units, nodes[n].Releasing+r.units
		}
	}
	for _, n := range nodes {
		s.TotalNodes += int32(n.Free)
	}
	return s, nodes, jobs
}

func (c *gpuCluster) find(id string) *gpuJob {
	for _, j := range c.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// leave releases the GPUs of a job that it does not keep.
func (c *gpuCluster) leave(j *gpuJob, to map[string]int) {
	for _, node := range slices.Sorted(maps.Keys(j.on)) {
		if left := j.on[node] - to[node]; left > 0 {
			lost := !c.quiet && c.intN(12) == 0
			c.releasing = append(c.releasing, &gpuRelease{j.id, node, left, 1 + c.intN(20), lost})
			if lost {
				c.counts["lost release"]++
			}
		}
	}
	j.on = to
}

// second lets a second pass, and checks that no machine has more GPUs in use and being released than work.
func (c *gpuCluster) second() (failed []string) {
	c.now = c.now.Add(time.Second)
	for _, r := range c.releasing {
		r.seconds--
	}
	c.releasing = slices.DeleteFunc(c.releasing, func(r *gpuRelease) bool { return r.seconds <= 0 && (!r.lost || c.quiet) })
	for _, j := range c.jobs {
		if j.seconds == 0 {
			continue
		}
		if j.seconds--; j.seconds > 0 {
			continue
		}
		if !c.quiet && c.intN(8) == 0 {
			failed = append(failed, j.id)
			c.counts["failed step"]++
			continue
		}
		c.leave(j, j.to)
	}
	used := make(map[string]int)
	for _, j := range c.jobs {
		for node, units := range j.on {
			used[node] += units
		}
	}
	for _, r := range c.releasing {
		used[r.node] += r.units
	}
	for _, n := range c.nodes {
		if used[n.ID] > n.Free {
			c.fail("%d GPUs are in use or being released on %+v", used[n.ID], n)
		}
	}
	return failed
}

// change submits and completes jobs at random.
func (c *gpuCluster) change() {
	switch c.intN(6) {
	case 0, 1:
		c.submitted++
		piece := c.sizes[c.intN(len(c.sizes))] * c.intN(2)
		c.jobs = append(c.jobs, &gpuJob{id: fmt.Sprintf("job-%d", c.submitted), piece: piece})
	case 2:
		if len(c.jobs) > 0 {
			i := c.intN(len(c.jobs))
			c.leave(c.jobs[i], nil)
			c.jobs = slices.Delete(c.jobs, i, i+1)
		}
	}
}

// decide returns a random decision that the machines have places for if all jobs of the request may move.
func (c *gpuCluster) decide(s *elastallocv1.Snapshot) *elastallocv1.AllocateResponse {
	response := &elastallocv1.AllocateResponse{}
	keep := func(j *elastallocv1.Job) int {
		if j.GetKeep() {
			return 0
		}
		return 1
	}
	var jobs []placement.Job
	for _, j := range slices.SortedStableFunc(slices.Values(s.GetJobs()), func(a, b *elastallocv1.Job) int { return keep(a) - keep(b) }) {
		units := int(j.GetCurrentNodes())
		if !j.GetKeep() && c.intN(2) == 0 {
			units = c.sizes[c.intN(len(c.sizes))]
		}
		job := placement.Job{ID: j.GetId(), Piece: c.find(j.GetId()).piece, Units: units}
		if _, err := placement.Place(c.nodes, c.sizes, append(jobs, job)); err != nil && !j.GetKeep() {
			job.Units = 0
		}
		jobs = append(jobs, job)
		response.Allocations = append(response.Allocations, &elastallocv1.Allocation{JobId: job.ID, Nodes: int32(job.Units)})
	}
	return response
}

// reconcile makes one call of Reconcile, as a scheduler does.
func (c *gpuCluster) reconcile() {
	var failed []string
	for range int(interval.Seconds()) {
		failed = append(failed, c.second()...)
	}
	if !c.quiet {
		c.change()
		failed = slices.DeleteFunc(failed, func(id string) bool { return c.find(id) == nil })
	}
	s, nodes, jobs := c.observe()
	if err := c.plan.ObserveMachines(nodes, c.sizes, jobs); err != nil {
		c.fail("%v", err)
	}
	c.plan.Observe(c.now, s)
	for _, id := range failed {
		c.plan.Failed(c.now, id)
	}
	overdue := c.plan.Overdue(c.now)
	c.counts["overdue step"] += len(overdue)
	var sent *elastallocv1.Snapshot
	c.due, c.before = false, c.decided
	steps, warnings, err := c.plan.Reconcile(c.now, s, func(s *elastallocv1.Snapshot) (client.Decision, error) {
		sent, c.due, c.decided = s, true, c.decide(s)
		return c.decided, nil
	})
	if err != nil {
		c.fail("%v", err)
	}
	for _, step := range steps {
		j := c.find(step.JobID)
		if j.seconds > 0 {
			c.fail("%+v begins while another step is in progress", step)
		}
		if j.to = c.plan.On(step.JobID); total(j.to) != step.Nodes {
			c.fail("%+v is placed on %v", step, j.to)
		}
		j.seconds = 1 + c.intN(25)
		c.counts["step"]++
	}
	if c.recording {
		c.record(planCall{
			Machines: goldenMachines(nodes, c.sizes, jobs), Observe: marshal(s),
			Failed: failed, Overdue: overdue, Due: c.due, Warnings: messages(warnings),
		}, sent, steps)
	}
}

// record records a call for the golden file.
func (c *gpuCluster) record(call planCall, sent *elastallocv1.Snapshot, steps []client.Step) {
	call.At = c.now.Sub(time.Unix(1e9, 0)).Seconds()
	if call.Due {
		call.Reason, call.Sent, call.Decide = c.plan.Reason, marshal(sent), marshal(c.decided)
	}
	for _, step := range steps {
		call.Next = append(call.Next, fmt.Sprint(step.JobID, " ", step.Nodes, " ", step.NodeType))
		on := c.plan.On(step.JobID)
		if on == nil {
			on = map[string]int{}
		}
		call.On = append(call.On, on)
	}
	c.calls = append(c.calls, call)
}

// planMachines are the arguments of ObserveMachines in the golden file.
type planMachines struct {
	Nodes []planNode      `json:"nodes"`
	Sizes []int           `json:"sizes"`
	Jobs  []planPlacedJob `json:"jobs"`
}

type planNode struct {
	ID        string `json:"id"`
	Block     string `json:"block"`
	Units     int    `json:"units"`
	Free      int    `json:"free"`
	Releasing int    `json:"releasing"`
}

type planPlacedJob struct {
	ID    string         `json:"id"`
	Units int            `json:"units"`
	Piece int            `json:"piece"`
	On    map[string]int `json:"on"`
}

func goldenMachines(nodes []placement.Node, sizes []int, jobs []placement.Job) *planMachines {
	m := &planMachines{Sizes: sizes}
	for _, node := range nodes {
		m.Nodes = append(m.Nodes, planNode(node))
	}
	for _, job := range jobs {
		m.Jobs = append(m.Jobs, planPlacedJob(job))
	}
	return m
}

// TestPlanOnMachines applies random decisions on machines, with slow, failing and lost releases: no machine ever
// has more GPUs in use and being released than work. Without faults, each decision is applied completely.
func TestPlanOnMachines(t *testing.T) {
	t.Parallel()
	counts := make(map[string]int)
	for seed := range uint64(testtier.Conformance.Examples(150, 1000)) {
		c := newGPUCluster(seed, func(format string, args ...any) { t.Fatalf("seed %d: "+format, append([]any{seed}, args...)...) })
		for range 20 {
			c.reconcile()
		}
		c.quiet = true
		applied := 0
		for range 100 {
			c.reconcile()
			if !c.due {
				continue
			}
			if applied++; applied <= 2 {
				continue
			}
			for _, a := range c.before.GetAllocations() {
				if on := c.find(a.GetJobId()).on; total(on) != a.GetNodes() || len(c.before.GetAllocations()) != len(c.jobs) {
					t.Fatalf("seed %d: %s has %v; the decision was %d", seed, a.GetJobId(), on, a.GetNodes())
				}
			}
		}
		if applied < 4 {
			t.Fatalf("seed %d: %d decisions without faults", seed, applied)
		}
		for event, n := range c.counts {
			counts[event] += n
		}
	}
	t.Log(counts)
	for _, event := range []string{"step", "failed step", "lost release", "overdue step"} {
		if counts[event] == 0 {
			t.Errorf("no %s", event)
		}
	}
}

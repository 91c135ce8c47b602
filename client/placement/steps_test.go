package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/client/placement"
)

func TestSteps(t *testing.T) {
	t.Parallel()
	type on = map[string]int
	full := func(units ...int) (nodes []placement.Node) {
		for n, units := range units {
			nodes = append(nodes, placement.Node{ID: fmt.Sprint("n", n), Units: units, Free: units})
		}
		return nodes
	}
	job := func(id string, units int, on on) placement.Job { return placement.Job{ID: id, Units: units, On: on} }
	for name, test := range map[string]struct {
		nodes []placement.Node
		jobs  []placement.Job
		want  []placement.Step
	}{
		"nothing changes": {full(8), []placement.Job{job("a", 4, on{"n0": 4}), job("b", 0, nil)}, nil},
		"a start waits for a move": {full(8, 4, 4, 4, 4), []placement.Job{
			job("a", 4, on{"n0": 8}), job("b", 4, on{"n1": 4}), job("c", 4, on{"n2": 4}), job("d", 8, nil),
		}, []placement.Step{
			{Job: "a", Do: placement.Move, On: on{"n3": 4}},
			{Job: "d", Do: placement.Start, On: on{"n0": 8}, After: []string{"a"}},
		}},
		"stops and shrinks first": {full(8, 8), []placement.Job{
			job("a", 8, on{"n0": 4}), job("b", 0, on{"n0": 4}), job("c", 4, on{"n1": 8}), job("d", 4, nil),
		}, []placement.Step{
			{Job: "b", Do: placement.Stop, On: on{}},
			{Job: "c", Do: placement.Shrink, On: on{"n1": 4}},
			{Job: "a", Do: placement.Grow, On: on{"n0": 8}, After: []string{"b"}},
			{Job: "d", Do: placement.Start, On: on{"n1": 4}, After: []string{"c"}},
		}},
		"a start after two jobs": {full(8),
			[]placement.Job{job("a", 0, on{"n0": 4}), job("b", 0, on{"n0": 2}), job("c", 8, nil)}, []placement.Step{
				{Job: "a", Do: placement.Stop, On: on{}},
				{Job: "b", Do: placement.Stop, On: on{}},
				{Job: "c", Do: placement.Start, On: on{"n0": 8}, After: []string{"a", "b"}},
			}},
		"moves in a cycle": {full(8, 4), []placement.Job{job("a", 8, on{"n0": 4, "n1": 4}), job("b", 4, on{"n0": 4})}, []placement.Step{
			{Job: "a", Do: placement.Stop, On: on{}},
			{Job: "b", Do: placement.Move, On: on{"n1": 4}, After: []string{"a"}},
			{Job: "a", Do: placement.Start, On: on{"n0": 8}, After: []string{"a", "b"}},
		}},
		"jobs that change places": {full(8, 4), []placement.Job{job("a", 8, on{"n1": 4}), job("b", 4, on{"n0": 8})}, []placement.Step{
			{Job: "a", Do: placement.Stop, On: on{}},
			{Job: "b", Do: placement.Move, On: on{"n1": 4}, After: []string{"a"}},
			{Job: "a", Do: placement.Start, On: on{"n0": 8}, After: []string{"a", "b"}},
		}},
		"free units before units that are being released": {
			[]placement.Node{{ID: "n0", Units: 8, Free: 4, Releasing: 4}, {ID: "n1", Units: 8, Free: 8}},
			[]placement.Job{job("a", 4, on{"n0": 4}), job("b", 4, nil)},
			[]placement.Step{{Job: "b", Do: placement.Start, On: on{"n1": 4}}},
		},
		"units that are being released": {
			[]placement.Node{{ID: "n0", Units: 8, Releasing: 8}, {ID: "n1", Units: 8, Free: 8}},
			[]placement.Job{job("a", 8, nil), job("b", 8, nil)},
			[]placement.Step{{Job: "b", Do: placement.Start, On: on{"n1": 8}}},
		},
		"a move to units that are being released": {
			[]placement.Node{{ID: "n0", Units: 8, Free: 8}, {ID: "n1", Units: 4, Releasing: 4}},
			[]placement.Job{job("a", 4, on{"n0": 4}), job("b", 8, nil)},
			nil,
		},
		"a machine that lost units": {
			[]placement.Node{{ID: "n0", Units: 8, Free: 4}, {ID: "n1", Units: 8, Free: 8}},
			[]placement.Job{job("a", 0, on{"n0": 4}), job("b", 0, on{"n0": 4}), job("c", 4, nil), job("d", 8, nil)},
			[]placement.Step{
				{Job: "a", Do: placement.Stop, On: on{}},
				{Job: "b", Do: placement.Stop, On: on{}},
				{Job: "c", Do: placement.Start, On: on{"n0": 4}, After: []string{"a", "b"}},
				{Job: "d", Do: placement.Start, On: on{"n1": 8}},
			},
		},
		"a machine that is gone": {full(8), []placement.Job{job("a", 4, on{"gone": 4})}, []placement.Step{
			{Job: "a", Do: placement.Move, On: on{"n0": 4}},
		}},
	} {
		steps, err := placement.Steps(test.nodes, []int{1, 2, 4, 8}, test.jobs)
		if diff := gocmp.Diff(test.want, steps); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	_, err := placement.Steps(full(8), nil, queued(16))
	if diff := gocmp.Diff(&placement.LimitError{Size: 1, Units: 8, Used: 16}, err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// slowCluster is a cluster on which units take time to be released, steps fail, and releases are lost.
type slowCluster struct {
	intN      func(n int) int
	sizes     []int
	nodes     []placement.Node // Free has all units that jobs may use.
	jobs      []placement.Job  // Units are those of the last decision.
	releasing []*releasing
	steps     []placement.Step // of the last decision, not yet begun
	begun     map[string]bool  // jobs whose steps of the last decision have begun
	executed  int
}

// releasing is the units of a machine that a job has left.
type releasing struct {
	job, node      string
	units, seconds int
	lost           bool // until an operator restarts the machine
}

// decide changes the units of random jobs, as far as all jobs can be placed together, and requests the steps.
func (c *slowCluster) decide(t *testing.T, change bool) {
	t.Helper()
	for j := range c.jobs {
		if change && c.intN(3) == 0 {
			c.jobs[j].Units = c.intN(2) * c.sizes[c.intN(len(c.sizes))] * (1 + c.intN(2))
		}
	}
	for {
		_, err := placement.Place(c.nodes, c.sizes, c.jobs)
		if err == nil {
			break
		}
		c.jobs[c.intN(len(c.jobs))].Units = 0
	}
	nodes := slices.Clone(c.nodes)
	for _, r := range c.releasing {
		n := slices.IndexFunc(nodes, func(n placement.Node) bool { return n.ID == r.node })
		nodes[n].Free, nodes[n].Releasing = nodes[n].Free-r.units, nodes[n].Releasing+r.units
	}
	var err error
	if c.steps, err = placement.Steps(nodes, c.sizes, c.jobs); err != nil {
		t.Fatal(err)
	}
	c.begun = make(map[string]bool)
}

// tick lets a second pass: steps begin whose jobs in After have released their units.
func (c *slowCluster) tick(t *testing.T, faults bool) {
	t.Helper()
	for _, r := range c.releasing {
		r.seconds--
	}
	c.releasing = slices.DeleteFunc(c.releasing, func(r *releasing) bool { return r.seconds <= 0 && (!r.lost || !faults) })
	held := func(id string) bool {
		return !c.begun[id] || slices.ContainsFunc(c.releasing, func(r *releasing) bool { return r.job == id })
	}
	var later []placement.Step
	for _, step := range c.steps {
		if slices.ContainsFunc(step.After, held) {
			later = append(later, step)
			continue
		}
		if faults && c.intN(6) == 0 {
			continue // It fails.
		}
		job := &c.jobs[slices.IndexFunc(c.jobs, func(j placement.Job) bool { return j.ID == step.Job })]
		if step.Do == placement.Start && len(job.On) > 0 {
			t.Fatalf("%+v starts a job that runs on %v", step, job.On)
		}
		for node, units := range job.On {
			if left := units - step.On[node]; left > 0 {
				c.releasing = append(c.releasing, &releasing{job.ID, node, left, 1 + c.intN(5), faults && c.intN(8) == 0})
			}
		}
		job.On, c.begun[job.ID] = step.On, true
		c.executed++
	}
	c.steps = later
}

// check fails if a machine has more units in use and being released than it has.
func (c *slowCluster) check(t *testing.T, run int) {
	t.Helper()
	used := make(map[string]int)
	for _, job := range c.jobs {
		for node, units := range job.On {
			used[node] += units
		}
	}
	for _, r := range c.releasing {
		used[r.node] += r.units
	}
	for _, node := range c.nodes {
		if used[node.ID] > node.Free {
			t.Fatalf("run %d: %d units are in use or being released on %+v", run, used[node.ID], node)
		}
	}
}

// TestStepsOnSlowCluster executes steps on clusters with slow, failing and lost releases: no machine ever has more
// units in use and being released than it has. Without faults all jobs reach their units.
func TestStepsOnSlowCluster(t *testing.T) {
	t.Parallel()
	executed := 0
	for run := range 1000 {
		intN := rand.New(rand.NewPCG(uint64(run), 1)).IntN
		of := randomProblem(append(chains, unnested...), intN)
		c := &slowCluster{intN: intN, sizes: of.Sizes, nodes: of.Nodes}
		for n := range c.nodes {
			c.nodes[n].Free, c.nodes[n].Releasing = c.nodes[n].Free+c.nodes[n].Releasing, 0
		}
		for j := range 1 + intN(8) {
			job := placement.Job{ID: fmt.Sprint("j", j)}
			if intN(4) == 0 {
				job.Piece = of.Sizes[intN(len(of.Sizes))]
			}
			c.jobs = append(c.jobs, job)
		}
		for second := range 100 {
			if second%20 == 0 || intN(8) == 0 {
				c.decide(t, true)
			}
			c.tick(t, true)
			c.check(t, run)
		}
		c.decide(t, true)
		for range 20 * len(c.jobs) {
			c.tick(t, false)
			c.check(t, run)
			if len(c.steps) == 0 && len(c.releasing) == 0 {
				c.decide(t, false)
			}
		}
		for _, job := range c.jobs {
			if units := sum(slices.Collect(maps.Values(job.On))); units != job.Units {
				t.Fatalf("run %d: %+v has %d units", run, job, units)
			}
		}
		executed += c.executed
	}
	t.Logf("%d steps", executed)
}

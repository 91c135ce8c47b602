package client

import (
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/client/placement"
)

// machines are the machines of a pool and those that jobs occupy.
type machines struct {
	nodes []placement.Node
	sizes []int
	jobs  map[string]placement.Job
}

// ObserveMachines updates the machines of a pool whose nodes are units of machines. From then on, Next
// returns a step only when its place is free: no machine ever has more units in use and being
// released than it has. On returns the place. A job that has to move is paused, and started on its new
// machines once they are free. Call it before each Observe or Reconcile, for a pool without node types.
//
// nodes and sizes are those of placement.Steps. Units that a completed job still releases are Releasing
// of their node, not Free. Jobs are those of the snapshot. Their On has the units that they occupy,
// including units that they are still releasing. Units is ignored.
//
// The error names every field that is not valid. Machines are then as before.
func (p *Plan) ObserveMachines(nodes []placement.Node, sizes []int, jobs []placement.Job) error {
	paused := slices.Clone(jobs)
	for i := range paused {
		paused[i].Units = 0
	}
	if _, err := placement.Place(nodes, sizes, paused); err != nil {
		return err
	}
	m := &machines{nodes: slices.Clone(nodes), sizes: slices.Clone(sizes), jobs: make(map[string]placement.Job, len(jobs))}
	for _, job := range jobs {
		m.jobs[job.ID] = job
	}
	p.machines = m
	return nil
}

// On returns the units of the last step of a job by machine, if ObserveMachines is called. It is empty
// after a pause.
func (p *Plan) On(jobID string) map[string]int {
	i := slices.IndexFunc(p.Jobs, func(j PlanJob) bool { return j.ID == jobID })
	if i < 0 {
		return nil
	}
	return p.Jobs[i].On
}

// places returns the next change of each job whose place is free, and of each job that leaves its place,
// by job id. It is nil without machines.
func (p *Plan) places(now time.Time) map[string]placement.Step {
	if p.machines == nil {
		return nil
	}
	places := make(map[string]placement.Step)
	for _, step := range p.placementSteps(now) {
		if _, stops := places[step.Job]; !stops && (len(step.After) == 0 || step.Do == placement.Move) {
			places[step.Job] = step
		}
	}
	return places
}

// placementSteps returns the steps that carry the decision out on the machines, as far as they have
// places for it. Jobs that are left alone keep theirs.
func (p *Plan) placementSteps(now time.Time) []placement.Step {
	nodes, sizes := p.unreserved(now), p.machines.sizes
	var jobs []placement.Job
	var grow []int // jobs that take units, and how many they have after that
	grown := make(map[int]int)
	for _, j := range p.Jobs {
		if p.leftAlone(j, now) {
			continue
		}
		job := p.machines.jobs[j.ID]
		if job.ID, job.Units = j.ID, int(j.Target); j.Target > j.Size {
			grow, grown[len(jobs)] = append(grow, len(jobs)), job.Units
			job.Units = int(j.Size)
		}
		jobs = append(jobs, job)
	}
	try := func(grow ...int) ([]placement.Step, bool) {
		tried := slices.Clone(jobs)
		for _, i := range grow {
			tried[i].Units = grown[i]
		}
		steps, err := placement.Steps(nodes, sizes, tried)
		return steps, err == nil
	}
	if steps, ok := try(grow...); ok {
		return steps
	}
	steps, ok := try()
	if !ok { // Machines lost units: only pauses need no place.
		for _, job := range jobs {
			if job.Units == 0 && len(job.On) > 0 {
				steps = append(steps, placement.Step{Job: job.ID, Do: placement.Stop})
			}
		}
		return steps
	}
	var placed []int
	for _, i := range grow {
		if more, ok := try(append(placed, i)...); ok {
			steps, placed = more, append(placed, i)
		}
	}
	return steps
}

// leftAlone reports whether a job keeps its machines now: it is observed with keep, its step is in progress, or
// it is in back-off or cools down.
func (p *Plan) leftAlone(j PlanJob, now time.Time) bool {
	return j.excluded || !j.Begun.IsZero() || p.backingOff(j, now) || !j.pending() && now.Before(j.Until)
}

// unreserved returns the nodes without the units of the jobs that are left alone. Units that the step of
// a job releases are being released, unless the step is overdue.
func (p *Plan) unreserved(now time.Time) []placement.Node {
	nodes := slices.Clone(p.machines.nodes)
	for _, j := range p.Jobs {
		if !p.leftAlone(j, now) {
			continue
		}
		on := p.machines.jobs[j.ID].On
		for n := range nodes {
			node := &nodes[n]
			occupied, kept := on[node.ID], on[node.ID]
			if !j.Begun.IsZero() {
				kept = j.On[node.ID]
			}
			node.Free -= max(occupied, kept)
			if !p.overdue(j, now) {
				node.Releasing += max(0, occupied-kept)
			}
		}
	}
	for n := range nodes { // A machine may have lost units.
		if node := &nodes[n]; node.Free < 0 {
			node.Free, node.Releasing = 0, max(0, node.Releasing+node.Free)
		}
	}
	return nodes
}

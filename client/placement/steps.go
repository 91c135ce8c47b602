package placement

import (
	"maps"
	"slices"
)

// Action is what a step does with a job.
type Action string

// The actions. A stop and a shrink release units and take none. A start and a grow take units and
// release none. A move does both: the job gets other machines, and possibly another number of units.
const (
	Stop   Action = "stop"
	Shrink Action = "shrink"
	Move   Action = "move"
	Start  Action = "start"
	Grow   Action = "grow"
)

// Step is a change of the machines of one job.
type Step struct {
	Job string
	Do  Action
	// On has the units that the job occupies after the step, by node id; empty after a stop.
	On map[string]int
	// After has the ids of the jobs that must have released the units that they leave before the step
	// begins, in the order of the jobs.
	After []string
}

// Steps places jobs as Place does and returns the steps that carry the placement out, in an order in
// which they can be executed. A step may begin once the jobs in After have released their units. Then no
// machine ever has more units in use and being released than it has, however long each release takes,
// and whichever steps fail. Stops and shrinks come first. If moves wait for each other, one of these
// jobs stops, and starts after itself.
//
// Steps that wait for Node.Releasing, directly or through other steps, are left out: call Steps again
// once these units are free. A job that changed its machines and still releases old units counts with
// its new machines in On; the old units count as Releasing.
//
// The errors are those of Place.
func Steps(nodes []Node, sizes []int, jobs []Job) ([]Step, error) {
	placed, err := target(nodes, sizes, jobs)
	if err != nil {
		return nil, err
	}
	return newSequence(nodes, jobs, placed).order(), nil
}

// target returns a placement of jobs. It uses no units that are being released if no job has to move
// then.
func target(nodes []Node, sizes []int, jobs []Job) (Placement, error) {
	free := slices.Clone(nodes)
	for n := range free {
		free[n].Releasing = 0
	}
	if placed, err := Place(free, sizes, jobs); err == nil && len(placed.Moved) == 0 {
		return placed, nil
	}
	return Place(nodes, sizes, jobs)
}

// sequence puts the changes of jobs in an order.
type sequence struct {
	nodes    []Node
	jobs     []Job
	machines map[string]*machine
	now, to  []map[string]int // units of each job by node id, before and after its next step
	stopped  []bool           // whether each job stops to break a cycle
	steps    []Step
}

// machine has the units of a machine that jobs leave.
type machine struct {
	free      int       // units that may be taken; below 0 if the machine lost units
	left      []release // units that are not part of free yet
	releasing int
	after     []int // jobs that have to release units of free before all of it is free
	late      bool  // whether free has units that Steps cannot wait for
}

// release is the units of a machine that a job leaves with its step.
type release struct {
	job, units int
	late       bool // whether the step is left out
}

func newSequence(nodes []Node, jobs []Job, placed Placement) *sequence {
	s := &sequence{nodes: nodes, jobs: jobs, machines: make(map[string]*machine, len(nodes)), stopped: make([]bool, len(jobs))}
	for _, node := range nodes {
		s.machines[node.ID] = &machine{free: node.Free, releasing: node.Releasing}
	}
	for _, job := range jobs {
		now := maps.Clone(job.On)
		maps.DeleteFunc(now, func(_ string, units int) bool { return units == 0 })
		for id, units := range now {
			if m := s.machines[id]; m != nil {
				m.free -= units
			}
		}
		s.now, s.to = append(s.now, now), append(s.to, placed.On[job.ID])
	}
	return s
}

// order returns the steps.
func (s *sequence) order() []Step {
	var waiting []int // Jobs that take units.
	for j := range s.jobs {
		switch {
		case maps.Equal(s.now[j], s.to[j]):
		case s.takes(j):
			waiting = append(waiting, j)
		default:
			s.do(j)
		}
	}
	for len(waiting) > 0 {
		var blocked []int
		for _, j := range waiting {
			if s.lacks(j) == nil {
				s.do(j)
			} else {
				blocked = append(blocked, j)
			}
		}
		if len(blocked) == len(waiting) {
			s.stop(s.inCycle(blocked))
		}
		waiting = blocked
	}
	return s.steps
}

// takes reports whether a job takes units of any machine.
func (s *sequence) takes(j int) bool {
	for id, units := range s.to[j] {
		if units > s.now[j][id] {
			return true
		}
	}
	return false
}

// action returns what the next step of a job does.
func (s *sequence) action(j int) Action {
	leaves := false
	for id, units := range s.now[j] {
		leaves = leaves || units > s.to[j][id]
	}
	switch takes := s.takes(j); {
	case len(s.to[j]) == 0:
		return Stop
	case len(s.now[j]) == 0:
		return Start
	case takes && leaves:
		return Move
	case takes:
		return Grow
	default:
		return Shrink
	}
}

// lacks returns the first machine that has too few units for a job, whatever jobs have left, or nil.
func (s *sequence) lacks(j int) *Node {
	for n := range s.nodes {
		id := s.nodes[n].ID
		m := s.machines[id]
		units := m.free + m.releasing
		for _, r := range m.left {
			units += r.units
		}
		if need := s.to[j][id] - s.now[j][id]; need > max(0, units) {
			return &s.nodes[n]
		}
	}
	return nil
}

// inCycle returns one of several jobs that wait for each other to leave machines.
func (s *sequence) inCycle(blocked []int) int {
	j := blocked[0]
	for range blocked { // Each of them lacks units that another one occupies, because all of them fit in the end.
		id := s.lacks(j).ID
		j = blocked[slices.IndexFunc(blocked, func(k int) bool { return s.now[k][id] > s.to[k][id] })]
	}
	return j
}

// stop stops a job that is to start again.
func (s *sequence) stop(j int) {
	to := s.to[j]
	s.to[j] = map[string]int{}
	s.do(j)
	s.now[j], s.to[j], s.stopped[j] = nil, to, true
}

// do adds the next step of a job, which lacks no units, unless it waits for units that are being released.
func (s *sequence) do(j int) {
	after, late := make(map[int]bool), false
	if s.stopped[j] {
		after[j] = true
	}
	for id, units := range s.to[j] {
		if need := units - s.now[j][id]; need > 0 {
			m := s.machines[id]
			m.take(need)
			for _, k := range m.after {
				after[k] = true
			}
			late = late || m.late
		}
	}
	for id, units := range s.now[j] {
		if m := s.machines[id]; m != nil && units > s.to[j][id] {
			m.left = append(m.left, release{j, units - s.to[j][id], late})
		}
	}
	if late {
		return
	}
	step := Step{Job: s.jobs[j].ID, Do: s.action(j), On: s.to[j]}
	for _, k := range slices.Sorted(maps.Keys(after)) {
		step.After = append(step.After, s.jobs[k].ID)
	}
	s.steps = append(s.steps, step)
}

// take takes units: those that are free, then those that jobs leave, in the order of their steps, and
// those that are being released last.
func (m *machine) take(units int) {
	for m.free < units && len(m.left) > 0 {
		r := m.left[0]
		m.free, m.left = m.free+r.units, m.left[1:]
		m.after, m.late = append(m.after, r.job), m.late || r.late
	}
	if m.free < units {
		m.free, m.releasing, m.late = m.free+m.releasing, 0, true
	}
	m.free -= units
}

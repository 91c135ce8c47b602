package audit

import (
	"slices"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// standing is what the admission makes of a job.
type standing int

const (
	out    standing = iota // it gets no nodes
	free                   // it may hold none
	forced                 // it holds nodes
)

// admit returns the standing of every job.
func (s *snapshot) admit() []standing {
	r := &room{snapshot: s, idle: slices.Clone(s.nodes), left: make([]int, len(s.groups)), closed: make([]bool, len(s.groups))}
	for g := range s.groups {
		r.left[g] = s.groups[g].limit
	}
	standings := make([]standing, len(s.jobs))
	runs := func(j *job) bool { return j.current > 0 }
	queues := func(j *job) bool { return j.current == 0 }
	mayWait := func(*job) bool { return true }
	switch s.admission {
	case elastallocv1.Admission_ADMISSION_PREEMPTIVE:
	case elastallocv1.Admission_ADMISSION_START_FIRST:
		r.give(standings, func(j *job) bool { return !j.trained }, true)
	case elastallocv1.Admission_ADMISSION_OPTIMIZED:
		r.give(standings, runs, false)
		mayWait = queues
	default:
		_ = r.give(standings, runs, false) && r.give(standings, queues, false)
		mayWait = func(*job) bool { return false }
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		if standings[i] == out && !j.held && mayWait(j) {
			standings[i] = free
		}
	}
	return standings
}

// room is what is left of the pool and of the limits while minimums are given out.
type room struct {
	*snapshot
	idle   []int // of each type
	left   []int
	closed []bool // to jobs behind one that waits for the limit
}

// place returns where there is room for the smallest size of a job: on nodes of the type it
// holds, else of the one with most idle ones; nil where there is none.
func (r *room) place(j *job, nodes []int) (best *kind) {
	for n := range j.kinds {
		k := &j.kinds[n]
		switch {
		case k.sizes[0] > nodes[k.on]:
		case j.current > 0 && k.on == j.on:
			return k
		case best == nil || nodes[k.on] > nodes[best.on]:
			best = k
		}
	}
	return best
}

// give gives the jobs of a kind their smallest sizes in order, and reports whether the pool
// had room for all that it can hold: it ends at the first that does not fit. One that the
// limit of a group leaves no room for is passed over; unless jobs may pass others, it closes
// that group to those behind it.
func (r *room) give(standings []standing, kind func(*job) bool, passing bool) bool {
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.held || !kind(j) || r.place(j, r.nodes) == nil {
			continue
		}
		need, groups := j.kinds[0].sizes[0], slices.Collect(r.above(j.group))
		if slices.ContainsFunc(groups, func(g int) bool { return r.closed[g] }) {
			continue
		}
		if slices.ContainsFunc(groups, func(g int) bool { return need > r.left[g] }) {
			if !passing && !slices.ContainsFunc(groups, func(g int) bool { return need > r.groups[g].limit }) {
				for _, g := range groups {
					r.closed[g] = r.closed[g] || r.left[g] < need
				}
			}
			continue
		}
		on := r.place(j, r.idle)
		if on == nil {
			return false
		}
		r.idle[on.on] -= on.sizes[0]
		for _, g := range groups {
			r.left[g] -= need // noLimit, too, is never used up
		}
		standings[i] = forced
	}
	return true
}

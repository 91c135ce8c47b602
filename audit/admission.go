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
	r := &room{snapshot: s, idle: slices.Clone(s.nodes)}
	for _, of := range s.groups {
		r.left = append(r.left, of.limit)
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
	idle []int // of each type
	left []int // of each limit
}

// closed is what is left of a group to jobs behind one that waits for its limit.
const closed = -1

// place returns where there is room for the smallest size of a job: on nodes of the type it
// holds, else of the one with most idle ones; nil where there is none.
func (r *room) place(j *job, nodes []int) (best *kind) {
	for _, k := range j.kinds {
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

// give gives some of the jobs their smallest sizes in order, and reports whether the pool had
// room for all that it can hold: it ends at the first that does not fit. One that the limit of a
// group leaves no room for is passed over; unless jobs may pass others, it closes that group to
// those behind it.
func (r *room) give(standings []standing, some func(j *job) bool, passing bool) bool {
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.held || !some(j) || r.place(j, r.nodes) == nil {
			continue
		}
		need, left, limit := j.kinds[0].sizes[0], noLimit, noLimit
		for g := range r.above(j.group) {
			left, limit = min(left, r.left[g]), min(limit, r.groups[g].limit)
		}
		on := r.place(j, r.idle)
		switch {
		case left == closed || need > limit:
		case need > left:
			for g := range r.above(j.group) {
				if !passing && r.left[g] < need {
					r.left[g] = closed
				}
			}
		case on == nil:
			return false
		default:
			r.idle[on.on] -= on.sizes[0]
			for g := range r.above(j.group) {
				r.left[g] -= need // noLimit, too, is never used up
			}
			standings[i] = forced
		}
	}
	return true
}

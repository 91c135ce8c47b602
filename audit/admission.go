package audit

import elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"

// standing is what the admission makes of a job.
type standing int

const (
	out    standing = iota // it gets no nodes
	free                   // it may hold none
	forced                 // it holds nodes
)

// room is what is left of the pool and of the limits while minimums are given out.
type room struct {
	s      *snapshot
	pool   int
	left   []int
	closed []bool
}

// least returns the smallest of a number of each group from g up, noLimit without groups.
func (s *snapshot) least(g int, of func(int) int) int {
	least := noLimit
	for ; g >= 0; g = s.groups[g].parent {
		least = min(least, of(g))
	}
	return least
}

// admit returns the standing of every job. Jobs are given their smallest sizes in order: the
// pool ends it at the first that does not fit; one that the limit of a group leaves no room
// for has, in a queue, those behind it that the same limit counts wait too.
func (s *snapshot) admit() []standing {
	r := &room{s: s, pool: s.pool, left: make([]int, len(s.groups)), closed: make([]bool, len(s.groups))}
	for g := range s.groups {
		r.left[g] = s.groups[g].limit
	}
	standings := make([]standing, len(s.jobs))
	holds := func(j *job) bool { return j.current > 0 }
	queued := func(j *job) bool { return j.current == 0 }
	mayWait := queued
	switch s.admission {
	case elastallocv1.Admission_ADMISSION_PREEMPTIVE:
		mayWait = func(*job) bool { return true }
	case elastallocv1.Admission_ADMISSION_START_FIRST:
		r.give(standings, func(j *job) bool { return !j.trained }, true)
		mayWait = func(*job) bool { return true }
	case elastallocv1.Admission_ADMISSION_OPTIMIZED:
		r.give(standings, holds, false)
	default:
		if r.give(standings, holds, false) {
			r.give(standings, queued, false)
		}
		mayWait = func(*job) bool { return false }
	}
	for i := range s.jobs {
		if standings[i] == out && !s.jobs[i].held && mayWait(&s.jobs[i]) {
			standings[i] = free
		}
	}
	return standings
}

// give gives the jobs of a kind their smallest sizes and reports whether the pool had room
// for all that it can hold. Passing jobs may pass others of their group.
func (r *room) give(standings []standing, kind func(*job) bool, passing bool) bool {
	for i := range r.s.jobs {
		j := &r.s.jobs[i]
		if j.held || !kind(j) || j.sizes[0] > r.s.pool {
			continue
		}
		need, closed := j.sizes[0], false
		for g := j.group; g >= 0; g = r.s.groups[g].parent {
			closed = closed || r.closed[g]
		}
		if closed {
			continue
		}
		if need > r.s.least(j.group, func(g int) int { return r.left[g] }) {
			if !passing && need <= r.s.least(j.group, func(g int) int { return r.s.groups[g].limit }) {
				for g := j.group; g >= 0; g = r.s.groups[g].parent {
					r.closed[g] = r.closed[g] || r.left[g] < need
				}
			}
			continue
		}
		if need > r.pool {
			return false
		}
		r.pool -= need
		for g := j.group; g >= 0; g = r.s.groups[g].parent {
			if r.left[g] != noLimit {
				r.left[g] -= need
			}
		}
		standings[i] = forced
	}
	return true
}

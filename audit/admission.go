package audit

import (
	"cmp"
	"math"
	"slices"
	"sort"

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
func (s *snapshot) admit() ([]standing, error) {
	r := &room{snapshot: s, idle: slices.Clone(s.nodes), standings: make([]standing, len(s.jobs))}
	for _, of := range s.groups {
		r.left = append(r.left, of.limit)
	}
	r.closed = make([]bool, len(r.left))
	runs := func(j *job) bool { return j.current > 0 }
	queues := func(j *job) bool { return j.current == 0 }
	mayWait := func(*job) bool { return false }
	switch s.admission {
	case elastallocv1.Admission_ADMISSION_PREEMPTIVE:
		mayWait = func(*job) bool { return true }
	case elastallocv1.Admission_ADMISSION_START_FIRST:
		mayWait = func(*job) bool { return true }
		r.give(func(j *job) bool { return j.loads }, running)
		r.rank()
		r.give(func(j *job) bool { return !j.trained }, starting)
	default: // Where a running job loses its nodes, no queued one is let in.
		switch all := r.give(runs, running); {
		case all && s.admission == elastallocv1.Admission_ADMISSION_OPTIMIZED:
			mayWait = func(j *job) bool { return queues(j) && !r.shut(j) }
		case all:
			r.give(queues, queueing)
		}
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		if r.standings[i] == out && !j.held && mayWait(j) {
			r.standings[i] = free
		}
	}
	if r.tie {
		return nil, leaveOpen("which running jobs have no more left than a new one hangs on rounding")
	}
	return r.standings, nil
}

// room is what is left of the pool and of the limits while minimums are given out.
type room struct {
	*snapshot
	standings []standing
	idle      []int      // of each type
	left      []int      // of each limit
	closed    []bool     // groups in which a job waits for the limit
	runners   [][]runner // by type, those with least to go first
	tie       bool       // the standing of a job hangs on rounding
}

// runner is a running job that has not been given its smallest size.
type runner struct {
	toGo  float64
	nodes int // its smallest size, and those of all before it
}

// turn is whose turn it is.
type turn int

const (
	running turn = iota
	queueing
	starting
)

// shut reports whether a job queues behind one that waits for the limit of a group.
func (r *room) shut(j *job) (shut bool) {
	for g := range r.above(j.group) {
		shut = shut || r.closed[g]
	}
	return shut
}

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

// give gives some of the jobs their smallest sizes in order, and reports whether the pool has room for all that
// it can hold. A running job that does not fit is passed over. So is a job that a limit leaves no room
// for, which closes its group to those that queue behind it. The first of the others that the pool has no room
// for ends it.
func (r *room) give(some func(j *job) bool, whose turn) (all bool) {
	all = true
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.held || !some(j) || r.place(j, r.nodes) == nil {
			continue
		}
		need, left, limit := j.kinds[0].sizes[0], noLimit, noLimit // With groups there is one kind.
		for g := range r.above(j.group) {
			left, limit = min(left, r.left[g]), min(limit, r.groups[g].limit)
		}
		on := r.place(j, r.idle)
		switch {
		case need > limit || whose == queueing && r.shut(j):
		case need > left:
			for g := range r.above(j.group) {
				r.closed[g] = r.closed[g] || r.left[g] < need
			}
		case on == nil && whose != running:
			return false
		case on == nil:
			all = false
		case whose == starting && !r.fitsBeside(j, on):
		default:
			r.idle[on.on] -= on.sizes[0]
			for g := range r.above(j.group) {
				r.left[g] -= need // noLimit, too, is never used up
			}
			r.standings[i] = forced
		}
	}
	return all
}

// toGo returns what a job has left on a mean node, and some work beside that, by its weight.
func (r *room) toGo(j *job, beside float64) float64 {
	return (j.demand + beside) / r.rho(r.roomy(j)) / j.weight
}

// rank ranks the running jobs that have not been given their smallest sizes.
func (r *room) rank() {
	r.runners = make([][]runner, len(r.nodes))
	for i := range r.jobs {
		j := &r.jobs[i]
		if on := r.place(j, r.nodes); j.current > 0 && !j.held && r.standings[i] == out && on != nil {
			r.runners[on.on] = append(r.runners[on.on], runner{r.toGo(j, 0), on.sizes[0]})
		}
	}
	for _, of := range r.runners {
		slices.SortFunc(of, func(a, b runner) int { return cmp.Compare(a.toGo, b.toGo) })
		for n := range of[min(1, len(of)):] {
			of[n+1].nodes += of[n].nodes
		}
	}
}

// fitsBeside reports whether the smallest size of a new job fits, in all types that the job trains on,
// beside those of the running jobs that have no more to go than it has with the restart that it would cost.
func (r *room) fitsBeside(j *job, on *kind) bool {
	own := r.toGo(j, j.restart*on.speed(float64(on.sizes[0])))
	below := math.Nextafter(own, math.Inf(-1))
	atMost, atLeast := -on.sizes[0], -on.sizes[0] // that is left, however toGo is rounded
	for _, k := range r.roomy(j) {
		upTo := func(toGo float64) (nodes int) {
			of := r.runners[k.on]
			if n := sort.Search(len(of), func(n int) bool { return of[n].toGo > toGo }); n > 0 {
				nodes = of[n-1].nodes
			}
			return nodes
		}
		atMost += r.idle[k.on] - upTo(min(below, own*(1-nearTie))) - (upTo(own) - upTo(below))
		atLeast += r.idle[k.on] - upTo(own*(1+nearTie))
	}
	r.tie = r.tie || atMost >= 0 && atLeast < 0
	return atLeast >= 0
}

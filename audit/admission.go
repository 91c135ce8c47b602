package audit

import (
	"cmp"
	"math"
	"slices"
	"sort"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// admissionClass is what the admission decides about a job.
type admissionClass int

const (
	excluded admissionClass = iota // the job gets no nodes
	optional                       // the job may get nodes
	required                       // the job gets nodes
)

// admit returns the admission class of every job.
func (s *snapshot) admit() ([]admissionClass, error) {
	a := &admitter{snapshot: s, idle: s.available(), classes: make([]admissionClass, len(s.jobs))}
	for _, g := range s.groups {
		a.groupIdle = append(a.groupIdle, g.limit)
		a.typeIdle = append(a.typeIdle, make([]int, len(s.nodes)))
	}
	for g, idle := range a.typeIdle {
		for on := range idle {
			idle[on] = s.groups[g].limitOn(on)
		}
	}
	a.blocked = make([]bool, len(a.groupIdle))
	a.minimums = make([]*profile, len(s.jobs))
	isRunning := func(j *job) bool { return j.currentNodes > 0 }
	isQueued := func(j *job) bool { return j.currentNodes == 0 }
	isOptional := func(*job) bool { return false }
	switch s.admission {
	case elastallocv1.Admission_ADMISSION_PREEMPTIVE:
		isOptional = func(*job) bool { return true }
		a.requireTogether(s.usedBudget)
	case elastallocv1.Admission_ADMISSION_START_FIRST:
		isOptional = func(*job) bool { return true }
		a.requireTogether(s.usedBudget)
		a.requireInOrder(func(j *job) bool { return j.loading }, runningPhase)
		a.rankRunning()
		a.requireInOrder(func(j *job) bool { return !j.trained }, startPhase)
	default: // If a running job loses its nodes, no queued job is admitted.
		switch allFit := a.requireInOrder(isRunning, runningPhase); {
		case allFit && s.admission == elastallocv1.Admission_ADMISSION_OPTIMIZED:
			isOptional = func(j *job) bool { return isQueued(j) && !a.isBlocked(j) }
		case allFit:
			a.requireInOrder(isQueued, queuePhase)
		}
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		if a.classes[i] == excluded && !j.frozen && isOptional(j) {
			a.classes[i] = optional
		}
		if s.usedBudget(j) {
			p := a.minimums[i]
			j.cannotGrow, j.mayMove = true, p != nil && p.nodeType != j.nodeType
		}
	}
	if a.tie {
		return nil, leaveOpen("rounding decides which running jobs have at most as much remaining work as a new job")
	}
	return a.classes, nil
}

// admitter assigns smallest sizes to jobs, which are then required.
type admitter struct {
	*snapshot
	classes   []admissionClass
	minimums  []*profile     // where the smallest size of each required job was assigned
	idle      []int          // nodes of each type, and of each size limit, that are not assigned
	groupIdle []int          // nodes of each group's limit that are not assigned
	typeIdle  [][]int        // the same of each group's limit per type
	blocked   []bool         // groups in which a job waits because of the limit
	running   [][]runningJob // by type and size limit, in the order of remaining work
	tie       bool           // rounding decides the class of a job
}

// runningJob is a running job without an assigned size.
type runningJob struct {
	remaining float64 // as returned by weightedRemaining
	nodes     int     // sum of the smallest sizes of this job and of the jobs before it
}

// phase is the part of the admission that considers a job.
type phase int

const (
	runningPhase phase = iota
	queuePhase
	startPhase
)

// isBlocked reports whether a job before it waits because of the limit of one of its groups.
func (a *admitter) isBlocked(j *job) (blocked bool) {
	for g := range a.withAncestors(j.group) {
		blocked = blocked || a.blocked[g]
	}
	return blocked
}

// bestFit returns the profile on which the smallest size of a job fits in the given nodes of each
// type and size limit: on the type of its current nodes if possible, otherwise on the type with the
// most nodes. It returns nil if it fits nowhere, and for a frozen job, whose sizes may be missing.
func (a *admitter) bestFit(j *job, nodes []int) (best *profile) {
	return a.bestOf(j, nodes, func(*profile) bool { return true })
}

// bestOf is bestFit among the profiles for which allowed is true.
func (a *admitter) bestOf(j *job, nodes []int, allowed func(*profile) bool) (best *profile) {
	if j.frozen {
		return nil
	}
	for _, p := range j.profiles {
		switch {
		case !allowed(p):
		case slices.ContainsFunc(a.countedIn(j, p.nodeType, p.sizes[0]), func(c count) bool { return c.nodes > nodes[c.at] }):
		case j.currentNodes > 0 && p.nodeType == j.nodeType:
			return p
		case best == nil || nodes[p.nodeType] > nodes[best.nodeType]:
			best = p
		}
	}
	return best
}

// groupLeft returns the nodes of a type that the limits of a job's groups leave: of all types, and of this type.
func (a *admitter) groupLeft(j *job, on int) (all, ofType int) {
	all, ofType = unlimited, unlimited
	for g := range a.withAncestors(j.group) {
		all, ofType = min(all, a.groupIdle[g]), min(ofType, a.typeIdle[g][on])
	}
	return all, ofType
}

// neededInGroup returns the smallest size of a job on the types on which it fits an empty pool and the limits of its
// groups per type, unlimited if there is none, and the smallest limit of its groups.
func (a *admitter) neededInGroup(j *job, empty []int) (need, limit int) {
	need, limit = unlimited, unlimited
	for _, p := range j.profiles {
		allowed := a.bestOf(j, empty, func(other *profile) bool { return other == p }) != nil
		for g := range a.withAncestors(j.group) {
			allowed, limit = allowed && p.sizes[0] <= a.groups[g].limitOn(p.nodeType), min(limit, a.groups[g].limit)
		}
		if allowed {
			need = min(need, p.sizes[0])
		}
	}
	return need, limit
}

// requireInOrder assigns smallest sizes to the jobs for which filter is true, in order, and reports
// whether the pool and the size limits have room for all jobs that fit an empty pool. A running job that does not fit is
// skipped. A job that does not fit the limit of a group is skipped, too, and blocks the group in
// the queue, unless only a limit per type stops it. Otherwise the first job that does not fit ends the phase.
func (a *admitter) requireInOrder(filter func(j *job) bool, p phase) (allFit bool) {
	allFit = true
	empty := a.available()
	for i := range a.jobs {
		j := &a.jobs[i]
		if j.frozen || a.classes[i] == required || !filter(j) || a.bestFit(j, empty) == nil {
			continue
		}
		need, limit := a.neededInGroup(j, empty)
		if need == unlimited {
			continue // The limits per type leave no type for it.
		}
		left, _ := a.groupLeft(j, 0)
		fit := a.bestOf(j, a.idle, func(p *profile) bool {
			all, ofType := a.groupLeft(j, p.nodeType)
			return p.sizes[0] <= min(all, ofType)
		})
		// Without a group, the job would fit on these types.
		onRows, needOnRows := false, unlimited
		for _, on := range j.profiles {
			if a.bestOf(j, a.idle, func(other *profile) bool { return other == on }) != nil {
				onRows = true
				if all, ofType := a.groupLeft(j, on.nodeType); on.sizes[0] > all && on.sizes[0] <= ofType {
					needOnRows = min(needOnRows, on.sizes[0])
				}
			}
		}
		if need <= left {
			need = needOnRows
		}
		switch {
		case p == queuePhase && a.isBlocked(j):
		case fit == nil && (need > left && need != unlimited || onRows):
			for g := range a.withAncestors(j.group) {
				a.blocked[g] = a.blocked[g] || need != unlimited && need <= limit && a.groupIdle[g] < need
			}
		case fit == nil && p != runningPhase:
			return false
		case fit == nil:
			allFit = false
		case p == startPhase && !a.fitsWithRunning(j, fit):
		default:
			a.require(i, fit)
		}
	}
	return allFit
}

// require assigns a job its smallest size on a profile.
func (a *admitter) require(i int, on *profile) {
	j := &a.jobs[i]
	for _, c := range a.countedIn(j, on.nodeType, on.sizes[0]) {
		a.idle[c.at] -= c.nodes
	}
	for g := range a.withAncestors(j.group) {
		a.groupIdle[g] -= on.sizes[0] // A limit that is not set is never used up.
		a.typeIdle[g][on.nodeType] -= on.sizes[0]
	}
	a.classes[i], a.minimums[i] = required, on
}

// requireTogether assigns smallest sizes to all jobs for which filter is true and that fit an empty pool, or
// to none of them if these do not fit together. No job has been assigned a size before.
func (a *admitter) requireTogether(filter func(j *job) bool) {
	idle, groupIdle, empty := slices.Clone(a.idle), slices.Clone(a.groupIdle), a.available()
	var typeIdle [][]int
	for _, idle := range a.typeIdle {
		typeIdle = append(typeIdle, slices.Clone(idle))
	}
	for i := range a.jobs {
		if fit := a.bestFit(&a.jobs[i], empty); fit != nil && filter(&a.jobs[i]) {
			a.require(i, fit)
		}
	}
	exceeded := func(idle []int) bool { return len(idle) > 0 && slices.Min(idle) < 0 }
	if exceeded(a.idle) || exceeded(a.groupIdle) || slices.ContainsFunc(a.typeIdle, exceeded) {
		a.idle, a.groupIdle, a.typeIdle = idle, groupIdle, typeIdle
		clear(a.classes)
		clear(a.minimums)
	}
}

// weightedRemaining returns the remaining work of a job on a mean node, plus some additional work,
// divided by the weight of the job.
func (a *admitter) weightedRemaining(j *job, additional float64) float64 {
	return (j.remainingWork + additional) / a.meanSpeed(a.fittingProfiles(j)) / j.weight
}

// rankRunning sorts the running jobs without an assigned size by their remaining work.
func (a *admitter) rankRunning() {
	empty := a.available()
	a.running = make([][]runningJob, len(empty))
	for i := range a.jobs {
		j := &a.jobs[i]
		if fit := a.bestFit(j, empty); j.currentNodes > 0 && !j.frozen && a.classes[i] == excluded && fit != nil {
			for _, c := range a.countedIn(j, fit.nodeType, fit.sizes[0]) {
				a.running[c.at] = append(a.running[c.at], runningJob{a.weightedRemaining(j, 0), c.nodes})
			}
		}
	}
	for _, jobs := range a.running {
		slices.SortFunc(jobs, func(x, y runningJob) int { return cmp.Compare(x.remaining, y.remaining) })
		for n := range jobs[min(1, len(jobs)):] {
			jobs[n+1].nodes += jobs[n].nodes
		}
	}
}

// fitsWithRunning reports whether the smallest size of a new job fits in addition to the smallest
// sizes of the running jobs that have at most as much remaining work as the new job has, including
// the restart that it would cause. In the pool, it counts the nodes of all types that the new job can
// train on. Size limits count on the node type of the profile on which the new job would start.
func (a *admitter) fitsWithRunning(j *job, fit *profile) bool {
	own := a.weightedRemaining(j, j.restartTime*fit.speed(float64(fit.sizes[0])))
	below := math.Nextafter(own, math.Inf(-1))
	// left returns bounds of the nodes left of a type or size limit, for any rounding of own.
	left := func(n int) (upper, lower int) {
		nodesUpTo := func(remaining float64) (nodes int) {
			jobs := a.running[n]
			if n := sort.Search(len(jobs), func(n int) bool { return jobs[n].remaining > remaining }); n > 0 {
				nodes = jobs[n-1].nodes
			}
			return nodes
		}
		upper = a.idle[n] - nodesUpTo(min(below, own*(1-nearTie))) - (nodesUpTo(own) - nodesUpTo(below))
		return upper, a.idle[n] - nodesUpTo(own*(1+nearTie))
	}
	upper, lower := -fit.sizes[0], -fit.sizes[0]
	for _, p := range a.fittingProfiles(j) {
		u, l := left(p.nodeType)
		upper, lower = upper+u, lower+l
	}
	for _, c := range a.countedIn(j, fit.nodeType, fit.sizes[0])[1:] {
		u, l := left(c.at)
		upper, lower = min(upper, u-c.nodes), min(lower, l-c.nodes)
	}
	a.tie = a.tie || upper >= 0 && lower < 0
	return lower >= 0
}

package elastalloc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/solver"
)

// randomWorld is a cluster in which jobs arrive for a period, the pool changes, estimates and restart times are
// wrong, and jobs fail. The world and its checks share no code with the decision core. Times are in
// seconds, and work is the run time on one reference node.
type randomWorld struct {
	*rand.Rand
	allocator *elastalloc.Allocator
	greedy    bool
	options   solver.Options
	horizon   solver.Horizon
	// interval is the time between two calls of Allocate. onEvent is the call if a job arrives, completes or fails.
	interval float64
	onEvent  eventAction
	// countsLoading states that training_time includes the time in which a job loads. forgets states that
	// snapshots have no recent_restarts.
	countsLoading, forgets bool

	types  []worldType
	groups []worldGroup
	limits []worldLimit
	// period is the time until which jobs arrive and the pool changes. changes and failures are in order.
	period   float64
	changes  []poolChange
	failures []float64
	// lossBefore is the time before the completion of a job at which a node is lost until the job has completed, 0 if none is.
	lossBefore float64
	arrivals   []*worldJob // in the order of submission

	now       float64
	decisions int
	jobs      []*worldJob // submitted and not complete
	left      []*worldJob // complete
}

// worldType is a node type, or all nodes if they are identical.
type worldType struct {
	id          string
	base, nodes int // outside of pool changes, and now
	speed       float64
}

// worldGroup is a group. A limit of -1 means none, and a parent of -1 that the group has none.
type worldGroup struct {
	id            string
	parent        int
	limit, quota  int
	hasNoChildren bool
}

// worldLimit is the size limit of a type whose machines have the given number of nodes.
type worldLimit struct {
	nodeType, size, machine int
	least                   int // so that each job fits
}

type poolChange struct {
	at              float64
	nodeType, nodes int
}

// place is an allocation. The type is 0 without nodes.
type place struct{ nodes, nodeType int }

// worldJob is a job and its state.
type worldJob struct {
	id         string
	submit     float64
	group      int
	sizes      []int
	factors    []float64 // speed of one node by type, 0 if the job cannot run there
	ownFactors bool
	efficiency float64
	weight     float64
	piece      int     // 0 means the whole allocation
	work       float64 // that the job needs
	estimate   float64 // of work
	restart    float64 // true restart time
	reported   float64 // restart_time, 0 if it is not set

	place
	started    bool
	loads      float64 // time left until the job is loaded
	done, lost float64 // work
	onNodes    float64
	trained    float64
	waited     float64
	end        float64
	restarts   []float64 // values of onNodes
	forced     []float64 // values of onNodes at forced changes
	crashes    int       // restarts on the same nodes
	nextToIdle float64   // time of the first of the last decisions that left fitting nodes idle next to the job, -1 without any
	history    []string
}

// speed returns the speed of the job relative to one reference node.
func (j *worldJob) speed(at place) float64 {
	if at.nodes == 0 {
		return 0
	}
	return j.factors[at.nodeType] * float64(at.nodes) * math.Pow(j.efficiency, math.Log2(float64(at.nodes)))
}

// lowestSpeed returns the lowest speed on all legal allocations.
func (j *worldJob) lowestSpeed() float64 {
	lowest := math.Inf(1)
	for g, factor := range j.factors {
		for _, k := range j.sizes {
			if factor > 0 {
				lowest = min(lowest, j.speed(place{k, g}))
			}
		}
	}
	return lowest
}

// counted returns how many nodes of an allocation of the job count in a size limit.
func (j *worldJob) counted(limit worldLimit, at place) int {
	if limit.nodeType != at.nodeType {
		return 0
	}
	return solvertest.CountedNodes(&solver.Job{PieceNodes: j.piece}, at.nodes, limit.size)
}

// occupancy has the nodes in use by everything that bounds them.
type occupancy struct{ types, groups, limits []int }

func (w *randomWorld) emptyPool() *occupancy {
	return &occupancy{make([]int, len(w.types)), make([]int, len(w.groups)), make([]int, len(w.limits))}
}

// add adds an allocation of a job, or removes it if sign is -1.
func (w *randomWorld) add(o *occupancy, j *worldJob, at place, sign int) {
	o.types[at.nodeType] += sign * at.nodes
	for g := j.group; len(w.groups) > 0 && g >= 0; g = w.groups[g].parent {
		o.groups[g] += sign * at.nodes
	}
	for n, limit := range w.limits {
		o.limits[n] += sign * j.counted(limit, at)
	}
}

// exceeded names what has too few nodes, "" if all allocations fit.
func (w *randomWorld) exceeded(o *occupancy) string {
	for g, t := range w.types {
		if o.types[g] > t.nodes {
			return fmt.Sprintf("%d of %d nodes of type %q", o.types[g], t.nodes, t.id)
		}
	}
	for g, group := range w.groups {
		if group.limit >= 0 && o.groups[g] > group.limit {
			return fmt.Sprintf("%d nodes in group %s with a limit of %d", o.groups[g], group.id, group.limit)
		}
	}
	for n, limit := range w.limits {
		if nodes := w.sizeLimit(limit); o.limits[n] > nodes {
			return fmt.Sprintf("%d nodes in a limit of %d for size %d", o.limits[n], nodes, limit.size)
		}
	}
	return ""
}

// sizeLimit returns the current number of nodes of a size limit.
func (w *randomWorld) sizeLimit(limit worldLimit) int {
	machines := w.types[limit.nodeType].nodes / limit.machine
	return max(limit.least, machines*(limit.machine/limit.size*limit.size))
}

// fits reports whether an allocation of the job fits in addition to others.
func (w *randomWorld) fits(o *occupancy, j *worldJob, at place) bool {
	if j.factors[at.nodeType] == 0 {
		return false
	}
	w.add(o, j, at, 1)
	defer w.add(o, j, at, -1)
	return w.exceeded(o) == ""
}

// startsOn reports whether the smallest size of the job fits on any type in addition to others.
func (w *randomWorld) startsOn(o *occupancy, j *worldJob) bool {
	for g := range w.types {
		if w.fits(o, j, place{j.sizes[0], g}) {
			return true
		}
	}
	return false
}

func (w *randomWorld) snapshot() *solver.Snapshot {
	s := &solver.Snapshot{Horizon: w.horizon}
	for _, t := range w.types {
		s.TotalNodes += t.nodes
		if t.id != "" {
			s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: t.id, Nodes: t.nodes, Speed: t.speed})
		}
	}
	for _, g := range w.groups {
		group := solver.Group{ID: g.id, Quota: g.quota}
		if g.parent >= 0 {
			group.ParentID = w.groups[g.parent].id
		}
		if g.limit >= 0 {
			group.Limit = new(g.limit)
		}
		s.Groups = append(s.Groups, group)
	}
	for _, limit := range w.limits {
		s.SizeLimits = append(s.SizeLimits, solver.SizeLimit{Size: limit.size, Nodes: w.sizeLimit(limit), NodeType: w.types[limit.nodeType].id})
	}
	for _, j := range w.jobs {
		s.Jobs = append(s.Jobs, w.request(j))
	}
	return s
}

// request returns the job as a scheduler with client.Plan and client.SetEstimate sends it. The estimate of a job
// that takes longer runs out.
func (w *randomWorld) request(j *worldJob) solver.Job {
	job := solver.Job{
		ID: j.id, MinNodes: j.sizes[0], MaxNodes: j.sizes[len(j.sizes)-1], AllowedNodes: j.sizes, PieceNodes: j.piece,
		Scaling: solver.Scaling{DoublingEfficiency: j.efficiency}, Weight: &j.weight, RestartTime: duration(j.reported),
		RemainingETA: duration(max(1, j.estimate-j.done)), WorkDone: duration(j.done), Overrun: j.done / j.estimate,
		CurrentNodes: j.nodes, TrainingTime: duration(j.trained), WaitingTime: duration(j.waited),
	}
	if w.countsLoading {
		job.TrainingTime = duration(j.onNodes)
	}
	if len(w.groups) > 0 {
		job.GroupID = w.groups[j.group].id
	}
	if j.nodes > 0 {
		job.CurrentNodeType = w.types[j.nodeType].id
	}
	if j.ownFactors {
		for g, factor := range j.factors {
			if factor > 0 {
				job.Speeds = append(job.Speeds, solver.TypeSpeed{NodeType: w.types[g].id, Factor: factor})
			}
		}
	}
	if !w.forgets {
		for n := len(j.restarts) - 1; n >= max(0, len(j.restarts)-restartBudget); n-- {
			job.RecentRestarts = append(job.RecentRestarts, duration(j.onNodes-j.restarts[n]))
		}
	}
	return job
}

// usedBudget reports whether a decision must not restart the job by choice.
func (w *randomWorld) usedBudget(j *worldJob) bool {
	n := len(j.restarts)
	return !w.forgets && j.nodes > 0 && j.reported > 0 && n >= restartBudget && slices.Contains(j.sizes, j.nodes) &&
		duration(j.onNodes-j.restarts[n-restartBudget]) < budgetWindow*duration(j.reported)
}

// decide makes a decision, checks it and applies it.
func (w *randomWorld) decide(ctx context.Context, action eventAction) error {
	if len(w.jobs) == 0 || action == callNothing {
		return nil
	}
	w.decisions++
	s := w.snapshot()
	var d solver.Decision
	var err error
	if action == callFillIdle {
		d, err = w.allocator.FillIdle(ctx, s)
	} else {
		d, err = w.allocator.Allocate(ctx, s, w.options)
	}
	if err != nil {
		return err
	}
	to := make([]place, len(w.jobs))
	for n, a := range d.Allocations {
		if a.JobID != w.jobs[n].id {
			return fmt.Errorf("allocation %d is of job %s; must be of %s", n, a.JobID, w.jobs[n].id)
		}
		to[n].nodes = a.Nodes
		if a.Nodes > 0 {
			to[n].nodeType = slices.IndexFunc(w.types, func(t worldType) bool { return t.id == a.NodeType })
		}
	}
	if err := w.check(to, action); err != nil {
		return err
	}
	for n, j := range w.jobs {
		w.apply(j, to[n])
	}
	return nil
}

// apply gives a job its nodes.
func (w *randomWorld) apply(j *worldJob, to place) {
	if to == j.place {
		return
	}
	if j.started && to.nodes > 0 {
		j.restarts = append(j.restarts, j.onNodes)
	}
	j.started, j.loads = true, j.restart
	j.place = to
	j.history = append(j.history, fmt.Sprintf("%.0f: %d %s", w.now, to.nodes, w.types[to.nodeType].id))
}

// check returns an error if a decision violates one of the rules that apply to each decision by itself.
func (w *randomWorld) check(to []place, action eventAction) error {
	all := w.emptyPool()
	for n, j := range w.jobs {
		if to[n].nodes > 0 && (to[n].nodeType < 0 || j.factors[to[n].nodeType] == 0) {
			return fmt.Errorf("job %s gets nodes of a type on which it cannot run", j.id)
		}
		unchanged := action == callFillIdle && to[n] == j.place
		if to[n].nodes > 0 && !unchanged && !slices.Contains(j.sizes, to[n].nodes) {
			return fmt.Errorf("job %s gets %d nodes; must be one of %v", j.id, to[n].nodes, j.sizes)
		}
		w.add(all, j, to[n], 1)
	}
	if what := w.exceeded(all); what != "" {
		return fmt.Errorf("the jobs get %s", what)
	}
	if err := w.checkBudgets(to, action); err != nil {
		return err
	}
	if action == callAllocate {
		return errors.Join(w.checkIdle(all, to), w.checkAlone(to), w.checkPrecious(all, to))
	}
	return nil
}

// checkBudgets returns an error if a job that has used its restart budget grows, or if it is moved or paused although
// the jobs like it fit.
func (w *randomWorld) checkBudgets(to []place, action eventAction) error {
	all := w.options.Admission == solver.AdmissionFIFO || w.options.Admission == solver.AdmissionOptimized
	empty, needed := w.emptyPool(), w.emptyPool()
	for _, j := range w.jobs {
		least := place{j.sizes[0], j.nodeType}
		switch {
		case j.nodes == 0:
		case action == callFillIdle && w.usedBudget(j):
			w.add(needed, j, j.place, 1)
		case action == callFillIdle:
		case (all || w.usedBudget(j)) && w.startsOn(empty, j):
			w.add(needed, j, least, 1)
		}
	}
	fit := w.exceeded(needed) == ""
	for n, j := range w.jobs {
		if !w.usedBudget(j) {
			continue
		}
		stays := to[n].nodes > 0 && to[n].nodeType == j.nodeType
		switch {
		case stays && to[n].nodes > j.nodes:
			return fmt.Errorf("job %s has used its restart budget and grows from %d to %d nodes", j.id, j.nodes, to[n].nodes)
		case stays:
		case fit && w.fits(empty, j, place{j.sizes[0], j.nodeType}):
			return fmt.Errorf("job %s has used its restart budget and changes from %v to %v", j.id, j.place, to[n])
		default:
			j.forced = append(j.forced, j.onNodes)
		}
	}
	return nil
}

// checkIdle returns an error if a job waits at two decisions in a row that leave fitting nodes idle. With FIFO and
// greedy, only the first queued job that fits the pool does not have to wait.
func (w *randomWorld) checkIdle(all *occupancy, to []place) error {
	first, empty := true, w.emptyPool()
	for n, j := range w.jobs {
		waits := to[n].nodes == 0 && (first || !w.greedy && w.options.Admission != solver.AdmissionFIFO) && w.startsOn(all, j)
		if j.nodes == 0 && w.startsOn(empty, j) {
			first = false
		}
		if !waits {
			j.nextToIdle = -1
			continue
		}
		if j.nextToIdle < 0 {
			j.nextToIdle = w.now
		}
		if w.now > j.nextToIdle {
			return fmt.Errorf("job %s has waited for %.0f s next to idle nodes that fit", j.id, w.now-j.nextToIdle)
		}
	}
	return nil
}

// checkPrecious returns an error if jobs occupy more nodes than the pool has, and a job with much time left is paused while
// another with less than 1/500 of its weight and at most a minute left keeps running on nodes that the job could have kept.
func (w *randomWorld) checkPrecious(all *occupancy, to []place) error {
	inOrder := w.options.Admission == solver.AdmissionFIFO || w.options.Admission == solver.AdmissionOptimized
	before := w.emptyPool()
	for _, j := range w.jobs {
		w.add(before, j, j.place, 1)
	}
	if w.greedy || inOrder || w.options.Objective != solver.ObjectiveTotalTime || w.exceeded(before) == "" {
		return nil
	}
	left := func(j *worldJob) float64 { return (j.estimate - j.done) / j.speed(j.place) }
	for n, paused := range w.jobs {
		if paused.nodes == 0 || to[n].nodes > 0 || left(paused) < 600 {
			continue
		}
		for other, runs := range w.jobs {
			if runs.nodes == 0 || to[other].nodes == 0 || runs.weight*500 > paused.weight || w.usedBudget(runs) ||
				runs.reported != paused.reported || left(runs) <= 0 || left(runs) > 60 {
				continue
			}
			w.add(all, runs, to[other], -1)
			could := w.fits(all, paused, paused.place)
			w.add(all, runs, to[other], 1)
			if could {
				return fmt.Errorf("job %s of weight %g and %.0f s left is paused for job %s of weight %g and %.0f s left",
					paused.id, paused.weight, left(paused), runs.id, runs.weight, left(runs))
			}
		}
	}
	return nil
}

// checkAlone returns an error if the only job does not grow into idle nodes, although it has kept its nodes for long
// and has much work left by its estimate. A job past its estimate has a quarter of its work left. The growth pays
// if it saves the restart and resize_price, which is at most that of a job that could use all nodes.
func (w *randomWorld) checkAlone(to []place) error {
	j := w.jobs[0]
	if len(w.jobs) > 1 || w.greedy || w.options.Objective != solver.ObjectiveTotalTime || j.nodes == 0 || to[0] != j.place || w.usedBudget(j) {
		return nil
	}
	kept := j.trained
	if w.countsLoading {
		kept = j.onNodes
	}
	if n := len(j.restarts); n > 0 && !w.forgets {
		kept = j.onNodes - j.restarts[n-1]
	}
	left := j.estimate - j.done
	if left <= 0 {
		left = j.done / 4
	}
	total, empty := 0, w.emptyPool()
	for _, t := range w.types {
		total += t.nodes
	}
	for _, k := range j.sizes {
		larger := place{k, j.nodeType}
		gain := j.speed(larger) - j.speed(j.place)
		if k <= j.nodes || !w.fits(empty, j, larger) {
			continue
		}
		price := resizePrice * j.speed(place{max(total, k), j.nodeType})
		if enough := 2 * (j.reported*j.speed(larger) + price) / gain; kept > enough && left/j.speed(larger) > enough {
			return fmt.Errorf("job %s is alone, has kept %d nodes for %.0f s and has %.0f s left on %d nodes, and does not grow",
				j.id, j.nodes, kept, left/j.speed(larger), k)
		}
	}
	return nil
}

// resizePrice is the default of total_time.resize_price.
const resizePrice = 75

// checkRestarts returns an error if a job has more restarts within a window than the theorem of
// docs/proofs/sequences.md allows, or has had nodes for longer than it allows.
func (w *randomWorld) checkRestarts(j *worldJob) error {
	if w.forgets || j.reported == 0 {
		return nil
	}
	window, sizes := budgetWindow*j.reported, len(j.sizes)
	for n, from := range j.restarts {
		within := func(times []float64) (count int) {
			for _, at := range times {
				if at >= from && at < from+window-1e-6 {
					count++
				}
			}
			return count
		}
		if got, most := within(j.restarts[n:]), restartBudget+sizes-1+sizes*within(j.forced); got > most {
			return fmt.Errorf("job %s restarts %d times within %.0f s with nodes; must be at most %d", j.id, got, window, most)
		}
	}
	if j.reported < j.restart {
		return nil
	}
	// After a crash on the same nodes, the job loads again.
	lost := float64(restartBudget+sizes+sizes*len(j.forced))*j.reported + float64(j.crashes)*j.restart
	share := float64(restartBudget+sizes-1) / budgetWindow
	if most := ((j.work+j.lost)/j.lowestSpeed() + lost) / (1 - share); j.onNodes > most+1 {
		return fmt.Errorf("job %s has had nodes for %.0f s; must be at most %.0f s", j.id, j.onNodes, most)
	}
	return nil
}

// fail lets a random running job fail: it restarts on its nodes, loses its nodes, or ends.
func (w *randomWorld) fail() {
	var running []*worldJob
	for _, j := range w.jobs {
		if j.nodes > 0 {
			running = append(running, j)
		}
	}
	if len(running) == 0 {
		return
	}
	j := running[w.IntN(len(running))]
	lost := min(j.done, w.Float64()*w.interval) // since the last checkpoint
	j.done, j.lost = j.done-lost, j.lost+lost
	switch w.IntN(4) {
	case 0:
		j.end = w.now
		w.left = append(w.left, j)
		w.jobs = slices.DeleteFunc(w.jobs, func(other *worldJob) bool { return other == j })
		j.history = append(j.history, fmt.Sprintf("%.0f: ends", w.now))
	case 1:
		j.forced = append(j.forced, j.onNodes)
		j.place = place{}
		j.history = append(j.history, fmt.Sprintf("%.0f: loses its nodes", w.now))
	default:
		j.crashes++
		j.loads = j.restart
		j.history = append(j.history, fmt.Sprintf("%.0f: crashes", w.now))
	}
}

// advance lets time pass and reports whether a job completes.
func (w *randomWorld) advance(until float64) (completes bool) {
	const rounding = 1e-6 // seconds
	span := until - w.now
	w.now = until
	for _, j := range w.jobs {
		if j.nodes == 0 {
			j.waited += span
			continue
		}
		loading := min(span, j.loads)
		j.loads -= loading
		j.onNodes += span
		j.trained += span - loading
		j.done = min(j.work, j.done+j.speed(j.place)*(span-loading))
		if j.work-j.done <= rounding*j.speed(j.place) {
			j.end, completes = until, true
			w.left = append(w.left, j)
		}
	}
	w.jobs = slices.DeleteFunc(w.jobs, func(j *worldJob) bool { return j.end > 0 })
	return completes
}

// maxJobs is the number of jobs above which no more arrive.
const maxJobs = 10

// applyEvents applies the arrivals, failures and changes of the pool that are due, and returns the call that follows them.
// completes reports whether a job has just completed.
func (w *randomWorld) applyEvents(completes bool) eventAction {
	event, action := completes, callNothing
	for ; len(w.arrivals) > 0 && w.arrivals[0].submit <= w.now; w.arrivals = w.arrivals[1:] {
		if len(w.jobs) < maxJobs {
			w.jobs, event = append(w.jobs, w.arrivals[0]), true
		}
	}
	for ; len(w.failures) > 0 && w.failures[0] <= w.now; w.failures = w.failures[1:] {
		w.fail()
		event = true
	}
	if event {
		action = w.onEvent
	}
	for ; len(w.changes) > 0 && w.changes[0].at <= w.now; w.changes = w.changes[1:] {
		w.types[w.changes[0].nodeType].nodes, action = w.changes[0].nodes, callAllocate
	}
	return action
}

// run runs the cluster until all jobs have completed.
func (w *randomWorld) run(ctx context.Context) error {
	decideAt, drained := 0.0, math.Inf(1)
	completes := false
	for {
		action := w.applyEvents(completes)
		if w.now >= decideAt {
			action, decideAt = callAllocate, w.now+w.interval
		}
		if err := w.decide(ctx, action); err != nil {
			return err
		}
		if len(w.jobs)+len(w.arrivals)+len(w.changes) == 0 {
			return nil
		}
		if math.IsInf(drained, 1) && len(w.arrivals)+len(w.changes)+len(w.failures) == 0 {
			drained = w.now + w.longestDrain()
		}
		if w.now > drained {
			return fmt.Errorf("%d jobs are left long after the last event", len(w.jobs))
		}
		completes = w.advance(w.next(decideAt))
		w.loseNode()
		for _, j := range slices.Concat(w.jobs, w.left) {
			if err := w.checkRestarts(j); err != nil {
				return err
			}
		}
		w.left = nil
	}
}

// next returns the time of the next event or decision.
func (w *randomWorld) next(decideAt float64) float64 {
	next := math.Inf(1)
	if len(w.arrivals) > 0 {
		next = w.arrivals[0].submit
	}
	if len(w.changes) > 0 {
		next = min(next, w.changes[0].at)
	}
	if len(w.failures) > 0 {
		next = min(next, w.failures[0])
	}
	if len(w.jobs) > 0 {
		next = min(next, decideAt)
	}
	for _, j := range w.jobs {
		if j.nodes > 0 {
			left := j.left()
			if next = min(next, w.now+left); w.lossBefore > 0 && left > w.lossBefore*(1+1e-6) && w.now < w.period {
				next = min(next, w.now+left-w.lossBefore)
			}
		}
	}
	return max(next, w.now)
}

// left returns the time until a running job completes on its nodes.
func (j *worldJob) left() float64 { return j.loads + (j.work-j.done)/j.speed(j.place) }

// loseNode loses a node if a job is about to complete.
func (w *randomWorld) loseNode() {
	about := func(j *worldJob) bool { return j.nodes > 0 && j.left() <= w.lossBefore*(1+1e-6) }
	if w.lossBefore > 0 && w.now < w.period && len(w.changes) == 0 && slices.ContainsFunc(w.jobs, about) {
		base := w.types[0].base
		w.changes = []poolChange{{w.now, 0, base - 1}, {w.now + 2*w.lossBefore, 0, base}}
	}
}

// longestDrain returns ten times the time that the remaining jobs take one after the other.
func (w *randomWorld) longestDrain() (sum float64) {
	for _, j := range w.jobs {
		sum += w.interval + 4*j.restart + (j.work-j.done)/j.lowestSpeed()
	}
	return 10 * sum
}

// String describes the world and the jobs that are not complete.
func (w *randomWorld) String() string {
	text := []string{fmt.Sprintf("at %.0f s: %s, %s, greedy %v, decisions every %.0f "+
		"s, %s on events, counts loading %v, forgets %v, types %+v, groups %+v, limits %+v",
		w.now, w.options.Objective, w.options.Admission, w.greedy, w.interval,
		w.onEvent, w.countsLoading, w.forgets, w.types, w.groups, w.limits)}
	for _, j := range w.jobs {
		text = append(text,
			fmt.Sprintf("%s: %+v, done %.0f of %.0f, estimate %.0f, restart %.0f, reported %.0f, weight %g, sizes %v, factors "+
				"%v, efficiency %.2f, piece %d, group %d, with nodes for %.0f s, waited %.0f s, restarts %.0f, forced %.0f: %s",
				j.id, j.place, j.done, j.work, j.estimate, j.restart, j.reported, j.weight, j.sizes, j.factors,
				j.efficiency, j.piece, j.group, j.onNodes, j.waited, j.restarts, j.forced, strings.Join(j.history, ", ")))
	}
	return strings.Join(text, "\n")
}

// pick returns a random item.
func pick[Item any](r *rand.Rand, items ...Item) Item { return items[r.IntN(len(items))] }

// newRandomWorld returns a random world.
func newRandomWorld(seed uint64, exact, greedy *elastalloc.Allocator) *randomWorld {
	r := rand.New(rand.NewPCG(seed, 53))
	w := &randomWorld{Rand: r, allocator: exact, greedy: r.IntN(3) == 0}
	if w.greedy {
		w.allocator = greedy
	}
	w.options = solver.Options{
		Objective: pick(r, solver.ObjectiveTotalTime, solver.ObjectiveTotalTime, solver.ObjectiveProgress),
		Admission: pick(r, solver.Admissions()...),
	}
	w.interval, w.onEvent = pick(r, 300.0, 300, 900), pick(r, callNothing, callFillIdle, callAllocate, callAllocate)
	w.countsLoading, w.forgets = r.IntN(2) == 0, r.IntN(8) == 0
	w.period = w.interval * float64(40+r.IntN(80))
	totalTime := w.options.Objective == solver.ObjectiveTotalTime
	if w.IntN(2) == 0 {
		w.options.TotalTime.SharePrice = new(0.0)
	}
	if !totalTime {
		w.options.RelativeGap = 1e-3 // Identical jobs over many steps take long to prove.
		w.horizon = solver.Horizon{Step: duration(w.interval), Steps: pick(r, 5, 3)}
	}
	nodes := pick(r, 2, 4, 8, 8, 12, 16)
	w.types = []worldType{{"", nodes, nodes, 1}}
	if totalTime && w.IntN(3) == 0 {
		w.lossBefore = pick(w.Rand, 5.0, 20, 40)
	} else if totalTime {
		w.addBounds(nodes)
	}
	w.addJobs()
	w.addLimits()
	w.changePool()
	for range pick(r, 0, 0, 3, 10) {
		w.failures = append(w.failures, r.Float64()*w.period)
	}
	slices.Sort(w.failures)
	return w
}

// addBounds adds node types, or groups, and sizes limits as far as the API accepts them together.
func (w *randomWorld) addBounds(nodes int) {
	if w.IntN(4) == 0 {
		half := max(1, nodes/2)
		w.types = []worldType{{"a", nodes, nodes, 1}, {"b", half, half, pick(w.Rand, 1.0, 2, 0.5)}}
	}
	switch {
	case w.IntN(3) == 0 && len(w.types) == 1:
		for g := range 2 + w.IntN(2) {
			w.groups = append(w.groups, worldGroup{id: fmt.Sprint("g", g), parent: -1, limit: -1, quota: w.IntN(nodes + 1), hasNoChildren: true})
		}
		if w.IntN(2) == 0 {
			w.groups = append(w.groups, worldGroup{id: "top", parent: -1, limit: -1, quota: w.IntN(nodes + 1)})
			w.groups[0].parent = len(w.groups) - 1
		}
	case w.IntN(3) == 0 && nodes >= 4:
		for g := range w.types {
			w.limits = append(w.limits, worldLimit{nodeType: g, size: 2 + w.IntN(3), machine: 4 + w.IntN(5)})
		}
	}
}

// addJobs adds jobs that arrive until the end of the period: long jobs, and small jobs at a random rate.
func (w *randomWorld) addJobs() {
	r, nodes := w.Rand, w.types[0].base
	restart := w.interval * pick(r, 0, 0.2, 0.5, 1, 2, 3)
	alike, weighted, wrongETAs := r.IntN(4) == 0, r.IntN(3) == 0, r.IntN(2) == 0
	reports := [][]float64{{1}, {1}, {1, 2}, {0}, {0, 0.5, 1, 2}}[r.IntN(5)]
	between := w.interval * pick(r, 0.5, 1, 3, 8)
	regular := r.IntN(2) == 0
	at := 0.0
	for n := 0; at < w.period; n++ {
		j := &worldJob{
			id: fmt.Sprint("j", n), submit: at, restart: restart, efficiency: 0.7 + 0.3*r.Float64(), weight: 1, nextToIdle: -1,
			sizes: [][]int{{1}, {1}, {1, 2, 4, 8}, {2, 4}, {1, 2}, {3, 4}, {4}, {8}, {4, 8}}[r.IntN(9)],
		}
		long := n == 0 || r.IntN(6) == 0
		length := w.interval * (0.3 + 2*r.Float64())
		if long {
			length = w.interval * (5 + 30*r.Float64())
		}
		if n == 0 && r.IntN(3) == 0 {
			length *= 6
		}
		j.sizes = slices.DeleteFunc(j.sizes, func(k int) bool { return k > nodes })
		if len(j.sizes) == 0 {
			j.sizes = []int{nodes}
		}
		if weighted || w.lossBefore > 0 {
			j.weight = pick(r, 1, math.Pow(10, 6*r.Float64()-3)) // over six decades
		}
		w.placeJob(j)
		j.work = length * j.speed(place{j.sizes[0], 0})
		if alike && n > 0 {
			first := *w.arrivals[0]
			first.id, first.submit = j.id, at
			j = &first
		}
		j.reported = j.restart * pick(r, reports...)
		j.estimate = j.work
		if wrongETAs {
			j.estimate *= pick(r, 0.02, 0.2, 0.5, 1, 2)
		}
		w.arrivals = append(w.arrivals, j)
		if regular {
			at += between
		} else {
			at += between * r.ExpFloat64()
		}
	}
}

// placeJob chooses the group, the node types and the piece of a job. Each job can run on the first type.
func (w *randomWorld) placeJob(j *worldJob) {
	var leaves []int
	for g, group := range w.groups {
		if group.hasNoChildren {
			leaves = append(leaves, g)
		}
	}
	if len(leaves) > 0 {
		j.group = pick(w.Rand, leaves...)
	}
	if len(w.limits) > 0 && w.IntN(2) == 0 {
		j.piece = 1 + w.IntN(4)
	}
	j.ownFactors = len(w.types) > 1 && w.IntN(2) == 0
	for g, t := range w.types {
		factor := t.speed
		if j.ownFactors {
			factor = pick(w.Rand, 0.5, 1, 3)
			if g > 0 && w.IntN(4) == 0 {
				factor = 0
			}
		}
		j.factors = append(j.factors, factor)
	}
}

// addLimits sets the limits of groups and sizes so that each job fits by itself.
func (w *randomWorld) addLimits() {
	largest := 1
	for _, j := range w.arrivals {
		largest = max(largest, j.sizes[0])
	}
	for g := range w.groups {
		if w.IntN(2) == 0 {
			w.groups[g].limit = largest + w.IntN(w.types[0].base)
		}
	}
	for n := range w.limits {
		if w.limits[n].nodeType == 0 {
			w.limits[n].least = largest
		}
	}
}

// changePool lets nodes flap, and the pool shrink and grow, unless nodes are lost before jobs complete. At the end, all nodes are back.
func (w *randomWorld) changePool() {
	if w.lossBefore > 0 {
		return
	}
	kind := w.IntN(4)
	g := w.IntN(len(w.types))
	base := w.types[g].base
	switch kind {
	case 1: // A node flaps.
		every := w.interval * pick(w.Rand, 1.0, 4, 10)
		for at := every; at+every/4 < w.period; at += every {
			w.changes = append(w.changes, poolChange{at, g, base - 1}, poolChange{at + every/4, g, base})
		}
	case 2: // The pool has random sizes.
		for at := 0.0; at < w.period; at += w.period / 12 * (0.5 + w.Float64()) {
			w.changes = append(w.changes, poolChange{at, g, w.IntN(base + base/2 + 1)})
		}
		w.changes = append(w.changes, poolChange{w.period * 1.1, g, base})
	case 3: // Part of the pool is away for long.
		w.changes = []poolChange{{w.period / 4, g, base - 1 - w.IntN(base)}, {w.period * 3 / 4, g, base}}
	}
}

// The variables that set the first seed and the number of seeds.
const (
	firstWorld = "OPENWORLD_FIRST"
	worlds     = "OPENWORLD_SEEDS"
)

// TestRandomOpenWorlds runs random worlds and checks that
//
//  1. every allocation is legal and fits the pool, the group limits and the size limits,
//  2. no decision grows, moves or pauses a job that has used its restart budget, except if nodes are lost,
//  3. each job has at most the restarts, and needs at most the time with nodes, that docs/proofs/sequences.md proves,
//  4. no job waits next to idle nodes that fit, and a job that is alone grows, also if its estimate has run out,
//  5. a pool that loses nodes pauses no job of high weight for one of low weight that is about to complete, and
//  6. every job completes after the last arrival.
func TestRandomOpenWorlds(t *testing.T) {
	t.Parallel()
	first, count := uint64(0), uint64(testtier.Conformance.Examples(40, 1000))
	for name, value := range map[string]*uint64{firstWorld: &first, worlds: &count} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatalf("%s: is %q; must be a number", name, text)
			}
			*value = n
		}
	}
	exact := newAllocator(t, elastalloc.Options{DefaultBudget: elastalloc.NoBudget}).Allocator
	greedy := newAllocator(t, elastalloc.Options{Backends: []solver.BackendName{}}).Allocator
	decisions, failed, began := 0, 0, time.Now()
	for seed := first; seed < first+count && failed < 40; seed++ {
		w := newRandomWorld(seed, exact, greedy)
		if err := w.run(t.Context()); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, w)
			failed++
		}
		decisions += w.decisions
	}
	t.Logf("%d worlds, %d decisions, %v", count, decisions, time.Since(began))
}

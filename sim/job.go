package sim

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
)

// simulatedJob is the state of a job in a run.
type simulatedJob struct {
	*WorkloadJob
	// spec is the job in snapshots, without its state.
	spec solver.Job
	// types are the node types of the pool.
	types []solver.NodeType
	// phase is the index of the current phase.
	phase int
	// pin is the only node type that the job may use, "" for any.
	pin string
	// nodes is the number of allocated nodes. nodeType is their type, or the last type if there are
	// none. training is the number of nodes that the job trains on, with a progress of perSecond. Until
	// growsAt, training is less than nodes while the job grows, and 0 while it restarts.
	nodes, training int
	nodeType        string
	perSecond       time.Duration
	growsAt         time.Duration
	// served is the work done, as run time on one node. trained is the time with allocated nodes.
	served, trained time.Duration
	start, end      time.Duration
	resizes, moves  int
	// on has the units that the job occupies, by machine, and placementMoves is the number of changes of
	// machines without a change of the nodes. Both are set if there is a Placer.
	on             map[string]int
	placementMoves int
	// timeline lists the allocations of the job so far.
	timeline []NodesAt
	// delay is the scaling delay, restart the restart time, and move the restart time after a
	// change of the node type.
	delay, restart, move time.Duration
	// restartedAt has the values of trained at the last restarts, newest first.
	restartedAt []time.Duration
}

// recentRestarts returns the times with nodes since the last restarts, newest first.
func (j *simulatedJob) recentRestarts() []time.Duration {
	var times []time.Duration
	for _, at := range j.restartedAt {
		times = append(times, j.trained-at)
	}
	return times
}

// noteRestart adds a restart now to restartedAt.
func (j *simulatedJob) noteRestart() {
	last := j.restartedAt[:min(len(j.restartedAt), solver.MaxRecentRestarts-1)]
	j.restartedAt = append([]time.Duration{j.trained}, last...)
}

func newSimulatedJob(job *WorkloadJob, config *Config) simulatedJob {
	j := simulatedJob{
		WorkloadJob: job, spec: job.SnapshotJob(), types: config.NodeTypes, start: never, end: never, growsAt: never,
		delay: max(config.ScalingDelay, job.ResizeDelay), restart: cmp.Or(job.RestartTime, config.RestartTime),
	}
	if job.RestartTime > 0 {
		j.delay = 0
	}
	j.spec.FreeResizes = j.restart == 0
	j.spec.Speeds = speedsAmong(j.spec.Speeds, j.types)
	if j.move = j.restart; j.spec.MoveTime != nil {
		j.move = max(config.RestartTime, WholeSeconds(min(*j.spec.MoveTime, longestSpan)))
	}
	return j
}

// arrive sets the state of the job at its submission from its History.
func (j *simulatedJob) arrive(now time.Duration) {
	if j.History.Nodes > 0 || j.History.Trained > 0 {
		j.start = now
	}
	if j.History.Nodes > 0 {
		j.nodes, j.nodeType = j.History.Nodes, j.History.NodeType
		j.timeline = append(j.timeline, NodesAt{now, j.nodes, j.nodeType})
		j.finishGrowth()
	}
}

func (j *simulatedJob) finish(now time.Duration) {
	j.end = now
	if j.nodes > 0 {
		j.timeline = append(j.timeline, NodesAt{At: now})
	}
}

// minRemainingETA is the remaining ETA of a job that has exceeded its estimate.
const minRemainingETA = time.Second

// remainingETA returns the last estimate of the remaining work, reduced by the work done since.
func (j *simulatedJob) remainingETA() time.Duration {
	update := ETAUpdate{ETA: j.UserEstimate}
	for _, later := range j.ETAUpdates {
		if later.Served <= j.served {
			update = later
		}
	}
	return max(update.ETA-(j.served-update.Served), minRemainingETA)
}

// workDone returns the work done, including the work before the simulation.
func (j *simulatedJob) workDone() time.Duration { return j.History.Work + j.served }

// etaInput returns the input of client/eta for the work of the job in the simulation.
func (j *simulatedJob) etaInput() eta.Job {
	return eta.Job{UserEstimate: j.UserEstimate, UserError: j.UserError, WorkDone: j.served}
}

// finalETAInput returns the input of client/eta for all work of a completed job. There is no
// user estimate if part of the work was done before the simulation.
func (j *simulatedJob) finalETAInput() eta.Job {
	if j.History.Work > 0 {
		return eta.Job{WorkDone: j.workDone()}
	}
	return j.etaInput()
}

func (j *simulatedJob) done() bool { return j.served >= j.Work || j.hangs() }

// hangs reports whether a job with a bug has trained for HangAfter.
func (j *simulatedJob) hangs() bool { return j.Fate == OutcomeHung && j.trained >= j.HangAfter }

// outcome returns the outcome of a finished job. A job may complete before its bug occurs.
func (j *simulatedJob) outcome() Outcome {
	if j.Fate == OutcomeHung && j.served >= j.Work {
		return OutcomeCompleted
	}
	return j.Fate
}

// nextEvent returns the second in which the job completes, has grown or changes its speed if it is
// not resized, and never if it has no nodes.
func (j *simulatedJob) nextEvent(now time.Duration) time.Duration {
	until := j.Work
	if j.phase+1 < len(j.Phases) {
		until = min(until, j.phaseEnd(j.phase))
	}
	next := min(j.growsAt, j.timeOfWork(until, now))
	if j.Fate == OutcomeHung && j.nodes > 0 {
		next = min(next, now+j.HangAfter-j.trained)
	}
	return next
}

// timeOfWork returns the second in which the job reaches the given work at its current speed. It
// returns never if that second exceeds the range of time.Duration.
func (j *simulatedJob) timeOfWork(work, now time.Duration) time.Duration {
	if j.perSecond == 0 {
		return never
	}
	seconds := int64((work - j.served + j.perSecond - 1) / j.perSecond)
	if seconds > int64((never-now)/time.Second) {
		return never
	}
	return now + time.Duration(seconds)*time.Second
}

// train trains the job for whole seconds if it has nodes, and reports whether it made progress.
func (j *simulatedJob) train(span time.Duration) bool {
	if j.nodes > 0 {
		seconds := int64(span / time.Second)
		j.served += time.Duration(seconds * int64(j.perSecond))
		j.trained += span
		j.enterPhase()
	}
	return j.perSecond > 0 && span > 0
}

// enterPhase updates the phase and the speeds of the job from the work done.
func (j *simulatedJob) enterPhase() {
	before := j.phase
	for j.phase+1 < len(j.Phases) && j.served >= j.phaseEnd(j.phase) {
		j.phase++
	}
	if j.phase > before {
		j.spec.Speeds = speedsAmong(j.Phases[j.phase].Speeds, j.types)
		j.trainOn(j.training)
	}
}

func (j *simulatedJob) trainOn(nodes int) {
	j.training = nodes
	speed := j.spec.Speed
	if n := slices.IndexFunc(j.types, func(t solver.NodeType) bool { return t.ID == j.nodeType }); n >= 0 {
		speed = func(nodes int) float64 { return j.spec.SpeedOn(&j.types[n], nodes) }
	}
	j.perSecond = Scale(time.Second, speed(nodes))
}

// finishGrowth makes the job train on all its nodes.
func (j *simulatedJob) finishGrowth() {
	j.trainOn(j.nodes)
	j.growsAt = never
}

// resize changes the number or the type of the job's nodes. If a growing job shrinks, but to no
// less than the nodes that it trains on, its growth continues.
func (j *simulatedJob) resize(to allocation, now time.Duration) {
	nodes, moves := to.nodes, to.nodes > 0 && to.nodeType != j.nodeType
	if nodes == j.nodes && !moves {
		return
	}
	if j.start == never {
		j.start = now
	} else {
		j.resizes++
		if nodes > 0 {
			j.noteRestart()
		}
		if moves && j.nodeType != "" {
			j.moves++ // Including a return from a pause on another type.
		}
	}
	grows, restart := nodes > j.nodes, j.restart
	if moves && j.nodes > 0 {
		restart = j.move
	}
	j.nodes = nodes
	if moves {
		j.nodeType = to.nodeType
	}
	j.timeline = append(j.timeline, NodesAt{now, nodes, to.nodeType})
	switch {
	case restart > 0 && nodes > 0:
		j.trainOn(0)
		j.growsAt = now + restart
	case nodes <= j.training || j.delay == 0:
		j.finishGrowth()
	case grows:
		j.growsAt = now + j.delay
	}
}

// NodesAt is a number of nodes from time At until the next entry of a list.
type NodesAt struct {
	At    time.Duration
	Nodes int
	// NodeType is the type of the nodes. It is "" for no nodes and in a pool without node types.
	NodeType string
}

// allocation is the nodes of a job. nodeType is "" in a pool without node types.
type allocation struct {
	nodes    int
	nodeType string
}

// NodeTime returns the integral of the number of nodes over the time from from to until. The number
// of nodes before the first change is before.
func NodeTime(changes []NodesAt, before int, from, until time.Duration) time.Duration {
	sum, at, nodes := time.Duration(0), from, before
	for _, change := range changes {
		if to := min(max(change.At, at), until); to > at {
			sum += time.Duration(nodes) * (to - at)
			at = to
		}
		nodes = change.Nodes
	}
	return sum + time.Duration(nodes)*max(0, until-at)
}

// legalFor reports whether the allocation is a legal size of a job on its node type.
func (h allocation) legalFor(job *solver.Job, types []solver.NodeType) bool {
	at := slices.IndexFunc(types, func(t solver.NodeType) bool { return t.ID == h.nodeType })
	if at < 0 {
		return false
	}
	there, _, runs := job.ForType(&types[at])
	return runs && slices.Contains(there.LegalSizes(), h.nodes)
}

func (h allocation) ofType() string {
	if h.nodeType == "" {
		return ""
	}
	return " of " + strconv.Quote(h.nodeType)
}

// History is the state of a job that started before the simulation.
type History struct {
	// Nodes is the number of its nodes.
	Nodes int
	// NodeType is the type of its nodes, "" in a pool without node types.
	NodeType string
	// Trained is the time with allocated nodes so far, and Waited the time without.
	Trained, Waited time.Duration
	// Work is the work done, as run time on one node.
	Work time.Duration
}

// ETAUpdate is an estimate of the remaining work that applies once the job has done the work
// Served. Both are run times on one node.
type ETAUpdate struct{ Served, ETA time.Duration }

// resize changes the size of the pool if a change is due, and reports whether it did.
func (s *simulation) resize() bool {
	resized := false
	for len(s.resized) > 0 && s.resized[0].At <= s.now { // Less only before the first submission.
		s.nodes, s.resized, resized = s.resized[0].Nodes, s.resized[1:], true
	}
	return resized
}

// Progress computes the work of a job from a recorded list of allocations, with the delays and
// restarts of a simulation.
type Progress struct {
	job simulatedJob
	now time.Duration
}

// NewProgress returns the progress of a job at its submission.
func NewProgress(job *WorkloadJob, types []solver.NodeType) *Progress {
	c := &Progress{job: newSimulatedJob(job, &Config{NodeTypes: types}), now: job.Submit}
	c.job.arrive(c.now)
	return c
}

// Resize changes the nodes of the job at a time in whole seconds. Times must not decrease.
func (c *Progress) Resize(to NodesAt) {
	c.trainUntil(to.At)
	c.job.resize(allocation{to.Nodes, to.NodeType}, to.At)
}

// Served returns the work done by a time, as run time on one node. Times must not decrease.
func (c *Progress) Served(at time.Duration) time.Duration {
	c.trainUntil(at)
	return c.job.served
}

// End returns the time at which the job has done the given work if it is not resized again, or
// false if it never does.
func (c *Progress) End(work time.Duration) (time.Duration, bool) {
	if c.job.served >= work {
		return c.now, true
	}
	rest, now := c.job, c.now // A copy, because End does not advance the job.
	if rest.growsAt != never {
		if done := rest.served + time.Duration(int64((rest.growsAt-c.now)/time.Second)*int64(rest.perSecond)); done < work {
			now = rest.growsAt
			rest.train(now - c.now)
			rest.finishGrowth()
		}
	}
	end := rest.timeOfWork(work, now)
	return end, end != never
}

func (c *Progress) trainUntil(at time.Duration) {
	if c.job.growsAt <= at {
		c.job.train(c.job.growsAt - c.now)
		c.now = c.job.growsAt
		c.job.finishGrowth()
	}
	c.job.train(at - c.now)
	c.now = at
}

package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/solver"
)

// simulatedJob is the state of a job in a run.
type simulatedJob struct {
	*WorkloadJob
	// told is what an allocator is told of the job, apart from its state.
	told solver.Job
	// types are the node types of the pool, and phase is the present one of the job's.
	types []solver.NodeType
	phase int
	// pin is the one type that the job may hold, "" if it is free to move.
	pin string
	// nodes is what the job holds, of the type that it held last, and training what it trains
	// on, which serves perSecond: less while it grows, nothing while it restarts, until growsAt.
	nodes, training int
	nodeType        string
	perSecond       time.Duration
	growsAt         time.Duration
	// served is the work done, in run time on one node, and trained the time for
	// which the job held nodes.
	served, trained time.Duration
	start, end      time.Duration
	rescales, moves int
	// held is what the job held so far.
	held []NodesAt
	// delay, restart and move are how long it takes to grow, to restart, and to restart on
	// another type than that of the nodes it leaves.
	delay, restart, move time.Duration
}

func newSimulatedJob(job *WorkloadJob, config *Config) simulatedJob {
	j := simulatedJob{
		WorkloadJob: job, told: job.Told(), types: config.NodeTypes, start: never, end: never, growsAt: never,
		delay: max(config.ScalingDelay, job.RescaleDelay), restart: max(config.RestartTime, job.RestartTime),
	}
	j.told.Speeds = speedsAmong(j.told.Speeds, j.types)
	if j.move = j.restart; j.told.MoveTime != nil {
		j.move = max(config.RestartTime, wholeSeconds(min(*j.told.MoveTime, longestSpan)))
	}
	return j
}

// arrive has the job be as its history leaves it.
func (j *simulatedJob) arrive(now time.Duration) {
	if j.History.Nodes > 0 || j.History.Trained > 0 {
		j.start = now
	}
	if j.History.Nodes > 0 {
		j.nodes, j.nodeType = j.History.Nodes, j.History.NodeType
		j.held = append(j.held, NodesAt{now, j.nodes, j.nodeType})
		j.grown()
	}
}

func (j *simulatedJob) endAt(now time.Duration) {
	j.end = now
	if j.nodes > 0 {
		j.held = append(j.held, NodesAt{At: now})
	}
}

// leastRemainingETA is told of a job that has outrun its ETA: it must be about to end.
const leastRemainingETA = time.Second

// remainingETA returns what was told last of the work left, less what is done since.
func (j *simulatedJob) remainingETA() time.Duration {
	told := ETAAt{ETA: j.ToldETA}
	for _, later := range j.Retold {
		if later.Served <= j.served {
			told = later
		}
	}
	return max(told.ETA-(j.served-told.Served), leastRemainingETA)
}

// workDone returns the work done, that before the simulation included.
func (j *simulatedJob) workDone() time.Duration { return j.History.Work + j.served }

// known is what a scheduler knows of the job's work in the simulation.
func (j *simulatedJob) known() eta.Job {
	return eta.Job{UserEstimate: j.ToldETA, UserError: j.ToldError, WorkDone: j.served}
}

// ended is what it knows once the job has ended, of all its work: nothing was told of work before
// the simulation.
func (j *simulatedJob) ended() eta.Job {
	if j.History.Work > 0 {
		return eta.Job{WorkDone: j.workDone()}
	}
	return j.known()
}

func (j *simulatedJob) done() bool { return j.served >= j.Work || j.hangs() }

// hangs reports whether a job with a bug has come to where it hangs.
func (j *simulatedJob) hangs() bool { return j.Fate == OutcomeHung && j.trained >= j.HangAfter }

// outcome returns how a job that is done has ended. One may complete before its
// bug shows.
func (j *simulatedJob) outcome() Outcome {
	if j.Fate == OutcomeHung && j.served >= j.Work {
		return OutcomeCompleted
	}
	return j.Fate
}

// nextEvent returns the second in which the job ends, has grown or trains at another speed,
// if its nodes stay as they are, or never if it has no nodes.
func (j *simulatedJob) nextEvent(now time.Duration) time.Duration {
	until := j.Work
	if j.phase+1 < len(j.Phases) {
		until = min(until, j.phaseEnd(j.phase))
	}
	next := min(j.growsAt, j.reaches(until, now))
	if j.Fate == OutcomeHung && j.nodes > 0 {
		next = min(next, now+j.HangAfter-j.trained)
	}
	return next
}

// reaches returns the second in which the job has done the work if it trains on as it does, or
// never, also where no time is as late.
func (j *simulatedJob) reaches(work, now time.Duration) time.Duration {
	if j.perSecond == 0 {
		return never
	}
	seconds := int64((work - j.served + j.perSecond - 1) / j.perSecond)
	if seconds > int64((never-now)/time.Second) {
		return never
	}
	return now + time.Duration(seconds)*time.Second
}

// train lets the job train for whole seconds, if it holds nodes, and reports whether it
// made progress.
func (j *simulatedJob) train(span time.Duration) bool {
	if j.nodes > 0 {
		seconds := int64(span / time.Second)
		j.served += time.Duration(seconds * int64(j.perSecond))
		j.trained += span
		j.enterPhase()
	}
	return j.perSecond > 0 && span > 0
}

// enterPhase has the job train at the speeds of the phase that its work has come to.
func (j *simulatedJob) enterPhase() {
	before := j.phase
	for j.phase+1 < len(j.Phases) && j.served >= j.phaseEnd(j.phase) {
		j.phase++
	}
	if j.phase > before {
		j.told.Speeds = speedsAmong(j.Phases[j.phase].Speeds, j.types)
		j.trainOn(j.training)
	}
}

func (j *simulatedJob) trainOn(nodes int) {
	j.training = nodes
	speed := j.told.Speed
	if n := slices.IndexFunc(j.types, func(t solver.NodeType) bool { return t.ID == j.nodeType }); n >= 0 {
		speed = func(nodes int) float64 { return j.told.SpeedOn(&j.types[n], nodes) }
	}
	j.perSecond = scale(time.Second, speed(nodes))
}

// grown lets the job train on all its nodes.
func (j *simulatedJob) grown() {
	j.trainOn(j.nodes)
	j.growsAt = never
}

// give changes the job's nodes now, or their type. Shrinking to no less than what the job
// trains on cuts a growth short of its end but not off.
func (j *simulatedJob) give(to holding, now time.Duration) {
	nodes, moves := to.nodes, to.nodes > 0 && to.nodeType != j.nodeType
	if nodes == j.nodes && !moves {
		return
	}
	if j.start == never {
		j.start = now
	} else {
		j.rescales++
		if moves && j.nodeType != "" {
			j.moves++ // also where it resumes on another type
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
	j.held = append(j.held, NodesAt{now, nodes, to.nodeType})
	switch {
	case restart > 0 && nodes > 0:
		j.trainOn(0)
		j.growsAt = now + restart
	case nodes <= j.training || j.delay == 0:
		j.grown()
	case grows:
		j.growsAt = now + j.delay
	}
}

// NodesAt is a number of nodes from a time on, until that of the next.
type NodesAt struct {
	At    time.Duration
	Nodes int
	// NodeType is their type; "" where nodes are all alike, and for no nodes.
	NodeType string
}

// holding is what a job holds: nodes of one type, "" where nodes are all alike.
type holding struct {
	nodes    int
	nodeType string
}

// NodeTime returns the number of nodes, summed over the time from one moment to another.
// Until the first change the number is before.
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

// holdOptions returns what the jobs of a snapshot hold with the given options.
func holdOptions(s *solver.Snapshot, options []solver.Option) []holding {
	holdings := make([]holding, len(options))
	for i, option := range options {
		holdings[i] = holding{int(option.Nodes), s.TypeOf(option)}
	}
	return holdings
}

// legalFor reports whether a job may hold the nodes.
func (h holding) legalFor(job *solver.Job, types []solver.NodeType) bool {
	at := slices.IndexFunc(types, func(t solver.NodeType) bool { return t.ID == h.nodeType })
	if at < 0 {
		return false
	}
	there, _, runs := job.ForType(&types[at])
	return runs && slices.Contains(there.LegalSizes(), h.nodes)
}

func (h holding) ofType() string {
	if h.nodeType == "" {
		return ""
	}
	return " of " + strconv.Quote(h.nodeType)
}

// History is what a job has behind it that was there before a simulation began.
type History struct {
	// Nodes is what it holds, and NodeType their type, "" where nodes are all alike.
	Nodes    int
	NodeType string
	// Trained is how long it has held nodes so far, and Waited how long it has not.
	Trained, Waited time.Duration
	// Work is the work that it has done, as run time on one node.
	Work time.Duration
}

// ETAAt is what an allocator is told of the work left, in run time on one node, once the
// job has done the given work.
type ETAAt struct{ Served, ETA time.Duration }

// resize changes the size of the pool where it is time and reports whether it did.
func (s *simulation) resize() bool {
	resized := false
	for len(s.resized) > 0 && s.resized[0].At <= s.now { // Less only before the first submission.
		s.nodes, s.resized, resized = s.resized[0].Nodes, s.resized[1:], true
	}
	return resized
}

// Course says how much work a real job did on the nodes that it really held, with the delays
// and restarts of a simulation.
type Course struct {
	job simulatedJob
	now time.Duration
}

// NewCourse returns the course of a job from its submission on.
func NewCourse(job *WorkloadJob, types []solver.NodeType) *Course {
	c := &Course{job: newSimulatedJob(job, &Config{NodeTypes: types}), now: job.Submit}
	c.job.arrive(c.now)
	return c
}

// Give changes the job's nodes at a time, in whole seconds and not before the last.
func (c *Course) Give(to NodesAt) {
	c.trainUntil(to.At)
	c.job.give(holding{to.Nodes, to.NodeType}, to.At)
}

// Served returns the work done by a time, as Give has it, in run time on one node.
func (c *Course) Served(at time.Duration) time.Duration {
	c.trainUntil(at)
	return c.job.served
}

// End returns when an amount of work is done if the nodes stay as they are, and false for never.
func (c *Course) End(work time.Duration) (time.Duration, bool) {
	if c.job.served >= work {
		return c.now, true
	}
	rest, now := c.job, c.now // a copy, so that the course goes on from where it is
	if rest.growsAt != never {
		if done := rest.served + time.Duration(int64((rest.growsAt-c.now)/time.Second)*int64(rest.perSecond)); done < work {
			now = rest.growsAt
			rest.train(now - c.now)
			rest.grown()
		}
	}
	end := rest.reaches(work, now)
	return end, end != never
}

func (c *Course) trainUntil(at time.Duration) {
	if c.job.growsAt <= at {
		c.job.train(c.job.growsAt - c.now)
		c.now = c.job.growsAt
		c.job.grown()
	}
	c.job.train(at - c.now)
	c.now = at
}

package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/client/placement"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// The defaults of a Plan.
const (
	DefaultCadence  = 5 * time.Minute
	DefaultPatience = 5 * time.Minute
	DefaultBackoff  = time.Minute
	// MaxBackoff is the longest back-off of a job after failures.
	MaxBackoff = time.Hour
	// DefaultMaxShrink is the default of Plan.MaxShrink.
	DefaultMaxShrink = 0.3
)

// firstRetry is the time after which a decision is due again if the call for it failed. It doubles with
// each consecutive failure, up to the cadence.
const firstRetry = 10 * time.Second

// Reason is why a decision is due.
type Reason string

// The reasons.
const (
	// ReasonEvent means that the cluster changed: see Plan.Due.
	ReasonEvent Reason = "event"
	// ReasonCadence means that nothing happened for Plan.Cadence.
	ReasonCadence Reason = "cadence"
	// ReasonRetry means that the call for the last decision failed.
	ReasonRetry Reason = "retry"
)

// lossDecisions is the number of cadences for which a Plan refuses a loss of nodes.
const lossDecisions = 3

// Plan carries decisions out on a cluster that changes meanwhile: nodes take time to be released,
// resizes fail, jobs arrive and complete, and nodes appear and disappear. The zero value is ready
// for use. A Plan has no clock, makes no call and is not safe for concurrent use. The loop of a
// scheduler is
//
//	steps, warnings, err := plan.Reconcile(now, snapshot, decide)
//	// Log err and warnings.
//	for _, jobID := range plan.Overdue(now) {
//		kill(jobID) // SIGTERM, and SIGKILL after a grace period.
//		plan.Failed(now, jobID)
//	}
//	for _, step := range steps {
//		if resize(step) != nil {
//			plan.Failed(now, step.JobID)
//		}
//	}
//
// Jobs never get more nodes than are free or than the limits of their groups allow: a step that needs
// nodes waits until Observe has seen enough of them released. The state of a Plan may be lost, for example by a restart. The next Observe
// rebuilds it, except Restarts, which you can save.
type Plan struct {
	// Cadence is the time between two decisions if nothing happens; 0 means DefaultCadence.
	Cadence time.Duration
	// Patience is the time after which a step is overdue if its job does not reach the new size, and
	// after which the rest of a decision is abandoned if no step is carried out. 0 means
	// DefaultPatience. It must exceed the termination grace period of every job.
	Patience time.Duration
	// CoolDown is the time for which a job keeps its nodes after a resize. The default is 0.
	CoolDown time.Duration
	// Backoff is the time for which a job is not resized after a failed step. It doubles with each
	// consecutive failure, up to MaxBackoff. 0 means DefaultBackoff.
	Backoff time.Duration
	// MaxShrink is the share, 0 to 1, of the nodes in use at the last decision that the pool may
	// lose. A larger loss is probably an error in the snapshot, so it is refused with a PoolError
	// until it has lasted for three times Cadence. 0 means DefaultMaxShrink. With 1 only a pool
	// without nodes is refused.
	MaxShrink float64

	// Nodes is the number of nodes of the pool by node type, or under "" if the pool has no types.
	Nodes map[string]int32
	// Groups are the groups of the last Observe. Their quotas do not count.
	Groups []*elastallocv1.Group
	// Jobs are the jobs of the last Observe, in the order of its snapshot.
	Jobs []PlanJob
	// LastProgress is the time of the last decision or of the last step that was carried out.
	LastProgress time.Time
	// Reason is why the decision was due that Snapshot was last called for. A function that requests
	// decisions may depend on it.
	Reason Reason
	// Restarts has the recent restarts of the jobs. Its JSON is a state to keep over restarts of the
	// scheduler.
	Restarts Restarts

	requested time.Time  // when Snapshot was last called
	failures  int        // consecutive failed calls for a decision
	retry     time.Time  // when a decision is due again if failures is above 0
	event     bool       // the cluster changed since requested
	lostSince time.Time  // zero if the pool has not lost too many nodes
	refused   *PoolError // nil if the pool is plausible
	machines  *machines  // nil before ObserveMachines
}

// PlanJob is the state of a job in a Plan.
type PlanJob struct {
	ID string
	// Group is the id of the group of the job, "" if it has none.
	Group string
	// Occupied is the number of nodes that the job occupies, including nodes that it is still
	// releasing.
	Occupied int32
	// Size is the number of nodes of the last step of the job.
	Size int32
	// Target is the number of nodes of the last decision.
	Target int32
	// InUse is the number of nodes that count as in use: those occupied at the last decision or, if a
	// step or the job itself has changed them since, those occupied now.
	InUse int32
	// Type is the node type of Occupied and Size.
	Type string
	// TargetType is the node type of Target.
	TargetType string
	// On has the units of the last step by machine, if ObserveMachines is called.
	On map[string]int
	// Begun is when the last step was returned, zero once it is carried out.
	Begun time.Time
	// Until is the end of the cool-down, or of the back-off if Failures is above 0.
	Until time.Time
	// Failures is the number of consecutive failures.
	Failures int

	excluded bool // whether the observed job has keep set
	kept     bool // whether the last snapshot that was sent has keep set
	warned   bool // whether Reconcile has returned a warning that the step is overdue
}

// PoolError reports that a Plan refuses a snapshot because the pool has no nodes, or too few of the
// nodes that jobs use. Jobs keep their nodes.
type PoolError struct {
	// Nodes is the size of the pool.
	Nodes int
	// InUse is the number of nodes that jobs occupy or, if it is larger, occupied at the last
	// decision.
	InUse int
	// MaxShrink is the largest share of InUse that the pool may lose.
	MaxShrink float64
	// Persists is the time for which a larger loss is refused. It is 0 for a pool without nodes,
	// which is always refused.
	Persists time.Duration
}

// Error returns the numbers and states how the refusal ends.
func (e *PoolError) Error() string {
	if e.Persists == 0 {
		return fmt.Sprintf("the pool has 0 nodes, but jobs occupy %d; total_nodes "+
			"or node_types must be the usable nodes. Jobs keep their nodes.", e.InUse)
	}
	return fmt.Sprintf("the pool has %d nodes, but jobs occupied %d at the last decision; it may lose at most %.3g%% of them. "+
		"Jobs keep their nodes until nodes return or this has lasted %.0f s.", e.Nodes, e.InUse, 100*e.MaxShrink, e.Persists.Seconds())
}

// Reconcile observes the cluster, calls decide if a decision is due, and returns the steps to begin
// now. The warnings are those of the decision, and one for each step that has become overdue. Call
// Reconcile every few seconds. It combines Observe, Due, Snapshot, Decide, DecisionFailed and Next; use
// these if a decision arrives asynchronously.
//
// If decide fails, Reconcile returns its error and no steps. The next call continues with the last
// decision, and decide is called again at the next event or after 10 s, which double with each
// consecutive failure up to Cadence. If the pool lost too many nodes, Reconcile returns a *PoolError
// and no steps, and does not call decide.
func (p *Plan) Reconcile(
	now time.Time, s *elastallocv1.Snapshot, decide func(*elastallocv1.Snapshot) (Decision, error),
) (steps []Step, warnings []*elastallocv1.Warning, err error) {
	p.Observe(now, s)
	if p.refused != nil {
		return nil, nil, p.refused
	}
	if p.Due(now) {
		sent, err := p.Snapshot(now, s)
		if err != nil {
			return nil, nil, err
		}
		decision, err := decide(sent)
		if err != nil {
			p.DecisionFailed(now)
			return nil, nil, err
		}
		p.Decide(now, decision)
		if reporting, ok := decision.(interface {
			GetReport() *elastallocv1.SolveReport
		}); ok { // A response of FillIdle has no report.
			warnings = slices.Clone(reporting.GetReport().GetWarnings())
		}
	}
	return p.Next(now), append(warnings, p.warnOverdue(now)...), nil
}

// warnOverdue returns a warning for each step that is overdue, once.
func (p *Plan) warnOverdue(now time.Time) (warnings []*elastallocv1.Warning) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		overdue := p.overdue(*j, now)
		if overdue && !j.warned {
			warnings = append(warnings, &elastallocv1.Warning{JobId: j.ID, Message: fmt.Sprintf(
				"job %s: its step to %d nodes has not completed within %.0f s, and its nodes stay reserved; send SIGTERM to its "+
					"processes, SIGKILL after a grace period, and report the step as failed",
				j.ID, j.Size, cmp.Or(p.Patience, DefaultPatience).Seconds())})
		}
		j.warned = overdue
	}
	return warnings
}

// Observe updates the state of the cluster. In the snapshot, total_nodes or node_types are the
// usable nodes, without those on which a completed job still runs. The jobs are those that have not
// completed, and current_nodes is the number of nodes that a job occupies, including nodes that it
// is still releasing. A new job with training_time has started before. A job with keep, which another
// program resizes for example, is not resized. Observe ignores all other fields.
//
// A step is carried out once its job occupies the nodes of the step. If a job changes its nodes in
// another way, its step is void. If several jobs have the same id, which is an error of the caller, they
// count as one job with keep that has the largest number of nodes.
func (p *Plan) Observe(now time.Time, s *elastallocv1.Snapshot) {
	nodes := map[string]int32{"": s.GetTotalNodes()}
	if len(s.GetNodeTypes()) > 0 {
		clear(nodes)
	}
	for _, t := range s.GetNodeTypes() {
		nodes[t.GetId()] = t.GetNodes()
	}
	p.event = p.event || !maps.Equal(p.Nodes, nodes)
	known := make(map[string]PlanJob, len(p.Jobs))
	for _, j := range p.Jobs {
		known[j.ID] = j
	}
	jobs := uniqueJobs(s)
	p.Nodes, p.Groups, p.Jobs = nodes, s.GetGroups(), make([]PlanJob, 0, len(jobs))
	for _, job := range jobs {
		occupied, nodeType := job.GetCurrentNodes(), job.GetCurrentNodeType()
		j, found := known[job.GetId()]
		delete(known, job.GetId())
		if !found {
			p.event = true
			j = PlanJob{ID: job.GetId(), Size: occupied, Target: occupied, Type: nodeType, TargetType: nodeType}
		}
		if !j.Begun.IsZero() || occupied > j.InUse {
			j.InUse = occupied
		}
		grows := j.Size > j.Occupied
		j.Group, j.Occupied = job.GetGroupId(), occupied
		if !j.Begun.IsZero() && (occupied == j.Size || grows == (occupied > j.Size)) {
			p.event = p.event || p.overdue(j, now)
			p.LastProgress, j.Begun, j.Until, j.Failures = now, time.Time{}, now.Add(p.CoolDown), 0
		}
		if j.Begun.IsZero() && (occupied != j.Size || occupied > 0 && nodeType != j.Type) {
			p.event = true
			j.Size, j.Type, j.Target, j.TargetType = occupied, nodeType, occupied, nodeType
		}
		p.event = p.event || j.excluded != job.GetKeep()
		if j.excluded = job.GetKeep(); j.excluded {
			j.Target, j.TargetType = j.Size, j.Type
		}
		p.Jobs = append(p.Jobs, j)
	}
	p.event = p.event || len(known) > 0 // They completed.
	p.observeRestarts(now, jobs)
	p.checkPool(now)
}

// uniqueJobs returns the jobs of a snapshot, one for each id.
func uniqueJobs(s *elastallocv1.Snapshot) []*elastallocv1.Job {
	jobs, index := make([]*elastallocv1.Job, 0, len(s.GetJobs())), make(map[string]int)
	for _, job := range s.GetJobs() {
		i, found := index[job.GetId()]
		if !found {
			index[job.GetId()] = len(jobs)
			jobs = append(jobs, job)
			continue
		}
		if job.GetCurrentNodes() <= jobs[i].GetCurrentNodes() {
			job = jobs[i]
		}
		jobs[i] = proto.CloneOf(job)
		jobs[i].Keep = true
	}
	return jobs
}

// observeRestarts updates Restarts. A step counts once it is carried out.
func (p *Plan) observeRestarts(now time.Time, jobs []*elastallocv1.Job) {
	resizing := make(map[string]bool)
	for _, j := range p.Jobs {
		resizing[j.ID] = !j.Begun.IsZero()
	}
	p.Restarts.Observe(now, jobs, resizing)
}

// checkPool sets refused if the pool is not plausible: see MaxShrink.
func (p *Plan) checkPool(now time.Time) {
	nodes, occupied, inUse := 0, 0, 0
	for _, n := range p.Nodes {
		nodes += int(n)
	}
	for _, j := range p.Jobs {
		occupied, inUse = occupied+int(j.Occupied), inUse+int(j.InUse)
	}
	p.refused = nil
	share := cmp.Or(p.MaxShrink, DefaultMaxShrink)
	lost := float64(inUse-nodes) > share*float64(inUse)
	switch {
	case nodes <= 0 && occupied > 0:
		p.lostSince, p.refused = time.Time{}, &PoolError{InUse: occupied}
	case !lost:
		p.lostSince = time.Time{}
	default:
		if p.lostSince.IsZero() {
			p.lostSince = now
		}
		if persists := lossDecisions * cmp.Or(p.Cadence, DefaultCadence); now.Sub(p.lostSince) < persists {
			p.refused = &PoolError{Nodes: nodes, InUse: inUse, MaxShrink: share, Persists: persists}
		}
	}
}

// Due reports whether a new decision is due. It is due at the first call, and after an event since
// the last call of Snapshot: a job arrived, completed, or changed its nodes or keep, the pool changed, a step
// failed or is overdue, a back-off has elapsed, or the rest of the decision was abandoned. Without
// an event it is due after Cadence, once the last decision is carried out, and after DecisionFailed.
func (p *Plan) Due(now time.Time) bool { return p.reason(now) != "" }

// reason returns why a decision is due, "" if none is.
func (p *Plan) reason(now time.Time) Reason {
	if p.event || p.requested.IsZero() {
		return ReasonEvent
	}
	busy := false
	for _, j := range p.Jobs {
		if p.backingOff(j, p.requested) && !p.backingOff(j, now) {
			return ReasonEvent
		}
		since := p.LastProgress
		if !j.Begun.IsZero() {
			since = j.Begun
		} else if !j.pending() || p.backingOff(j, now) {
			continue
		}
		late := p.late(since, now)
		if late && !p.late(since, p.requested) {
			return ReasonEvent
		}
		busy = busy || !late
	}
	switch {
	case p.failures > 0 && !now.Before(p.retry):
		return ReasonRetry
	case !busy && now.Sub(p.requested) >= cmp.Or(p.Cadence, DefaultCadence):
		return ReasonCadence
	default:
		return ""
	}
}

// Snapshot observes the cluster and returns the snapshot to send. It is a copy of s with these
// changes:
//
//   - A job has the size of its last step as current_nodes. If the step is overdue, or if the job has keep
//     in s, it has the nodes that it occupies or may still acquire.
//   - A job without recent_restarts has those of Restarts. If s has some for a job, they are sent.
//   - A job whose step is not carried out yet, or that is in back-off or cools down, has keep set. If jobs
//     occupy more nodes than the pool has, only jobs in back-off and jobs whose steps are overdue have.
//     A job that is being paused does not have it, so that it can be started again.
//
// The error is a *PoolError if the pool lost too many nodes.
func (p *Plan) Snapshot(now time.Time, s *elastallocv1.Snapshot) (*elastallocv1.Snapshot, error) {
	p.Observe(now, s)
	if p.refused != nil {
		return nil, p.refused
	}
	p.Reason, p.requested, p.event = cmp.Or(p.reason(now), ReasonCadence), now, false
	byID := make(map[string]*PlanJob, len(p.Jobs))
	for i := range p.Jobs {
		p.Jobs[i].InUse = p.Jobs[i].Occupied
		byID[p.Jobs[i].ID] = &p.Jobs[i]
	}
	room := p.room()
	s = proto.CloneOf(s)
	for _, job := range s.GetJobs() {
		j := byID[job.GetId()]
		fits := j.Size > 0 && room.free(j.Type) >= 0
		j.kept = j.excluded || p.overdue(*j, now) || p.backingOff(*j, now) || fits && (!j.Begun.IsZero() || now.Before(j.Until))
		job.Keep, job.CurrentNodes, job.CurrentNodeType = j.kept, j.Size, j.Type
		if j.excluded || p.overdue(*j, now) {
			job.CurrentNodes = j.reserved()
		}
		if job.GetCurrentNodes() == 0 {
			job.CurrentNodeType = ""
		}
		if len(job.GetRecentRestarts()) == 0 {
			job.RecentRestarts = p.Restarts.Recent(job.GetId())
		}
	}
	return s, nil
}

// Decide sets the targets of a decision on the last Snapshot. Steps of earlier decisions that were
// not begun are void.
func (p *Plan) Decide(now time.Time, d Decision) {
	decided := make(map[string]*elastallocv1.Allocation, len(d.GetAllocations()))
	for _, a := range d.GetAllocations() {
		decided[a.GetJobId()] = a
	}
	p.LastProgress, p.failures = now, 0
	for i := range p.Jobs {
		j := &p.Jobs[i]
		j.Target, j.TargetType = j.Size, j.Type
		if a := decided[j.ID]; a != nil && !j.kept {
			j.Target, j.TargetType = a.GetNodes(), a.GetNodeType()
		}
	}
}

// DecisionFailed reports that the call for the last Snapshot failed. A decision is due again after 10 s,
// which double with each consecutive failure up to Cadence.
func (p *Plan) DecisionFailed(now time.Time) {
	wait, cadence := firstRetry, cmp.Or(p.Cadence, DefaultCadence)
	for n := 0; n < p.failures && wait < cadence; n++ {
		wait *= 2
	}
	p.failures, p.retry = p.failures+1, now.Add(min(wait, cadence))
}

// Next returns the steps to begin now, and marks them as begun. Steps that release nodes come first.
// Each step resizes a job as a gang. A job that moves to another node type, or to other machines, is
// paused first. A job has at most one step in progress. While the pool is refused, Next returns no
// steps.
func (p *Plan) Next(now time.Time) []Step {
	if p.refused != nil || p.late(p.LastProgress, now) {
		return nil
	}
	room, places := p.room(), p.places(now)
	var frees, takes []Step
	for i := range p.Jobs {
		j := &p.Jobs[i]
		place := places[j.ID]
		leaves := place.Do == placement.Stop || place.Do == placement.Move
		if !j.Begun.IsZero() || j.excluded || p.backingOff(*j, now) || !j.pending() && !leaves || p.machines != nil && place.Do == "" {
			continue
		}
		step := Step{JobID: j.ID, Nodes: j.Target, NodeType: j.TargetType, Change: elastallocv1.Change_CHANGE_SCALE_UP}
		switch {
		case j.Size > 0 && (j.Target == 0 || j.Type != j.TargetType || leaves):
			step.Nodes, step.NodeType, step.Change = 0, "", elastallocv1.Change_CHANGE_PREEMPT
		case j.Size > j.Target:
			step.Change = elastallocv1.Change_CHANGE_SCALE_DOWN
		case !room.fits(j.Group, j.TargetType, j.Target-j.Size):
			// A later step may still use the nodes: all targets fit together.
			continue
		case j.Size == 0:
			step.Change = elastallocv1.Change_CHANGE_START
		}
		if step.Frees() {
			frees = append(frees, step)
		} else {
			room.take(j.Group, j.TargetType, j.Target-j.Size)
			takes, j.Type = append(takes, step), j.TargetType
		}
		j.Size, j.Begun, j.On = step.Nodes, now, place.On
		if step.Nodes == 0 {
			j.On = nil
		}
	}
	return append(frees, takes...)
}

// Failed reports that the step of a job in progress failed. The job keeps the nodes that it occupies,
// and is not resized before its back-off has elapsed.
func (p *Plan) Failed(now time.Time, jobID string) {
	i := slices.IndexFunc(p.Jobs, func(j PlanJob) bool { return j.ID == jobID })
	if i < 0 || p.Jobs[i].Begun.IsZero() {
		return // It completed, or the step was carried out after all.
	}
	j := &p.Jobs[i]
	wait := cmp.Or(p.Backoff, DefaultBackoff)
	for n := 0; n < j.Failures && wait < MaxBackoff; n++ {
		wait *= 2
	}
	j.Size, j.Target, j.TargetType, j.Begun = j.Occupied, j.Occupied, j.Type, time.Time{}
	j.Failures, j.Until = j.Failures+1, now.Add(min(wait, MaxBackoff))
	p.event = true
}

// Overdue returns the ids of the jobs whose steps were begun longer than Patience ago and are not
// carried out. Their nodes stay reserved until Failed is called.
func (p *Plan) Overdue(now time.Time) []string {
	var ids []string
	for _, j := range p.Jobs {
		if p.overdue(j, now) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// late reports whether Patience has passed since a time.
func (p *Plan) late(since, now time.Time) bool {
	return now.Sub(since) > cmp.Or(p.Patience, DefaultPatience)
}

// overdue reports whether the step of a job is not carried out within Patience.
func (p *Plan) overdue(j PlanJob, now time.Time) bool {
	return !j.Begun.IsZero() && p.late(j.Begun, now)
}

// backingOff reports whether a job is in back-off after a failure.
func (p *Plan) backingOff(j PlanJob, now time.Time) bool {
	return j.Failures > 0 && now.Before(j.Until)
}

// pending reports whether the target of a job differs from its last step.
func (j PlanJob) pending() bool {
	return j.Target != j.Size || j.Target > 0 && j.TargetType != j.Type
}

// reserved returns the number of nodes that the job occupies or may still acquire.
func (j PlanJob) reserved() int32 { return max(j.Occupied, j.Size) }

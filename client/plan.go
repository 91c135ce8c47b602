package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// The defaults of a Plan.
const (
	DefaultCadence  = 5 * time.Minute
	DefaultPatience = 5 * time.Minute
	DefaultBackoff  = time.Minute
	// MaxBackoff is the longest time that a job is left alone after failures.
	MaxBackoff = time.Hour
	// DefaultMaxShrink is the default of Plan.MaxShrink.
	DefaultMaxShrink = 0.3
)

// lossDecisions is for how many cadences a loss of nodes is refused.
const lossDecisions = 3

// Plan carries decisions out on a cluster whose nodes take time to come free, where resizes
// fail, and where jobs and nodes come and go meanwhile. The zero value is ready for use. It has
// no clock, makes no call and is not safe for concurrent use. A scheduler's loop is
//
//	steps, warnings, err := plan.Turn(now, snapshot, ask) // the cluster as it is, and how to decide
//	// Print err and warnings.
//	for _, step := range steps {
//		if resize(step) != nil {
//			plan.Failed(now, step.JobID)
//		}
//	}
//
// Jobs never get more nodes than are free: a step that takes nodes waits until those that it
// needs were seen to be free. What a Plan knows can be lost: the next Observe begins anew.
type Plan struct {
	// Cadence is the time between two decisions if nothing happens; 0 means DefaultCadence.
	Cadence time.Duration
	// Patience is when a step that was begun is overdue, and when the rest of a decision is given up
	// because nothing has moved; 0 means DefaultPatience. It exceeds any grace period of a job.
	Patience time.Duration
	// CoolDown is how long a job keeps its nodes after they changed; 0 is not at all.
	CoolDown time.Duration
	// Backoff is how long a job is left alone after a failure; it doubles with each further one
	// in a row, up to MaxBackoff. 0 means DefaultBackoff.
	Backoff time.Duration
	// MaxShrink is the share of the nodes in use at the last decision that the pool may lose, 0 to
	// 1; 0 means DefaultMaxShrink, 1 refuses only a pool without nodes. A larger loss is likely to be
	// a fault of the snapshot, so it is refused with a PoolError for three times Cadence.
	MaxShrink float64

	// Nodes are those of the pool by node type, "" where it has no types, and Jobs those of
	// the last Observe, in their order.
	Nodes map[string]int32
	Jobs  []PlanJob
	// Moved is when the last decision came or a step of it was last carried out.
	Moved time.Time

	asked   time.Time
	event   bool       // Something happened since then.
	lost    time.Time  // since when too many nodes are missing, zero if they are not
	refused *PoolError // nil if the pool is believed
}

// PlanJob is a job as a Plan knows it.
type PlanJob struct {
	ID string
	// Held is how many nodes it was seen to hold, those that it is still leaving included;
	// Size is how many it was last told to hold, and Target how many were decided.
	Held, Size, Target int32
	// InUse is how many it held at the last decision or, if it has got others since by a step or
	// more on its own, holds now.
	InUse int32
	// Type is the node type of Held and Size, TargetType that of Target.
	Type, TargetType string
	Begun            time.Time // when it was told Size, zero once that is carried out
	// Until is when its cool-down or its back-off after Failures in a row ends.
	Until    time.Time
	Failures int
}

// PoolError means that a Plan refuses a snapshot, because the pool has none or too few of the nodes
// that jobs use. Jobs keep their nodes.
type PoolError struct {
	// Nodes is the size of the pool, and InUse how many nodes the jobs hold or, if that is more, held
	// at the last decision.
	Nodes, InUse int
	// MaxShrink and Persists are the largest share that the pool may lose and how long a larger loss
	// is refused. For a pool without nodes Persists is 0: it is always refused.
	MaxShrink float64
	Persists  time.Duration
}

// Error names the numbers and says what ends the refusal.
func (e *PoolError) Error() string {
	if e.Persists == 0 {
		return fmt.Sprintf("the pool has 0 nodes, but jobs occupy %d; total_nodes or node_types must be the usable nodes. Jobs keep their nodes.", e.InUse)
	}
	return fmt.Sprintf("the pool has %d nodes, but jobs occupied %d at the last decision; it may lose at most %.3g%% of them. "+
		"Jobs keep their nodes until nodes return or this has lasted %.0f s.", e.Nodes, e.InUse, 100*e.MaxShrink, e.Persists.Seconds())
}

// Turn is one turn of a scheduler, every few seconds: it observes the cluster, asks for a decision
// where one is due, and returns the steps to begin now and the warnings of a decision that it asked
// for. It is Observe, Due, Snapshot, Decide and Next, which do the same where the answer comes later.
//
// If ask fails, Turn returns its error and no steps: the next turn goes on with the last decision, and
// asks at the next event or after Cadence. If the pool lost too many nodes, Turn does not ask and
// returns a *PoolError and no steps.
func (p *Plan) Turn(
	now time.Time, s *elastallocv1.Snapshot, ask func(*elastallocv1.Snapshot) (Decision, error),
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
		decision, err := ask(sent)
		if err != nil {
			return nil, nil, err
		}
		p.Decide(now, decision)
		if reporting, ok := decision.(interface {
			GetReport() *elastallocv1.SolveReport
		}); ok { // An answer of FillIdle has no report.
			warnings = reporting.GetReport().GetWarnings()
		}
	}
	return p.Next(now), warnings, nil
}

// Observe tells what the cluster is like: total_nodes or node_types are the usable nodes, those on
// which a job that ended still runs not among them, and jobs those that have not ended, with the
// nodes that they hold or are still leaving as current_nodes. Other fields are not looked at.
//
// A step is carried out once its job is seen to hold the nodes. A job that changes on its own
// voids its step.
func (p *Plan) Observe(now time.Time, s *elastallocv1.Snapshot) {
	nodes := map[string]int32{"": s.GetTotalNodes()}
	if len(s.GetNodeTypes()) > 0 {
		clear(nodes)
	}
	for _, t := range s.GetNodeTypes() {
		nodes[t.GetId()] = t.GetNodes()
	}
	for t, n := range nodes {
		p.event = p.event || p.Nodes[t] != n
	}
	known := make(map[string]PlanJob, len(p.Jobs))
	for _, j := range p.Jobs {
		known[j.ID] = j
	}
	p.Nodes, p.Jobs = nodes, make([]PlanJob, 0, len(s.GetJobs()))
	for _, told := range s.GetJobs() {
		held, nodeType := told.GetCurrentNodes(), told.GetCurrentNodeType()
		j, was := known[told.GetId()]
		delete(known, told.GetId())
		if !was {
			p.event = true
			j = PlanJob{ID: told.GetId(), Size: held, Target: held, Type: nodeType, TargetType: nodeType}
		}
		if !j.Begun.IsZero() || held > j.InUse {
			j.InUse = held
		}
		grows := j.Size > j.Held
		j.Held = held
		if !j.Begun.IsZero() && (held == j.Size || grows == (held > j.Size)) {
			p.event = p.event || p.overdue(j, now)
			p.Moved, j.Begun, j.Until, j.Failures = now, time.Time{}, now.Add(p.CoolDown), 0
		}
		if j.Begun.IsZero() && (held != j.Size || held > 0 && nodeType != j.Type) {
			p.event = true
			j.Size, j.Type, j.Target, j.TargetType = held, nodeType, held, nodeType
		}
		p.Jobs = append(p.Jobs, j)
	}
	p.event = p.event || len(known) > 0 // They ended.
	p.judge(now)
}

// judge decides whether the pool is believed: see MaxShrink.
func (p *Plan) judge(now time.Time) {
	nodes, held, inUse := 0, 0, 0
	for _, n := range p.Nodes {
		nodes += int(n)
	}
	for _, j := range p.Jobs {
		held, inUse = held+int(j.Held), inUse+int(j.InUse)
	}
	p.refused = nil
	share := cmp.Or(p.MaxShrink, DefaultMaxShrink)
	lost := float64(inUse-nodes) > share*float64(inUse)
	switch {
	case nodes <= 0 && held > 0:
		p.lost, p.refused = time.Time{}, &PoolError{InUse: held}
	case !lost:
		p.lost = time.Time{}
	default:
		if p.lost.IsZero() {
			p.lost = now
		}
		if persists := lossDecisions * cmp.Or(p.Cadence, DefaultCadence); now.Sub(p.lost) < persists {
			p.refused = &PoolError{Nodes: nodes, InUse: inUse, MaxShrink: share, Persists: persists}
		}
	}
}

// Due reports whether to ask for a decision: a job came, ended or changed on its own, nodes came or
// went, a step failed or is overdue, or a back-off ended since Snapshot was last called; the rest of
// the decision is given up; or all of it is carried out and Cadence has passed.
func (p *Plan) Due(now time.Time) bool {
	if p.event || p.asked.IsZero() {
		return true
	}
	busy := false
	for _, j := range p.Jobs {
		if p.leftAlone(j, p.asked) && !p.leftAlone(j, now) {
			return true
		}
		since := p.Moved
		if !j.Begun.IsZero() {
			since = j.Begun
		} else if !j.pending() || p.leftAlone(j, now) {
			continue
		}
		late := p.late(since, now)
		if late && !p.late(since, p.asked) {
			return true
		}
		busy = busy || !late
	}
	return !busy && now.Sub(p.asked) >= cmp.Or(p.Cadence, DefaultCadence)
}

// Snapshot observes the cluster and returns the snapshot to ask about: the given one, where a job
// holds what it was told to. A job on its way there, or that cools down, may have no other size,
// unless jobs hold more than the pool has, its speed table has not an entry for each of its
// allowed_nodes, or it has sizes or a scaling of their own for node types. Jobs whose step is
// overdue, or failed a short while ago, are left out with their nodes: see Reserve. The error is a
// *PoolError: the pool lost too many nodes.
func (p *Plan) Snapshot(now time.Time, s *elastallocv1.Snapshot) (*elastallocv1.Snapshot, error) {
	p.Observe(now, s)
	if p.refused != nil {
		return nil, p.refused
	}
	p.asked, p.event = now, false
	for i := range p.Jobs {
		p.Jobs[i].InUse = p.Jobs[i].Held
	}
	free := p.free()
	s = proto.CloneOf(s)
	all := s.GetJobs()
	s.Jobs = nil
	for i, job := range all {
		j := p.Jobs[i]
		if p.overdue(j, now) || p.leftAlone(j, now) {
			Reserve(s, job.GetGroupId(), j.Type, j.reserved())
			continue
		}
		if job.CurrentNodes = j.Size; j.Size == 0 {
			job.CurrentNodeType = ""
		} else if job.CurrentNodeType = j.Type; free[j.Type] >= 0 && (!j.Begun.IsZero() || now.Before(j.Until)) {
			pin(job)
		}
		s.Jobs = append(s.Jobs, job)
	}
	return s, nil
}

// Decide takes a decision on the last Snapshot. Steps of earlier decisions that were not begun are
// void.
func (p *Plan) Decide(now time.Time, d Decision) {
	decided := make(map[string]*elastallocv1.Allocation, len(d.GetAllocations()))
	for _, a := range d.GetAllocations() {
		decided[a.GetJobId()] = a
	}
	p.Moved = now
	for i := range p.Jobs {
		j := &p.Jobs[i]
		j.Target, j.TargetType = j.Size, j.Type
		if a := decided[j.ID]; a != nil {
			j.Target, j.TargetType = a.GetNodes(), a.GetNodeType()
		}
	}
}

// Next returns the steps to begin now, those that free nodes first, and takes them as begun. Each
// resizes a job as a gang; a job that moves to another node type is first paused. A job has one
// step under way at a time. While the pool is refused there are none.
func (p *Plan) Next(now time.Time) []Step {
	if p.refused != nil || p.late(p.Moved, now) {
		return nil
	}
	free := p.free()
	var frees, takes []Step
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if !j.Begun.IsZero() || !j.pending() || p.leftAlone(*j, now) {
			continue
		}
		step := Step{JobID: j.ID, Nodes: j.Target, NodeType: j.TargetType, Change: elastallocv1.Change_CHANGE_SCALE_UP}
		switch {
		case j.Size > 0 && (j.Target == 0 || j.Type != j.TargetType):
			step.Nodes, step.NodeType, step.Change = 0, "", elastallocv1.Change_CHANGE_PREEMPT
		case j.Size > j.Target:
			step.Change = elastallocv1.Change_CHANGE_SCALE_DOWN
		case j.Target-j.Size > free[j.TargetType]:
			// It takes nothing from a later one: all that was decided fits.
			continue
		case j.Size == 0:
			step.Change = elastallocv1.Change_CHANGE_START
		}
		if step.Frees() {
			frees = append(frees, step)
		} else {
			free[j.TargetType] -= j.Target - j.Size
			takes, j.Type = append(takes, step), j.TargetType
		}
		j.Size, j.Begun = step.Nodes, now
	}
	return append(frees, takes...)
}

// Failed tells that the step of a job which is under way failed and is given up: the job holds what
// it is seen to hold, and is left alone for a while.
func (p *Plan) Failed(now time.Time, jobID string) {
	i := slices.IndexFunc(p.Jobs, func(j PlanJob) bool { return j.ID == jobID })
	if i < 0 || p.Jobs[i].Begun.IsZero() {
		return // It ended, or the step was carried out after all.
	}
	j := &p.Jobs[i]
	wait := cmp.Or(p.Backoff, DefaultBackoff)
	for n := 0; n < j.Failures && wait < MaxBackoff; n++ {
		wait *= 2
	}
	j.Size, j.Target, j.TargetType, j.Begun = j.Held, j.Held, j.Type, time.Time{}
	j.Failures, j.Until = j.Failures+1, now.Add(min(wait, MaxBackoff))
	p.event = true
}

// Overdue returns the jobs whose steps were begun longer than Patience ago and are not carried out.
// Nodes that they may yet take or have not left are not given away, until Failed.
func (p *Plan) Overdue(now time.Time) []string {
	var ids []string
	for _, j := range p.Jobs {
		if p.overdue(j, now) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// late reports whether Patience has passed since a moment.
func (p *Plan) late(since, now time.Time) bool {
	return now.Sub(since) > cmp.Or(p.Patience, DefaultPatience)
}

// free returns how many nodes of each type no job holds or may yet take: less than 0 where the pool
// shrank.
func (p *Plan) free() map[string]int32 {
	free := maps.Clone(p.Nodes)
	for _, j := range p.Jobs {
		free[j.Type] -= j.reserved()
	}
	return free
}

// overdue reports whether a job's step should have been carried out by now.
func (p *Plan) overdue(j PlanJob, now time.Time) bool {
	return !j.Begun.IsZero() && p.late(j.Begun, now)
}

// leftAlone reports whether a job failed a short while ago.
func (p *Plan) leftAlone(j PlanJob, now time.Time) bool { return j.Failures > 0 && now.Before(j.Until) }

// pending reports whether a job is to have other nodes than it was told.
func (j PlanJob) pending() bool {
	return j.Target != j.Size || j.Target > 0 && j.TargetType != j.Type
}

// reserved returns how many nodes the job holds or may yet take.
func (j PlanJob) reserved() int32 { return max(j.Held, j.Size) }

// pin leaves a running job no size or node type but those that it has, if those of its speeds allow.
func pin(job *elastallocv1.Job) {
	nodes, nodeType := job.GetCurrentNodes(), job.GetCurrentNodeType()
	if slices.ContainsFunc(job.GetSpeeds(), func(t *elastallocv1.TypeSpeed) bool { return t.GetScaling() != nil || len(t.GetAllowedNodes()) > 0 }) {
		return
	}
	if table := job.GetScaling().GetTable(); table == nil {
		job.AllowedNodes = []int32{nodes}
	} else if len(table.GetSpeeds()) != len(job.GetAllowedNodes()) || !slices.Contains(job.GetAllowedNodes(), nodes) {
		return
	}
	job.MinNodes, job.MaxNodes = &nodes, &nodes
	if nodeType != "" {
		job.Speeds = slices.DeleteFunc(job.GetSpeeds(), func(t *elastallocv1.TypeSpeed) bool { return t.GetNodeType() != nodeType })
		if len(job.GetSpeeds()) == 0 {
			job.Speeds = []*elastallocv1.TypeSpeed{{NodeType: nodeType}}
		}
	}
}

// Reserve makes a snapshot that leaves a job out ask about no node which that job holds: they are
// taken from the pool, or from their node type, and from the job's group with those that it is
// part of.
func Reserve(s *elastallocv1.Snapshot, groupID, nodeType string, nodes int32) {
	taken := nodes
	for _, t := range s.GetNodeTypes() {
		if t.GetId() == nodeType {
			taken = min(nodes, t.GetNodes())
			t.Nodes -= taken
		}
	}
	s.TotalNodes = max(0, s.GetTotalNodes()-taken) // With types 0 or their sum.
	of := make(map[string]*elastallocv1.Group, len(s.GetGroups()))
	for _, group := range s.GetGroups() {
		of[group.GetId()] = group
	}
	group := of[groupID]
	for range of { // Groups that are part of themselves end, too.
		if group == nil {
			break
		}
		group.Quota = max(0, group.GetQuota()-nodes)
		if group.Limit != nil {
			*group.Limit = max(0, group.GetLimit()-nodes)
		}
		group = of[group.GetParentId()]
	}
}

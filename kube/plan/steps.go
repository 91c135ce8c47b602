package plan

import (
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// Target is the decided size of a job and the record to write with it.
type Target struct {
	Job    *world.Job
	Nodes  int
	Type   string // node type of the nodes, "" for no nodes or in a pool of identical nodes
	Record world.Record
}

// Decision identifies and describes a decision.
type Decision struct {
	ID    string
	Mode  string   // ModeRecommend or ModeApply
	Gap   *float64 // relative optimality gap, nil if unknown
	Total int      // assumed number of nodes, 0 for the nodes of the pool
}

// Targets returns the targets to write on jobs before any job is resized. The response must have passed
// Check. Jobs whose target and record are already correct are not included. Every record contains the number
// of targets, so that a decision that was only partly written can be detected.
func Targets(w *world.ClusterState, d Decision, r Request, a Response) []Target {
	var targets []Target
	write := func(j *world.Job, nodes int, nodeType string) {
		record := j.NextRecord(j.Nodes(), w.Now)
		record.ID, record.At, record.Mode, record.Gap, record.Total, record.From = d.ID,
			w.Now.UTC().Truncate(time.Millisecond), d.Mode, d.Gap, d.Total, j.Nodes()
		targets = append(targets, Target{Job: j, Nodes: nodes, Type: nodeType, Record: record})
	}
	for i, j := range r.Jobs {
		nodes, nodeType := int(a.GetAllocations()[i].GetNodes()), a.GetAllocations()[i].GetNodeType()
		// In recommend mode, a job may differ from its target for a long time.
		pending := (nodes != j.Nodes() || nodes > 0 && nodeType != j.Type) && (w.Apply || j.Record == nil || j.Record.Mode != d.Mode)
		if !j.HasTarget || j.Target != nodes || j.TargetType != nodeType || j.NeedsRecord() || pending {
			write(j, nodes, nodeType)
		}
	}
	for _, omitted := range r.Omitted {
		switch j := omitted.Job; omitted.Reason {
		case Unused:
			if j.Nodes() > 0 || !j.HasTarget || j.Target != 0 || j.NeedsRecord() {
				write(j, 0, "")
			}
		case Cooldown, NoPause, Spared: // The target of an earlier decision is void.
			nodeType := j.Type
			if j.Nodes() == 0 {
				nodeType = ""
			}
			if !j.HasTarget || j.Target != j.Nodes() || j.TargetType != nodeType || j.NeedsRecord() {
				write(j, j.Nodes(), nodeType)
			}
		}
	}
	for i := range targets {
		targets[i].Record.Jobs = len(targets)
	}
	return targets
}

// Step is the resize of one job.
type Step struct {
	Job *world.Job
	// From and To are the sizes before and after; 0 means suspended.
	From, To int
	// Type is the node type of To, "" if To is 0 or in a pool of identical nodes. MovesTo is the type on which a later step
	// starts a job that this step suspends, "" for none.
	Type, MovesTo string
	// selector is the node selector that the step writes, nil for none.
	selector map[string]string
	// Queued is true if the job waits for Kueue and stays suspended. Kueue starts it with To nodes.
	Queued bool
}

// Frees reports whether the step frees nodes.
func (s Step) Frees() bool { return s.To < s.From }

// Moves reports whether the step changes the node type of a running job.
func (s Step) Moves() bool { return s.From > 0 && s.To > 0 && s.Type != s.Job.Type }

// Patches returns the patches that take the step, and the number of nodes that the job then has.
func (s Step) Patches() (patches []kinds.Patch, nodes int) {
	shape := s.Job.Shape
	if s.Queued {
		shape.Suspended = false // The patches do not resume the job.
		return s.Job.Kind.Resize(shape, s.To), 0
	}
	patches = s.Job.Kind.Resize(shape, s.To)
	if s.selector != nil {
		last := &patches[len(patches)-1]
		last.Operations = append(last.Operations, shape.Select(s.selector))
	}
	return patches, s.To
}

// Record returns the record of the job after the step, at the time now.
func (s Step) Record(now time.Time) world.Record {
	_, nodes := s.Patches()
	record := s.Job.NextRecord(nodes, now)
	if s.selector != nil {
		record.Type, record.Chosen = s.Type, true
	}
	return record
}

// Plan contains the remaining steps of a decision.
type Plan struct {
	// ID is the ID of the decision, "" if there is no decision to apply.
	ID string
	// Ready are the steps that may be taken now, in parallel. Waiting are steps whose nodes are not free
	// yet, and steps of jobs that still grow.
	Ready, Waiting []Step
	// Conflicts are steps of jobs that have neither their size before nor their size after the step, because
	// another writer resized them.
	Conflicts []Step
	// Settling is true while pods are terminating.
	Settling bool
	// Expires is the time at which Waiting steps are given up.
	Expires time.Time
}

// Done reports whether the decision is applied completely.
func (p *Plan) Done() bool { return len(p.Ready) == 0 && len(p.Waiting) == 0 && !p.Settling }

// Steps returns the remaining steps of the latest decision in the records of the jobs. It returns an empty
// plan for a decision in recommend mode and for a decision that was not written completely. The result
// depends only on the state of the cluster, so a restarted controller continues where the previous one
// stopped. If current is not "", only the decision with that ID counts.
func Steps(w *world.ClusterState, current string) Plan {
	last, written := lastDecision(w, current)
	if last == nil || last.Mode != ModeApply || !w.Apply || current == "" && written < last.Jobs {
		return Plan{}
	}
	r := newRollout(w, last)
	for _, j := range w.Jobs {
		r.add(j)
	}
	return r.finish()
}

// rollout derives the plan of a decision. It first classifies the step of each job. client.Plan then decides which of the
// pending steps have free nodes within the limits of the groups.
type rollout struct {
	state   *world.ClusterState
	last    *world.Record // the decision, from the record of any of its jobs
	plan    Plan
	pending map[string]Step // by job
	decides client.Plan     // with the nodes by type, and the jobs on them
	grace   time.Duration   // longest grace period of a job of the decision
}

// newRollout returns the rollout of a decision without jobs.
func newRollout(w *world.ClusterState, last *world.Record) *rollout {
	r := &rollout{
		state: w, last: last, plan: Plan{ID: last.ID}, pending: make(map[string]Step),
		decides: client.Plan{Nodes: make(map[string]int32), Groups: groups(w)},
	}
	if r.decides.LastProgress = last.At; last.At.After(w.Now) {
		r.decides.LastProgress = w.Now // The clock was set back.
	}
	for _, nodeType := range w.Pool.TypeNames() {
		n := w.NodesOf(nodeType)
		r.decides.Nodes[nodeType] = int32(n.Accepting - n.Promised + w.NodesToAdd(last.Total))
	}
	return r
}

// add adds the nodes that a job occupies, and its step.
func (r *rollout) add(j *world.Job) {
	byType, on, group := r.state.OccupiedByType(j), r.state.Typed(j), groupOf(r.state, j)
	for nodeType, n := range byType { // Pods that terminate after a move.
		if nodeType != on {
			r.decides.Jobs = append(r.decides.Jobs, stays("", group, int32(n), nodeType))
		}
	}
	occupied := int32(byType[on])
	if r.state.Pool.MaxNodes > 0 {
		occupied += int32(j.AwaitedNodes())
	}
	job := stays(j.ID, group, occupied, on)
	r.plan.Settling = r.plan.Settling || j.Pods.Terminating > 0 || j.Pods.Live > j.Nodes() && j.Resizable()
	if j.Record != nil && j.Record.ID == r.last.ID && j.HasTarget {
		r.observe(j)
		r.addStep(j, &job)
	}
	r.decides.Jobs = append(r.decides.Jobs, job)
}

// stays returns a job that stays on its nodes.
func stays(id, group string, nodes int32, nodeType string) client.PlanJob {
	return client.PlanJob{ID: id, Group: group, Occupied: nodes, Size: nodes, Target: nodes, Type: nodeType, TargetType: nodeType}
}

// observe updates the times of the decision with those of one of its jobs.
func (r *rollout) observe(j *world.Job) {
	if changed := j.Record.Changed; changed != nil && changed.After(r.decides.LastProgress) && !changed.After(r.state.Now) {
		r.decides.LastProgress = *changed
	}
	r.grace = max(r.grace, j.Shape.Grace)
}

// addStep adds the step of a job of the decision by its class. job is the job of a pending step.
func (r *rollout) addStep(j *world.Job, job *client.PlanJob) {
	step, class := stepOf(r.state, j)
	switch class {
	case stepNone:
	case stepReady:
		r.plan.Ready = append(r.plan.Ready, step)
	case stepConflict:
		r.plan.Conflicts = append(r.plan.Conflicts, step)
	case stepPending:
		r.pending[j.ID] = step
		job.Size, job.Target = int32(step.From-j.Pods.Away), int32(step.To-j.Pods.Away)
		if step.Type != "" {
			job.TargetType = step.Type
		}
		leaves := step.Frees() || job.TargetType != job.Type
		selects := step.From == 0 && step.selector != nil
		if leaves && j.Growing || selects && !j.Shape.MaySelect() {
			job.Begun = r.state.Now // An earlier step is not complete.
		}
	}
}

// finish returns the plan, once all jobs have been added.
func (r *rollout) finish() Plan {
	r.decides.Patience = r.grace + r.state.Pool.SettleTimeout
	if r.state.Nodes.Expected > 0 {
		r.decides.Patience += r.state.Pool.NodeGracePeriod
	}
	r.plan.Expires = r.decides.LastProgress.Add(r.decides.Patience)
	for _, next := range r.decides.Next(r.state.Now) {
		step := r.pending[next.JobID]
		if next.Nodes == 0 && step.To > step.Job.Pods.Away { // The job is suspended, to move.
			step.To, step.Type, step.MovesTo, step.selector = 0, "", step.Type, nil
		}
		r.plan.Ready = append(r.plan.Ready, step)
		delete(r.pending, next.JobID)
	}
	for _, j := range r.state.Jobs {
		if step, waits := r.pending[j.ID]; waits {
			r.plan.Waiting = append(r.plan.Waiting, step)
		}
	}
	return r.plan
}

// stepClass is what becomes of the step of a job.
type stepClass int

const (
	stepNone     stepClass = iota // there is nothing to do, or the step may not be taken
	stepReady                     // it needs no free nodes
	stepConflict                  // another writer resized the job
	stepPending                   // it may have to wait for free nodes
)

// stepOf returns the step of a job to its target.
func stepOf(w *world.ClusterState, j *world.Job) (Step, stepClass) {
	step := Step{Job: j, From: j.Nodes(), To: j.Target, Type: j.TargetType}
	changes := step.To > 0 && step.Type != j.Type
	if changes && !j.Kueue {
		step.selector = w.Pool.Select(j.Shape.Pod.NodeSelector, step.Type)
	}
	switch {
	case !j.Resizable() || step.From == step.To && !changes:
		return step, stepNone
	case changes && step.From > 0 && !w.MayMove(j), step.From == 0 && step.selector != nil && (!j.Shape.CanSelect() || j.TypeFixed):
		return step, stepNone
	case step.To == 0 && !w.MayPause(j): // The decision was made before the outage.
		return step, stepNone
	case step.From == 0 && j.Shape.StartSize > 0 && step.To != j.Shape.StartSize: // The decision did not know StartSize.
		return step, stepNone
	case j.Kueue && (step.To == 0 || step.From == 0 && step.To >= j.Shape.Size): // Kueue starts and suspends the job.
		return step, stepNone
	case j.Kueue && step.From == 0:
		return Step{Job: j, From: j.Shape.Size, To: step.To, Queued: true}, stepReady
	case j.Moving():
		return step, stepPending
	case step.From != j.Record.From, j.Record.Changed != nil && !j.Record.Changed.Before(j.Record.At):
		return step, stepConflict
	default:
		return step, stepPending
	}
}

// The modes of the controller, as in records.
const (
	ModeRecommend = "recommend"
	ModeApply     = "apply"
)

// lastDecision returns a record of the decision with the ID current, or of the latest decision if current is
// "", and the number of jobs that have a record of it. Users can write records, too. So later records do
// not replace the current decision, and records in the future are ignored.
func lastDecision(w *world.ClusterState, current string) (last *world.Record, written int) {
	for _, j := range w.Jobs {
		switch r := j.Record; {
		case r == nil || r.ID == "":
		case current != "" && r.ID != current, current == "" && r.At.After(w.Now):
		case last == nil || r.At.After(last.At) || r.At.Equal(last.At) && r.ID > last.ID:
			last, written = r, 1
		case r.ID == last.ID:
			written++
		}
	}
	return last, written
}

// String describes the step.
func (s Step) String() string {
	switch {
	case s.Queued:
		return fmt.Sprintf("wait for %d instead of %d nodes", s.To, s.From)
	case s.Moves():
		return fmt.Sprintf("%d nodes of type %s -> %d nodes of type %s", s.From, s.Job.Type, s.To, s.Type)
	case s.From == 0 && s.Type != "":
		return fmt.Sprintf("start with %d nodes of type %s", s.To, s.Type)
	case s.From == 0:
		return fmt.Sprintf("start with %d nodes", s.To)
	case s.MovesTo != "":
		return fmt.Sprintf("suspend, freeing %d nodes of type %s, to move to type %s", s.From, s.Job.Type, s.MovesTo)
	case s.To == 0:
		return fmt.Sprintf("pause, freeing %d nodes", s.From)
	}
	return fmt.Sprintf("%d -> %d nodes", s.From, s.To)
}

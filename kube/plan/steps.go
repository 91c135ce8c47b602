package plan

import (
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/kube/world"
)

// Target is a size that was decided for a job, and the record to note with it.
type Target struct {
	Job    *world.Job
	Nodes  int
	Record world.Record
}

// Decision is what is known of a decision beside its targets.
type Decision struct {
	ID    string
	Mode  string
	Gap   *float64
	Total int // the nodes it is made for, 0 for those of the pool
}

// Targets returns what is to be written on the jobs of a request before anything is
// resized, given an answer that passed Check: every job whose target or record is not what
// it should be. All carry their number, so that some of them are known as some.
func Targets(w *world.World, d Decision, r Request, a Answer) []Target {
	var targets []Target
	write := func(j *world.Job, nodes int) {
		record := j.NextRecord(j.Nodes(), w.Now)
		record.ID, record.At, record.Mode, record.Gap, record.Total, record.From = d.ID, w.Now.UTC().Truncate(time.Millisecond), d.Mode, d.Gap, d.Total, j.Nodes()
		targets = append(targets, Target{Job: j, Nodes: nodes, Record: record})
	}
	for i, j := range r.Jobs {
		nodes := int(a.GetAllocations()[i].GetNodes())
		// In recommend mode a job may differ from its target for long.
		pending := nodes != j.Nodes() && (w.Apply || j.Record == nil || j.Record.Mode != d.Mode)
		if !j.HasTarget || j.Target != nodes || j.NeedsRecord() || pending {
			write(j, nodes)
		}
	}
	for _, left := range r.Left {
		switch j := left.Job; left.Reason {
		case Unused:
			if j.Nodes() > 0 || !j.HasTarget || j.Target != 0 || j.NeedsRecord() {
				write(j, 0)
			}
		case Cooldown, NoPause, Spared: // What an earlier decision wanted of it is void.
			if !j.HasTarget || j.Target != j.Nodes() || j.NeedsRecord() {
				write(j, j.Nodes())
			}
		}
	}
	for i := range targets {
		targets[i].Record.Jobs = len(targets)
	}
	return targets
}

// Step is one job to resize.
type Step struct {
	Job *world.Job
	// From and To are its nodes before and after; 0 is suspended.
	From, To int
}

// Frees reports whether the step frees nodes.
func (s Step) Frees() bool { return s.To < s.From }

// Plan is what a decision still asks for.
type Plan struct {
	// ID is the decision, "" where there is none to carry out.
	ID string
	// Now are the steps that may be taken now, all at once. Waiting are those whose nodes are
	// not free yet, and those of jobs some of whose pods are still to come.
	Now, Waiting []Step
	// Conflicts are jobs that hold neither what they held nor what they were to get:
	// another writer resized them.
	Conflicts []Step
	// Settling says that pods are still leaving.
	Settling bool
	// Expires is when Waiting steps are given up.
	Expires time.Time
}

// Done reports whether the cluster is as was decided.
func (p *Plan) Done() bool { return len(p.Now) == 0 && len(p.Waiting) == 0 && !p.Settling }

// Steps returns what is left to do of the last decision noted on the jobs of a world, but not of
// one of recommend mode or one that was not written to its end. It depends on nothing else, so
// that a controller which ended at any point goes on where it was. One that knows the current
// decision names it; any other is void then.
func Steps(w *world.World, current string) Plan {
	var p Plan
	last, written := lastDecision(w, current)
	if last == nil || last.Mode != ModeApply || !w.Apply || current == "" && written < last.Jobs {
		return p
	}
	p.ID = last.ID
	progress, grace := last.At, time.Duration(0)
	if progress.After(w.Now) {
		progress = w.Now // The clock was set back.
	}
	carried := client.Plan{Nodes: map[string]int32{"": int32(w.Nodes.Accepting - w.Nodes.Promised + w.Coming(last.Total))}}
	pending := make(map[string]Step)
	for _, j := range w.Jobs {
		held := int32(j.Held())
		job := client.PlanJob{ID: j.ID, Occupied: held, Size: held, Target: held}
		p.Settling = p.Settling || j.Pods.Terminating > 0 || j.Pods.Live > j.Nodes() && j.Movable()
		if j.Record != nil && j.Record.ID == last.ID && j.HasTarget {
			if changed := j.Record.Changed; changed != nil && changed.After(progress) && !changed.After(w.Now) {
				progress = *changed
			}
			grace = max(grace, j.Shape.Grace)
			switch step := (Step{Job: j, From: j.Nodes(), To: j.Target}); {
			case !j.Movable() || step.From == step.To:
			case step.To == 0 && !w.MayPause(j): // That was decided before the outage.
			case step.From == 0 && j.Shape.StartSize > 0 && step.To != j.Shape.StartSize: // That was decided before it was known.
			case j.Kueue && (step.From == 0 || step.To == 0): // That is Kueue's to do.
			case step.From != j.Record.From, j.Record.Changed != nil && !j.Record.Changed.Before(j.Record.At):
				p.Conflicts = append(p.Conflicts, step)
			default:
				pending[j.ID], job.Size, job.Target = step, int32(step.From), int32(step.To)
				if step.Frees() && j.Growing {
					job.Begun = w.Now
				}
			}
		}
		carried.Jobs = append(carried.Jobs, job)
	}
	carried.LastProgress, carried.Patience = progress, grace+w.Pool.SettleTimeout
	if w.Nodes.Expected > 0 {
		carried.Patience += w.Pool.NodeGracePeriod
	}
	p.Expires = progress.Add(carried.Patience)
	for _, step := range carried.Next(w.Now) {
		p.Now = append(p.Now, pending[step.JobID])
		delete(pending, step.JobID)
	}
	for _, j := range w.Jobs {
		if step, waits := pending[j.ID]; waits {
			p.Waiting = append(p.Waiting, step)
		}
	}
	return p
}

// The modes, as records name them.
const (
	ModeRecommend = "recommend"
	ModeApply     = "apply"
)

// lastDecision returns a record of the current decision, or of the latest where that is "", and how
// many jobs carry it. Users can write records too: a later one does not void the current decision,
// and one of the future is not the latest.
func lastDecision(w *world.World, current string) (last *world.Record, written int) {
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
	case s.From == 0:
		return fmt.Sprintf("start with %d nodes", s.To)
	case s.To == 0:
		return fmt.Sprintf("pause, freeing %d nodes", s.From)
	}
	return fmt.Sprintf("%d -> %d nodes", s.From, s.To)
}

package replay

import (
	"time"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// observation is the state of a job in a call.
type observation struct {
	call       int
	job        *solver.Job
	fits       bool // the pool, of node types
	allocation Allocation
	assigned   Allocation // noResponse nodes if there is no response
}

const noResponse = -1 // nodes

// fate is the known outcome of a job.
type fate int

const (
	fateCompleted fate = iota // between two snapshots
	fateRunning               // after the last snapshot
	fateWithdrawn             // before any snapshot showed it with nodes
	fateNeverFits             // the pool was always too small
)

// track contains the observations of a job and its reconstruction.
type track struct {
	// id is the ID of the job, with a number if an earlier job had the same ID.
	id           string
	work         sim.WorkloadJob
	observations []observation
	fate         fate
	// initial reports that the first snapshot contains the job.
	initial bool
	// submitUnknown reports that the time of submission is not known. unseenChanges counts resizes
	// that no response explains.
	submitUnknown bool
	unseenChanges int
	// endGap is the time between the two snapshots between which the job completed.
	endGap time.Duration
	// seen contains the allocations that were observed.
	seen map[Allocation]bool
}

// history reconstructs the schedule of jobs from observations.
type history struct {
	calls []Call
	// followsDecisions reports that the scheduler applies most decisions. reportsTraining reports that
	// it sets training times, so that 0 means 0.
	followsDecisions, reportsTraining bool
	pool                              int // the largest
	types                             []solver.NodeType
	// frequency is the decision interval of simulations. Scaling delays must be shorter.
	frequency time.Duration
}

// countFollowed returns the number of assigned resizes, and the number of these that the next snapshot
// contains.
func countFollowed(tracks []*track) (changes, carriedOut int) {
	for _, t := range tracks {
		for n := 1; n < len(t.observations); n++ {
			before, after := &t.observations[n-1], &t.observations[n]
			if before.assigned.Nodes != noResponse && before.assigned != before.allocation {
				changes++
				if after.allocation == before.assigned {
					carriedOut++
				}
			}
		}
	}
	return changes, carriedOut
}

func (h *history) at(s *observation) time.Duration { return h.calls[s.call].At }

// reconstruct sets the workload job and the fate of a track.
func (h *history) reconstruct(t *track) {
	first, last := &t.observations[0], &t.observations[len(t.observations)-1]
	like := *first.job
	t.work = sim.WorkloadJob{
		ID: t.id, Shape: sim.Shape{As: &like}, Group: like.GroupID, Fate: sim.OutcomeCompleted,
		RestartTime: like.RestartTime.Round(time.Second), ReportsWork: like.WorkDone > 0,
	}
	if t.work.RestartTime == 0 {
		t.work.ResizeDelay = min(like.ResizeDelay.Round(time.Second), h.frequency-time.Second)
	}
	t.initial = first.call == 0
	h.submit(t)

	c := newTrajectory(&t.work, h.types)
	h.firstNodes(t, c)
	for n := range t.observations {
		h.updateEstimate(t, c, &t.observations[n])
		if n+1 < len(t.observations) {
			h.between(t, c, &t.observations[n], &t.observations[n+1])
		}
	}
	h.end(t, c, last)
	t.work.Recorded = c.allocations
	t.work.Demand = t.work.Work
	t.seen = make(map[Allocation]bool)
	for _, allocation := range c.allocations {
		t.seen[Allocation{allocation.Nodes, allocation.NodeType}] = true
		t.work.RequestedNodes = max(t.work.RequestedNodes, allocation.Nodes)
	}
	t.work.RequestedNodes = max(1, t.work.RequestedNodes)
	if len(h.types) == 0 && like.LegalSizes()[0] > h.pool || len(h.types) > 0 && !first.fits {
		t.fate = fateNeverFits
	}
}

// submit sets the submission and the history of a job from its waiting and training times.
func (h *history) submit(t *track) {
	first := &t.observations[0]
	trained, waited := first.job.TrainingTime.Round(time.Second), first.job.WaitingTime.Round(time.Second)
	now := h.at(first)
	earliest := now
	switch {
	case t.initial:
		t.work.History.Nodes, t.work.History.NodeType, t.work.History.Work = first.allocation.Nodes, first.allocation.NodeType, first.job.WorkDone
	case h.reportsTraining || waited > 0:
		earliest = max(now-trained-waited, h.calls[first.call-1].At)
	default:
		t.submitUnknown = true
	}
	t.work.Submit = earliest
	// Times before the submission count as history.
	since := now - earliest
	seenTraining := min(trained, since)
	t.work.History.Trained = trained - seenTraining
	t.work.History.Waited = max(0, waited-(since-seenTraining))
}

// firstNodes adds the start of a job that has nodes in its first snapshot.
func (h *history) firstNodes(t *track, c *trajectory) {
	first := &t.observations[0]
	if t.initial || first.allocation.Nodes == 0 {
		return
	}
	seen := min(first.job.TrainingTime.Round(time.Second), h.at(first)-t.work.Submit)
	if !h.reportsTraining {
		t.unseenChanges++
	}
	c.resize(first.allocation, h.at(first)-seen)
}

// updateEstimate adds an ETA update if the remaining ETA of a snapshot differs from the previous estimate
// less the work done.
func (h *history) updateEstimate(t *track, c *trajectory, s *observation) {
	served, demand := c.progress.Served(h.at(s)), sim.DemandOf(s.job)
	if t.work.UserEstimate == 0 {
		t.work.UserEstimate = served + demand
		return
	}
	estimate := sim.ETAUpdate{ETA: t.work.UserEstimate}
	if n := len(t.work.ETAUpdates); n > 0 {
		estimate = t.work.ETAUpdates[n-1]
	}
	expected := estimate.ETA - (served - estimate.Served)
	if off := demand - expected; off > time.Millisecond || off < -time.Millisecond {
		t.work.ETAUpdates = append(t.work.ETAUpdates, sim.ETAUpdate{Served: served, ETA: demand})
	}
}

// between adds the resize between two snapshots, if any.
func (h *history) between(t *track, c *trajectory, before, after *observation) {
	from, to := h.at(before), h.at(after)
	allocation, now := before.allocation, after.allocation
	trained := (after.job.TrainingTime - before.job.TrainingTime).Round(time.Second)
	trained = min(max(trained, 0), to-from)
	switch {
	case now == allocation:
	case allocation.Nodes == 0 && h.reportsTraining:
		c.resize(now, to-trained)
	case now.Nodes == 0 && h.reportsTraining:
		c.resize(now, from+trained)
	case before.assigned == now:
		c.resize(now, from) // The decision was applied.
	default:
		t.unseenChanges++
		c.resize(now, from+((to-from)/2).Round(time.Second))
	}
}

// end sets the completion and the work of a job from its last observation.
func (h *history) end(t *track, c *trajectory, last *observation) {
	at := h.at(last)
	if last.assigned.Nodes != noResponse && h.followsDecisions {
		c.resize(last.assigned, at)
	}
	work := c.progress.Served(at) + sim.DemandOf(last.job)
	if last.call == len(h.calls)-1 {
		t.fate, t.work.Work = fateRunning, work
		return
	}
	if len(c.allocations) == 0 {
		t.fate, t.work.Work = fateWithdrawn, work
		return
	}
	next := h.calls[last.call+1].At
	t.endGap = next - at
	end, ends := c.progress.End(work)
	if !ends || end > next {
		// The job completed earlier than estimated.
		end = next
		work = c.progress.Served(end)
	}
	t.work.Work = max(work, 1)
	c.resize(Allocation{}, end)
	if c.allocations[len(c.allocations)-1].At != end {
		c.allocations = append(c.allocations, sim.NodesAt{At: end}) // The job was paused.
	}
}

// trajectory contains the allocations of a job and its progress.
type trajectory struct {
	progress    *sim.Progress
	now         Allocation
	allocations []sim.NodesAt
}

func newTrajectory(job *sim.WorkloadJob, types []solver.NodeType) *trajectory {
	h := &trajectory{progress: sim.NewProgress(job, types), now: Allocation{job.History.Nodes, job.History.NodeType}}
	if h.now.Nodes > 0 {
		h.allocations = []sim.NodesAt{{At: job.Submit, Nodes: h.now.Nodes, NodeType: h.now.NodeType}}
	}
	return h
}

func (h *trajectory) resize(now Allocation, at time.Duration) {
	if now == h.now {
		return
	}
	h.now = now
	h.allocations = append(h.allocations, sim.NodesAt{At: at, Nodes: now.Nodes, NodeType: now.NodeType})
	h.progress.Resize(h.allocations[len(h.allocations)-1])
}

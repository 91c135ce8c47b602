package replay

import (
	"time"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// sighting is what a moment says about a job.
type sighting struct {
	moment   int
	job      *solver.Job
	fits     bool // the pool, of node types
	held     Held
	answered Held // unanswered nodes where there was no answer
}

const unanswered = -1 // nodes

// fate is what is known of how a job ended.
type fate int

const (
	ended     fate = iota // between two snapshots
	stillHere             // after the last snapshot
	withdrawn             // before any snapshot showed it with nodes
	neverFits             // the pool was always too small
)

// track is what a recording says about a job.
type track struct {
	// id is the job's, or one derived from it if another job had it before.
	id        string
	work      sim.WorkloadJob
	sightings []sighting
	fate      fate
	// thereAtBegin says that the first snapshot had the job.
	thereAtBegin bool
	// What snapshots do not say: the time of submission, and whether answers show changes.
	submitUnknown bool
	unseenChanges int
	// endWithin is how far apart the snapshots are between which the job ended.
	endWithin time.Duration
	// seen is what the job was seen to hold.
	seen map[Held]bool
}

// history turns what was seen of jobs into what happened.
type history struct {
	moments []Moment
	// follows says that the scheduler mostly carries answers out, and tells that it tells how
	// long jobs have trained, so that 0 means 0.
	follows, tells bool
	pool           int // the largest
	types          []solver.NodeType
	// frequency is that of the simulations, which delays of growth have to be shorter than.
	frequency time.Duration
}

// followed counts the answers that would change a job's nodes, and those of them that the
// next snapshot shows carried out.
func followed(tracks []*track) (changes, carriedOut int) {
	for _, t := range tracks {
		for n := 1; n < len(t.sightings); n++ {
			before, after := &t.sightings[n-1], &t.sightings[n]
			if before.answered.Nodes != unanswered && before.answered != before.held {
				changes++
				if after.held == before.answered {
					carriedOut++
				}
			}
		}
	}
	return changes, carriedOut
}

func (h *history) at(s *sighting) time.Duration { return h.moments[s.moment].At }

// reconstruct fills in what happened to a job.
func (h *history) reconstruct(t *track) {
	first, last := &t.sightings[0], &t.sightings[len(t.sightings)-1]
	like := *first.job
	t.work = sim.WorkloadJob{
		ID: t.id, Shape: sim.Shape{As: &like}, Group: like.GroupID, Fate: sim.OutcomeCompleted,
		RestartTime: like.RestartTime.Round(time.Second), ReportsWork: like.WorkDone > 0,
	}
	if t.work.RestartTime == 0 {
		t.work.RescaleDelay = min(like.RescaleDelay.Round(time.Second), h.frequency-time.Second)
	}
	t.thereAtBegin = first.moment == 0
	h.submit(t)

	c := newHolding(&t.work, h.types)
	h.firstNodes(t, c)
	for n := range t.sightings {
		h.retell(t, c, &t.sightings[n])
		if n+1 < len(t.sightings) {
			h.between(t, c, &t.sightings[n], &t.sightings[n+1])
		}
	}
	h.end(t, c, last)
	t.work.Recorded = c.held
	t.work.Demand = t.work.Work
	t.seen = make(map[Held]bool)
	for _, held := range c.held {
		t.seen[Held{held.Nodes, held.NodeType}] = true
		t.work.RequestedNodes = max(t.work.RequestedNodes, held.Nodes)
	}
	t.work.RequestedNodes = max(1, t.work.RequestedNodes)
	if len(h.types) == 0 && like.LegalSizes()[0] > h.pool || len(h.types) > 0 && !first.fits {
		t.fate = neverFits
	}
}

// submit works out when a job was submitted, from the time that it has waited and trained.
func (h *history) submit(t *track) {
	first := &t.sightings[0]
	trained, waited := first.job.TrainingTime.Round(time.Second), first.job.WaitingTime.Round(time.Second)
	now := h.at(first)
	earliest := now
	switch {
	case t.thereAtBegin:
		t.work.History.Nodes, t.work.History.NodeType, t.work.History.Work = first.held.Nodes, first.held.NodeType, first.job.WorkDone
	case h.tells || waited > 0:
		earliest = max(now-trained-waited, h.moments[first.moment-1].At)
	default:
		t.submitUnknown = true
	}
	t.work.Submit = earliest
	// What lies before counts as history.
	since := now - earliest
	seenTraining := min(trained, since)
	t.work.History.Trained = trained - seenTraining
	t.work.History.Waited = max(0, waited-(since-seenTraining))
}

// firstNodes has a job that started before its first snapshot hold nodes.
func (h *history) firstNodes(t *track, c *holding) {
	first := &t.sightings[0]
	if t.thereAtBegin || first.held.Nodes == 0 {
		return
	}
	seen := min(first.job.TrainingTime.Round(time.Second), h.at(first)-t.work.Submit)
	if !h.tells {
		t.unseenChanges++
	}
	c.give(first.held, h.at(first)-seen)
}

// retell notes what an allocator is told of the job's work left, where that differs from
// what it was told before less what is done.
func (h *history) retell(t *track, c *holding, s *sighting) {
	served, demand := c.course.Served(h.at(s)), sim.DemandOf(s.job)
	if t.work.UserEstimate == 0 {
		t.work.UserEstimate = served + demand
		return
	}
	told := sim.ETAUpdate{ETA: t.work.UserEstimate}
	if n := len(t.work.ETAUpdates); n > 0 {
		told = t.work.ETAUpdates[n-1]
	}
	expected := told.ETA - (served - told.Served)
	if off := demand - expected; off > time.Millisecond || off < -time.Millisecond {
		t.work.ETAUpdates = append(t.work.ETAUpdates, sim.ETAUpdate{Served: served, ETA: demand})
	}
}

// between has the job hold what it held between two snapshots.
func (h *history) between(t *track, c *holding, before, after *sighting) {
	from, to := h.at(before), h.at(after)
	held, now := before.held, after.held
	trained := (after.job.TrainingTime - before.job.TrainingTime).Round(time.Second)
	trained = min(max(trained, 0), to-from)
	switch {
	case now == held:
	case held.Nodes == 0 && h.tells:
		c.give(now, to-trained)
	case now.Nodes == 0 && h.tells:
		c.give(now, from+trained)
	case before.answered == now:
		c.give(now, from) // The answer was carried out.
	default:
		t.unseenChanges++
		c.give(now, from+((to-from)/2).Round(time.Second))
	}
}

// end works out when a job ended that the last snapshots do not show, and the work it did.
func (h *history) end(t *track, c *holding, last *sighting) {
	at := h.at(last)
	if last.answered.Nodes != unanswered && h.follows {
		c.give(last.answered, at)
	}
	work := c.course.Served(at) + sim.DemandOf(last.job)
	if last.moment == len(h.moments)-1 {
		t.fate, t.work.Work = stillHere, work
		return
	}
	if len(c.held) == 0 {
		t.fate, t.work.Work = withdrawn, work
		return
	}
	next := h.moments[last.moment+1].At
	t.endWithin = next - at
	end, ends := c.course.End(work)
	if !ends || end > next {
		// It ended sooner than it was told to.
		end = next
		work = c.course.Served(end)
	}
	t.work.Work = max(work, 1)
	c.give(Held{}, end)
	if c.held[len(c.held)-1].At != end {
		c.held = append(c.held, sim.NodesAt{At: end}) // It was paused before.
	}
}

// holding is what a job holds, and the work that it does with it.
type holding struct {
	course *sim.Progress
	now    Held
	held   []sim.NodesAt
}

func newHolding(job *sim.WorkloadJob, types []solver.NodeType) *holding {
	h := &holding{course: sim.NewProgress(job, types), now: Held{job.History.Nodes, job.History.NodeType}}
	if h.now.Nodes > 0 {
		h.held = []sim.NodesAt{{At: job.Submit, Nodes: h.now.Nodes, NodeType: h.now.NodeType}}
	}
	return h
}

func (h *holding) give(now Held, at time.Duration) {
	if now == h.now {
		return
	}
	h.now = now
	h.held = append(h.held, sim.NodesAt{At: at, Nodes: now.Nodes, NodeType: now.NodeType})
	h.course.Resize(h.held[len(h.held)-1])
}

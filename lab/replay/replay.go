package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Options say what to make of a recording.
type Options struct {
	// Name is that of the workload in results.
	Name string
	// Callers are those of one cluster, whose calls are taken; none for all.
	Callers []string
	// Frequency is the time between the decisions of the simulated policies; 0 means the
	// horizon's step that most snapshots have.
	Frequency time.Duration
}

// Replay is what really happened, and how policies are simulated on it.
type Replay struct {
	Source  Source
	Moments []Moment
	// Workload is the jobs that policies are simulated on, and Config the setting.
	Workload sim.Workload
	Config   sim.Config
	// Until is the time of the last snapshot.
	Until time.Duration
	// Unknown is what snapshots cannot tell.
	Unknown Unknown

	name string
	// tracks are those of the workload's jobs, and seen those of each moment's.
	tracks []*track
	seen   [][]*track
	pool   []sim.NodesAt
}

// Reader calls yield with the calls of a recording, as recording.Read does.
type Reader func(yield func(recording.Entry) error) ([]recording.Cut, error)

// New works out what happened from the calls of a recording.
func New(read Reader, o Options) (*Replay, error) {
	all := newCalls(o.Callers...)
	cuts, err := read(func(e recording.Entry) error {
		all.add(&e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all.replay(cuts, o)
}

// replay works out what happened from the calls of a recording with these cuts.
func (c *calls) replay(cuts []recording.Cut, o Options) (*Replay, error) {
	list, source, err := c.moments(cuts)
	if err != nil {
		return nil, err
	}
	r := &Replay{Source: source, Moments: list, Until: list[len(list)-1].At, name: o.Name}
	r.configure(o.Frequency)
	if err := r.follow(); err != nil {
		return nil, err
	}
	return r, nil
}

// configure works out the setting: the pool as it was, and the horizon of most snapshots.
func (r *Replay) configure(frequency time.Duration) {
	horizons := make(map[solver.Horizon]int)
	most, nodes := solver.Horizon{}, 0
	for i := range r.Moments {
		m := &r.Moments[i]
		horizon := m.Snapshot.Horizon
		if horizons[horizon]++; horizons[horizon] > horizons[most] {
			most = horizon
		}
		nodes = max(nodes, m.Snapshot.TotalNodes)
		r.pool = append(r.pool, sim.NodesAt{At: m.At, Nodes: m.Snapshot.TotalNodes})
	}
	// The last of each second, and of those only changes.
	slices.Reverse(r.pool)
	r.pool = slices.CompactFunc(r.pool, func(a, b sim.NodesAt) bool { return a.At == b.At })
	slices.Reverse(r.pool)
	r.pool = slices.CompactFunc(r.pool, func(a, b sim.NodesAt) bool { return a.Nodes == b.Nodes })
	if frequency == 0 {
		frequency = max(most.Step.Round(time.Second), time.Second)
	}
	r.Config = sim.Config{
		Nodes: max(1, nodes), Frequency: frequency, Steps: most.Steps, DecisionBudget: sim.DefaultDecisionBudget,
		Groups: r.Moments[len(r.Moments)-1].Snapshot.Groups, MaxDecisions: sim.MaxDecisions,
	}
	if s := r.Moments[0].Snapshot; s.Typed() {
		r.Config.NodeTypes = s.NodeTypes
	}
	if len(r.pool) > 1 || r.pool[0].Nodes != r.Config.Nodes {
		r.Config.Resized = slices.Clone(r.pool)
		// What the pool became is not known; a job that waits for it must not wait for ever.
		if last := r.pool[len(r.pool)-1]; last.Nodes != r.Config.Nodes {
			r.Config.Resized = append(r.Config.Resized, sim.NodesAt{At: max(r.Until, last.At) + time.Second, Nodes: r.Config.Nodes})
		}
	}
}

// follow follows every job through the snapshots.
func (r *Replay) follow() error {
	tracks := r.sight()
	if told, passed := r.aging(tracks); told > 2*passed+time.Duration(len(tracks))*time.Minute {
		return fmt.Errorf("jobs are told to have aged by %v in %v: the time of their scheduler is not that of the recording, as in a simulation",
			told.Round(time.Second), passed)
	}
	changes, carriedOut := followed(tracks)
	h := &history{
		moments: r.Moments, tells: tells(tracks), follows: 2*carriedOut > changes,
		pool: r.Config.Nodes, types: r.Config.NodeTypes, frequency: r.Config.Frequency,
	}
	for _, t := range tracks {
		h.reconstruct(t)
	}
	slices.SortStableFunc(tracks, func(a, b *track) int { return cmp.Compare(a.work.Submit, b.work.Submit) })
	r.Workload.Name = r.name
	for _, t := range tracks {
		if t.fate != ended && t.fate != stillHere {
			continue
		}
		r.Workload.Jobs = append(r.Workload.Jobs, t.work)
		r.tracks = append(r.tracks, t)
	}
	if !slices.ContainsFunc(r.tracks, func(t *track) bool { return t.fate == ended }) {
		return errors.New("no job ends within the recording; record for longer")
	}
	r.Unknown = r.unknown(tracks, changes, carriedOut)
	return nil
}

// sight collects what the moments say about each job, in the order in which they came.
func (r *Replay) sight() []*track {
	var tracks []*track
	latest := make(map[string]*track)
	ids := make(map[string]int)
	for i := range r.Moments {
		m := &r.Moments[i]
		r.seen = append(r.seen, make([]*track, len(m.Snapshot.Jobs)))
		for n := range m.Snapshot.Jobs {
			job := &m.Snapshot.Jobs[n]
			t := latest[job.ID]
			if t == nil || r.another(t, job, m.At) {
				t = &track{id: job.ID}
				if ids[job.ID]++; ids[job.ID] > 1 {
					t.id = fmt.Sprintf("%s (%d)", job.ID, ids[job.ID])
				}
				latest[job.ID] = t
				tracks = append(tracks, t)
			}
			s := sighting{moment: i, job: job, fits: m.Snapshot.Fits(n), held: m.held(job.CurrentNodes, job.CurrentNodeType), answered: Held{Nodes: unanswered}}
			if answer, ok := m.Answer[job.ID]; ok {
				s.answered = answer
			}
			t.sightings = append(t.sightings, s)
			r.seen[i][n] = t
		}
	}
	return tracks
}

// aging returns by how much jobs are told to have aged from sighting to sighting, and how
// much time passed meanwhile.
func (r *Replay) aging(tracks []*track) (told, passed time.Duration) {
	for _, t := range tracks {
		for n := 1; n < len(t.sightings); n++ {
			before, after := &t.sightings[n-1], &t.sightings[n]
			told += max(0, after.job.TrainingTime+after.job.WaitingTime-before.job.TrainingTime-before.job.WaitingTime)
			passed += r.Moments[after.moment].At - r.Moments[before.moment].At
		}
	}
	return told, passed
}

// another reports whether a job is not the one that had its id before: it is younger than that
// one was, and came after it was last seen.
func (r *Replay) another(t *track, job *solver.Job, at time.Duration) bool {
	last := &t.sightings[len(t.sightings)-1]
	age := job.TrainingTime + job.WaitingTime
	return age < last.job.TrainingTime+last.job.WaitingTime && at-age.Round(time.Second) >= r.Moments[last.moment].At
}

// tells reports whether any job was told to have trained.
func tells(tracks []*track) bool {
	return slices.ContainsFunc(tracks, func(t *track) bool {
		return slices.ContainsFunc(t.sightings, func(s sighting) bool { return s.job.TrainingTime > 0 })
	})
}

// Recorded returns the run of what really happened, of the jobs that ended.
func (r *Replay) Recorded(ctx context.Context) (*sim.Result, error) {
	policy, err := sim.FindPolicy(sim.RecordedPolicy)
	if err != nil {
		return nil, err
	}
	recorded := r.Workload
	recorded.Jobs = compared(r, r.Workload.Jobs)
	return sim.Run(ctx, recorded, policy, r.Config, nil)
}

// Compared returns a run with the jobs alone whose ends the recording shows.
func (r *Replay) Compared(run *sim.Result) *sim.Result {
	of := *run
	of.Jobs = compared(r, run.Jobs)
	return &of
}

// compared returns what is of the jobs whose ends the recording shows.
func compared[T any](r *Replay, jobs []T) []T {
	var list []T
	for i, t := range r.tracks {
		if t.fate == ended {
			list = append(list, jobs[i])
		}
	}
	return list
}

// NodeHours returns the node hours of the pool within the recording.
func (r *Replay) NodeHours() float64 { return sim.NodeTime(r.pool, 0, 0, r.Until).Hours() }

// IdleNodeHours returns the hours that nodes of the pool were idle within the recording:
// under a run of the whole workload, or, for nil, in reality. While jobs hold more than
// the pool has, because it has just shrunk, no nodes are idle.
func (r *Replay) IdleNodeHours(run *sim.Result) float64 {
	var changes []sim.NodesAt // of the number of idle nodes
	add := func(nodes []sim.NodesAt, sign int) {
		before := 0
		for _, n := range nodes {
			changes = append(changes, sim.NodesAt{At: min(n.At, r.Until), Nodes: sign * (n.Nodes - before)})
			before = n.Nodes
		}
	}
	add(r.pool, 1)
	for i := range r.Workload.Jobs {
		if run == nil {
			add(r.Workload.Jobs[i].Recorded, -1)
		} else {
			add(run.Jobs[i].Nodes, -1)
		}
	}
	changes = append(changes, sim.NodesAt{At: r.Until})
	slices.SortStableFunc(changes, func(a, b sim.NodesAt) int { return cmp.Compare(a.At, b.At) })
	idle, at, sum := 0, time.Duration(0), time.Duration(0)
	for _, change := range changes {
		sum += time.Duration(max(0, idle)) * (change.At - at)
		idle, at = idle+change.Nodes, change.At
	}
	return sum.Hours()
}

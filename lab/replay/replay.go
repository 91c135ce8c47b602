package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Options control the reconstruction.
type Options struct {
	// Name is the name of the workload in results.
	Name string
	// Callers are the callers of one cluster. Empty means all callers.
	Callers []string
	// Frequency is the time between the decisions of simulated policies. 0 means the most frequent step
	// of the snapshots.
	Frequency time.Duration
}

// Replay is the reconstructed schedule of a recording.
type Replay struct {
	Source Source
	Calls  []Call
	// Workload and Config are the workload and the config for simulations.
	Workload sim.Workload
	Config   sim.Config
	// Until is the time of the last snapshot.
	Until time.Duration
	// Unknown counts unknown facts.
	Unknown Unknown

	name string
	// tracks are the tracks of the jobs of Workload, and seen the tracks of the jobs of each call.
	tracks []*track
	seen   [][]*track
	pool   []sim.NodesAt
}

// Reader calls yield for every call of a recording, like recording.Read.
type Reader func(yield func(recording.Entry) error) ([]recording.ReadError, error)

// New reconstructs the schedule from a recording.
func New(read Reader, o Options) (*Replay, error) {
	all := newCallLog(o.Callers...)
	readErrors, err := read(func(e recording.Entry) error {
		all.add(&e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all.replay(readErrors, o)
}

// replay reconstructs the schedule from the calls. readErrors are the incomplete parts of the recording.
func (c *callLog) replay(readErrors []recording.ReadError, o Options) (*Replay, error) {
	list, source, err := c.ordered(readErrors)
	if err != nil {
		return nil, err
	}
	r := &Replay{Source: source, Calls: list, Until: list[len(list)-1].At, name: o.Name}
	r.configure(o.Frequency)
	if err := r.follow(); err != nil {
		return nil, err
	}
	return r, nil
}

// configure sets the config from the sizes of the pool and the most frequent horizon.
func (r *Replay) configure(frequency time.Duration) {
	horizons := make(map[solver.Horizon]int)
	most, nodes := solver.Horizon{}, 0
	for i := range r.Calls {
		m := &r.Calls[i]
		horizon := m.Snapshot.Horizon
		horizons[horizon]++
		if horizons[horizon] > horizons[most] {
			most = horizon
		}
		nodes = max(nodes, m.Snapshot.TotalNodes)
		r.pool = append(r.pool, sim.NodesAt{At: m.At, Nodes: m.Snapshot.TotalNodes})
	}
	// Keep the last size of each second, then only changes.
	slices.Reverse(r.pool)
	r.pool = slices.CompactFunc(r.pool, func(a, b sim.NodesAt) bool { return a.At == b.At })
	slices.Reverse(r.pool)
	r.pool = slices.CompactFunc(r.pool, func(a, b sim.NodesAt) bool { return a.Nodes == b.Nodes })
	if frequency == 0 {
		frequency = max(most.Step.Round(time.Second), time.Second)
	}
	r.Config = sim.Config{
		Nodes: max(1, nodes), Frequency: frequency, Steps: most.Steps, DecisionBudget: sim.DefaultDecisionBudget,
		Groups: r.Calls[len(r.Calls)-1].Snapshot.Groups, MaxDecisions: sim.MaxDecisions,
	}
	if s := r.Calls[0].Snapshot; s.Typed() {
		r.Config.NodeTypes = s.NodeTypes
	}
	if len(r.pool) > 1 || r.pool[0].Nodes != r.Config.Nodes {
		r.Config.Resized = slices.Clone(r.pool)
		// The pool returns to its largest size after the recording, so that no job waits forever.
		if last := r.pool[len(r.pool)-1]; last.Nodes != r.Config.Nodes {
			r.Config.Resized = append(r.Config.Resized, sim.NodesAt{At: max(r.Until, last.At) + time.Second, Nodes: r.Config.Nodes})
		}
	}
}

// TotalTime returns the parameters of ObjectiveTotalTime in the last recorded decision with this objective, without the
// cadence, which depends on the times of decisions. If there is none, all parameters have their defaults.
func (r *Replay) TotalTime() solver.TotalTimeOptions {
	for _, call := range slices.Backward(r.Calls) {
		if call.Decision && call.Options.Objective == solver.ObjectiveTotalTime {
			recorded := call.Options.TotalTime
			recorded.Cadence = nil
			return recorded
		}
	}
	return solver.TotalTimeOptions{}
}

// follow reconstructs every job from its observations.
func (r *Replay) follow() error {
	tracks := r.collect()
	if estimate, passed := r.aging(tracks); estimate > 2*passed+time.Duration(len(tracks))*time.Minute {
		return fmt.Errorf("the age of the jobs increases by %v in %v; must not "+
			"be faster than the clock of the recording (is the scheduler simulated?)",
			estimate.Round(time.Second), passed)
	}
	changes, carriedOut := countFollowed(tracks)
	h := &history{
		calls: r.Calls, reportsTraining: reportsTraining(tracks), followsDecisions: 2*carriedOut > changes,
		pool: r.Config.Nodes, types: r.Config.NodeTypes, frequency: r.Config.Frequency,
	}
	for _, t := range tracks {
		h.reconstruct(t)
	}
	slices.SortStableFunc(tracks, func(a, b *track) int { return cmp.Compare(a.work.Submit, b.work.Submit) })
	r.Workload.Name = r.name
	for _, t := range tracks {
		if t.fate != fateCompleted && t.fate != fateRunning {
			continue
		}
		r.Workload.Jobs = append(r.Workload.Jobs, t.work)
		r.tracks = append(r.tracks, t)
	}
	if !slices.ContainsFunc(r.tracks, func(t *track) bool { return t.fate == fateCompleted }) {
		return errors.New("no job completes within the recording; record for longer")
	}
	r.Unknown = r.unknown(tracks, changes, carriedOut)
	return nil
}

// collect returns the observations of each job, in the order of first observation.
func (r *Replay) collect() []*track {
	var tracks []*track
	latest := make(map[string]*track)
	ids := make(map[string]int)
	for i := range r.Calls {
		m := &r.Calls[i]
		r.seen = append(r.seen, make([]*track, len(m.Snapshot.Jobs)))
		for n := range m.Snapshot.Jobs {
			job := &m.Snapshot.Jobs[n]
			t := latest[job.ID]
			if t == nil || r.isNewJob(t, job, m.At) {
				t = &track{id: job.ID}
				ids[job.ID]++
				if ids[job.ID] > 1 {
					t.id = fmt.Sprintf("%s (%d)", job.ID, ids[job.ID])
				}
				latest[job.ID] = t
				tracks = append(tracks, t)
			}
			s := observation{
				call: i, job: job, fits: m.Snapshot.Fits(n),
				allocation: m.allocation(job.CurrentNodes, job.CurrentNodeType), assigned: Allocation{Nodes: noResponse},
			}
			if answer, ok := m.Response[job.ID]; ok {
				s.assigned = answer
			}
			t.observations = append(t.observations, s)
			r.seen[i][n] = t
		}
	}
	return tracks
}

// aging returns the sum of the increases of the ages of jobs between observations, and the sum of the
// times between them.
func (r *Replay) aging(tracks []*track) (estimate, passed time.Duration) {
	for _, t := range tracks {
		for n := 1; n < len(t.observations); n++ {
			before, after := &t.observations[n-1], &t.observations[n]
			estimate += max(0, after.job.TrainingTime+after.job.WaitingTime-before.job.TrainingTime-before.job.WaitingTime)
			passed += r.Calls[after.call].At - r.Calls[before.call].At
		}
	}
	return estimate, passed
}

// isNewJob reports whether a job is not the one of a track with the same ID, because it is younger and was
// submitted after the last observation.
func (r *Replay) isNewJob(t *track, job *solver.Job, at time.Duration) bool {
	last := &t.observations[len(t.observations)-1]
	age := job.TrainingTime + job.WaitingTime
	return age < last.job.TrainingTime+last.job.WaitingTime && at-age.Round(time.Second) >= r.Calls[last.call].At
}

// reportsTraining reports whether any job has a training time.
func reportsTraining(tracks []*track) bool {
	return slices.ContainsFunc(tracks, func(t *track) bool {
		return slices.ContainsFunc(t.observations, func(s observation) bool { return s.job.TrainingTime > 0 })
	})
}

// Recorded returns the recorded schedule of the completed jobs as a run.
func (r *Replay) Recorded(ctx context.Context) (*sim.Result, error) {
	policy, err := catalog.Find(catalog.Recorded)
	if err != nil {
		return nil, err
	}
	recorded := r.Workload
	recorded.Jobs = compared(r, r.Workload.Jobs)
	return policy.Run(ctx, recorded, r.Config, nil)
}

// Compared returns a run restricted to the jobs that completed within the recording.
func (r *Replay) Compared(run *sim.Result) *sim.Result {
	of := *run
	of.Jobs = compared(r, run.Jobs)
	return &of
}

// compared returns the elements for jobs that completed within the recording.
func compared[T any](r *Replay, jobs []T) []T {
	var list []T
	for i, t := range r.tracks {
		if t.fate == fateCompleted {
			list = append(list, jobs[i])
		}
	}
	return list
}

// NodeHours returns the node hours of the pool within the recording.
func (r *Replay) NodeHours() float64 { return sim.NodeTime(r.pool, 0, 0, r.Until).Hours() }

// IdleNodeHours returns the idle node hours within the recording for a run of the whole workload, or for
// the recorded schedule if run is nil. No nodes are idle while jobs occupy more nodes than the pool has,
// which happens after it shrinks.
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

package elastalloc_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// closedLoop is a cluster that applies every decision and requests the next one until all jobs have
// completed. It shares no code with package sim. Times are seconds after the start.
type closedLoop struct {
	allocator interface {
		Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error)
		FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error)
	}
	options solver.Options
	pool    solver.Snapshot // without jobs
	jobs    []*loopJob      // in the order of submission
	// interval is the time between two calls of Allocate. onEvent is the call if a job is submitted or
	// completes in between.
	interval float64
	onEvent  eventAction
	// countsLoading states that training_time includes the time in which a job loads.
	countsLoading bool
	// reportsRestarts states that snapshots have recent_restarts.
	reportsRestarts bool
	// hides removes fields from the snapshot of a job that the scheduler does not know. It may be nil.
	hides func(job *solver.Job)

	now        float64
	workedAt   float64 // the last time at which a job made progress
	allocated  float64 // node time
	restarting float64 // node time in restarts, without the first start of each job
}

// eventAction is what a scheduler calls if a job is submitted or completes.
type eventAction string

const (
	callNothing  eventAction = "nothing"
	callFillIdle eventAction = "FillIdle"
	callAllocate eventAction = "Allocate"
)

// loopJob is a job and its state.
type loopJob struct {
	solver.Job         // as submitted
	group      int     // its position in the pool
	submit     float64 // time of submission
	work       float64 // in seconds on one reference node

	current    allocation
	started    bool
	firstStart bool      // the last change was the first start
	loaded     float64   // time at which the last restart ends
	left       float64   // of work
	trained    float64   // time on nodes without restarts
	onNodes    float64   // time on nodes
	end        float64   // time of completion, 0 before
	resizes    int       // after the first start
	restarts   []float64 // values of onNodes at all restarts
	changes    []string
}

// allocation is a number of nodes, of one type if there are several.
type allocation struct {
	nodes    int
	nodeType string
}

// speed returns the speed of a job relative to one reference node.
func (l *closedLoop) speed(j *loopJob, on allocation) float64 {
	if on.nodes == 0 {
		return 0
	}
	factor := 1.0
	for _, t := range l.pool.NodeTypes {
		if t.ID == on.nodeType {
			factor = t.Speed
		}
	}
	for _, s := range j.Speeds {
		if s.NodeType == on.nodeType {
			factor = s.Factor
		}
	}
	return factor * float64(on.nodes) * math.Pow(solver.DefaultDoublingEfficiency, math.Log2(float64(on.nodes)))
}

// completesAt returns the time at which a job completes on its current nodes.
func (l *closedLoop) completesAt(j *loopJob) float64 {
	speed := l.speed(j, j.current)
	if speed == 0 {
		return math.Inf(1)
	}
	return max(l.now, j.loaded) + j.left/speed
}

// active returns the jobs that were submitted and have not completed.
func (l *closedLoop) active() []*loopJob {
	return slices.DeleteFunc(slices.Clone(l.jobs), func(j *loopJob) bool { return j.submit > l.now || j.end > 0 })
}

// snapshot returns the snapshot of the active jobs.
func (l *closedLoop) snapshot(active []*loopJob) *solver.Snapshot {
	s := l.pool
	for _, j := range active {
		job := j.Job
		job.RemainingETA = max(1, duration(j.left))
		job.CurrentNodes, job.CurrentNodeType = j.current.nodes, j.current.nodeType
		job.WaitingTime = duration(max(0, l.now-j.submit-j.onNodes))
		job.TrainingTime = duration(j.trained)
		if l.countsLoading {
			job.TrainingTime = duration(j.onNodes)
		}
		if l.reportsRestarts {
			job.RecentRestarts = j.recentRestarts()
		}
		if l.hides != nil {
			l.hides(&job)
		}
		s.Jobs = append(s.Jobs, job)
	}
	return &s
}

func duration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// apply gives the active jobs the nodes of a decision. A job whose nodes change restarts.
func (l *closedLoop) apply(active []*loopJob, d solver.Decision) {
	for n, j := range active {
		to := allocation{d.Allocations[n].Nodes, d.Allocations[n].NodeType}
		if to == j.current {
			continue
		}
		restart := j.RestartTime
		if j.MoveTime != nil && j.current.nodes > 0 && to.nodes > 0 && to.nodeType != j.current.nodeType {
			restart = *j.MoveTime
		}
		if j.started {
			j.resizes++
		}
		if j.started && to.nodes > 0 {
			j.restarts = append(j.restarts, j.onNodes)
		}
		j.firstStart, j.started = !j.started, true
		j.current, j.loaded = to, l.now+restart.Seconds()
		j.changes = append(j.changes, strings.TrimSpace(fmt.Sprintf("%v: %d %s", duration(l.now), to.nodes, to.nodeType)))
	}
}

// check returns an error if an allocation is not legal, if a loading job loses its nodes, or if a job
// that is alone and has not used its restart budget does not get its largest size.
func (l *closedLoop) check(active []*loopJob, s *solver.Snapshot, d solver.Decision) error {
	if err := l.checkLegal(active, s, d); err != nil {
		return err
	}
	if len(active) == 1 && len(l.pool.Groups)+len(l.pool.NodeTypes) == 0 && !usedBudget(&s.Jobs[0]) {
		return l.checkAlone(active[0], d.Allocations[0].Nodes)
	}
	return nil
}

// checkLegal returns an error if an allocation is not legal, or if a loading job loses its nodes.
func (l *closedLoop) checkLegal(active []*loopJob, s *solver.Snapshot, d solver.Decision) error {
	room, groups := map[string]int{"": l.pool.TotalNodes}, map[string]int{}
	for _, t := range l.pool.NodeTypes {
		room[t.ID] = t.Nodes
	}
	for n, j := range active {
		a := d.Allocations[n]
		if a.Nodes > 0 && (a.Nodes < j.MinNodes || a.Nodes > j.MaxNodes) {
			return fmt.Errorf("job %s gets %d nodes; must be %d to %d", j.ID, a.Nodes, j.MinNodes, j.MaxNodes)
		}
		if room[a.NodeType] -= a.Nodes; room[a.NodeType] < 0 {
			return fmt.Errorf("the jobs get %d nodes more than the pool has of type %q", -room[a.NodeType], a.NodeType)
		}
		groups[j.GroupID] += a.Nodes
		if l.options.Admission == solver.AdmissionStartFirst && s.Jobs[n].CurrentNodes > 0 && s.Jobs[n].TrainingTime == 0 && a.Nodes == 0 {
			return fmt.Errorf("job %s loses its nodes while loading", j.ID)
		}
	}
	for _, g := range l.pool.Groups {
		if g.Limit != nil && groups[g.ID] > *g.Limit {
			return fmt.Errorf("group %s gets %d nodes; its limit is %d", g.ID, groups[g.ID], *g.Limit)
		}
	}
	return nil
}

// checkAlone returns an error if a job has the pool to itself, has enough left to pay back a
// restart, and does not get as many nodes as it can use.
func (l *closedLoop) checkAlone(j *loopJob, nodes int) error {
	largest := allocation{nodes: j.MaxNodes}
	for largest.nodes > l.pool.TotalNodes {
		largest.nodes /= 2
	}
	payback := max(solver.DefaultPayback.Seconds(), 4*j.RestartTime.Seconds())
	if l.options.Objective == solver.ObjectiveProgress {
		payback = l.pool.Horizon.Step.Seconds() * float64(l.pool.Horizon.Steps)
	}
	if left := j.left / l.speed(j, largest); nodes < largest.nodes && left > payback {
		return fmt.Errorf("job %s is alone and has %v left on %d nodes, and gets %d", j.ID, duration(left), largest.nodes, nodes)
	}
	return nil
}

var errNoProgress = errors.New("no job makes progress")

// run runs the cluster until all jobs have completed.
func (l *closedLoop) run(ctx context.Context) error {
	longest, serial := 0.0, 0.0 // the longest restart, and the time that the jobs take one after the other
	for _, j := range l.jobs {
		j.left = j.work
		restart := max(j.RestartTime.Seconds(), cmp.Or(j.MoveTime, new(time.Duration)).Seconds())
		longest = max(longest, restart)
		serial = max(serial, j.submit) + l.interval + restart + j.work/l.speed(j, allocation{nodes: j.MinNodes})
	}
	decideAt, event := 0.0, false
	for {
		active := l.active()
		action := callNothing
		if event {
			action = l.onEvent
		}
		if l.now >= decideAt {
			action, decideAt = callAllocate, l.now+l.interval
		}
		if err := l.decide(ctx, active, action); err != nil {
			return fmt.Errorf("%v after the start: %w", duration(l.now), err)
		}
		next := l.next(active, decideAt)
		if math.IsInf(next, 1) {
			return nil
		}
		event = l.advance(active, next)
		if stalled := l.now - l.workedAt; stalled > 20*(longest+l.interval) {
			return fmt.Errorf("%w for %v: %s", errNoProgress, duration(stalled), lastChanges(active))
		}
		if l.now > 10*serial {
			return fmt.Errorf("jobs are left after %v; one after the other, all take %v: %s", duration(l.now), duration(serial), lastChanges(active))
		}
	}
}

func (l *closedLoop) decide(ctx context.Context, active []*loopJob, action eventAction) error {
	if len(active) == 0 || action == callNothing {
		return nil
	}
	s := l.snapshot(active)
	var d solver.Decision
	var err error
	if action == callFillIdle {
		d, err = l.allocator.FillIdle(ctx, s)
	} else if d, err = l.allocator.Allocate(ctx, s, l.options); err == nil {
		err = l.check(active, s, d)
	}
	if err == nil {
		l.apply(active, d)
	}
	return err
}

// next returns the time of the next decision, submission or completion, infinity if there is none.
func (l *closedLoop) next(active []*loopJob, decideAt float64) float64 {
	next := math.Inf(1)
	for _, j := range l.jobs {
		if j.submit > l.now {
			next = min(next, j.submit)
		}
	}
	if len(active) > 0 {
		next = min(next, decideAt)
	}
	for _, j := range active {
		next = min(next, l.completesAt(j))
	}
	return next
}

// advance lets the active jobs train and reports whether a job completes or is submitted then.
func (l *closedLoop) advance(active []*loopJob, until float64) (event bool) {
	const rounding = 1e-6 // seconds
	for _, j := range active {
		if j.current.nodes == 0 {
			continue
		}
		span := until - l.now
		loading := min(span, max(0, j.loaded-l.now))
		l.allocated += float64(j.current.nodes) * span
		if !j.firstStart {
			l.restarting += float64(j.current.nodes) * loading
		}
		j.onNodes += span
		j.trained += span - loading
		if span > loading {
			l.workedAt = until
		}
		if l.completesAt(j) <= until+rounding {
			j.end, event = until, true
		} else {
			j.left -= l.speed(j, j.current) * (span - loading)
		}
	}
	for _, j := range l.jobs {
		event = event || j.submit > l.now && j.submit <= until
	}
	if len(active) == 0 {
		l.workedAt = until
	}
	l.now = until
	return event
}

// lastChanges names the jobs and their last changes.
func lastChanges(jobs []*loopJob) string {
	list := make([]string, len(jobs))
	for n, j := range jobs {
		list[n] = fmt.Sprintf("%s [%s]", j.ID, strings.Join(j.changes[max(0, len(j.changes)-4):], "; "))
	}
	return strings.Join(list, ", ")
}

// resizesPerJob returns the mean number of changes of a job after its first start.
func (l *closedLoop) resizesPerJob() float64 {
	sum := 0
	for _, j := range l.jobs {
		sum += j.resizes
	}
	return float64(sum) / float64(len(l.jobs))
}

// restartShare returns the share of the node time that is spent in restarts after the first.
func (l *closedLoop) restartShare() float64 { return l.restarting / l.allocated }

package elastalloc_test

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
)

// loopKind is a class of closed loops and its bounds.
type loopKind struct {
	name          string
	objective     solver.Objective
	together      bool // all jobs are submitted at the start
	groups, types bool
	// maxResizes bounds the mean number of resizes per job after the first start.
	maxResizes float64
	// maxRestarts bounds the share of node time in restarts after the first, if every job takes
	// at least ten restarts on its smallest size.
	maxRestarts float64
}

// loopMaxima has the largest values of random loops.
type loopMaxima struct {
	loops                         int
	resizesPerJob, restartShare   float64
	resizesOfOne, withoutFillIdle int
}

// add adds a loop.
func (m *loopMaxima) add(l *closedLoop) {
	m.loops++
	m.resizesPerJob = max(m.resizesPerJob, l.resizesPerJob())
	if l.restartsAreShort() {
		m.restartShare = max(m.restartShare, l.restartShare())
	}
	for _, j := range l.jobs {
		m.resizesOfOne = max(m.resizesOfOne, j.resizes)
		if l.onEvent != callFillIdle {
			m.withoutFillIdle = max(m.withoutFillIdle, j.resizes)
		}
	}
}

func (m loopMaxima) String() string {
	return fmt.Sprintf("%d loops: at most %.2f resizes per job, %.3f of the node time in restarts, %d resizes of one job, %d without FillIdle",
		m.loops, m.resizesPerJob, m.restartShare, m.resizesOfOne, m.withoutFillIdle)
}

// TestEverySequenceCompletes applies the decisions for random clusters until all jobs have completed. It fails if no job
// makes progress, if jobs are resized more often or restart for longer than the bounds allow, if a job that is alone and
// has not used its restart budget does not get its largest size, if ADMISSION_START_FIRST takes the nodes of a loading job,
// or if identical jobs that cannot change their size are resized.
func TestEverySequenceCompletes(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{DefaultBudget: elastalloc.NoBudget})
	if err != nil {
		t.Fatal(err)
	}
	// The first two rows have the bounds of docs/evaluation/sequences.md, but for the restarts of the second.
	// The other bounds are measured: the largest values in 4,000 random loops of each kind were, in
	// this order, 2.4, 3.4, 3.1, 4.4 and 9.3 resizes per job and 0.11, 0.18, 0.18, 0.27 and 0.38 of
	// the node time. `.ci/run` runs 200 of each kind, 1,000 together.
	for _, kind := range []loopKind{
		{name: "JCT, submitted together", objective: solver.ObjectiveTotalTime, together: true, maxResizes: 8, maxRestarts: 0.2},
		{name: "JCT, submitted over time", objective: solver.ObjectiveTotalTime, maxResizes: 8, maxRestarts: 0.25},
		{name: "JCT with groups", objective: solver.ObjectiveTotalTime, groups: true, maxResizes: 8, maxRestarts: 0.25},
		{name: "JCT with node types", objective: solver.ObjectiveTotalTime, types: true, maxResizes: 8, maxRestarts: 0.3},
		{name: "progress", objective: solver.ObjectiveProgress, maxResizes: 15, maxRestarts: 0.5},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			var seen [2]loopMaxima // without and with recent_restarts
			rapid.Check(t, func(rt *rapid.T) {
				l := randomLoop(rt, kind)
				l.allocator = allocator
				if err := l.run(t.Context()); err != nil {
					rt.Fatal(err)
				}
				most := &seen[0]
				if l.reportsRestarts {
					most = &seen[1]
				}
				most.add(l)
				if l.resizesPerJob() > kind.maxResizes {
					rt.Fatalf("%.1f resizes per job; must be at most %v: %s", l.resizesPerJob(), kind.maxResizes, lastChanges(l.jobs))
				}
				if l.restartsAreShort() && l.restartShare() > kind.maxRestarts {
					rt.Fatalf("%.2f of the node time is spent in restarts; must be at most %v: %s",
						l.restartShare(), kind.maxRestarts, lastChanges(l.jobs))
				}
				if kind.together && l.identical() && l.resizesPerJob() > 0 {
					rt.Fatalf("identical jobs are resized: %s", lastChanges(l.jobs))
				}
			})
			t.Logf("without recent_restarts: %v", seen[0])
			t.Logf("with recent_restarts: %v", seen[1])
		})
	}
}

// TestHyperparameterSweep runs four identical jobs of one hour on one node with restarts of 5 min.
// Each job must run without interruption, as under FIFO, at every decision interval.
func TestHyperparameterSweep(t *testing.T) {
	t.Parallel()
	for _, admission := range solver.Admissions() {
		for _, interval := range []float64{30, 299, 300, 301, 900} {
			for _, countsLoading := range []bool{false, true} {
				l := &closedLoop{
					allocator: newAllocator(t, elastalloc.Options{}).Allocator, pool: solver.Snapshot{TotalNodes: 1},
					options:  solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission},
					interval: interval, onEvent: callAllocate, countsLoading: countsLoading,
				}
				sum := 0.0
				for _, id := range []string{"s0", "s1", "s2", "s3"} {
					l.jobs = append(l.jobs, &loopJob{Job: solver.Job{ID: id, MinNodes: 1, MaxNodes: 1, RestartTime: 5 * time.Minute}, work: 3600})
				}
				if err := l.run(t.Context()); err != nil {
					t.Errorf("%s every %v s: %v", admission, interval, err)
				}
				for _, j := range l.jobs {
					sum += j.end
				}
				if mean := sum / 4; math.Abs(mean-9750) > 1e-3 {
					t.Errorf("%s every %v s: mean completion time %v s; must be 9750 s: %s", admission, interval, mean, lastChanges(l.jobs))
				}
			}
		}
	}
}

// TestSequenceRegressions checks decisions on snapshots that once caused a bad sequence.
func TestSequenceRegressions(t *testing.T) {
	t.Parallel()
	const restart = 5 * time.Minute
	job := func(id string, left time.Duration, current int, trained, waited time.Duration) solver.Job {
		return solver.Job{ID: id, RemainingETA: left, CurrentNodes: current, TrainingTime: trained, WaitingTime: waited, RestartTime: restart}
	}
	rigid := func(id string, size int, left time.Duration) solver.Job {
		return solver.Job{
			ID: id, MinNodes: size, MaxNodes: size, CurrentNodes: size, ETANodes: size,
			RemainingETA: left, TrainingTime: 10 * time.Minute, RestartTime: restart,
		}
	}
	patient := job("a", 100*time.Hour, 1, time.Hour, 0)
	patient.RestartTime = 1000 * time.Second
	paused := job("a", 10*time.Hour, 0, 10*time.Minute, 10*time.Minute)
	longer := paused
	longer.RestartTime = time.Hour
	totalTime := func(admission solver.Admission) solver.Options {
		return solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}
	}
	progress := solver.Options{Objective: solver.ObjectiveProgress, Admission: solver.AdmissionOptimized}
	for _, test := range []struct {
		name    string
		nodes   int
		jobs    []solver.Job
		options solver.Options
		want    []int
	}{
		{
			"a job does not lose its node to identical jobs that waited longer", 1, []solver.Job{
				job("s0", time.Hour, 0, 5*time.Minute, 80*time.Minute), job("s1", time.Hour, 0, 5*time.Minute, 80*time.Minute),
				job("s2", time.Hour, 1, 10*time.Minute, 75*time.Minute),
			}, totalTime(solver.AdmissionPreemptive),
			[]int{0, 0, 1},
		},
		{
			"a loading job keeps its node", 1,
			[]solver.Job{job("loads", 10*time.Hour, 1, 0, 0), job("new", time.Hour, 0, 0, 5*time.Minute)},
			totalTime(solver.AdmissionStartFirst),
			[]int{1, 0},
		},
		{
			"a new job does not displace one with the same remaining ETA", 1,
			[]solver.Job{job("old", time.Hour, 1, 10*time.Minute, 0), job("new", time.Hour, 0, 0, 0)},
			totalTime(solver.AdmissionStartFirst),
			[]int{1, 0},
		},
		{
			"a new job displaces one with a longer remaining ETA", 1,
			[]solver.Job{job("old", time.Hour, 1, 10*time.Minute, 0), job("new", 30*time.Minute, 0, 0, 0)},
			totalTime(solver.AdmissionStartFirst),
			[]int{0, 1},
		},
		{
			"a running job that fits keeps its node behind one that does not", 6,
			[]solver.Job{rigid("A", 3, 10*time.Hour), rigid("B", 4, 10*time.Hour), rigid("C", 1, 2*time.Minute)},
			solver.Options{Objective: solver.ObjectiveProgress},
			[]int{3, 0, 1},
		},
		{"a long restart pays back in an idle pool", 16, []solver.Job{patient}, totalTime(solver.AdmissionStartFirst), []int{16}},
		{"a paused job resumes although its restart takes a step", 4, []solver.Job{paused}, progress, []int{4}},
		{"a paused job resumes although its restart takes the horizon", 4, []solver.Job{longer}, progress, []int{4}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, err := newAllocator(t, elastalloc.Options{}).Allocator.Allocate(t.Context(),
				&solver.Snapshot{TotalNodes: test.nodes, Jobs: test.jobs}, test.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, a := range d.Allocations {
				got = append(got, a.Nodes)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("nodes %v; must be %v", got, test.want)
			}
		})
	}
}

// restartsAreShort reports whether every job takes at least ten restarts on its smallest size.
func (l *closedLoop) restartsAreShort() bool {
	for _, j := range l.jobs {
		if j.work/l.speed(j, allocation{nodes: j.MinNodes}) < 10*j.RestartTime.Seconds() {
			return false
		}
	}
	return true
}

// identical reports whether all jobs are alike, have one size, and restart.
func (l *closedLoop) identical() bool {
	first := l.jobs[0]
	for _, j := range l.jobs {
		if j.MinNodes != first.MinNodes || j.MaxNodes != first.MinNodes || j.work != first.work ||
			j.WeightOrDefault() != first.WeightOrDefault() || j.RestartTime == 0 {
			return false
		}
	}
	return true
}

// decisionsPerLoop is the approximate number of decisions of a loop. Jobs are shortened accordingly.
const decisionsPerLoop = 1500

// randomLoop returns a random cluster of a kind, in which every job fits.
func randomLoop(t *rapid.T, kind loopKind) *closedLoop {
	l := &closedLoop{options: solver.Options{Objective: kind.objective}}
	l.jobs = make([]*loopJob, rapid.IntRange(2, 12).Draw(t, "jobs"))
	for i := range l.jobs {
		l.jobs[i] = new(loopJob)
	}
	if kind.objective == solver.ObjectiveProgress {
		l.pool.Horizon.Steps = rapid.SampledFrom([]int{solver.DefaultSteps, 1, 3}).Draw(t, "steps")
		l.options.RelativeGap = 1e-3 // Identical jobs over many steps take long to prove.
	}
	if kind.groups {
		randomGroups(t, l)
	}
	if !kind.together {
		randomSubmissions(t, l.jobs)
	}
	l.pool.TotalNodes = rapid.SampledFrom([]int{1, 2, 3, 4, 6, 8, 12, 16, 24}).Draw(t, "nodes")
	if kind.types {
		randomTypes(t, &l.pool)
	}
	l.interval = rapid.SampledFrom([]float64{300, 30, 900}).Draw(t, "interval")
	l.onEvent = rapid.SampledFrom([]eventAction{callNothing, callFillIdle, callAllocate}).Draw(t, "on events")
	l.countsLoading = rapid.Bool().Draw(t, "training_time counts loading")
	l.options.Admission = rapid.SampledFrom(solver.Admissions()).Draw(t, "admission")
	if kind.objective == solver.ObjectiveProgress {
		l.pool.Horizon.Step = duration(l.interval)
	}
	randomJobs(t, l)
	if kind.groups {
		randomLimits(t, l)
	}
	l.reportsRestarts = rapid.Bool().Draw(t, "recent_restarts")
	return l
}

func randomSubmissions(t *rapid.T, jobs []*loopJob) {
	longest := rapid.SampledFrom([]float64{60, 600, 3600}).Draw(t, "longest time between submissions")
	for i := range jobs[1:] {
		jobs[i+1].submit = jobs[i].submit + longest*float64(rapid.IntRange(0, 4).Draw(t, "quarters of the longest time"))/4
	}
}

func randomTypes(t *rapid.T, pool *solver.Snapshot) {
	left := max(2, pool.TotalNodes)
	pool.TotalNodes = left
	types := rapid.IntRange(2, min(3, left)).Draw(t, "node types")
	for g := range types {
		nodes := left / (types - g)
		left -= nodes
		pool.NodeTypes = append(pool.NodeTypes, solver.NodeType{
			ID: fmt.Sprintf("type%d", g), Nodes: nodes, Speed: rapid.SampledFrom([]float64{1, 2, 4}).Draw(t, "speed of the type"),
		})
	}
}

func randomJobs(t *rapid.T, l *closedLoop) {
	restart := duration(rapid.SampledFrom([]float64{0, 30, 60, 300, 301, 600, 3600}).Draw(t, "restart time"))
	move := restart
	if len(l.pool.NodeTypes) > 0 {
		move = time.Duration(float64(restart) * rapid.SampledFrom([]float64{1, 0.5, 2}).Draw(t, "move time over restart time"))
	}
	length := rapid.SampledFrom([]float64{600, 1200, 2400, 3600, 7200, 18000, 36000}).Draw(t, "length")
	spread := rapid.SampledFrom([]float64{0, 0.001, 0.05, 0.5}).Draw(t, "spread of lengths")
	elastic := rapid.SampledFrom([]string{"none", "all", "some"}).Draw(t, "elastic jobs")
	alike := rapid.Bool().Draw(t, "sizes and weights are alike")
	weighted := rapid.Bool().Draw(t, "weights")
	nodes, nodeTime := l.pool.TotalNodes, 0.0
	for _, g := range l.pool.NodeTypes {
		nodes = min(nodes, g.Nodes)
	}
	for i, j := range l.jobs {
		j.Job = solver.NewJob(fmt.Sprintf("s%d", i), time.Hour)
		if alike && i > 0 {
			j.MinNodes, j.MaxNodes, j.Weight = l.jobs[0].MinNodes, l.jobs[0].MaxNodes, l.jobs[0].Weight
		} else {
			j.MinNodes = min(rapid.SampledFrom([]int{1, 1, 1, 2, 4}).Draw(t, "min nodes"), 1<<(bits.Len(uint(nodes))-1))
			j.MaxNodes = j.MinNodes
			if elastic == "all" || elastic == "some" && rapid.Bool().Draw(t, "elastic") {
				j.MaxNodes = max(j.MinNodes, rapid.SampledFrom([]int{16, 8, 4}).Draw(t, "max nodes"))
			}
			if weighted {
				j.Weight = new(rapid.SampledFrom([]float64{1, 2, 4, 8}).Draw(t, "weight"))
			}
		}
		j.RestartTime = restart
		if len(l.pool.NodeTypes) > 0 {
			j.MoveTime = &move
			randomSpeeds(t, l.pool.NodeTypes, j)
		}
		j.work = length * (1 + spread*float64(rapid.IntRange(0, 100).Draw(t, "percent of the spread"))/100) // on the smallest size
		nodeTime += j.work * float64(j.MinNodes)
	}
	shortened := min(1, decisionsPerLoop*l.interval*float64(l.pool.TotalNodes)/nodeTime)
	for _, j := range l.jobs {
		j.work = max(600, j.work*shortened) * l.speed(j, allocation{nodes: j.MinNodes})
	}
}

func randomSpeeds(t *rapid.T, types []solver.NodeType, j *loopJob) {
	if !rapid.Bool().Draw(t, "speeds by node type") {
		return
	}
	for n, g := range types {
		if n > 0 && rapid.IntRange(0, 3).Draw(t, "cannot run on the type") == 3 {
			continue
		}
		j.Speeds = append(j.Speeds, solver.TypeSpeed{NodeType: g.ID, Factor: rapid.SampledFrom([]float64{1, 2, 4}).Draw(t, "factor")})
	}
}

func randomGroups(t *rapid.T, l *closedLoop) {
	for g := range rapid.IntRange(2, 3).Draw(t, "groups") {
		l.pool.Groups = append(l.pool.Groups, solver.Group{ID: fmt.Sprintf("group%d", g)})
	}
	for _, j := range l.jobs {
		j.group = rapid.IntRange(0, len(l.pool.Groups)-1).Draw(t, "group")
	}
}

// randomLimits sets random quotas and limits of groups. Each job fits in the limit of its group.
func randomLimits(t *rapid.T, l *closedLoop) {
	minimum := make([]int, len(l.pool.Groups))
	for _, j := range l.jobs {
		j.GroupID = l.pool.Groups[j.group].ID
		minimum[j.group] = max(minimum[j.group], j.MinNodes)
	}
	for g := range l.pool.Groups {
		l.pool.Groups[g].Quota = rapid.IntRange(0, l.pool.TotalNodes).Draw(t, "quota")
		if rapid.Bool().Draw(t, "limited") {
			l.pool.Groups[g].Limit = new(rapid.IntRange(max(1, minimum[g]), l.pool.TotalNodes).Draw(t, "limit"))
		}
	}
}

package elastalloc_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Scenarios of docs/evaluation/sequences.md, in which runs used to make no progress.

// streamOfSmallJobs has one elastic job of 10 h on 8 nodes, and a job of 5 min on one node every 15 min.
func streamOfSmallJobs() *openWorld {
	w := newOpenWorld(8)
	w.add("elastic", 0, 4, 8, 36_000*math.Pow(8, math.Log2(1.6)))
	w.addStream(900, 300)
	return w
}

// flappingNode has one elastic job of 10 h on 8 nodes, of which one is away for 5 of every 20 min.
func flappingNode() *openWorld {
	w := newOpenWorld(8)
	w.add("elastic", 0, 4, 8, 36_000*math.Pow(8, math.Log2(1.6)))
	for at := 900.0; at < tenDays; at += 1200 {
		w.capacities = append(w.capacities, capacity{at, 7}, capacity{at + 300, 8})
	}
	return w
}

// wholePool has a rigid job of 9.8 h on all 8 nodes, and a job of 5 min on one node every 15 min.
func wholePool() *openWorld {
	w := newOpenWorld(8)
	w.add("rigid", 0, 8, 8, 35_156*math.Pow(8, math.Log2(1.6)))
	w.addStream(900, 300)
	return w
}

// busyPool has a job of 18 min on one node every 15 min, and from the second hour on a rigid job of 9.8 h on all 8 nodes.
// A small job is always running.
func busyPool() *openWorld {
	w := newOpenWorld(8)
	w.add("rigid", 3600, 8, 8, 35_156*math.Pow(8, math.Log2(1.6)))
	w.addStream(900, 1080)
	return w
}

const tenDays = 864_000.0

func newOpenWorld(nodes int) *openWorld {
	w := &openWorld{capacities: []capacity{{0, nodes}}}
	w.interval, w.onEvent, w.countsLoading, w.reportsRestarts = 300, callAllocate, true, true
	return w
}

// add adds a job with sizes from smallest to largest and the given work in seconds on one node.
func (w *openWorld) add(id string, submit float64, smallest, largest int, work float64) *loopJob {
	j := &loopJob{
		Job:    solver.Job{ID: id, MinNodes: smallest, MaxNodes: largest, Scaling: solver.Scaling{DoublingEfficiency: 0.8}},
		submit: submit, work: work,
	}
	w.jobs = append(w.jobs, j)
	return j
}

// addStream adds a job on one node at fixed intervals for ten days.
func (w *openWorld) addStream(interval, work float64) {
	for at := interval; at < tenDays; at += interval {
		w.add(fmt.Sprint("small-", at), at, 1, 1, work)
	}
}

// openScenario is a world whose first job must complete in time.
type openScenario struct {
	name    string
	world   func() *openWorld
	restart time.Duration
	most    float64 // completion time in seconds
	// waits reports whether the first job may wait forever, as docs/schedulers/choose-an-objective.md states.
	waits func(solver.Objective, solver.Admission) bool
}

// run runs the scenario. If the scheduler reports restarts, it checks the restarts and the completion of the first job.
func (s *openScenario) run(t *testing.T, allocator *elastalloc.Allocator, o solver.Options, reportsRestarts bool) {
	t.Helper()
	w := s.world()
	w.allocator, w.options, w.reportsRestarts = allocator, o, reportsRestarts
	first := w.jobs[0]
	first.RestartTime = s.restart
	err := w.runFor(t.Context(), tenDays, func(j *loopJob) bool { return j == first })
	ends := "does not complete"
	if first.end > 0 {
		ends = fmt.Sprintf("completes after %.0f s", first.end)
	}
	t.Logf("%s, %s, %s, recent_restarts %t: %s, %d resizes, %.0f%% of the node time in restarts",
		s.name, o.Objective, o.Admission, reportsRestarts, ends, first.resizes, 100*w.restartShare())
	if err != nil {
		t.Error(err)
	}
	if !reportsRestarts || s.waits(o.Objective, o.Admission) {
		return
	}
	if err := w.checkRestarts(first); err != nil {
		t.Error(err)
	}
	if first.end == 0 || first.end > s.most {
		t.Errorf("%s, %s, %s: the first job %s; must complete within %.0f s", s.name, o.Objective, o.Admission, ends, s.most)
	}
}

// TestOpenWorldScenarios runs the scenarios under all admissions and both objectives. The first job must complete
// within a stated time. With -v, the test prints the table of docs/evaluation/sequences.md.
func TestOpenWorldScenarios(t *testing.T) {
	t.Parallel()
	allocator := newAllocator(t, elastalloc.Options{}).Allocator
	never := func(solver.Objective, solver.Admission) bool { return false }
	for _, test := range []openScenario{
		{"stream of small jobs", streamOfSmallJobs, 10 * time.Minute, 90_000, never},
		{"flapping node", flappingNode, 15 * time.Minute, 90_000, never},
		{"whole pool", wholePool, 10 * time.Minute, 90_000, never},
		{"busy pool", busyPool, 10 * time.Minute, 90_000, func(o solver.Objective, a solver.Admission) bool {
			return a == solver.AdmissionOptimized || o == solver.ObjectiveProgress && a != solver.AdmissionFIFO
		}},
	} {
		for _, objective := range []solver.Objective{solver.ObjectiveTotalTime, solver.ObjectiveProgress} {
			for _, admission := range solver.Admissions() {
				for _, reportsRestarts := range []bool{false, true} {
					test.run(t, allocator, solver.Options{Objective: objective, Admission: admission}, reportsRestarts)
				}
			}
		}
	}
}

// TestLongRestarts runs elastic jobs of 2 h on 8 nodes that are submitted at random times and restart for 2 h, with the default
// options of OBJECTIVE_PROGRESS. The mean completion time is compared with jobs that start on 8 nodes each in the order of
// submission. With -v, the test prints a row of the table of docs/evaluation/sequences.md.
func TestLongRestarts(t *testing.T) {
	t.Parallel()
	const (
		jobs, seeds     = 60, 3
		slots, load     = 4, 0.9
		restart, length = 7200.0, 7200.0
	)
	allocator := newAllocator(t, elastalloc.Options{}).Allocator
	for _, reportsRestarts := range []bool{false, true} {
		sum, fifo, resizes, largest, restarting, allocated := 0.0, 0.0, 0, 0, 0.0, 0.0
		for seed := range uint64(seeds) {
			w := newOpenWorld(8 * slots)
			w.allocator, w.options = allocator, solver.Options{Objective: solver.ObjectiveProgress}
			w.reportsRestarts = reportsRestarts
			r, at, free := rand.New(rand.NewPCG(seed, 0)), 0.0, make([]float64, slots)
			for n := range jobs {
				w.add(fmt.Sprint("job-", n), at, 1, 16, length*math.Pow(8, math.Log2(1.6))).RestartTime = duration(restart)
				first := slices.Index(free, slices.Min(free))
				free[first] = max(free[first], at) + restart + length
				fifo += free[first] - at
				at += r.ExpFloat64() * (restart + length) / (slots * load)
			}
			if err := w.runFor(t.Context(), tenDays, func(*loopJob) bool { return true }); err != nil {
				t.Fatal(err)
			}
			for _, j := range w.jobs {
				if j.end == 0 {
					t.Fatalf("seed %d: job %s does not complete", seed, j.ID)
				}
				sum += j.end - j.submit
				resizes, largest = resizes+j.resizes, max(largest, j.resizes)
				if err := w.checkRestarts(j); reportsRestarts && err != nil {
					t.Error(err)
				}
			}
			restarting, allocated = restarting+w.restarting, allocated+w.allocated
		}
		t.Logf("recent_restarts %t: %.2f times FIFO, %.2f resizes per job, at most %d, %.0f%% of the node time in restarts",
			reportsRestarts, sum/fifo, float64(resizes)/(jobs*seeds), largest, 100*restarting/allocated)
		if reportsRestarts && sum > 1.8*fifo {
			t.Errorf("%.2f times the mean completion time of FIFO; must be at most 1.8", sum/fifo)
		}
	}
}

// TestUnknownRestartTime runs two equal jobs on one node whose restarts take 5 min, which the scheduler does not
// know. Both complete one after the other, without a change.
func TestUnknownRestartTime(t *testing.T) {
	t.Parallel()
	for _, admission := range solver.Admissions() {
		w := newOpenWorld(1)
		w.allocator, w.options = newAllocator(t, elastalloc.Options{}).Allocator,
			solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}
		w.hides = func(job *solver.Job) { job.RestartTime = 0 }
		w.add("a", 0, 1, 1, 7200)
		w.add("b", 0, 1, 1, 7200)
		for _, j := range w.jobs {
			j.RestartTime = 5 * time.Minute
		}
		err := w.runFor(t.Context(), tenDays, func(*loopJob) bool { return true })
		if first, last := w.jobs[0], w.jobs[1]; err != nil || max(first.end, last.end) != 15_000 || first.resizes+last.resizes > 0 {
			t.Errorf("%s: the jobs complete after %.0f and %.0f s with %d and %d resizes, %v",
				admission, first.end, last.end, first.resizes, last.resizes, err)
		}
	}
}

// TestSmallGrowth runs a long job on 3 of 4 nodes, with legal sizes of 3 and 4 and restarts of 10 min. It grows within
// hours, although 4 nodes are less than 4/3 times as fast.
func TestSmallGrowth(t *testing.T) {
	t.Parallel()
	w := newOpenWorld(3)
	w.capacities = append(w.capacities, capacity{600, 4})
	w.allocator, w.options = newAllocator(t, elastalloc.Options{}).Allocator, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
		TotalTime: solver.TotalTimeOptions{SharePrice: new(0.0)}, // The value of the fair share would be enough.
	}
	j := w.add("long", 0, 3, 4, 1e7)
	j.AllowedNodes, j.RestartTime = []int{3, 4}, 10*time.Minute
	if err := w.runFor(t.Context(), 6*3600, func(*loopJob) bool { return true }); err != nil || j.current.nodes != 4 {
		t.Errorf("the job has %d nodes after 6 h, %v", j.current.nodes, err)
	}
}

// TestLargestWeights checks that no node is idle next to a paused job that fits, although another job has the largest
// weight.
func TestLargestWeights(t *testing.T) {
	t.Parallel()
	a := newAllocator(t, elastalloc.Options{})
	random := rand.New(rand.NewPCG(8, 0))
	for range 2000 {
		s := &solver.Snapshot{TotalNodes: 2 + random.IntN(20)}
		for i := range 2 + random.IntN(6) {
			job := solver.Job{
				ID: fmt.Sprint(i), RemainingETA: time.Duration(1+random.IntN(100_000)) * time.Second, MaxNodes: 1 + random.IntN(4),
				TrainingTime: time.Hour, CurrentNodes: random.IntN(2), Weight: new(math.Pow(10, 6*random.Float64()-3)),
			}
			if i == 0 {
				job.Weight = new(solver.MaxWeight)
			}
			s.Jobs = append(s.Jobs, job)
		}
		d, err := a.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive})
		if err != nil {
			t.Fatal(err)
		}
		for _, allocation := range d.Allocations {
			if allocation.Nodes == 0 && d.Report.IdleNodes > 0 {
				t.Fatalf("job %s waits next to %d idle nodes: %+v", allocation.JobID, d.Report.IdleNodes, s.Jobs)
			}
		}
	}
}

// TestLargerPoolPausesNoJob decides the snapshot of the demo with up to 20 more nodes. No job is paused.
func TestLargerPoolPausesNoJob(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("examples/busy.json")
	if err != nil {
		t.Fatal(err)
	}
	a := newAllocator(t, elastalloc.Options{})
	for more := range int32(21) {
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal(text, request); err != nil {
			t.Fatal(err)
		}
		request.Snapshot.TotalNodes += more
		response, err := apiconv.InProcess{Allocator: a.Allocator}.Allocate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		for _, allocation := range response.GetAllocations() {
			if allocation.GetChange() == elastallocv1.Change_CHANGE_PREEMPT {
				t.Errorf("%d more nodes: job %s is paused", more, allocation.GetJobId())
			}
		}
	}
}

// runsOut lets the estimate of a job run out: the job reports an hour on its smallest size, as
// client.SetEstimate does, however long it takes.
func (w *openWorld) runsOut(j *loopJob) {
	estimate := 3600 * w.speed(j, allocation{nodes: j.MinNodes})
	w.hides = func(job *solver.Job) {
		if job.ID == j.ID {
			done := j.work - j.left
			job.RemainingETA, job.WorkDone, job.Overrun = duration(max(1, estimate-done)), duration(done), done/estimate
		}
	}
}

// TestEstimateRunsOut runs a job that reports a remaining time of an hour and takes 50 h on 4 nodes. It grows once 4 more
// nodes are idle, so that it completes as early as with its true remaining time.
func TestEstimateRunsOut(t *testing.T) {
	t.Parallel()
	for _, admission := range solver.Admissions() {
		var ends [2]float64
		for n := range ends {
			w := newOpenWorld(8)
			w.allocator = newAllocator(t, elastalloc.Options{}).Allocator
			w.options = solver.Options{Objective: solver.ObjectiveTotalTime, Admission: admission}
			long := w.add("long", 0, 4, 8, 50*3600*4*(0.8*0.8))
			long.RestartTime = 10 * time.Minute
			w.add("short", 0, 4, 4, 2*3600*4*(0.8*0.8))
			if n == 1 {
				w.runsOut(long)
			}
			if err := w.runFor(t.Context(), tenDays, func(*loopJob) bool { return true }); err != nil {
				t.Fatalf("%s: %v", admission, err)
			}
			ends[n] = long.end
		}
		if ends[1] == 0 || ends[1] > 1.05*ends[0] {
			t.Errorf("%s: the job completes after %.0f s; with its true remaining time after %.0f s", admission, ends[1], ends[0])
		}
	}
}

// TestEstimateOfRigidJobRunsOut runs such a job on all nodes of the pool for 20 h. Small jobs that arrive meanwhile do not
// wait until it completes.
func TestEstimateOfRigidJobRunsOut(t *testing.T) {
	t.Parallel()
	w := newOpenWorld(8)
	w.allocator = newAllocator(t, elastalloc.Options{}).Allocator
	w.options = solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst}
	rigid := w.add("rigid", 0, 8, 8, 20*3600*8*(0.8*0.8*0.8))
	rigid.RestartTime = 2 * time.Minute
	w.runsOut(rigid)
	for at := 5400.0; at < 20*3600; at += 7200 {
		w.add(fmt.Sprint("small-", at), at, 1, 1, 300)
	}
	if err := w.runFor(t.Context(), tenDays, func(*loopJob) bool { return true }); err != nil {
		t.Fatal(err)
	}
	for _, j := range w.jobs[1:] {
		if waited := j.end - j.submit - j.work; j.end == 0 || waited > 1800 {
			t.Errorf("job %s waits for %.0f s", j.ID, waited)
		}
	}
	if rigid.end == 0 || rigid.end > 22*3600 {
		t.Errorf("the rigid job completes after %.0f s", rigid.end)
	}
}

// TestLongLoading has two jobs that train for 2 min and load for 2 h, and after them in the queue five jobs that train for
// 10 min. The short ones are first, because loading counts in the time that a job needs.
func TestLongLoading(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{6, 7} {
		w := newOpenWorld(nodes)
		w.allocator = newAllocator(t, elastalloc.Options{}).Allocator
		w.options = solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive}
		for n := range 2 {
			w.add(fmt.Sprint("loads-", n), 0, 3, 3, 120*3*math.Pow(0.8, math.Log2(3))).RestartTime = 2 * time.Hour
		}
		for n := range 5 {
			w.add(fmt.Sprint("trains-", n), 0, 2, 2, 600*2*0.8)
		}
		if err := w.runFor(t.Context(), tenDays, func(*loopJob) bool { return true }); err != nil {
			t.Fatal(err)
		}
		for n, j := range w.jobs {
			if most := []float64{1200 + 7320, 1200}[min(n/2, 1)]; j.end == 0 || j.end > most+1 {
				t.Errorf("%d nodes: job %s completes after %.0f s; must be at most %.0f s", nodes, j.ID, j.end, most)
			}
		}
	}
}

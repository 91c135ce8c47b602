package catalog

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/hesrpt"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// queued returns a job with an ETA in seconds, its nodes and its legal sizes.
func queued(eta, nodes int, sizes ...int) solver.Job {
	j := solver.NewJob("", time.Duration(eta)*time.Second)
	j.CurrentNodes = nodes
	j.AllowedNodes = sizes
	return j
}

// trained returns the job as one that has trained for a minute.
func trained(j solver.Job) solver.Job {
	j.TrainingTime = time.Minute
	return j
}

func pool(nodes int, jobs ...solver.Job) *solver.Snapshot {
	for i := range jobs {
		jobs[i].ID = fmt.Sprint("job ", i+1)
	}
	return &solver.Snapshot{TotalNodes: nodes, Horizon: solver.DefaultHorizon(), Jobs: jobs}
}

func TestComparators(t *testing.T) {
	weighted := queued(100, 0)
	weighted.Weight = new(4.0)
	// On these sizes, the three jobs take 39 s, 125 s and 24 s.
	fixed := func() []solver.Job { return []solver.Job{queued(100, 0, 4), queued(200, 0, 2), queued(100, 0, 8)} }
	for name, test := range map[string]struct {
		rule     sim.Rule
		snapshot *solver.Snapshot
		want     []int
	}{
		"fifo: in order while they fit":         {greedy.FillIdle, pool(6, fixed()...), []int{4, 2, 0}},
		"fifo: no job passes the front":         {greedy.FillIdle, pool(7, queued(9, 4, 4), queued(9, 0, 4), queued(9, 0, 1)), []int{4, 0, 0}},
		"fifo: one that never fits is passed":   {greedy.FillIdle, pool(3, fixed()...), []int{0, 2, 0}},
		"fifo: no job passes one in the middle": {greedy.FillIdle, pool(7, queued(9, 0, 4), queued(9, 0, 4), queued(9, 0, 1)), []int{4, 0, 0}},
		"fifo: running jobs keep their nodes":   {greedy.FillIdle, pool(7, queued(9, 2, 2), queued(1, 0, 8), queued(9, 4, 4)), []int{2, 0, 4}},

		"srpt: the shortest at its size first":  {shortestRemaining, pool(13, fixed()...), []int{4, 0, 8}},
		"srpt: one that does not fit is passed": {shortestRemaining, pool(10, fixed()...), []int{0, 2, 8}},
		"srpt: a running job is preempted": {
			shortestRemaining, pool(8, queued(100, 4, 4), queued(200, 2, 2), queued(100, 0, 8)), []int{0, 0, 8},
		},
		"srpt: ties go to the first submitted": {shortestRemaining, pool(4, queued(100, 0, 4), queued(100, 4, 4)), []int{4, 0}},
		// Both take 25 s, which 64 / 2.56 falls short of.
		"srpt: rounding breaks no tie":           {shortestRemaining, pool(4, queued(25, 1, 1), queued(64, 0, 4)), []int{1, 0}},
		"srpt: a pool that is too small for all": {shortestRemaining, pool(1, fixed()...), []int{0, 0, 0}},

		// 1, 1, 1, then 2, 1, 1, then 2, 2, 1, and so on.
		"max-min: evenly, the first submitted first": {maxMin, pool(10, queued(9, 0), queued(900, 0), queued(90, 0)), []int{4, 4, 2}},
		// The last cannot grow to 2, since 3 is its next size.
		"max-min: others grow where one cannot": {maxMin, pool(4, queued(9, 0), queued(9, 0), queued(9, 0, 1, 3)), []int{2, 1, 1}},
		// 0.25, 0.4, 0.64 and 1.02 by weight against 1.
		"max-min: by weight":            {maxMin, pool(11, weighted, queued(9, 0), queued(9, 0)), []int{8, 2, 1}},
		"max-min: up to the largest":    {maxMin, pool(40, queued(9, 0), queued(9, 0)), []int{16, 16}},
		"max-min: more jobs than nodes": {maxMin, pool(2, queued(9, 0), queued(9, 1), queued(9, 0)), []int{1, 1, 0}},
		"max-min: no jobs":              {maxMin, pool(2), []int{}},

		// Shares of two are 0.116 and 0.884. Of 32 nodes that is 3.7 and 28.3: at most
		// 2 and 16. The 14 that are left go to the longer, 4, then 8, then 16.
		"hesrpt: what rounding left": {heSRPT(solver.AdmissionFIFO), pool(32, queued(1000, 0), queued(10, 0)), []int{16, 16}},
		// Of 12: 1.4 and 10.6, so 1 and 8. Of the 3 left, one makes 2 of the longer's 1
		// (0.7 of its share's worth), two make 4.
		"hesrpt: the shortest has most nodes": {heSRPT(solver.AdmissionFIFO), pool(12, queued(1000, 0), queued(10, 0)), []int{4, 8}},
		// Shares of three are 0.033, 0.251 and 0.716; of 8 nodes 0.3, 2.0 and 5.7: 1, 2
		// and 4. The last goes to the longest.
		"hesrpt: every job has a node": {heSRPT(solver.AdmissionFIFO), pool(8, queued(10, 0), queued(1000, 0), queued(100, 0)), []int{4, 2, 2}},
		// The shortest of five has just half of the pool.
		"hesrpt: shares as large as a size": {
			heSRPT(solver.AdmissionFIFO), pool(8, queued(5, 0), queued(4, 0), queued(3, 0), queued(2, 0), queued(1, 0)), []int{1, 1, 1, 1, 4},
		},
		"hesrpt: more jobs than nodes": {heSRPT(solver.AdmissionFIFO), pool(1, queued(10, 0), queued(5, 1)), []int{0, 1}},
		// A new job has a node. The short paused job has a share of 2.1 nodes, and the long running job
		// a share of 0.1 nodes.
		"hesrpt-event: a pause": {
			heSRPT(solver.AdmissionStartFirst), pool(3, trained(queued(1000, 1)), trained(queued(10, 0)), queued(100, 0)), []int{0, 2, 1},
		},
		// The new jobs displace the running job only if it has a longer remaining ETA.
		"hesrpt-event: the queue starts": {
			heSRPT(solver.AdmissionStartFirst), pool(2, trained(queued(1001, 2)), queued(1000, 0), queued(1000, 0)), []int{0, 1, 1},
		},
		"hesrpt-event: the queue waits": {
			heSRPT(solver.AdmissionStartFirst), pool(2, trained(queued(1, 2)), queued(1000, 0), queued(1000, 0)), []int{1, 1, 0},
		},
		"hesrpt: no jobs": {heSRPT(solver.AdmissionFIFO), pool(1), []int{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(solver.Nodes(test.want...), test.rule(test.snapshot)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestComparatorsAreLegal checks on random snapshots that the decisions of the rules of all policies without teams are
// legal, and that srpt does not leave the pool idle.
func TestComparatorsAreLegal(t *testing.T) {
	rules := map[string]sim.Rule{
		"fifo": greedy.FillIdle, "fifo-backfill": backfill, "srpt": shortestRemaining, "max-min": maxMin,
		"hesrpt": heSRPT(solver.AdmissionFIFO), "hesrpt-event": heSRPT(solver.AdmissionStartFirst),
	}
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 10, Steps: 2, Sizes: 5, Nodes: 60}).Draw(t, "snapshot")
		for name, rule := range rules {
			decision, err := rule.Decide(t.Context(), sim.Input{Snapshot: s})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			checkLegal(t, s, decision)
			idle := s.TotalNodes
			for _, a := range decision.Allocations {
				idle -= a.Nodes
			}
			for i := range s.Jobs {
				smallest := s.Jobs[i].LegalSizes()[0]
				if idle == s.TotalNodes && smallest <= idle && name == "srpt" {
					t.Fatalf("%s leaves all %d nodes idle, although job %d can run on %d", name, idle, i, smallest)
				}
			}
		}
	})
}

// TestTotalTimeBoundHolds simulates batches and checks that no policy has a mean below the bound.
func TestTotalTimeBoundHolds(t *testing.T) {
	policies := []string{"optimal", "hesrpt", "optimal-preemptive"}
	rapid.Check(t, func(t *rapid.T) {
		var jobs []sim.WorkloadJob
		var demands []time.Duration
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			demands = append(demands, time.Duration(rapid.IntRange(1, 5000).Draw(t, "demand"))*time.Second)
			jobs = append(jobs, job(fmt.Sprint(i), 0, demands[i]))
		}
		nodes := rapid.IntRange(1, 40).Draw(t, "nodes")
		for _, name := range policies {
			result := run(t, policy(t, name), sim.DefaultConfig(nodes), jobs...)
			mean := meanOf(result, (*sim.JobResult).TotalTime).Seconds()
			if bound := hesrpt.Bound(demands, nodes).Seconds(); mean < bound {
				t.Fatalf("the mean job completion time of %s is %v s; the bound is %v s", name, mean, bound)
			}
		}
	})
}

// meanOf returns the mean of a time of the jobs.
func meanOf(r *sim.Result, of func(*sim.JobResult) time.Duration) time.Duration {
	sum := 0.0
	for i := range r.Jobs {
		sum += of(&r.Jobs[i]).Seconds()
	}
	return time.Duration(sum / float64(len(r.Jobs)) * float64(time.Second))
}

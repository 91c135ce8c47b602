package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
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
		rule     Rule
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
		"srpt: a running job is preempted":      {shortestRemaining, pool(8, queued(100, 4, 4), queued(200, 2, 2), queued(100, 0, 8)), []int{0, 0, 8}},
		"srpt: ties go to the first submitted":  {shortestRemaining, pool(4, queued(100, 0, 4), queued(100, 4, 4)), []int{4, 0}},
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
		"hesrpt: shares as large as a size": {heSRPT(solver.AdmissionFIFO), pool(8, queued(5, 0), queued(4, 0), queued(3, 0), queued(2, 0), queued(1, 0)), []int{1, 1, 1, 1, 4}},
		"hesrpt: more jobs than nodes":      {heSRPT(solver.AdmissionFIFO), pool(1, queued(10, 0), queued(5, 1)), []int{0, 1}},
		// A new job has a node. The short paused job has a share of 2.1 nodes, and the long running job
		// a share of 0.1 nodes.
		"hesrpt-event: a pause": {heSRPT(solver.AdmissionStartFirst), pool(3, trained(queued(1000, 1)), trained(queued(10, 0)), queued(100, 0)), []int{0, 2, 1}},
		// The new jobs displace the running job only if it has a longer remaining ETA.
		"hesrpt-event: the queue starts": {heSRPT(solver.AdmissionStartFirst), pool(2, trained(queued(1001, 2)), queued(1000, 0), queued(1000, 0)), []int{0, 1, 1}},
		"hesrpt-event: the queue waits":  {heSRPT(solver.AdmissionStartFirst), pool(2, trained(queued(1, 2)), queued(1000, 0), queued(1000, 0)), []int{1, 1, 0}},
		"hesrpt: no jobs":                {heSRPT(solver.AdmissionFIFO), pool(1), []int{}},
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
	rules := make(map[string]Rule)
	for _, p := range Policies() {
		if rule, is := p.Decider.(Rule); is && !p.NeedsTeams {
			rules[p.Name] = rule
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 10, Steps: 2, Sizes: 5, Nodes: 60}).Draw(t, "snapshot")
		for name, rule := range rules {
			options := rule(s)
			if err := checkAllocations(s, optionAllocations(s, options)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			idle := s.TotalNodes
			for _, option := range options {
				idle -= int(option.Nodes)
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

func TestHeSRPTShares(t *testing.T) {
	for jobs := range 40 {
		shares := HeSRPTShares(jobs)
		sum := 0.0
		for i, share := range shares {
			sum += share
			if i > 0 && share <= shares[i-1] {
				t.Errorf("of %d, job %d has no more than the longer one before it", jobs, i)
			}
		}
		if jobs > 0 && math.Abs(sum-1) > 1e-12 {
			t.Errorf("the shares of %d jobs add up to %v", jobs, sum)
		}
	}
}

// TestTotalTimeBound compares the bound with the closed form of the heSRPT paper's
// theorem on the least total flow time: with sizes x_1 >= x_2 >= … it is
// sum over k of x_k / s(N) * (k s(1+w_k) - (k-1) s(w_k)),
// where w_k = 1 / ((k/(k-1))^(1/(1-a)) - 1) and s(n) = n^a.
func TestTotalTimeBound(t *testing.T) {
	demands := []time.Duration{40 * time.Minute, 3 * time.Hour, 40 * time.Minute, 7 * time.Second, 9 * time.Hour}
	descending := []float64{32400, 10800, 2400, 2400, 7}
	const nodes = 70
	a := math.Log2(1.6)
	speed := func(n float64) float64 { return math.Pow(n, a) }
	total := descending[0]
	for k := 2.0; int(k) <= len(descending); k++ {
		w := 1 / (math.Pow(k/(k-1), 1/(1-a)) - 1)
		total += descending[int(k)-1] * (k*speed(1+w) - (k-1)*speed(w))
	}
	want := total / speed(nodes) / float64(len(descending))
	if got := TotalTimeBound(demands, nodes).Seconds(); math.Abs(got-want) > 1e-6*want {
		t.Errorf("the bound is %v s; want %v", got, want)
	}
	if got := TotalTimeBound([]time.Duration{time.Hour}, 1); got != time.Hour {
		t.Errorf("the bound of an hour on one node is %v", got)
	}
	if got := TotalTimeBound(nil, 1); got != 0 {
		t.Errorf("the bound of no jobs is %v", got)
	}
}

// TestTotalTimeBoundHolds simulates batches and checks that no policy has a mean below the bound.
func TestTotalTimeBoundHolds(t *testing.T) {
	policies := []string{"optimal", "hesrpt", "optimal-preemptive"}
	rapid.Check(t, func(t *rapid.T) {
		var jobs []WorkloadJob
		var demands []time.Duration
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			demands = append(demands, time.Duration(rapid.IntRange(1, 5000).Draw(t, "demand"))*time.Second)
			jobs = append(jobs, job(fmt.Sprint(i), 0, demands[i]))
		}
		nodes := rapid.IntRange(1, 40).Draw(t, "nodes")
		for _, name := range policies {
			p, err := FindPolicy(name)
			if err != nil {
				t.Fatal(err)
			}
			result := run(t, p, DefaultConfig(nodes), jobs...)
			mean := Summarize(result, 0).MeanTotalSeconds
			if bound := TotalTimeBound(demands, nodes).Seconds(); mean < bound {
				t.Fatalf("the mean job completion time of %s is %v s; the bound is %v s", name, mean, bound)
			}
		}
	})
}

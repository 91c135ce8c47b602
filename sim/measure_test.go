package sim

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

func TestSummarize(t *testing.T) {
	r := &Result{
		Workload: "w", Policy: "optimal", Nodes: 7, Utilization: 0.5,
		Jobs: []JobResult{
			{End: 100 * second, Weight: 3, MinSize: 8, Alone: 80 * second, Ideal: 80 * second, Unserved: 5 * second, Resizes: 2, Outcome: OutcomeCompleted},
			{
				Submit: 10 * second, Start: 40 * second, End: 310 * second, Weight: 1, MinSize: 4, Alone: 75 * second, Ideal: 239 * second,
				Unserved: 35 * second, Resizes: 1, Outcome: OutcomeHung,
				Nodes: []NodesAt{{At: 40 * second, Nodes: 1}, {At: 50 * second, Nodes: 0}, {At: 55 * second, Nodes: 2}, {At: 310 * second, Nodes: 0}},
			},
		},
		Decisions: []Decision{
			{SolveTime: 1 * time.Millisecond, Reason: solver.ReasonOptimal, Prices: []float64{0.5}},
			{SolveTime: 3 * time.Millisecond},
			{SolveTime: 8 * time.Millisecond, Reason: solver.ReasonOptimal, Prices: []float64{1.5}},
		},
	}
	want := `{"trace":"w","policy":"optimal","nodes":7,"seed":9,"jobs":2,"completed":1,` +
		`"mean_queue_s":15,"mean_total_s":200,"p50_total_s":200,"p95_total_s":290,"p99_total_s":298,"max_total_s":300,` +
		`"weighted_mean_total_s":150,"mean_unserved_s":20,"max_unserved_big_s":5,"max_slowdown":4,"later_than_ideal_share":0.5,"makespan_s":310,"decisions":3,` +
		`"unproven":1,"solve_ms":{"mean":4,"median":3,"p95":7.5,"max":8},"node_price":{"median":1,"p90":1.4},"resizes":3,"pauses":0.5,"moves":0,"utilization":0.5,"idle_node_hours":0.3013888888888889}`
	summary := Summarize(r, 9)
	got, err := json.Marshal(summary)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if percent := summary.ProvenPercent(); percent != 66.66 {
		t.Errorf("%v%% of the decisions are proven; want two thirds, rounded down", percent)
	}
}

// TestUtilizationEqualsReference compares the utilization and the idle node hours of random runs with counts of every
// second: those in which a job is present, and those of nodes with a job. An array of jobs that are submitted
// together has them too.
func TestUtilizationEqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, at, unit := Workload{Name: "drawn"}, 0, rapid.SampledFrom([]int{0, 1, 60}).Draw(t, "unit")
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			w.Jobs = append(w.Jobs, rigidJob(fmt.Sprint(i), at, rapid.IntRange(1, 90).Draw(t, "run"), 0, rapid.IntRange(1, 5).Draw(t, "size")))
			at += unit * rapid.IntRange(0, 5).Draw(t, "wait")
		}
		policy, err := FindPolicy("fifo")
		if err != nil {
			t.Fatal(err)
		}
		result, err := Run(t.Context(), w, policy, DefaultConfig(5), newAllocator())
		if err != nil {
			t.Fatal(err)
		}
		present, occupied := 0, 0
		for second := range 3000 {
			now, here := time.Duration(second)*time.Second, 0
			for i := range result.Jobs {
				job := &result.Jobs[i]
				if job.Submit <= now && now < job.End {
					here = 1
				}
				if job.Start <= now && now < job.End {
					occupied += w.Jobs[i].RequestedNodes
				}
			}
			present += here
		}
		used, idle := float64(occupied)/float64(5*present), float64(5*present-occupied)/3600
		if math.Abs(result.Utilization-used) > 1e-9 || math.Abs(result.IdleNodeHours()-idle) > 1e-9 {
			t.Errorf("utilization %v and %v idle node hours; want %v and %v", result.Utilization, result.IdleNodeHours(), used, idle)
		}
	})
}

func TestCompareWithFairShares(t *testing.T) {
	ends := func(seconds ...int) *Result {
		r := new(Result)
		for _, end := range seconds {
			r.Jobs = append(r.Jobs, JobResult{Submit: 10 * second, End: time.Duration(end) * second})
		}
		return r
	}
	var s Summary
	s.CompareWithMaxMin(ends(110, 60, 310, 20), ends(110, 70, 210, 19))
	if *s.LaterShare != 0.5 || *s.WorstLater != 1.5 {
		t.Errorf("a share of %v completes later, by a factor of at most %v; want 0.5 and 1.5", *s.LaterShare, *s.WorstLater)
	}
}

// completed returns a result whose n-th job completes at end(n).
func completed(policy string, jobs int, queue time.Duration, end func(n int) time.Duration) *Result {
	r := &Result{Policy: policy, Nodes: 70}
	for n := range jobs {
		r.Jobs = append(r.Jobs, JobResult{ID: fmt.Sprint(n), Start: queue, End: end(n + 1)})
	}
	return r
}

func TestCompare(t *testing.T) {
	greedy := completed("greedy", 250, 100*second, func(n int) time.Duration { return time.Duration(n) * 10 * second })
	// The first 120 jobs complete in half the time, the others later than under greedy.
	optimal := completed("optimal", 250, 75*second, func(n int) time.Duration {
		if n <= 120 {
			return time.Duration(n) * 5 * second
		}
		return time.Duration(n)*10*second + 500*second
	})
	got := Compare(optimal, greedy)
	// At 1000 s, greedy has completed 100 jobs and the other policy 120. At 2000 s, they have completed
	// 200 and 150. Per 100 jobs, the difference is 20 and -25.
	if diff := cmp.Diff([]int{20, -50}, got.ExtraJobs); diff != "" {
		t.Errorf("extra jobs (-want +got):\n%s", diff)
	}
	if got.ExtraJobsPer100 != -2.5 || got.QueueReduction != 0.25 {
		t.Errorf("%v extra jobs per 100, queueing reduced by %v; want -2.5 and 0.25", got.ExtraJobsPer100, got.QueueReduction)
	}
	same := Compare(greedy, greedy)
	if diff := cmp.Diff(Comparison{Policy: "greedy", Baseline: "greedy", Nodes: 70, ExtraJobs: []int{0, 0}}, same); diff != "" {
		t.Errorf("with itself (-want +got):\n%s", diff)
	}
}

func TestCompareEmpty(t *testing.T) {
	none := completed("greedy", 3, 0, func(int) time.Duration { return time.Hour })
	if got := reduction(3, 59); !math.IsNaN(float64(got)) {
		t.Errorf("a queue of 59 s is reduced by %v", got)
	}
	if got := reduction(45, 60); got != 0.25 {
		t.Errorf("a queue of 60 s is reduced by %v", got)
	}
	some := completed("optimal", 3, second, func(int) time.Duration { return time.Hour })
	text, err := json.Marshal(Compare(some, none))
	want := `{"policy":"optimal","baseline":"greedy","nodes":70,"queue_reduction":null,` +
		`"total_reduction":0,"extra_jobs":[],"extra_jobs_per_100":0}`
	if err != nil || string(text) != want {
		t.Errorf("the comparison is %s, %v; want %s", text, err, want)
	}
}

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		values []float64
		share  float64
		want   float64
	}{
		{nil, 0.5, 0}, {[]float64{7}, 0.95, 7}, {[]float64{3, 1, 2}, 0.5, 2}, {[]float64{4, 1, 2, 3}, 0.5, 2.5},
		{[]float64{1, 2}, 0, 1}, {[]float64{1, 2}, 1, 2},
	} {
		if got := Quantile(test.values, test.share); got != test.want {
			t.Errorf("Quantile(%v, %v) = %v; want %v", test.values, test.share, got, test.want)
		}
	}
}

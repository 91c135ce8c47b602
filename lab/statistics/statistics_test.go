package statistics

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

const second = time.Second

func TestSummarize(t *testing.T) {
	r := &sim.Result{
		Workload: "w", Policy: "optimal", Nodes: 7, Utilization: 0.5,
		Jobs: []sim.JobResult{
			{End: 100 * second, Weight: 3, MinSize: 8, Alone: 80 * second, Ideal: 80 * second,
				Unserved: 5 * second, Resizes: 2, Outcome: sim.OutcomeCompleted},
			{
				Submit: 10 * second, Start: 40 * second, End: 310 * second, Weight: 1, MinSize: 4, Alone: 75 * second, Ideal: 239 * second,
				Unserved: 35 * second, Resizes: 1, Outcome: sim.OutcomeHung,
				Nodes: []sim.NodesAt{
					{At: 40 * second, Nodes: 1}, {At: 50 * second, Nodes: 0}, {At: 55 * second, Nodes: 2}, {At: 310 * second, Nodes: 0},
				},
			},
		},
		Decisions: []sim.Decision{
			{SolveTime: 1 * time.Millisecond, Reason: solver.ReasonOptimal, Prices: []float64{0.5}},
			{SolveTime: 3 * time.Millisecond},
			{SolveTime: 8 * time.Millisecond, Reason: solver.ReasonOptimal, Prices: []float64{1.5}},
		},
	}
	want := `{"trace":"w","policy":"optimal","nodes":7,"seed":9,"jobs":2,"completed":1,` +
		`"mean_queue_s":15,"mean_total_s":200,"p50_total_s":200,"p95_total_s":290,"p99_total_s":298,"max_total_s":300,` +
		`"weighted_mean_total_s":150,"mean_unserved_s":20,"max_unserved_big_s":5,"max_slowdown":4,` +
		`"later_than_ideal_share":0.5,"makespan_s":310,"decisions":3,` +
		`"unproven":1,"solve_ms":{"mean":4,"median":3,"p95":7.5,"max":8},"node_price":{"median":1,"p90":1.4},` +
		`"resizes":3,"pauses":0.5,"moves":0,"utilization":0.5,"idle_node_hours":0.3013888888888889}`
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

func TestCompareWithFairShares(t *testing.T) {
	ends := func(seconds ...int) *sim.Result {
		r := new(sim.Result)
		for _, end := range seconds {
			r.Jobs = append(r.Jobs, sim.JobResult{Submit: 10 * second, End: time.Duration(end) * second})
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
func completed(policy string, jobs int, queue time.Duration, end func(n int) time.Duration) *sim.Result {
	r := &sim.Result{Policy: policy, Nodes: 70}
	for n := range jobs {
		r.Jobs = append(r.Jobs, sim.JobResult{ID: fmt.Sprint(n), Start: queue, End: end(n + 1)})
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

func TestCompareWithPartitions(t *testing.T) {
	of := func(first, other time.Duration) *sim.Result {
		return &sim.Result{
			Groups: []solver.Group{{ID: "dept"}, {ID: "a", ParentID: "dept", Quota: 3}, {ID: "b", Quota: 4}, {ID: "idle", Quota: 5}},
			Jobs:   []sim.JobResult{{Group: "a", End: first}, {Group: "b", End: other}, {Group: "a", End: first + 2*other}},
		}
	}
	s := Summarize(of(60*second, 30*second), 0)
	s.CompareWithPartitions(of(90*second, 20*second))
	want := []TeamSummary{
		{Team: "a", Quota: 3, Jobs: 2, MeanTotalSeconds: 90, ToPartition: new(90.0 / 110)},
		{Team: "b", Quota: 4, Jobs: 1, MeanTotalSeconds: 30, ToPartition: new(1.5)},
	}
	if diff := cmp.Diff(want, s.Teams); diff != "" {
		t.Errorf("teams (-want +got):\n%s", diff)
	}
	if *s.WorstTeam != 1.5 {
		t.Errorf("the worst team has the factor %v; want 1.5", *s.WorstTeam)
	}
}

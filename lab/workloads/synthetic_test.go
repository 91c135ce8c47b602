package workloads

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

func TestSyntheticMatchesPaper(t *testing.T) {
	mean := func(jobs sim.Trace) float64 {
		sum := time.Duration(0)
		for _, job := range jobs {
			sum += job.Duration
		}
		return sum.Minutes() / float64(len(jobs))
	}
	near := func(t *testing.T, what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.01 {
			t.Errorf("%s train for %.3f min on average; want %.2f", what, got, want)
		}
	}
	for seed := range uint64(20) {
		all := syntheticTrace(t, Heterogeneous, seed)
		baseline := syntheticTrace(t, Baseline, seed)
		isShort := func(job sim.TraceJob) bool { return job.Duration < 5*time.Minute }
		isLong := func(job sim.TraceJob) bool { return !isShort(job) }
		long := slices.DeleteFunc(slices.Clone(all), isShort)
		short := slices.DeleteFunc(slices.Clone(all), isLong)
		if len(all) != 1252 || len(long) != 447 {
			t.Errorf("%d jobs, %d of them of 5 minutes and more; want 1252 and 447", len(all), len(long))
		}
		near(t, "long jobs", mean(long), 232.6)
		near(t, "short jobs", mean(short), 1.95)
		if diff := cmp.Diff(baseline, long); diff != "" {
			t.Errorf("jobs of the baseline (-baseline +long jobs):\n%s", diff)
		}
		span := 49*time.Hour + 41*time.Minute + 38*time.Second
		for _, trace := range []sim.Trace{all, baseline} {
			if first, last := trace[0].Submit, trace[len(trace)-1].Submit; first != 0 || last != span {
				t.Errorf("submissions from %v to %v; want 0 to %v", first, last, span)
			}
			if !slices.IsSortedFunc(trace, func(a, b sim.TraceJob) int { return int(a.Submit - b.Submit) }) {
				t.Error("the jobs are not in the order of submission")
			}
		}
	}
}

func TestSyntheticDependsOnSeedOnly(t *testing.T) {
	draw := func(seed uint64) sim.Trace { return syntheticTrace(t, Heterogeneous, seed) }
	if diff := cmp.Diff(draw(7), draw(7)); diff != "" {
		t.Errorf("the same seed gives different jobs (-first +second):\n%s", diff)
	}
	if cmp.Equal(draw(7), draw(8)) {
		t.Error("two seeds give the same workload")
	}
	if got := draw(7)[0].Nodes(sim.DefaultGPUsPerNode); got != requestedNodes {
		t.Errorf("a job requests %d nodes; want %d", got, requestedNodes)
	}
}

// TestSyntheticDayAndNight counts submissions by the hour of the day.
func TestSyntheticDayAndNight(t *testing.T) {
	day, night := 0, 0
	for seed := range uint64(10) {
		trace := syntheticTrace(t, Heterogeneous, seed)
		for _, job := range trace {
			switch hour := int((timeOfDay + job.Submit).Hours()) % 24; {
			case hour >= 12 && hour < 18:
				day++
			case hour < 6:
				night++
			}
		}
	}
	if day < 2*night {
		t.Errorf("%d submissions by day, %d by night; want twice as many at least", day, night)
	}
}

// TestLoadIsCalibrated checks the load of the pool for the smallest and the largest number of requested
// nodes.
func TestLoadIsCalibrated(t *testing.T) {
	var one, sixteen, busiest float64
	const seeds = 10
	sixteenNodes := solver.NewJob("", 0)
	for seed := range uint64(seeds) {
		trace := syntheticTrace(t, Baseline, seed)
		workload := sim.NewWorkload("", trace, sim.WorkloadOptions{GPUsPerNode: sim.DefaultGPUsPerNode})
		peak := 0
		for _, at := range workload.Jobs {
			left := syntheticSpan - at.Submit
			one += min(at.Demand, left).Hours()
			sixteen += 16 * min(sim.Scale(at.Demand, 1/sixteenNodes.Speed(16)), left).Hours()
			active := 0
			for _, job := range workload.Jobs {
				if job.Submit <= at.Submit && at.Submit < job.Submit+job.Demand {
					active++
				}
			}
			peak = max(peak, active)
		}
		busiest += float64(peak) / seeds
	}
	one, sixteen = one/seeds/syntheticSpan.Hours(), sixteen/seeds/syntheticSpan.Hours()
	if !(one < 70 && 70 < busiest) {
		t.Errorf("with one node each, %.0f nodes are busy on average and at most %.0f; want 70 in between", one, busiest)
	}
	if math.Abs(sixteen-190) > 10 {
		t.Errorf("with 16 nodes each, %.0f nodes are busy; want about 190", sixteen)
	}
}

func TestSyntheticErrors(t *testing.T) {
	if _, err := Synthetic("other", 1); err == nil {
		t.Error("there is a synthetic workload of the kind \"other\"")
	}
}

// TestSyntheticUsers checks the distribution of jobs over users. On Helios Venus, the first five of 35
// users have 59% of the jobs.
func TestSyntheticUsers(t *testing.T) {
	count, all := make(map[string]int), 0
	for seed := range uint64(20) {
		trace := syntheticTrace(t, Heterogeneous, seed)
		for _, job := range trace {
			count[job.User]++
			all++
		}
	}
	first := 0
	for n := range 5 {
		first += count[fmt.Sprint("user-", n+1)]
	}
	if share := float64(first) / float64(all); len(count) != 35 || share < 0.53 || share > 0.57 {
		t.Errorf("%d users, %.3f of the jobs of the first five; want 35 and 0.55", len(count), share)
	}
}

// syntheticTrace returns a synthetic trace.
func syntheticTrace(t *testing.T, kind SyntheticKind, seed uint64) sim.Trace {
	t.Helper()
	trace, err := Synthetic(kind, seed)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

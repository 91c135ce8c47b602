package sim

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNewWorkload(t *testing.T) {
	trace := Trace{
		{ID: "short", Submit: 0, Duration: 299 * second, GPUs: 8},
		{ID: "a", Submit: 10*second + 1, Duration: 300 * second, GPUs: 8},
		{ID: "b", Submit: 11*second + 2, Duration: 1000 * second, GPUs: 25},
		{ID: "empty", Submit: 12 * second, Duration: 0, GPUs: 1000},
	}
	whole := func(id string, submit, demand time.Duration, requested int) WorkloadJob {
		j := job(id, submit, demand)
		j.RequestedNodes = requested
		return j
	}
	got := NewWorkload("w", trace, WorkloadOptions{GPUsPerNode: 8, MinDuration: 5 * time.Minute})
	want := Workload{Name: "w", Jobs: []WorkloadJob{
		whole("a", 0, 300*second, 1), whole("b", 2*second, 2560*second, 4),
	}, Cut: Cuts{TooShort: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of 5 minutes and more (-want +got):\n%s", diff)
	}
	got = NewWorkload("w", trace, WorkloadOptions{GPUsPerNode: 8})
	if last := got.Jobs[len(got.Jobs)-1]; len(got.Jobs) != 4 || last.Demand != second || last.RequestedNodes != 125 {
		t.Errorf("the job without a duration is %+v; want a second of work", last)
	}
	trace[3].AllowedNodes = []int{1, 16}
	got = NewWorkload("w", trace, WorkloadOptions{GPUsPerNode: 8})
	if diff := cmp.Diff(Cuts{Jobs: 1, GPUs: 1000 - 16*8, MaxGPUs: 1000}, got.Cut); diff != "" {
		t.Errorf("cut (-want +got):\n%s", diff)
	}
}

// TestEligible checks that jobs count from the time from which they could run, in this order.
func TestEligible(t *testing.T) {
	trace := workloadTrace(t, "job_id,submit_s,duration_s,gpus,eligible_s,start_s\nlate,0,60,8,100,130\nsoon,5,60,8,,50\nearly,10,60,8,8,20\n")
	w := NewWorkload("w", trace, WorkloadOptions{GPUsPerNode: 8})
	want := map[string][2]time.Duration{"soon": {0, 45 * second}, "early": {5 * second, 15 * second}, "late": {95 * second, 125 * second}}
	for i, id := range []string{"soon", "early", "late"} {
		if job := &w.Jobs[i]; job.ID != id || job.Submit != want[id][0] || job.Recorded[0].At != want[id][1] {
			t.Errorf("job %d is %+v; want %s at %v", i, job, id, want[id])
		}
	}
	if w.Cut.Eligible != 1 {
		t.Errorf("%d jobs count from a later time; want 1", w.Cut.Eligible)
	}
	result, err := Recorded(w, DefaultConfig(4))
	if err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	for i := range result.Jobs {
		waits = append(waits, result.Jobs[i].QueueTime())
	}
	if diff := cmp.Diff([]time.Duration{45 * second, 10 * second, 30 * second}, waits); diff != "" {
		t.Errorf("queueing times (-want +got):\n%s", diff)
	}
	// Ten jobs of a chain on an idle pool have no queue.
	text, end := "job_id,submit_s,duration_s,gpus,eligible_s,start_s\n", 0
	for i := range 10 {
		text += fmt.Sprintf("%d,0,600,8,%d,%d\n", i, end, end)
		end += 600
	}
	result, err = Recorded(NewWorkload("w", workloadTrace(t, text), WorkloadOptions{GPUsPerNode: 8}), DefaultConfig(4))
	if err != nil {
		t.Fatal(err)
	}
	for i := range result.Jobs {
		if job := &result.Jobs[i]; job.QueueTime() != 0 || job.TotalTime() != 600*second {
			t.Errorf("job %s of a chain waits %v of %v; want 0s of 10m0s", job.ID, job.QueueTime(), job.TotalTime())
		}
	}
}

// workloadTrace reads a trace.
func workloadTrace(t *testing.T, text string) Trace {
	t.Helper()
	trace, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// measureFate checks a disturbed job of one hour. It returns the minutes until the job hangs, its hours of work until it is killed,
// or the error of its ETA.
func measureFate(t *testing.T, job *WorkloadJob) float64 {
	t.Helper()
	estimate, work := job.UserEstimate.Hours(), job.Work.Hours()
	switch job.Fate {
	case OutcomeHung:
		if job.HangAfter < second || job.HangAfter > 5*time.Minute || estimate != 1 {
			t.Fatalf("a job that hangs is %+v", job)
		}
		return job.HangAfter.Minutes()
	case OutcomeKilled:
		if work <= 0 || work > 1 || estimate != 1 {
			t.Fatalf("a job that is killed is %+v", job)
		}
		return work
	default:
		if estimate < 0.9 || estimate > 1.1 || work != 1 {
			t.Fatalf("a job with an ETA error is %+v", job)
		}
		return math.Abs(estimate - 1)
	}
}

func TestDisturb(t *testing.T) {
	var plainJobs []WorkloadJob
	const jobs = 20_000
	for i := range jobs {
		plainJobs = append(plainJobs, job(fmt.Sprint(i), 0, time.Hour))
	}
	before := Workload{Name: "w", Jobs: plainJobs}
	all := Disturbance{ETAError: 0.1, BugShare: 0.15, KillShare: 0.1}
	disturbed := before.Disturb(all, 1)

	count := make(map[Outcome]float64)
	sum := make(map[Outcome]float64)
	for _, job := range disturbed.Jobs {
		count[job.Fate]++
		if job.Demand != time.Hour {
			t.Fatalf("the demand of %+v changed", job)
		}
		sum[job.Fate] += measureFate(t, &job)
	}
	for fate, want := range map[Outcome]struct{ share, mean float64 }{
		OutcomeHung: {0.15, 2.5}, OutcomeKilled: {0.1, 0.5}, OutcomeCompleted: {0.75, 0.05},
	} {
		if got := count[fate] / jobs; math.Abs(got-want.share) > 0.01 {
			t.Errorf("%.3f of the jobs are %s; want %v", got, fate, want.share)
		}
		if got := sum[fate] / count[fate]; math.Abs(got/want.mean-1) > 0.03 {
			t.Errorf("the mean of %s jobs is %v; want %v", fate, got, want.mean)
		}
	}
	if diff := cmp.Diff(disturbed, before.Disturb(all, 1)); diff != "" {
		t.Errorf("the same seed gives different jobs (-first +second):\n%s", diff)
	}
	if diff := cmp.Diff(before, before.Disturb(Disturbance{}, 1)); diff != "" {
		t.Errorf("a configuration without disturbances changes jobs (-before +after):\n%s", diff)
	}
	// All jobs have log-normal errors, independent of their fate.
	sums := [2]float64{}
	for i, job := range before.Disturb(Disturbance{ETASigma: 0.7, BugShare: 0.15, KillShare: 0.1}, 1).Jobs {
		g := math.Log(job.UserEstimate.Hours()) / 0.7
		sums[0], sums[1] = sums[0]+g, sums[1]+g*g
		if job.UserError != 0.7 || !job.ReportsWork || job.Fate != disturbed.Jobs[i].Fate || job.Work != disturbed.Jobs[i].Work {
			t.Fatalf("a job with a log-normal error is %+v", job)
		}
	}
	if mean, square := sums[0]/jobs, sums[1]/jobs; math.Abs(mean) > 0.03 || math.Abs(square-1) > 0.03 {
		t.Errorf("ln(estimate / actual) / sigma has the mean %v and the mean square %v", mean, square)
	}
	for _, job := range before.Disturb(Disturbance{ETAUnknown: true}, 1).Jobs {
		if job.UserEstimate != 0 || job.UserError != 0 || !job.ReportsWork {
			t.Fatalf("a job without an ETA is %+v", job)
		}
	}
	// A job with a bug keeps it if there are more bugs.
	more := before.Disturb(Disturbance{BugShare: 0.5}, 1)
	for i, job := range disturbed.Jobs {
		if job.Fate == OutcomeHung && (more.Jobs[i].Fate != OutcomeHung || more.Jobs[i].HangAfter != job.HangAfter) {
			t.Fatalf("job %d hangs with 15%% of bugs, but not with 50%%", i)
		}
	}
}

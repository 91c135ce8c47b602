package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

func TestSnapshotAt(t *testing.T) {
	trace := Trace{
		{ID: "finished", Submit: 0, Duration: 100 * time.Second, GPUs: 64},
		{ID: "running", Submit: 0, Duration: 1000 * time.Second, GPUs: 32},
		{ID: "empty", Submit: 10 * time.Second, Duration: 0, GPUs: 8},
		{ID: "blocked", Submit: 50 * time.Second, Duration: 100 * time.Second, GPUs: 16},
		{ID: "behind", Submit: 99 * time.Second, Duration: 2 * time.Second, GPUs: 1},
		{ID: "now", Submit: 100 * time.Second, Duration: time.Second, GPUs: 1},
		{ID: "later", Submit: 101 * time.Second, Duration: time.Second, GPUs: 1},
	}
	// The pool has 5 nodes. "running" occupies 4 and "blocked" requests 2. "behind" and "now" would fit
	// on the last node, but do not overtake "blocked".
	got := SnapshotAt(trace, 5, 100*time.Second, 8)

	running := solver.NewJob("running", 2304*time.Second)
	running.CurrentNodes, running.TrainingTime = 4, 100*time.Second
	blocked, behind := solver.NewJob("blocked", 80*time.Second), solver.NewJob("behind", time.Second)
	blocked.WaitingTime, behind.WaitingTime = 50*time.Second, time.Second
	want := &solver.Snapshot{
		TotalNodes: 5, Horizon: solver.DefaultHorizon(),
		Jobs: []solver.Job{
			running, blocked, behind, solver.NewJob("now", time.Second),
		},
	}
	for i := range want.Jobs {
		want.Jobs[i].Scaling = solver.Scaling{} // The default is omitted.
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func TestSnapshotAtWithoutJobs(t *testing.T) {
	trace := Trace{{ID: "a", Submit: time.Minute, Duration: time.Minute, GPUs: 8}}
	for _, at := range []time.Duration{0, time.Minute - 1, 2 * time.Minute} {
		if jobs := SnapshotAt(trace, 8, at, 8).Jobs; len(jobs) != 0 {
			t.Errorf("at %v the snapshot has %v; want no jobs", at, jobs)
		}
	}
}

// checkSnapshotJob checks a job of a snapshot that was submitted the given time ago and requested the given nodes.
func checkSnapshotJob(t *rapid.T, job *solver.Job, traced *TraceJob, requested int, submitted time.Duration) {
	t.Helper()
	if job.ID != traced.ID || job.GroupID != traced.Group {
		t.Errorf("job %q of group %q; want %q of %q", job.ID, job.GroupID, traced.ID, traced.Group)
	}
	switch job.CurrentNodes {
	case 0:
		if job.TrainingTime != 0 || job.WaitingTime != submitted {
			t.Errorf("queued job %q has trained %v and waited %v; want 0 and %v", traced.ID, job.TrainingTime, job.WaitingTime, submitted)
		}
	case requested:
		if job.TrainingTime != submitted {
			t.Errorf("job %q has trained %v; want %v", traced.ID, job.TrainingTime, submitted)
		}
	default:
		t.Errorf("job %q occupies %d nodes; it requested %d", traced.ID, job.CurrentNodes, requested)
	}
	share := 1 - float64(submitted)/float64(traced.Duration)
	want, got := traced.Duration.Seconds()*traced.speed(requested)*share, job.RemainingETA
	if got <= 0 || got.Seconds() > want+1e-6 || got.Seconds() < want-1e-6 {
		t.Errorf("job %q has the remaining ETA %v; want %v s", traced.ID, got, want)
	}
}

// TestSnapshotAtProperties compares snapshots with their definition, job by job.
func TestSnapshotAtProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := randomTrace(t)
		nodes := rapid.IntRange(0, 60).Draw(t, "nodes")
		gpusPerNode := rapid.IntRange(1, 16).Draw(t, "GPUs per node")
		at := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "at"))
		jobs := SnapshotAt(trace, nodes, at, gpusPerNode).Jobs

		active := slices.DeleteFunc(trace, func(job TraceJob) bool { return job.Submit > at || job.Submit+job.Duration <= at })
		if len(jobs) != len(active) {
			t.Fatalf("the snapshot has %d jobs; %d are active", len(jobs), len(active))
		}
		occupied, blockedBy := 0, 0
		for i := range jobs {
			traced := &active[i]
			requested := traced.RequestedNodes(traced.GPUs, gpusPerNode)
			checkSnapshotJob(t, &jobs[i], traced, requested, at-traced.Submit)
			switch {
			case jobs[i].CurrentNodes > 0 && blockedBy > 0:
				t.Errorf("job %q overtook the queue", traced.ID)
			case jobs[i].CurrentNodes == 0 && blockedBy == 0:
				blockedBy = requested
			}
			occupied += jobs[i].CurrentNodes
		}
		if occupied > nodes || (blockedBy > 0 && occupied+blockedBy <= nodes) {
			t.Errorf("%d of %d nodes are in use while the first job waits for %d", occupied, nodes, blockedBy)
		}
	})
}

// randomTrace returns a short random trace in which many jobs overlap.
func randomTrace(t *rapid.T) Trace {
	trace := make(Trace, rapid.IntRange(0, 20).Draw(t, "jobs"))
	submit := time.Duration(0)
	for i := range trace {
		submit += time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "wait"))
		trace[i] = TraceJob{
			ID:       fmt.Sprint("job", i),
			Submit:   submit,
			Duration: time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "duration")),
			GPUs:     rapid.IntRange(1, 200).Draw(t, "GPUs"),
			Group:    rapid.SampledFrom([]string{"", "vision"}).Draw(t, "group"),
		}
	}
	return trace
}

// TestSnapshotAtPublicTraces takes a snapshot of public traces next to the checkout at every hour.
func TestSnapshotAtPublicTraces(t *testing.T) {
	paths, err := filepath.Glob("../../shared/traces/*.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("no ../shared/traces next to the checkout")
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			trace, err := ReadTrace(file)
			if err != nil {
				t.Fatal(err)
			}
			busy := 0
			for hour := range 50 {
				snapshot := SnapshotAt(trace, 110, time.Duration(hour)*time.Hour, DefaultGPUsPerNode)
				occupied := 0
				for _, job := range snapshot.Jobs {
					occupied += job.CurrentNodes
				}
				if occupied > 110 {
					t.Errorf("at hour %d the jobs occupy %d of 110 nodes", hour, occupied)
				}
				busy += len(snapshot.Jobs)
			}
			if busy == 0 {
				t.Error("no job was active in 50 hours")
			}
		})
	}
}

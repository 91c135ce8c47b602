package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

func TestCut(t *testing.T) {
	trace := Trace{
		{ID: "finished", Submit: 0, Duration: 100 * time.Second, GPUs: 64},
		{ID: "running", Submit: 0, Duration: 1000 * time.Second, GPUs: 32},
		{ID: "empty", Submit: 10 * time.Second, Duration: 0, GPUs: 8},
		{ID: "blocked", Submit: 50 * time.Second, Duration: 100 * time.Second, GPUs: 16},
		{ID: "behind", Submit: 99 * time.Second, Duration: 2 * time.Second, GPUs: 1},
		{ID: "now", Submit: 100 * time.Second, Duration: time.Second, GPUs: 1},
		{ID: "later", Submit: 101 * time.Second, Duration: time.Second, GPUs: 1},
	}
	// 5 nodes: "running" holds 4, "blocked" asks for 2, and "behind" and "now",
	// for whom the last node would do, do not overtake it.
	got := Cut(trace, 5, 100*time.Second, 8)

	const job = `{"id": %q, "remainingEta": %q, "minNodes": 1, "maxNodes": 16}`
	want := new(elastallocv1.AllocateRequest)
	err := protojson.Unmarshal([]byte(`{"snapshot": {
		"totalNodes": 5, "horizon": {"step": "300s", "steps": 5}, "jobs": [
		{"id": "running", "remainingEta": "2304s", "minNodes": 1, "maxNodes": 16,
		 "currentNodes": 4, "trainingTime": "100s"},`+
		fmt.Sprintf(job+","+job+","+job, "blocked", "80s", "behind", "1s", "now", "1s")+`]}}`), want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestCutOfNothing(t *testing.T) {
	trace := Trace{{ID: "a", Submit: time.Minute, Duration: time.Minute, GPUs: 8}}
	for _, at := range []time.Duration{0, time.Minute - 1, 2 * time.Minute} {
		if jobs := Cut(trace, 8, at, 8).GetSnapshot().GetJobs(); len(jobs) != 0 {
			t.Errorf("at %v the snapshot holds %v; want nobody", at, jobs)
		}
	}
}

// TestCutProperties checks every snapshot against the definition of the cut, read
// off the trace job by job.
func TestCutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t)
		nodes := rapid.Int32Range(0, 60).Draw(t, "nodes")
		gpusPerNode := rapid.IntRange(1, 16).Draw(t, "GPUs per node")
		at := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "at"))
		jobs := Cut(trace, nodes, at, gpusPerNode).GetSnapshot().GetJobs()

		next, held, blockedBy := 0, int32(0), int32(0)
		for _, traced := range trace {
			if traced.Submit > at || traced.Submit+traced.Duration <= at {
				continue
			}
			if next == len(jobs) || jobs[next].GetId() != traced.ID {
				t.Fatalf("job %d of the snapshot is not the active job %q", next, traced.ID)
			}
			job := jobs[next]
			next++

			asked := int32(NodesAsked(traced.GPUs, gpusPerNode))
			switch job.GetCurrentNodes() {
			case 0:
				if blockedBy == 0 {
					blockedBy = asked
				}
				if job.GetTrainingTime().AsDuration() != 0 {
					t.Errorf("queued job %q has trained %v", traced.ID, job.GetTrainingTime().AsDuration())
				}
			case asked:
				held += asked
				if blockedBy != 0 {
					t.Errorf("job %q overtook the queue", traced.ID)
				}
				if got := job.GetTrainingTime().AsDuration(); got != at-traced.Submit {
					t.Errorf("job %q has trained %v; want %v", traced.ID, got, at-traced.Submit)
				}
			default:
				t.Errorf("job %q holds %d nodes; it asked for %d", traced.ID, job.GetCurrentNodes(), asked)
			}

			share := 1 - float64(at-traced.Submit)/float64(traced.Duration)
			demand := traced.Duration.Seconds() * speed(int(asked))
			got := job.GetRemainingEta().AsDuration()
			if want := demand * share; got <= 0 || got.Seconds() > want+1e-6 || got.Seconds() < want-1e-6 {
				t.Errorf("job %q has the remaining ETA %v; want %v s", traced.ID, got, want)
			}
		}
		if next != len(jobs) {
			t.Errorf("the snapshot holds %d jobs; %d are active", len(jobs), next)
		}
		if held > nodes || (blockedBy > 0 && held+blockedBy <= nodes) {
			t.Errorf("%d of %d nodes are held while the front job waits for %d", held, nodes, blockedBy)
		}
	})
}

// drawTrace draws a short trace in which many jobs overlap.
func drawTrace(t *rapid.T) Trace {
	trace := make(Trace, rapid.IntRange(0, 20).Draw(t, "jobs"))
	submit := time.Duration(0)
	for i := range trace {
		submit += time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "wait"))
		trace[i] = TraceJob{
			ID:       fmt.Sprint("job", i),
			Submit:   submit,
			Duration: time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "duration")),
			GPUs:     rapid.IntRange(1, 200).Draw(t, "GPUs"),
		}
	}
	return trace
}

// TestCutOfRealTraces cuts the public traces kept beside the checkout, where they
// are there, at every hour.
func TestCutOfRealTraces(t *testing.T) {
	paths, err := filepath.Glob("../../shared/traces/*.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("no ../shared/traces beside the checkout")
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
				snapshot := Cut(trace, 110, time.Duration(hour)*time.Hour, DefaultGPUsPerNode).GetSnapshot()
				held := int32(0)
				for _, job := range snapshot.GetJobs() {
					held += job.GetCurrentNodes()
				}
				if held > 110 {
					t.Errorf("at hour %d the jobs hold %d of 110 nodes", hour, held)
				}
				busy += len(snapshot.GetJobs())
			}
			if busy == 0 {
				t.Error("nobody was active in 50 hours")
			}
		})
	}
}

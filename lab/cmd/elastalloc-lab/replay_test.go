package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/report"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// writeRecording records a scheduler that runs every job on two of eight nodes until it completes, and requests a
// decision every five minutes. Several callers alternate.
func writeRecording(t *testing.T, callers ...string) string {
	t.Helper()
	return writeTyped(t, nil, callers...)
}

// writeTyped does the same with node types. All jobs run on the first type.
func writeTyped(t *testing.T, types []*elastallocv1.NodeType, callers ...string) string {
	t.Helper()
	var calls []recording.Entry
	begin := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for step := range 13 {
		now := time.Duration(step) * 5 * time.Minute
		snapshot := &elastallocv1.Snapshot{Id: "pool", TotalNodes: 8}
		for i, id := range []string{"a", "b", "c", "d", "e"} {
			submitted, took := time.Duration(i)*10*time.Minute, 20*time.Minute
			if now < submitted || now >= submitted+took {
				continue
			}
			snapshot.Jobs = append(snapshot.Jobs, &elastallocv1.Job{
				Id: id, CurrentNodes: 2, EtaNodes: new(int32(2)), RemainingEta: durationpb.New(submitted + took - now),
				TrainingTime: durationpb.New(now - submitted),
			})
		}
		request := &elastallocv1.AllocateRequest{Snapshot: snapshot}
		if len(types) > 0 {
			snapshot.TotalNodes, snapshot.NodeTypes = 0, types
			request.Options = &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}
			for _, job := range snapshot.Jobs {
				job.CurrentNodeType, job.EtaNodeType = types[0].GetId(), types[0].GetId()
			}
		}
		calls = append(calls, recording.Entry{
			Time: begin.Add(now), Caller: append(callers, "10.0.0.1")[step%max(1, len(callers))],
			Request: request, Response: new(elastallocv1.AllocateResponse),
		})
	}
	return clitest.Record(t, calls...)
}

// TestReplayOfOneInstant checks that a recording can be replayed in which a job completes within a millisecond: no
// policy has a utilization.
func TestReplayOfOneInstant(t *testing.T) {
	call := func(after time.Duration, id string) recording.Entry {
		job := &elastallocv1.Job{Id: id, RemainingEta: durationpb.New(time.Hour), CurrentNodes: 1}
		return recording.Entry{
			Time: time.Unix(1e9, 0).Add(after), Response: new(elastallocv1.AllocateResponse),
			Request: &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: 2, Jobs: []*elastallocv1.Job{job}}},
		}
	}
	dir := clitest.Record(t, call(0, "a"), call(time.Millisecond, "b"))
	stdout := succeed(t, "replay", "--recording", dir, "--policy=total-time", "--out", filepath.Join(t.TempDir(), "results"))
	clitest.CheckContains(t, "stdout", stdout, "Idle node hours", "wrote ")
	if strings.Contains(stdout, "(utilization ") {
		t.Errorf("there is a utilization:\n%s", stdout)
	}
}

func TestReplay(t *testing.T) {
	dir, out := writeRecording(t), filepath.Join(t.TempDir(), "results")
	stdout := succeed(t, "replay", "--recording", dir, "--policy=optimal,fifo", "--out", out)
	clitest.CheckContains(t, "stdout", stdout, "recorded  20.0       0.0  20.0  20.0")
	clitest.CheckContains(t, "stdout", strings.Join(strings.Fields(stdout), " "), "5 of 5 jobs completed",
		"optimal compared with what the cluster did (recorded)", "ETAs are as recorded (half of them are within a factor of 1.00)",
		"recorded 4.7 (utilization 41.7%)", "wrote 19 files to "+out)
	want := []string{
		"decisions.csv", "jobs.csv", "jobs_optimal.png", "jobs_optimal.svg", "jobs_recorded.png", "jobs_recorded.svg",
		"nodes_over_time.png", "nodes_over_time.svg", "queue_over_time.png", "queue_over_time.svg",
		"replay.json", "report.html", "slowdown_median.png", "slowdown_median.svg", "slowdown_p95.png",
		"slowdown_p95.svg", "summary.json", "total_time_by_policy.png", "total_time_by_policy.svg",
	}
	if diff := cmp.Diff(want, filesIn(t, out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	var details struct {
		Origin  map[string]any
		Unknown struct {
			Compared int `json:"jobs_compared"`
		}
		Policies []report.Detail
	}
	readJSON(t, &details, out, "replay.json")
	if details.Unknown.Compared != 5 || len(details.Policies) != 3 || details.Origin["command"] == "" {
		t.Errorf("replay.json has %+v", details)
	}
	var summary struct {
		Origin map[string]any
		Runs   []map[string]any
	}
	readJSON(t, &summary, out, "summary.json")
	if summary.Runs[0]["idle_node_hours"] == nil || len(summary.Runs) != 3 ||
		summary.Runs[0]["policy"] != "recorded" || summary.Runs[0]["mean_total_s"] != 1200.0 || summary.Origin == nil {
		t.Errorf("summary.json has %+v", summary)
	}
	clitest.CheckContains(t, "the page", read(t, out, "report.html"),
		"prefers-color-scheme: dark", "elastalloc-lab replay", `href="#unknown"`, `id="decisions"`, "Jobs under recorded")
}

// TestReplayNodeTypes replays jobs on the slower of two node types.
func TestReplayNodeTypes(t *testing.T) {
	dir := writeTyped(t, []*elastallocv1.NodeType{{Id: "t4", Nodes: 8, Speed: new(0.5)}, {Id: "a100", Nodes: 4, Speed: new(2.0)}})
	out := filepath.Join(t.TempDir(), "results")
	stdout := succeed(t, "replay", "--recording", dir, "--out", out)
	clitest.CheckContains(t, "stdout", strings.Join(strings.Fields(stdout), " "),
		"5 of 5 jobs completed", "total-time compared with what the cluster did (recorded)")
	clitest.CheckContains(t, "decisions.csv", read(t, out, "decisions.csv"),
		"2026-11-02T09:50:00Z,pool,e,2 t4,2 t4,,4 a100,\"trains 6.40 times as fast on 4 a100 as on 2 t4, from which other jobs benefit more\"\n")
	_, stderr, _ := runWith(t, nil, "replay", "--recording", dir, "--policy=optimal", "--out", out)
	clitest.CheckContains(t, "stderr", stderr, "the policy optimal does not support node types")
}

// TestReplayOptions checks that the total-time policies have the recorded parameters, except those that a policy or the flag
// sets, and that invalid parameters are refused.
func TestReplayOptions(t *testing.T) {
	t.Parallel()
	recorded := solver.TotalTimeOptions{Aging: new(time.Hour), SharePrice: new(0.5)}
	policies := func() []catalog.Policy {
		return findPolicies([]string{"total-time", "total-time-waiting", "optimal"}, t.Errorf)
	}
	before, after := policies(), policies()
	f := replayFlags{totalTime: map[string]string{"share_price": "0"}}
	if err := f.setTotalTime(after, recorded); err != nil {
		t.Fatal(err)
	}
	for i := range after {
		want := before[i].Options
		if want.Objective == solver.ObjectiveTotalTime {
			if want.TotalTime == (solver.TotalTimeOptions{}) {
				want.TotalTime = recorded
			}
			want.TotalTime.SharePrice = new(0.0)
		}
		if diff := cmp.Diff(want, after[i].Options); diff != "" {
			t.Errorf("%s (-want +got):\n%s", after[i].Name, diff)
		}
	}
	f.totalTime["aging"] = "soon"
	if err := f.setTotalTime(after, recorded); err == nil || !strings.Contains(err.Error(), `--total-time: aging is "soon"`) {
		t.Errorf("error %v", err)
	}
}

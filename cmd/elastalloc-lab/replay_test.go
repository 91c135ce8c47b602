package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/clitest"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/lab/report"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// writeRecording records a scheduler that gives every job two of eight nodes, for as many
// steps as it takes, and asks about it every five minutes.
func writeRecording(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "recording")
	w, err := recording.New(recording.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for step := range 13 {
		now := time.Duration(step) * 5 * time.Minute
		snapshot := &elastallocv1.Snapshot{Id: "moment", TotalNodes: 8}
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
		w.Record(recording.Entry{
			Time: begin.Add(now), Method: "Allocate", Caller: "10.0.0.1",
			Request: &elastallocv1.AllocateRequest{Snapshot: snapshot}, Response: new(elastallocv1.AllocateResponse),
		}, 100)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReplay(t *testing.T) {
	dir, out := writeRecording(t), filepath.Join(t.TempDir(), "results")
	stdout, stderr, status := runWith(t, nil, "replay", "--recording", dir, "--policy=optimal,fifo", "--out", out)
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		"recorded   20.0       0.0  20.0  20.0", "5 of 5 jobs ended", "optimal would have taken", "wrote 15 files to " + out,
	} {
		if !strings.Contains(stdout, want) && !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("stdout does not show %q:\n%s", want, stdout)
		}
	}
	onScreen, _, _ := strings.Cut(stdout, "wrote ") // The folder's name is the caller's.
	clitest.CheckWidth(t, "replay", onScreen)
	want := []string{
		"decisions.csv", "jobs.csv", "jobs_optimal.png", "jobs_optimal.svg", "jobs_recorded.png", "jobs_recorded.svg",
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
	readJSON(t, filepath.Join(out, "replay.json"), &details)
	if details.Unknown.Compared != 5 || len(details.Policies) != 3 || details.Origin["command"] == "" {
		t.Errorf("replay.json has %+v", details)
	}
	var summary struct {
		Origin map[string]any
		Runs   []map[string]any
	}
	readJSON(t, filepath.Join(out, "summary.json"), &summary)
	if len(summary.Runs) != 3 || summary.Runs[0]["policy"] != "recorded" || summary.Runs[0]["mean_total_s"] != 1200.0 || summary.Origin == nil {
		t.Errorf("summary.json has %+v", summary)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"prefers-color-scheme: dark", "elastalloc-lab replay", `href="#unknown"`, `id="decisions"`, "Jobs under recorded"} {
		if !strings.Contains(string(page), part) {
			t.Errorf("the page has no %q", part)
		}
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func TestReplayFails(t *testing.T) {
	dir, out := writeRecording(t), filepath.Join(t.TempDir(), "results")
	for name, test := range map[string]struct{ args, want string }{
		"no recordings":  {"--recording " + t.TempDir(), "no recordings"},
		"empty":          {"--recording= --policy=", "--recording is empty\n  --policy is empty"},
		"into a file":    {"--recording " + dir + " --out replay_test.go", "--out: open "},
		"no folder":      {"--recording none", "--recording: open none"},
		"no flag":        {"", `"recording" not set`},
		"unknown policy": {"--policy=best --frequency=-1 --workers=0 --recording " + dir, "--workers is 0"},
		"twice":          {"--policy=fifo,fifo --recording " + dir, `--policy names "fifo" twice`},
		"caller":         {"--caller nosuch --recording " + dir, `no calls of "nosuch"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, stderr, status := runWith(t, nil, append([]string{"replay", "--out", out}, strings.Fields(test.args)...)...)
			if status != cli.ExitBadInput || !strings.Contains(stderr, test.want) {
				t.Errorf("exit status %d, stderr %q; want %q", status, stderr, test.want)
			}
		})
	}
	if names := filesIn(t, out); names != nil {
		t.Errorf("results were written: %v", names)
	}
}

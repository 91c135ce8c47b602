package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/clitest"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// smallPaper is the configuration with small pools and few jobs.
func smallPaper() experiments.Config {
	return experiments.Config{Pools: []int{4, 6}, Draw: func(_ sim.SyntheticKind, seed uint64) (sim.Trace, error) {
		var trace sim.Trace
		for i := range 8 {
			trace = append(trace, sim.TraceJob{
				ID: fmt.Sprint(i), Submit: time.Duration(i) * time.Minute,
				Duration: time.Duration(10+int(seed)+3*i) * time.Minute, GPUs: 8,
			})
		}
		return trace, nil
	}}
}

// runPaper executes paper with the small configuration.
func runPaper(ctx context.Context, args ...string) (stdout, stderr string, status int) {
	command := paperCommand(smallPaper(), func(string) (string, bool) { return "", false })
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(append([]string{}, args...)) // Of nil, cobra makes the test's own.
	var out, errors bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&errors)
	command.SetIn(strings.NewReader(""))
	err := command.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(&errors, "%s: %v\n", command.CommandPath(), err)
	}
	return out.String(), errors.String(), cli.ExitStatus(err)
}

func TestPaper(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	stdout, stderr, status := runPaper(t.Context(), "--seeds=2", "--trace=../elastalloc/testdata/trace.csv", "--out", out)
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	table, _, _ := strings.Cut(stdout, "wrote ")
	clitest.CheckWidth(t, "paper", table)
	for _, want := range []string{"PAPER", "SYNTHETIC", "TRACE", "Queueing time", "32.0 %", "report.html"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout does not show %q:\n%s", want, stdout)
		}
	}
	files := filesIn(t, out)
	for _, file := range files {
		if svg, ok := strings.CutSuffix(file, ".svg"); ok && !slices.Contains(files, svg+".png") {
			t.Errorf("%s has no PNG", file)
		}
	}
	for _, want := range []string{"report.html", "results.json", "figure-summary.svg", "figure-queueing-time-trace.svg", "figure-decision-times.png"} {
		if !slices.Contains(files, want) {
			t.Errorf("%s is missing in %v", want, files)
		}
	}
	if diff := cmp.Diff([]string{"results"}, filesIn(t, filepath.Dir(out))); diff != "" {
		t.Errorf("beside the results (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(out, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var read experiments.Results
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	origin := read.Origin
	if want := "paper --out " + out + " --seeds 2 --trace ../elastalloc/testdata/trace.csv"; origin.Command != want {
		t.Errorf("the command is %q; want %q", origin.Command, want)
	}
	if origin.Version == "" || origin.Go != runtime.Version() || origin.Cores < 1 || time.Since(origin.Time) > time.Hour {
		t.Errorf("the origin is %+v", origin)
	}
	if read.Trace != "trace" || read.Seeds != 2 || len(read.Experiments) != 10 ||
		read.Proof.Decisions == 0 || read.Proof.Proven != read.Proof.Decisions {
		t.Errorf("trace %q, %d seeds, %d experiments, proof %+v", read.Trace, read.Seeds, len(read.Experiments), read.Proof)
	}
}

func TestPaperKeepsExistingFiles(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := runPaper(t.Context(), "--seeds=1", "--out", out)
	if status != cli.ExitBadInput || !strings.Contains(stderr, "exists and is not empty") {
		t.Errorf("exit status %d, stderr %q; want the folder refused", status, stderr)
	}
	if diff := cmp.Diff([]string{"notes.txt"}, filesIn(t, out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestPaperRefuses(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(trace, []byte("job_id,submit_s,duration_s,gpus\na,0,1,1\nb,0,1,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--seeds=0 --workers=0": "seeds is 0; want 1 to 100\nworkers is 0",
		"--trace=missing.csv":   "no such file",
		"--trace=" + trace:      "bad.csv: trace line 3: gpus",
		"--trace=../elastalloc/testdata/trace.csv --gpus-per-node=-1": "gpus-per-node is -1",
		"--unknown": "unknown flag",
		"argument":  "unexpected argument",
	} {
		t.Run(args, func(t *testing.T) {
			parent := t.TempDir()
			stdout, stderr, status := runPaper(t.Context(),
				append(strings.Fields(args), "--out", filepath.Join(parent, "results"))...)
			if status != cli.ExitBadInput || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("exit status %d, stdout %q, stderr %q; want %d and %q", status, stdout, stderr, cli.ExitBadInput, want)
			}
			if left := filesIn(t, parent); len(left) != 0 {
				t.Errorf("unexpected files: %v", left)
			}
		})
	}
	if _, stderr, status := runPaper(t.Context()); status != cli.ExitBadInput || !strings.Contains(stderr, `"out" not set`) {
		t.Errorf("without --out: exit status %d, stderr %q", status, stderr)
	}
}

func TestPaperInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	parent := t.TempDir()
	_, stderr, status := runPaper(ctx, "--seeds=1", "--out", filepath.Join(parent, "results"))
	if status != cli.ExitFailed || !strings.Contains(stderr, "interrupted; nothing was written") {
		t.Errorf("exit status %d, stderr %q; want %d", status, stderr, cli.ExitFailed)
	}
	if left := filesIn(t, parent); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestPaperWithUnproven checks that the requests of unproven decisions are written.
func TestPaperWithUnproven(t *testing.T) {
	decider, err := newAllocator(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := smallPaper()
	config.Seeds, config.Workers, config.GPUsPerNode = 1, 1, 8
	found, err := experiments.Run(t.Context(), config, decider, nil)
	if err != nil {
		t.Fatal(err)
	}
	found.Proof.Unproven = []experiments.Unproven{{File: "a.json"}, {File: "b.json"}}
	out := filepath.Join(t.TempDir(), "results")
	directory, err := results.NewDirectory(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Write(directory); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.json", "b.json"}, filesIn(t, filepath.Join(out, "unproven"))); diff != "" {
		t.Errorf("unproven (-want +got):\n%s", diff)
	}
}

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/lab/experiments"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
)

// smallPaper is the configuration with small pools and few jobs.
func smallPaper() experiments.Config {
	return experiments.Config{Pools: []int{4, 6}, Generate: func(_ workloads.SyntheticKind, seed uint64) (sim.Trace, error) {
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

func TestPaper(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	var printed bytes.Buffer
	command := newPaperCommand(smallPaper(), func(string) (string, bool) { return "", false })
	command.SetArgs([]string{"--seeds=2", "--trace=../../../cmd/elastalloc/testdata/trace.csv", "--out", out})
	command.SetOut(&printed)
	command.SetErr(&printed)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	stdout := printed.String()
	clitest.CheckContains(t, "stdout", stdout, "PAPER", "SYNTHETIC", "TRACE", "Queueing time", "32.0%", "report.html")
	files := filesIn(t, out)
	for _, file := range files {
		if svg, ok := strings.CutSuffix(file, ".svg"); ok && !slices.Contains(files, svg+".png") {
			t.Errorf("%s has no PNG", file)
		}
	}
	clitest.CheckContains(t, "the folder", strings.Join(files, "\n"),
		"report.html", "results.json", "figure-summary.svg", "figure-queueing-time-trace.svg", "figure-decision-times.png")
	if diff := cmp.Diff([]string{"results"}, filesIn(t, filepath.Dir(out))); diff != "" {
		t.Errorf("next to the results (-want +got):\n%s", diff)
	}
	var read experiments.Results
	readJSON(t, &read, out, "results.json")
	origin := read.Origin
	if want := "paper --out " + out + " --seeds 2 --trace ../../../cmd/elastalloc/testdata/trace.csv"; origin.Command != want {
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

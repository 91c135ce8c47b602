package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/lab/statistics"
)

// TestSimulateSpeeds checks that without node types, all policies use the speeds of an application, and that the
// result of total-time is the same as in a pool with one node type.
func TestSimulateSpeeds(t *testing.T) {
	if !testtier.Conformance.Selected() {
		t.Skip("simulates hundreds of jobs; make conformance runs it")
	}
	folder := t.TempDir()
	lines := strings.SplitAfter(read(t, "../../../examples/gavel", "speeds.csv"), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return !strings.HasPrefix(line, "application,") && !strings.Contains(line, ",v100,")
	})
	speeds := write(t, folder, "speeds.csv", strings.Join(lines, ""))
	simulate := func(name string, args ...string) map[string]float64 {
		out := filepath.Join(folder, name)
		succeed(t, append([]string{"simulate", "--trace=../../../examples/gavel/trace.csv",
			"--speeds", speeds, "--gpus-per-node=1", "--out", out}, args...)...)
		var summary struct{ Runs []statistics.Summary }
		readJSON(t, &summary, out, "summary.json")
		means := make(map[string]float64)
		for _, run := range summary.Runs {
			means[run.Policy] = run.MeanTotalSeconds
		}
		return means
	}
	plain := simulate("plain", "--nodes=150", "--policy=total-time,max-min,fifo,srpt")
	typed := simulate("typed", "--node-types=v100=150", "--policy=total-time")
	if len(plain) != 4 || math.Abs(plain["total-time"]/typed["total-time"]-1) > 1e-3 {
		t.Errorf("without node types, the means are %v; with one %v", plain, typed)
	}
	if plain["total-time"] >= plain["srpt"] || plain["total-time"] >= plain["max-min"] || plain["srpt"] >= plain["fifo"] {
		t.Errorf("the means are %v; want total-time before max-min, and before srpt, before fifo", plain)
	}
}

// TestSimulateNodeTypes simulates the example with speeds of Gavel. Joint decisions are better than one pool per
// type, and the results contain the node types of jobs.
func TestSimulateNodeTypes(t *testing.T) {
	if !testtier.Conformance.Selected() {
		t.Skip("simulates hundreds of jobs; make conformance runs it")
	}
	out := filepath.Join(t.TempDir(), "results")
	const gavel = "../../../examples/gavel/"
	stdout := succeed(t, "simulate", "--trace", gavel+"trace.csv", "--speeds", gavel+"speeds.csv",
		"--node-types=k80=72,p100=72,v100=72", "--gpus-per-node=1", "--policy=type-partitions,total-time", "--out", out)
	clitest.CheckContains(t, "stdout", stdout, "MOVES", "ONE MORE")
	var summary struct{ Runs []statistics.Summary }
	readJSON(t, &summary, out, "summary.json")
	pools, joint := &summary.Runs[0], &summary.Runs[1]
	if joint.MeanTotalSeconds > 0.92*pools.MeanTotalSeconds {
		t.Errorf("total-time takes %.0f s, type-partitions %.0f; want 8%% less", joint.MeanTotalSeconds, pools.MeanTotalSeconds)
	}
	if pools.Moves != 0 || joint.Moves <= 0 || pools.Unproven+joint.Unproven > 0 || len(joint.NodeTypes) != 3 {
		t.Errorf("the runs are %+v", summary.Runs)
	}
	for _, nodeType := range joint.NodeTypes {
		if !(nodeType.Utilization > 0 && nodeType.Utilization <= 1 && nodeType.Price >= 0) {
			t.Errorf("%+v has no valid share or price", nodeType)
		}
	}
	clitest.CheckContains(t, "jobs.csv", read(t, out, "jobs.csv"), ",outcome,moves,node_types\n", ",completed,0,v100\n")
}

package main

import (
	"path/filepath"
	"testing"

	"github.com/elastalloc/elastalloc/cmd/internal/clitest"

	"github.com/elastalloc/elastalloc/sim"
)

// TestSimulateNodeTypes simulates the example of Gavel's speeds: one decision beats a pool for
// each type, and what is written says where the jobs were.
func TestSimulateNodeTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("whole simulations take minutes under the race detector")
	}
	out := filepath.Join(t.TempDir(), "results")
	const gavel = "../../examples/gavel/"
	stdout := succeed(t, "simulate", "--trace", gavel+"trace.csv", "--speeds", gavel+"speeds.csv",
		"--node-types=k80=72,p100=72,v100=72", "--gpus-per-node=1", "--policy=type-partitions,total-time", "--out", out)
	clitest.CheckContains(t, "stdout", stdout, "MOVES", "ONE MORE")
	var summary struct{ Runs []sim.Summary }
	readJSON(t, &summary, out, "summary.json")
	pools, joint := &summary.Runs[0], &summary.Runs[1]
	if joint.MeanTotalSeconds > 0.92*pools.MeanTotalSeconds {
		t.Errorf("total-time takes %.0f s, type-partitions %.0f; want 8 %% less", joint.MeanTotalSeconds, pools.MeanTotalSeconds)
	}
	if pools.Moves != 0 || joint.Moves <= 0 || pools.Unproven+joint.Unproven > 0 || len(joint.NodeTypes) != 3 {
		t.Errorf("the runs are %+v", summary.Runs)
	}
	for _, nodeType := range joint.NodeTypes {
		if !(nodeType.Utilization > 0 && nodeType.Utilization <= 1 && nodeType.Price >= 0) {
			t.Errorf("%+v is no share or no price", nodeType)
		}
	}
	clitest.CheckContains(t, "jobs.csv", read(t, out, "jobs.csv"), ",outcome,moves,node_types\n", ",completed,0,v100\n")
}

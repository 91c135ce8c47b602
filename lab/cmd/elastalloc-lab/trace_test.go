package main

import (
	"strings"
	"testing"
)

// TestExampleTrace checks that examples/trace.csv is the output of the documented command.
func TestExampleTrace(t *testing.T) {
	t.Parallel()
	if succeed(t, "trace", "--synthetic=baseline") != read(t, "../../../examples/trace.csv") {
		t.Error("examples/trace.csv differs from the output of the command")
	}
}

func TestTraceWindow(t *testing.T) {
	t.Parallel()
	stdout := succeed(t, "trace", "--trace=../../../examples/trace.csv", "--from=10h", "--for=10m")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "job_id,submit_s,duration_s,gpus") || strings.Split(lines[1], ",")[1] != "0" {
		t.Errorf("%q; want a header and jobs from 0 s on", stdout)
	}
}

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

// TestExampleTrace checks that examples/trace.csv is what the documentation says it is.
func TestExampleTrace(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../examples/trace.csv")
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := runWith(t, nil, "trace", "--synthetic=baseline")
	if status != cli.ExitDone || stdout != string(example) {
		t.Errorf("exit status %d, %q; examples/trace.csv is another trace", status, stderr)
	}
}

func TestTraceWindow(t *testing.T) {
	t.Parallel()
	stdout, stderr, status := runWith(t, nil, "trace", "--trace=../../examples/trace.csv", "--from=10h", "--for=10m")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != cli.ExitDone || len(lines) < 2 || !strings.HasPrefix(lines[0], "job_id,submit_s,duration_s,gpus") || strings.Split(lines[1], ",")[1] != "0" {
		t.Errorf("exit status %d, %q, %q; want a header and jobs from 0 s on", status, stderr, stdout)
	}
	for args, want := range map[string]string{
		"--trace=../../examples/trace.csv --from=999h": "no job was submitted within the window",
		"--synthetic=strange":                          "want one of baseline, heterogeneous",
		"--synthetic=baseline --for=-1h":               "at least 0s",
		"":                                             "[trace synthetic] is required",
	} {
		if _, stderr, status := runWith(t, nil, append([]string{"trace"}, strings.Fields(args)...)...); status != cli.ExitBadInput || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

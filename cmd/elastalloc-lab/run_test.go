package main

import (
	"os"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/clitest"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	os.Exit(clitest.BuildAndTest(m, &binary))
}

// runWith executes a command line in this process.
func runWith(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return clitest.Run(t, run, env, "", args...)
}

// TestExitStatus checks that the status is 2 for bad usage and bad input.
func TestExitStatus(t *testing.T) {
	for name, test := range map[string]struct {
		args   string
		status int
		stderr string
	}{
		"version":                {args: "version", status: cli.ExitDone},
		"unknown command":        {args: "decide", status: cli.ExitBadInput, stderr: `unknown command "decide"`},
		"unknown flag":           {args: "bench --port 1", status: cli.ExitBadInput, stderr: "unknown flag: --port"},
		"bench without files":    {args: "bench", status: cli.ExitBadInput, stderr: `"file" not set`},
		"bench of an argument":   {args: "bench snapshot.json", status: cli.ExitBadInput, stderr: `"file" not set`},
		"other program":          {args: "allocate -f x", status: cli.ExitBadInput, stderr: "allocate is a command of elastalloc\n"},
		"bench of bad fields":    {args: "bench -f ../elastalloc/testdata/bad_fields.json --backends exact", status: cli.ExitBadInput, stderr: "snapshot.total_nodes"},
		"bench of no request":    {args: "bench -f ../elastalloc/testdata/trace.csv --backends exact", status: cli.ExitBadInput, stderr: "parse AllocateRequest in ../elastalloc/testdata/trace.csv: "},
		"bench of no file":       {args: "bench -f missing --backends exact", status: cli.ExitBadInput, stderr: "missing: no such file"},
		"bench of nothing":       {args: "bench -f ../elastalloc/internal --backends exact", status: cli.ExitBadInput, stderr: "no snapshot"},
		"bench of too many jobs": {args: "bench -f ../elastalloc/testdata/queue.json --backends exact --max-jobs 3", status: cli.ExitBadInput, stderr: "skipped: 1 snapshot with more than 3 jobs"},
		"bench without time":     {args: "bench -f testdata --limit 0s", status: cli.ExitBadInput, stderr: "--limit is 0s"},
		"bench without jobs":     {args: "bench -f testdata --max-jobs 0", status: cli.ExitBadInput, stderr: "--max-jobs is 0"},
		"bench backend":          {args: "bench -f testdata --backends exact,gurobi", status: cli.ExitBadInput, stderr: `--backends: unknown backend "gurobi"`},
		"bench formulation":      {args: "bench -f testdata --formulation onehot", status: cli.ExitBadInput, stderr: `--formulation is "onehot"; want one of one-hot, paper`},
		"bench formulations":     {args: "bench -f testdata --formulation paper,paper", status: cli.ExitBadInput, stderr: "twice"},
		"seed":                   {args: "trace --synthetic baseline --seed -1", status: cli.ExitBadInput, stderr: `--seed is "-1"; want uint`},
		"total-time":             {args: "simulate --total-time aging", status: cli.ExitBadInput, stderr: `--total-time is "aging"; want name=value`},
		"bench output":           {args: "bench -f testdata -o yaml", status: cli.ExitBadInput, stderr: "want one of table, json"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, status := runWith(t, nil, strings.Fields(test.args)...)
			if status != test.status {
				t.Errorf("exit status %d; want %d", status, test.status)
			}
			if !strings.Contains(stderr, test.stderr) || (test.stderr == "") != (stderr == "") {
				t.Errorf("stderr is %q; want it to say %q", stderr, test.stderr)
			}
			if (stdout == "") != (test.stderr != "") {
				t.Errorf("stdout is %q beside stderr %q", stdout, stderr)
			}
		})
	}
}

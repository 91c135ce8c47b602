package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/cli"
)

// TestWrongUsage checks that wrong flags and fields are named, with what is valid.
func TestWrongUsage(t *testing.T) {
	dir := t.TempDir()
	empty, job := filepath.Join(dir, "empty"), filepath.Join(dir, "job.json")
	for file, text := range map[string]string{empty: "", job: `{"id": "a", "priority": 5}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"allocate -f - --backend gurobi":     "exact, cbc, highs, greedy",
		"allocate -f - --budget 5":           `invalid argument "5" for "--budget" flag: must be a duration, such as 90s`,
		"allocate -f - --formulation onehot": "one-hot, paper",
		"allocate -f - --gap 5%":             `invalid argument "5%" for "--gap" flag: `,
		"allocate -f - --plan=maybe":         `invalid argument "maybe" for "--plan" flag: `,
		"allocate -f - -o yaml":              "must be one of table, json",
		"allocate -f a.json -f b.json": `invalid argument "b.json" ` +
			`for "-f, --file" flag: must be one file; a.json is already set`,
		"allocate -f missing.json":                            "missing.json: no such file",
		"allocate -f testdata/queue.json --budget -1s":        "\n  options.time_budget: ",
		"allocate -f testdata/queue.json --gap 1":             "\n  options.relative_gap: ",
		"allocate -f testdata/queue.json --server a:1,b":      `--server: target is "a:1,b"; must be host:port`,
		"allocate -f testdata/queue.json --server http://h:1": `--server: target is "http://h:1"; must be host:port`,
		"allocate -f testdata/queue.json --server localhost":  `--server: target is "localhost"; must be host:port`,
		"allocate": "[file example] is required",
		"alocate":  "unknown command",
		"explain --job=ghost -f testdata/queue.json": `--job: is "ghost"; must be the id of a job of the snapshot`,
		"explain -f testdata/queue.json --job sho": `--job: is "sho"; must ` +
			`be the id of a job of the snapshot; did you mean short?`,
		"explain -f testdata/queue.json --job=":                   "--job: is \"\"; must be the id of a job of the snapshot\n",
		"explain -f testdata/queue.json short":                    `unknown command "short" for "elastalloc explain"`,
		"explain -o svg -f testdata/queue.json":                   `invalid argument "svg" for "-o, --output" flag: must be one of table, json`,
		"fill-idle -f - --tls":                                    "need --server",
		"forecast --cadence=0s -f testdata/queue.json":            "cadence: is 0s; must be greater than 0",
		"forecast --cadence=1500ms -f testdata/queue.json":        "cadence: is 1.5s; must be whole seconds",
		"forecast --eta-error=-0.5 -f testdata/queue.json":        "eta_error: is -0.5; must be 0 to 1",
		"forecast --eta-error=30 -f testdata/queue.json":          "eta_error: is 30; must be 0 to 1",
		"forecast --samples=101 -f testdata/queue.json":           "samples: is 101; must be 1 to 100",
		"forecast --until=-1s --samples=2 -f testdata/queue.json": "until: is -1s",
		"forecast -f - --until d": `invalid argument "d" ` +
			`for "--until" flag: must be a duration, such as 90s, 15m, 3h or 2d`,
		"forecast -o pdf -f testdata/queue.json":       `"-o, --output" flag: must be one of table, json, csv, svg, html`,
		"serve --listen 127.0.0.1:65536":               `--listen: is "127.0.0.1:65536"; must be`,
		"serve --backends exact,exact":                 "twice",
		"serve --backends exact,gurobi":                `unknown backend "gurobi" (must be one of exact, cbc, highs, greedy`,
		"serve --backends greedy,exact":                "name it last",
		"serve --client-names scheduler":               "--client-names: needs --client-ca",
		"serve --default-budget 0s":                    "--default-budget",
		"serve --listen :1 --admin-listen 127.0.0.1:0": "--plaintext",
		"serve --log-level verbose":                    `"--log-level" flag: must be one of debug, info, warn, error`,
		"serve --max-budget 0s":                        "--max-budget: is 0s; must be greater than 0",
		"serve --max-inflight 0":                       "--max-inflight: is 0; must be at least 1",
		"serve --port 1":                               "unknown flag: --port",
		"serve --tls-key key.pem":                      "certificate",
		"simulate --synthetic baseline":                `unknown command "simulate" for "elastalloc"`,
		"allocat":                                      "Did you mean this?\n  allocate\n",
		"request.json": `unknown command "request.json" ` +
			`for "elastalloc"; to decide a request in a file, use elastalloc allocate -f request.json`,
		"allocate request.json":                                   `for "elastalloc allocate"; to read a file, use -f request.json`,
		"whatif -f - --nodes 1,b":                                 `invalid argument "1,b" for "--nodes" flag: "b" is not a number`,
		"whatif -f - --nodes 99999999999999999999":                `"99999999999999999999" is out of range`,
		"snapshot --trace - --nodes -1 --at 1h":                   "--nodes: is -1",
		"snapshot --trace - --nodes 0 --at 1h":                    "--nodes: is 0; must be at least 1",
		"snapshot --trace - --nodes 1 --at -1h":                   "--at: is -1h",
		"snapshot --trace - --nodes 1 --at 1h --gpus-per-node 0":  "--gpus-per-node: is 0",
		"snapshot --trace - --nodes many --at 1h":                 `invalid argument "many" for "--nodes" flag: `,
		"snapshot --trace testdata/trace.csv --nodes 1 --at 900h": "--at: is 900h; must be at most ",
		"snapshot --trace testdata/trace.csv --nodes 1 --at soon": `invalid argument "soon" for "--at" flag: must be a duration`,
		"snapshot": `"at", "nodes", "trace" not set`,
		"whatif --nodes=1 --scenarios=x -f testdata/queue.json": "[nodes scenarios] were all set",
		"whatif --nodes=9,-5 -f testdata/queue.json": "-5 nodes: invalid request: " +
			"scenarios[1].total_nodes: is -5",
		"whatif --put=/nonexistent -f testdata/queue.json": "no such file",
		"whatif --remove=ghost -f testdata/queue.json": `--remove: is "ghost"; ` +
			`must be the id of a job of the snapshot`,
		"whatif --scenarios=../../go.mod -f testdata/queue.json": "parse WhatIfRequest",
		"whatif -f - --nodes 5 --scenarios -":                    "[nodes scenarios] were all set",
		"whatif -f - --nodes 70-190":                             `invalid argument "70-190" for "--nodes" flag: `,
		"whatif -f testdata/queue.json": "[nodes node-type machines " +
			"put remove scenarios] is required",
		"whatif -f testdata/node_types.json --node-type a100": `--node-type: is "a100"; must be ID=N`,
		"whatif -f testdata/node_types.json --node-type h100=2": `must be a node type ` +
			`of the snapshot, which has no "h100"`,
		"whatif -f testdata/queue.json --put=" + job:                                              `unknown field "priority"`,
		"serve --listen=127.0.0.1:0 --admin-listen=127.0.0.1:0 --record=" + empty + "/recordings": "--record: cannot record: mkdir " + empty,
	} {
		stdout, stderr, status := runWith(t, nil, "", strings.Fields(args)...)
		if status != cli.ExitBadInput || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%q: exit status %d, stderr %q, stdout %q; want %q", args, status, stderr, stdout, want)
		}
	}
}

// TestExitStatus checks that the exit status is 2 for errors of usage and input, and 1 for other errors.
func TestExitStatus(t *testing.T) {
	for args, test := range map[string]struct {
		status int
		stderr string
		stdin  string
		env    map[string]string
	}{
		"allocate -f -":     {status: cli.ExitBadInput, stdin: " \n", stderr: "the input is empty"},
		"allocate --file -": {status: cli.ExitBadInput, stdin: "{\n  nope", stderr: "(line 2)"},
		"allocate --file=-": {
			status: cli.ExitBadInput, stdin: "{\"snapshot\": {},\n \"optoins\": {}}", stderr: `(line 2): unknown field "optoins"`,
		},
		"allocate -f - --output json": {
			status: cli.ExitBadInput, stdin: `{"total_nodes": 3}`, stderr: `(line 1): unknown field "total_nodes"; put it in "snapshot"`,
		},
		"allocate -f - --output=json": {
			status: cli.ExitBadInput, stdin: `{"timeBudget": "1s"}`, stderr: `(line 1): unknown field "timeBudget"; put it in "options"`,
		},
		"explain -f -": {
			status: cli.ExitBadInput, stdin: `{"snapshot": {"jobs": [{"id": "a", "remainingEta": "soon"}]}}`,
			stderr: `value "soon"; remainingEta must be a time with its unit`,
		},
		"forecast -f -": {status: cli.ExitBadInput, stdin: `{}`, stderr: "\n  snapshot: "},
		"snapshot --trace - --nodes 1 --at 1h": {
			status: cli.ExitBadInput, stdin: "job_id,submit_s,duration_s,gpus\n", stderr: "-: the trace has no jobs",
		},
		"snapshot --trace - --nodes 1 --at 2h": {
			status: cli.ExitBadInput, stdin: "job_id\n", stderr: "line 1: column submit_s is missing",
		},
		"allocate -f testdata/queue.json --budget 50ms --server 127.0.0.1:1": {status: cli.ExitFailed, stderr: "allocate: "},
		"serve --plaintext --listen 192.0.2.1:1 --admin-listen 127.0.0.1:0":  {status: cli.ExitFailed, stderr: "192.0.2.1:1"},
		"allocate -f testdata/queue.json":                                    {env: map[string]string{"ELASTALLOC_TLS_CERT": "/nonexistent"}},
		"fill-idle -f -": {
			status: cli.ExitBadInput, env: map[string]string{"ELASTALLOC_CLIENT_TLS_CERT": "/nonexistent"}, stderr: "need --server",
		},
		"whatif -f - --nodes 1": {
			status: cli.ExitBadInput, env: map[string]string{"ELASTALLOC_BUDGET": "soon"},
			stderr: `ELASTALLOC_BUDGET: invalid argument "soon" for "--budget" flag: must be a duration`,
		},
		"allocate -f - --budget 1s": {
			status: cli.ExitBadInput, env: map[string]string{"ELASTALLOC_PLAN": "maybe"},
			stderr: `ELASTALLOC_PLAN: invalid argument "maybe" for "--plan" flag: `,
		},
		"serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0": {
			status: cli.ExitBadInput, env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_PROPAGATORS": "b3"}, stderr: "OTEL_PROPAGATORS",
		},
		"--help": {}, "version": {}, "completion bash": {},
	} {
		stdout, stderr, status := runWith(t, test.env, test.stdin, strings.Fields(args)...)
		if status != test.status || !strings.Contains(stderr, test.stderr) ||
			(test.stderr == "") != (stderr == "") || (stdout == "") != (test.stderr != "") {
			t.Errorf("%q with %v and %q: exit status %d, stderr %q, stdout %q; want %d, %q",
				args, test.env, test.stdin, status, stderr, stdout, test.status, test.stderr)
		}
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
)

// TestExample decides the example that allocate prints.
func TestExample(t *testing.T) {
	request, stderr, status := runWith(t, nil, "", "allocate", "--example")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	stdout, stderr, status := runWith(t, nil, request, "allocate", "-f", "-")
	if status != cli.ExitDone || !strings.Contains(stdout, "1 start, 1 scale up") {
		t.Errorf("exit status %d, stderr %q, stdout %q; want a job that starts and one that grows", status, stderr, stdout)
	}
}

func TestVersion(t *testing.T) {
	line, _, _ := runWith(t, nil, "", "version")
	if stdout, stderr, status := runWith(t, nil, "", "--version"); status != cli.ExitDone || stdout != line {
		t.Errorf("--version prints %q, %q, exit status %d; want %q", stdout, stderr, status, line)
	}
	stdout, stderr, status := runWith(t, nil, "", "version", "-o", "json")
	var got map[string]string
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != cli.ExitDone {
		t.Fatalf("%v, exit status %d, stderr %q", err, status, stderr)
	}
	if want := strings.Join([]string{got["program"], got["version"], got["go"], got["os"] + "/" + got["arch"]}, " ") + "\n"; want != line {
		t.Errorf("the JSON says %q; the line %q", want, line)
	}
}

// TestCompletion completes values of flags as the shell's scripts do.
func TestCompletion(t *testing.T) {
	for args, want := range map[string][]string{
		"allocate --backend ":              {"exact", "cbc", "highs", "greedy"},
		"allocate --output ":               {"table", "json"},
		"forecast --output ":               {"table", "json", "svg", "html"},
		"explain --formulation ":           {"one-hot", "paper"},
		"serve --backends cbc,":            {"cbc,exact", "cbc,cbc", "cbc,highs", "cbc,greedy"},
		"serve --log-level ":               {"debug", "info", "warn", "error"},
		"version --output ":                {"table", "json"},
		"explain -f example.json --job ":   {"running", "queued"},
		"whatif -f example.json --remove ": {"running", "queued"},
		"explain -f missing.json --job ":   {},
		"allocate -f ":                     {"json"}, // The extension of the files.
	} {
		stdout, stderr, status := runWith(t, nil, "", append([]string{"__complete"}, strings.Split(args, " ")...)...)
		got := strings.Fields(stdout)
		if status != cli.ExitDone || len(got) < 1 || !slices.Equal(got[:len(got)-1], want) {
			t.Errorf("%q is completed by %q, exit status %d, stderr %q; want %q", args, got, status, stderr, want)
		}
	}
}

// TestWrongUsage checks that wrong flags are told what is wanted.
func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"allocate request.json":                                   "did you mean -f request.json?",
		"allocate -f - --gap 5%":                                  `--gap is "5%"; want float`,
		"allocate -f - --budget 5":                                `--budget is "5"; want a duration, such as 90s`,
		"allocate -f - --plan=maybe":                              `--plan is "maybe"; want bool`,
		"whatif -f - --nodes 70-190":                              `--nodes is "70-190"; want ints`,
		"snapshot --trace - --nodes many --at 1h":                 `--nodes is "many"; want int32`,
		"allocate -f testdata/queue.json --server http://h:1":     `--server: target is "http://h:1"; want host:port, such as localhost:50051`,
		"allocate -f testdata/queue.json --server localhost":      `--server: target is "localhost"; want host:port`,
		"snapshot --trace testdata/trace.csv --nodes 1 --at soon": `--at is "soon"; want a duration`,
		"whatif -f - --nodes 5 --scenarios -":                     "[nodes scenarios] were all set",
		"allocate -f testdata/queue.json --server a:1,b":          `--server: target is "a:1,b"; want host:port`,
		"snapshot --trace testdata/trace.csv --nodes 1 --at 900h": "--at is 900h; the trace ends at ",
		"allocate -f a.json -f b.json":                            `--file is "b.json"; want one file; a.json is given already`,
		"explain -f testdata/queue.json short":                    `unexpected argument "short"; did you mean --job short?`,
		"explain -f testdata/queue.json --job sho":                `--job is "sho"; want the id of a job of the snapshot; did you mean short?`,
		"explain -f testdata/queue.json --job=":                   "--job is \"\"; want the id of a job of the snapshot\n",
		"help alocate":                                            `unknown command "alocate" for "elastalloc"`,
		"simulate --synthetic baseline":                           "elastalloc simulate: simulate is a command of elastalloc-lab",
		"forecast -f - --until d":                                 `--until is "d"; want a duration, such as 90s, 15m, 3h or 2d`,
		"serve --log-level verbose":                               `--log-level is "verbose"; want one of debug, info, warn, error`,
	} {
		_, stderr, status := runWith(t, nil, "", strings.Fields(args)...)
		if status != cli.ExitBadInput || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit status %d, stderr %q; want %q", args, status, stderr, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, status := runWith(t, nil, "", "serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--record", filepath.Join(file, "recordings"))
	if status != cli.ExitBadInput || !strings.Contains(stderr, "--record: cannot record: mkdir "+file) {
		t.Errorf("--record below a file: exit status %d, stderr %q", status, stderr)
	}
	_, stderr, status = runWith(t, map[string]string{"ELASTALLOC_PLAN": "maybe"}, "", "allocate", "-f", "-")
	if status != cli.ExitBadInput || !strings.Contains(stderr, "ELASTALLOC_PLAN") || !strings.Contains(stderr, "want bool") {
		t.Errorf("exit status %d, stderr %q; want the variable and its values", status, stderr)
	}
}

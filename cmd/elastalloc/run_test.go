package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// runWith executes a command line in this process.
func runWith(t *testing.T, env map[string]string, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return clitest.Run(t, run, env, stdin, args...)
}

// succeed executes a command line that must succeed without a warning, and returns its output.
func succeed(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	stdout, stderr, status := runWith(t, nil, stdin, args...)
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("%q: exit status %d, stderr %q", args, status, stderr)
	}
	return stdout
}

// maskTimes masks values in a table or in JSON that differ between runs.
func maskTimes(text string) string {
	text = regexp.MustCompile(`\b(in|after) [0-9.]+(ns|µs|ms|s)`).ReplaceAllString(text, "$1 TIME")
	return regexp.MustCompile(`"(solveTime|duration)": "[^"]*"`).ReplaceAllString(text, `"$1": "TIME"`)
}

// scenarios is a file of scenarios, one of which is not valid.
const scenarios = `{"scenarios": [
	{"name": "bert is urgent", "putJobs": [{"id": "bert-large-wiki-phase2", "remainingEta": "101180s", "currentNodes": 4, "weight": 8}]},
	{"name": "gone", "removeJobIds": ["no-such-job"]},
	{"name": "no pauses", "options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_OPTIMIZED"}}
]}`

// TestTables compares the tables of commands with golden files, which go test -update rewrites. The budget is large,
// so that no search reaches it.
func TestTables(t *testing.T) {
	if testing.Short() {
		t.Skip("other tests run the commands, this test compares texts")
	}
	file := filepath.Join(t.TempDir(), "scenarios.json")
	if err := os.WriteFile(file, []byte(scenarios), 0o600); err != nil {
		t.Fatal(err)
	}
	const busy = " -f ../../examples/busy.json --budget=10m"
	for name, args := range map[string]string{
		"no_jobs":              "allocate --budget=1m -f testdata/no_jobs.json",
		"zero_nodes":           "allocate --budget=1m -f testdata/zero_nodes.json --plan",
		"more_jobs_than_nodes": "allocate --budget=1m -f testdata/more_jobs_than_nodes.json --plan",
		"optimized":            "allocate --budget=1m -f testdata/more_jobs_than_nodes.json --admission optimized --plan",
		"preemptive":           "allocate --budget=1m -f testdata/more_jobs_than_nodes.json --admission preemptive --plan",
		"shrunken_pool":        "allocate --budget=1m -f testdata/shrunken_pool.json --plan",
		"illegal_size":         "allocate --budget=1m -f testdata/illegal_size.json --plan",
		"queue":                "allocate --budget=1m -f testdata/queue.json",
		"greedy":               "allocate --budget=1m -f testdata/queue.json --backend greedy",
		"fallback":             "allocate --budget=1m -f testdata/queue.json --backend cbc --formulation paper",
		"example":              "allocate --budget=1m -f ../../examples/snapshot.json",
		"busy":                 "allocate --budget=1m -f ../../examples/busy.json",
		"teams":                "allocate --budget=1m -f ../../examples/teams.json",
		"node_types":           "allocate --budget=1m -f testdata/node_types.json",
		"two_kinds":            "allocate --budget=1m -f ../../examples/two-kinds.json",
		"fill_idle":            "fill-idle -f testdata/queue.json",
		"explain":              "explain" + busy,
		"explain_progress":     "explain --objective=progress --admission=fifo" + busy,
		"explain_jobs":         "explain --job=bert-large-wiki-phase2 --job=llama-7b-pretrain-de --job=gpt-neox-20b-pretrain" + busy,
		"whatif_nodes":         "whatif --nodes=90,100,120,130" + busy,
		"whatif_many":          "whatif --nodes=90,95,100,105,110,115,120,125,130" + busy,
		"whatif_remove":        "whatif --remove=gpt-neox-20b-pretrain --remove=llama-7b-pretrain-de --nodes=130" + busy,
		"whatif_node_types":    "whatif --node-type=a100=8 --node-type=t4=24 -f testdata/node_types.json --budget=10m",
		"explain_node_types":   "explain --job=bert --job=resnet --job=short -f testdata/node_types.json --budget=10m",
		"whatif_scenarios":     "whatif --scenarios=" + file + busy,
		"forecast":             "forecast --every-event" + busy,
		"forecast_range":       "forecast --every-event --eta-error=0.3 --samples=5" + busy,
		"forecast_until":       "forecast --until=2h" + busy,
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"ELASTALLOC_CBC": "/nonexistent/cbc"}
			stdout, stderr, status := runWith(t, env, "", strings.Fields(args)...)
			warning := ""
			if name == "fallback" {
				warning = "elastalloc allocate: warning: decided by exact, not by cbc: backend is unavailable: "
			}
			if status != cli.ExitDone || !strings.HasPrefix(stderr, warning) || warning == "" && stderr != "" {
				t.Fatalf("exit status %d, stderr %q; want it to begin with %q", status, stderr, warning)
			}
			clitest.CompareGolden(t, name+".golden", maskTimes(stdout))
		})
	}
}

// startFirst is a request with a job that START_FIRST starts although all other jobs have to pause.
const startFirst = `{"snapshot": {"totalNodes": 8, "jobs": [
	{"id": "a", "remainingEta": "1000h", "currentNodes": 4, "trainingTime": "1h", "restartTime": "600s"},
	{"id": "b", "remainingEta": "1000h", "currentNodes": 4, "trainingTime": "1h", "restartTime": "600s"},
	{"id": "big", "remainingEta": "900h", "minNodes": 8, "maxNodes": 8}]},
	"options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_START_FIRST"}}`

// TestStartFirstBehindGreedy checks the texts if the plan is worse than the greedy baseline, because the admission
// requires to start a job. The explanation of a paused job names this job.
func TestStartFirstBehindGreedy(t *testing.T) {
	text := func(args ...string) string { return strings.Join(strings.Fields(succeed(t, startFirst, args...)), " ") }
	clitest.CheckContains(t, "the decision", text("allocate", "-f", "-", "--budget=1m"),
		"no plan that the admission allows is better", "by leaving jobs waiting that the admission starts",
		"start-first starts big on 8 nodes at any price, here the nodes of 2 running jobs; optimized may let it wait")
	clitest.CheckContains(t, "the explanation", text("explain", "-f", "-", "--job=a"),
		"a is paused: 1 node does not fit in addition to the jobs before it, mainly because big starts with 8 nodes")
}

// TestCappedJobs checks the explanation of nodes that are idle because max_nodes is not set.
func TestCappedJobs(t *testing.T) {
	for job, want := range map[string]bool{`"remainingEta": "9h"`: true, `"remainingEta": "9h", "maxNodes": 16`: false} {
		request := `{"snapshot": {"totalNodes": 40, "jobs": [{"id": "a", ` + job + `}]}}`
		stdout := succeed(t, request, "allocate", "-f", "-", "--budget=1m")
		if strings.Contains(stdout, "40 nodes, 24 idle; 1 job at 16, the maximum without max_nodes") != want {
			t.Errorf("stdout:\n%s", stdout)
		}
	}
}

// TestJSON checks that -o json prints the response, and that it is the same every time.
func TestJSON(t *testing.T) {
	first := succeed(t, "", "allocate", "-f", "testdata/queue.json", "-o", "json", "--budget=1m")
	response := new(elastallocv1.AllocateResponse)
	if err := protojson.Unmarshal([]byte(first), response); err != nil {
		t.Fatal(err)
	}
	if response.GetReport().GetReason() != elastallocv1.Reason_REASON_OPTIMAL || len(response.GetAllocations()) != 4 {
		t.Errorf("the response is %s; want a proven optimum for 4 jobs", first)
	}
	for _, a := range response.GetAllocations() {
		if len(a.GetPlannedNodes())+len(a.GetPlannedProgress()) > 0 {
			t.Errorf("the response has the plan of %q, which was not requested", a.GetJobId())
		}
	}
	again := succeed(t, "", "allocate", "-f", "testdata/queue.json", "-o", "json", "--budget=1m")
	if diff := cmp.Diff(maskTimes(first), maskTimes(again)); diff != "" {
		t.Errorf("responses to the same request differ:\n%s", diff)
	}
}

// TestInterrupted interrupts commands that wait for their input, and those that decide.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	const snapshot = "../../examples/snapshot.json"
	for _, args := range []string{
		"allocate -f -", "snapshot --trace - --nodes 4 --at 1h", "whatif -f " + snapshot + " --put -",
		"forecast -f " + snapshot, "allocate -f " + snapshot + " --server 127.0.0.1:1",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			stdin, neverWritten := io.Pipe()
			defer neverWritten.Close()
			ctx, interrupt := context.WithCancel(t.Context())
			interrupt()
			var stdout, stderr bytes.Buffer
			status := run(ctx, strings.Fields(args), cli.Streams{In: stdin, Out: &stdout, Err: &stderr},
				func(string) (string, bool) { return "", false })
			if status != cli.ExitFailed || !strings.HasSuffix(stderr.String(), "interrupted\n") {
				t.Errorf("exit status %d, stderr %q", status, &stderr)
			}
		})
	}
}

func TestBadFieldsAreNamed(t *testing.T) {
	_, stderr, status := runWith(t, nil, "", "allocate", "-f", "testdata/bad_fields.json")
	if status != cli.ExitBadInput {
		t.Errorf("exit status %d; want %d", status, cli.ExitBadInput)
	}
	clitest.CompareGolden(t, "bad_fields.golden", stderr)
}

func TestEnvironment(t *testing.T) {
	env := map[string]string{
		"ELASTALLOC_FILE": "testdata/queue.json", "ELASTALLOC_OUTPUT": "json", "ELASTALLOC_BACKEND": "greedy", "ELASTALLOC_SERVER": "",
	}
	stdout, stderr, status := runWith(t, env, "", "allocate")
	if status != cli.ExitDone || !strings.Contains(stdout, `"backend": "BACKEND_GREEDY"`) {
		t.Errorf("exit status %d, stderr %q, stdout %q; want the result of greedy in JSON", status, stderr, stdout)
	}
	stdout, stderr, status = runWith(t, env, "", "allocate", "--output=table", "--backend=exact")
	if status != cli.ExitDone || !strings.HasPrefix(stdout, "JOB ") || !strings.Contains(stdout, "decided by     exact") {
		t.Errorf("exit status %d, stderr %q, stdout %q; want the values of the flags", status, stderr, stdout)
	}
}

// TestServerVariable checks that white space around an address, such as the newline of a file, is
// ignored, and that an address of white space is an error.
func TestServerVariable(t *testing.T) {
	server := startServer(t)
	_, stderr, status := runWith(t, map[string]string{"ELASTALLOC_SERVER": " " + server.Addr + "\n"},
		"", "allocate", "-f", "testdata/queue.json", "--budget=1m")
	if status != cli.ExitDone || stderr != "" {
		t.Errorf("exit status %d, stderr %q", status, stderr)
	}
	_, stderr, status = runWith(t, map[string]string{"ELASTALLOC_SERVER": "\n"}, "", "allocate", "-f", "testdata/queue.json")
	if status != cli.ExitBadInput || !strings.Contains(stderr, `--server: is "\n"; must be host:port, such as localhost:50051`) {
		t.Errorf("exit status %d, stderr %q", status, stderr)
	}
}

// TestUTF16 checks that requests and traces are read as PowerShell writes them.
func TestUTF16(t *testing.T) {
	dir := t.TempDir()
	for _, bigEndian := range []bool{false, true} {
		for file, args := range map[string][]string{
			"testdata/no_jobs.json": {"allocate", "-o=json", "-f"}, "testdata/trace.csv": {"snapshot", "--nodes=4", "--at=1s", "--trace"},
		} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(dir, filepath.Base(file))
			if err := os.WriteFile(copied, []byte(clitest.UTF16(string(text), bigEndian)), 0o600); err != nil {
				t.Fatal(err)
			}
			want, got := succeed(t, "", append(args, file)...), succeed(t, "", append(args, copied)...)
			if maskTimes(got) != maskTimes(want) {
				t.Errorf("the output for %s in UTF-16 is\n%s\nwant\n%s", file, got, want)
			}
		}
	}
	if _, stderr, status := runWith(t, nil, "{\x00}\x00", "allocate", "-f", "-"); status != cli.ExitBadInput ||
		!strings.Contains(stderr, "the input has NUL bytes; must be text in UTF-8, or in UTF-16 with a byte order mark") {
		t.Errorf("without a mark: exit status %d, %s", status, stderr)
	}
}

// TestSnapshot passes the output of snapshot to allocate, like a pipe.
func TestSnapshot(t *testing.T) {
	request := succeed(t, "", "snapshot", "--trace=testdata/trace.csv", "--nodes=12", "--at=10m")
	clitest.CompareGolden(t, "snapshot.json.golden", request)
	clitest.CompareGolden(t, "snapshot.golden", maskTimes(succeed(t, request, "allocate", "-f", "-", "--budget=1m")))
}

// TestRealTrace decides a snapshot of a public trace next to the checkout.
func TestRealTrace(t *testing.T) {
	const trace = "../../../shared/traces/itp_cluster04_50h.csv"
	if _, err := os.Stat(trace); err != nil {
		t.Skip("no ../shared/traces next to the checkout")
	}
	request := succeed(t, "", "snapshot", "--trace", trace, "--nodes=110", "--at=26h")
	clitest.CheckContains(t, "the decision", succeed(t, request, "allocate", "-f", "-", "--budget=1m"), "proven optimal")
}

// TestChartNamesBackends checks that the schema of the values of the chart has all backends.
func TestChartNamesBackends(t *testing.T) {
	text, err := os.ReadFile("../../deploy/helm/elastalloc/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	names, err := json.Marshal(elastalloc.BackendNames())
	if err != nil {
		t.Fatal(err)
	}
	if want := `"items": {"enum": ` + strings.ReplaceAll(string(names), ",", ", ") + `}`; !strings.Contains(string(text), want) {
		t.Errorf("the schema lacks %s", want)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/cmd/internal/clitest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// runWith executes a command line in this process.
func runWith(t *testing.T, env map[string]string, stdin string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	return clitest.Run(t, run, env, stdin, args...)
}

// maskTimes hides what differs from run to run in a table or in JSON.
func maskTimes(text string) string {
	text = regexp.MustCompile(`\b(in|after) [0-9.]+(ns|µs|ms|s)`).ReplaceAllString(text, "$1 TIME")
	return regexp.MustCompile(`"(solveTime|duration)": "[^"]*"`).ReplaceAllString(text, `"$1": "TIME"`)
}

// TestTables compares what allocate shows a person with golden files; go test
// -update rewrites them. The budget is ample so that no time limit ends a search.
func TestTables(t *testing.T) {
	for name, args := range map[string]string{
		"no_jobs":              "-f testdata/no_jobs.json",
		"zero_nodes":           "-f testdata/zero_nodes.json --plan",
		"more_jobs_than_nodes": "-f testdata/more_jobs_than_nodes.json --plan",
		"optimized":            "-f testdata/more_jobs_than_nodes.json --admission optimized --plan",
		"preemptive":           "-f testdata/more_jobs_than_nodes.json --admission preemptive --plan",
		"shrunken_pool":        "-f testdata/shrunken_pool.json --plan",
		"illegal_size":         "-f testdata/illegal_size.json --plan",
		"queue":                "-f testdata/queue.json",
		"greedy":               "-f testdata/queue.json --backend greedy",
		"fallback":             "-f testdata/queue.json --backend cbc --formulation paper",
		"example":              "-f ../../examples/snapshot.json",
		"busy":                 "-f ../../examples/busy.json",
		"teams":                "-f ../../examples/teams.json",
		"node_types":           "-f testdata/node_types.json",
		"two_kinds":            "-f ../../examples/two-kinds.json",
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"ELASTALLOC_CBC": "/nonexistent/cbc"}
			stdout, stderr, status := runWith(t, env, "", append([]string{"allocate", "--budget=1m"}, strings.Fields(args)...)...)
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

func TestFillIdle(t *testing.T) {
	stdout, stderr, status := runWith(t, nil, "", "fill-idle", "-f", "testdata/queue.json")
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	clitest.CompareGolden(t, "fill_idle.golden", stdout)
}

// startFirst has a job that START_FIRST starts at the price of all others.
const startFirst = `{"snapshot": {"totalNodes": 8, "jobs": [
	{"id": "a", "remainingEta": "1h", "currentNodes": 4, "restartTime": "600s"},
	{"id": "b", "remainingEta": "1h", "currentNodes": 4, "restartTime": "600s"},
	{"id": "big", "remainingEta": "1000h", "minNodes": 8, "maxNodes": 8}]},
	"options": {"objective": "OBJECTIVE_TOTAL_TIME", "admission": "ADMISSION_START_FIRST"}}`

// TestStartFirstBehindGreedy checks the words where starting every job that can start costs
// more than greedy, which lets one wait, and no plan that may is better.
func TestStartFirstBehindGreedy(t *testing.T) {
	stdout, stderr, status := runWith(t, nil, startFirst, "allocate", "-f", "-", "--budget=1m")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		"no plan that the admission allows is better", "by leaving jobs waiting that the admission starts",
		"start-first starts big on 8 nodes at any price, here the nodes of 2 running jobs; optimized may let it wait",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("stdout lacks %q:\n%s", want, stdout)
		}
	}
}

// TestStartFirstExplained checks that a job which is paused for a start is told for which.
func TestStartFirstExplained(t *testing.T) {
	stdout, stderr, status := runWith(t, nil, startFirst, "explain", "-f", "-", "--job=a")
	const want = "a is paused, because 1 node does not fit beside what goes before it, above all the 8 nodes that big starts with"
	if status != cli.ExitDone || !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
		t.Errorf("exit status %d, stderr %q, stdout:\n%s", status, stderr, stdout)
	}
}

// TestCappedJobs checks that nodes which stay idle since max_nodes is unset are explained.
func TestCappedJobs(t *testing.T) {
	for job, want := range map[string]bool{`"remainingEta": "9h"`: true, `"remainingEta": "9h", "maxNodes": 16`: false} {
		request := `{"snapshot": {"totalNodes": 40, "jobs": [{"id": "a", ` + job + `}]}}`
		stdout, stderr, status := runWith(t, nil, request, "allocate", "-f", "-", "--budget=1m")
		said := strings.Contains(stdout, "40 nodes, 24 idle; 1 job at 16, the most without max_nodes")
		if status != cli.ExitDone || said != want {
			t.Errorf("exit status %d, stderr %q, stdout:\n%s", status, stderr, stdout)
		}
	}
}

// TestJSON checks that -o json prints the response itself, the same every time.
func TestJSON(t *testing.T) {
	first, stderr, status := runWith(t, nil, "", "allocate", "-f", "testdata/queue.json", "-o", "json", "--budget=1m")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	response := new(elastallocv1.AllocateResponse)
	if err := protojson.Unmarshal([]byte(first), response); err != nil {
		t.Fatal(err)
	}
	if response.GetReport().GetReason() != elastallocv1.Reason_REASON_OPTIMAL || len(response.GetAllocations()) != 4 {
		t.Errorf("the answer is %s; want a proven optimum for 4 jobs", first)
	}
	for _, a := range response.GetAllocations() {
		if len(a.GetPlannedNodes())+len(a.GetPlannedProgress()) > 0 {
			t.Errorf("the plan of %q was given without being asked for", a.GetJobId())
		}
	}
	again, _, _ := runWith(t, nil, "", "allocate", "-f", "testdata/queue.json", "-o", "json", "--budget=1m")
	if diff := cmp.Diff(maskTimes(first), maskTimes(again)); diff != "" {
		t.Errorf("the same request gave different answers:\n%s", diff)
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
	env := map[string]string{"ELASTALLOC_FILE": "testdata/queue.json", "ELASTALLOC_OUTPUT": "json", "ELASTALLOC_BACKEND": "greedy", "ELASTALLOC_SERVER": ""}
	stdout, stderr, status := runWith(t, env, "", "allocate")
	if status != cli.ExitDone || !strings.Contains(stdout, `"backend": "BACKEND_GREEDY"`) {
		t.Errorf("exit status %d, stderr %q, stdout %q; want greedy's answer in JSON", status, stderr, stdout)
	}
	stdout, stderr, status = runWith(t, env, "", "allocate", "--output=table", "--backend=exact")
	if status != cli.ExitDone || !strings.HasPrefix(stdout, "JOB ") || !strings.Contains(stdout, "decided by     exact") {
		t.Errorf("exit status %d, stderr %q, stdout %q; want the flags to win", status, stderr, stdout)
	}
}

// TestSnapshot cuts a request and decides it, as a pipe of the two would.
func TestSnapshot(t *testing.T) {
	request, stderr, status := runWith(t, nil, "", "snapshot", "--trace=testdata/trace.csv", "--nodes=12", "--at=10m")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	clitest.CompareGolden(t, "snapshot.json.golden", request)
	stdout, stderr, status := runWith(t, nil, request, "allocate", "-f", "-", "--budget=1m")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	clitest.CompareGolden(t, "snapshot.golden", maskTimes(stdout))
}

// TestRealTrace proves the decision of a real moment, where the public traces
// stand beside the checkout.
func TestRealTrace(t *testing.T) {
	const trace = "../../../shared/traces/itp_cluster04_50h.csv"
	if _, err := os.Stat(trace); err != nil {
		t.Skip("no ../shared/traces beside the checkout")
	}
	request, stderr, status := runWith(t, nil, "", "snapshot", "--trace", trace, "--nodes=110", "--at=26h")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	stdout, stderr, status := runWith(t, nil, request, "allocate", "-f", "-", "--budget=1m")
	if status != cli.ExitDone || !strings.Contains(stdout, "proven optimal") {
		t.Errorf("exit status %d, stderr %q, stdout %s; want a proven optimum", status, stderr, stdout)
	}
}

// TestChartNamesBackends checks that the schema of the chart's values has the backends that
// there are.
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

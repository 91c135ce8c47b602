package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/lab/statistics"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// jobsOf returns the lines of jobs.csv of a policy, without its name.
func jobsOf(t *testing.T, out, policy string) string {
	t.Helper()
	rows := ""
	for line := range strings.SplitSeq(read(t, out, "jobs.csv"), "\n") {
		if rest, found := strings.CutPrefix(line, "own,"+policy+","); found {
			rows += rest + "\n"
		}
	}
	return rows
}

// TestSimulateCommand checks that the example in Python has the same result as the built-in policy, for every job, on
// pools that are smaller and larger than the largest request.
func TestSimulateCommand(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	folder := t.TempDir()
	trace := write(t, folder, "own.csv", randomJobs(60))
	out := filepath.Join(folder, "results")
	const program = "command:python3 ../../../examples/policies/fifo.py"
	stdout := succeed(t, "simulate", "--trace", trace, "--nodes=3,10",
		"--max-growth=1", "--restart-time=60", "--policy=fifo,"+program, "--out", out)
	want, got := jobsOf(t, out, "fifo"), jobsOf(t, out, program)
	if strings.Count(want, "\n") != 120 || want != got {
		t.Errorf("the example differs from fifo:\n%s\nfifo:\n%s", got, want)
	}
	clitest.CheckContains(t, "stdout", stdout, "fifo.py")
	figure := filepath.Join(folder, "times.svg")
	table, err := exec.Command("python3", "../../../examples/policies/results.py", out, figure).CombinedOutput()
	if err != nil {
		t.Fatalf("results.py: %v\n%s", err, table)
	}
	var summary struct{ Runs []statistics.Summary }
	readJSON(t, &summary, out, "summary.json")
	for _, run := range summary.Runs {
		clitest.CheckContains(t, "results.py", strings.Join(strings.Fields(string(table)), " "),
			fmt.Sprintf("%s %d %.2f", run.Policy, run.Nodes, run.MeanTotalSeconds/3600))
	}
	clitest.CheckContains(t, "times.svg", read(t, figure), "<polyline", "fifo, 3 nodes")
	clitest.CheckContains(t, "report", read(t, out, "report.html"), "the program python3 ../../../examples/policies/fifo.py")
}

// randomJobs returns a trace of overlapping jobs.
func randomJobs(n int) string {
	var text strings.Builder
	text.WriteString("job_id,submit_s,duration_s,gpus\n")
	for i := range n {
		fmt.Fprintf(&text, "%d,%d,%d,%d\n", i, 40*i, 100+700*(i*i%7), 1+11*(i%5))
	}
	return text.String()
}

// service responds to calls with the decisions of an allocator.
type service struct {
	elastallocv1.UnimplementedAllocatorServiceServer
	decider apiconv.InProcess
	calls   int
}

func (s *service) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	s.calls++
	return s.decider.Allocate(ctx, request)
}

// TestSimulateService checks that a service with the allocator of total-time has the result of total-time.
func TestSimulateService(t *testing.T) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{decider: apiconv.InProcess{Allocator: allocator}}
	server := grpc.NewServer()
	elastallocv1.RegisterAllocatorServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	folder := t.TempDir()
	trace := write(t, folder, "own.csv", randomJobs(20))
	out := filepath.Join(folder, "results")
	policy := "grpc:" + listener.Addr().String()
	succeed(t, "simulate", "--trace", trace, "--nodes=10", "--restart-time=60", "--workers=1", "--policy=total-time,"+policy, "--out", out)
	if want, got := jobsOf(t, out, "total-time"), jobsOf(t, out, policy); want == "" || want != got || s.calls < 40 {
		t.Errorf("the service differs from total-time after %d calls:\n%s\ntotal-time:\n%s", s.calls, got, want)
	}
}

// TestSimulateBadProgram checks the errors of programs that do not follow the protocol.
func TestSimulateBadProgram(t *testing.T) {
	folder := t.TempDir()
	trace := write(t, folder, "own.csv", "job_id,submit_s,duration_s,gpus\na,0,600,8\n")
	for script, want := range map[string]string{
		"read line; echo '{\"allocations\":[{\"jobId\":\"a\",\"nodes\":-1}]}'": `gives job "a" -1 nodes; must be at least 0`,

		"exit 3":                   "the program ",
		"echo nonsense":            `the program wrote "nonsense\n"; must be an AllocateResponse in JSON`,
		"echo {}; cat > /dev/null": "no job has made progress",
		"read line; echo '{\"allocations\":[{\"jobId\":\"b\",\"nodes\":1}]}'": `the response has the job "b", ` +
			`which is not in the request`,
		"read line; echo '{\"allocations\":[{\"jobId\":\"a\",\"nodes\":3}]}'": `decision gives job "a" 3 nodes, ` +
			`which is not a legal size`,
		"read line; echo '{\"allocations\":[{\"jobId\":\"a\",\"nodes\":1},{\"jobId\":\"a\",\"nodes\":1}]}'": `the response has the job "a" twice`,
	} {
		file := write(t, folder, "policy.sh", script+"\n")
		if strings.HasPrefix(script, "echo {}") {
			file = write(t, folder, "policy.sh", "while read line; do echo '{}'; done\n")
		}
		_, stderr, status := runWith(t, nil, "simulate", "--trace", trace, "--nodes=4",
			"--policy=command:sh "+file, "--out", filepath.Join(folder, "results"))
		clitest.CheckContains(t, script, stderr, want)
		if status != cli.ExitFailed {
			t.Errorf("%s: exit status %d; want %d", script, status, cli.ExitFailed)
		}
	}
	_, stderr, status := runWith(t, nil, "simulate", "--trace", trace, "--nodes=4",
		"--policy=command:,command:no-such-program,grpc:", "--out", filepath.Join(folder, "results"))
	if status != cli.ExitBadInput {
		t.Errorf("exit status %d; want %d", status, cli.ExitBadInput)
	}
	clitest.CheckContains(t, "usage", stderr, "command: has no program; must be command:PROGRAM",
		`"no-such-program": executable file not found`, "grpc: has no address; must be grpc:HOST:PORT")
}

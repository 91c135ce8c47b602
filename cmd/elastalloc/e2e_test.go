package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/client/eta"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// binary is the program under test, which is built once for all tests.
var binary string

func TestMain(m *testing.M) {
	// All servers are on this machine, so that no proxy is used.
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		_ = os.Unsetenv(name)
	}
	os.Exit(clitest.BuildAndTest(m, &binary))
}

// startServer starts a server that is stopped at the end of the test.
func startServer(t *testing.T, flags ...string) *servertest.Server {
	t.Helper()
	return servertest.Start(t, binary, nil, flags...)
}

// runBinary executes the program and returns its output and exit status.
func runBinary(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// scrape returns the metrics page of a server.
func scrape(t *testing.T, server *servertest.Server) string {
	t.Helper()
	return servertest.Page(t, server, "/metrics")
}

// TestServerAndProcessAgree checks that a server and the command in process return the same response,
// except for durations.
func TestServerAndProcessAgree(t *testing.T) {
	server := startServer(t)
	for _, args := range []string{
		"-f ../../examples/snapshot.json -o json --plan",
		"-f testdata/queue.json -o table --plan",
		"fill-idle -f testdata/queue.json -o json",
		"-f testdata/more_jobs_than_nodes.json -o json --admission preemptive",
		"-f testdata/shrunken_pool.json -o json --backend greedy",
		"-f testdata/bad_fields.json",
	} {
		t.Run(args, func(t *testing.T) {
			asked := strings.Fields(args)
			if asked[0] == "-f" {
				asked = append([]string{"allocate", "--budget=1m"}, asked...)
			}
			hereOut, hereErr, localStatus := runBinary(t, asked...)
			thereOut, thereErr, serverStatus := runBinary(t, append(asked, "--server", server.Addr)...)
			if diff := cmp.Diff(maskTimes(hereOut), maskTimes(thereOut)); diff != "" {
				t.Errorf("stdout (-in process +server):\n%s", diff)
			}
			if diff := cmp.Diff(hereErr, thereErr); diff != "" {
				t.Errorf("stderr (-in process +server):\n%s", diff)
			}
			if localStatus != serverStatus {
				t.Errorf("exit status %d in process, %d with the server", localStatus, serverStatus)
			}
		})
	}
}

func TestServerShowsHealthAndMetrics(t *testing.T) {
	server := startServer(t)
	health, err := grpc_health_v1.NewHealthClient(servertest.Dial(t, server)).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{
		Service: elastallocv1.AllocatorService_ServiceDesc.ServiceName,
	})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health is %v, %v; want SERVING", health, err)
	}
	_, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json", "--budget=1m", "--server", server.Addr)
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	clitest.CheckContains(t, "/metrics", scrape(t, server),
		`elastalloc_solve_duration_seconds_count{backend="exact",limit="none",objective="progress"} 1`,
		`elastalloc_snapshot_jobs_sum 4`,
		`elastalloc_backend_up{backend="exact"} 1`,
		`elastalloc_build_info{`,
		"go_gc_gogc_percent 400",
		`grpc_server_handled_total{grpc_code="OK",grpc_method="Allocate",`)
}

// TestElapsedETA checks two jobs with estimates of client/eta, one of which has done two and a half
// times its estimated work. With either objective, a decision warns about it in the response, the
// table, the metric and on the status page, is otherwise unchanged, and passes an audit.
func TestElapsedETA(t *testing.T) {
	server := startServer(t)
	service := elastallocv1.NewAllocatorServiceClient(servertest.Dial(t, server))
	var estimator eta.Estimator
	request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{TotalNodes: 6}}
	for i, id := range []string{"works", "hangs"} {
		job := &elastallocv1.Job{Id: id, CurrentNodes: 1}
		client.SetEstimate(job, estimator.Estimate(eta.Job{UserEstimate: 2 * time.Hour, WorkDone: time.Duration(1+4*i) * time.Hour}))
		request.Snapshot.Jobs = append(request.Snapshot.Jobs, job)
	}
	const message = `job "hangs" has done 2.5 times its estimated work; pause or cap it if it hangs`
	for _, objective := range []elastallocv1.Objective{
		elastallocv1.Objective_OBJECTIVE_PROGRESS, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME,
	} {
		request.Options = &elastallocv1.AllocateOptions{Objective: objective, IncludePlan: true, TimeBudget: durationpb.New(time.Minute)}
		response, err := service.Allocate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if got := audit.Check(t.Context(), request, response, audit.Options{}); got.Verdict != audit.Confirmed {
			t.Errorf("%v: audit %+v", objective, got)
		}
		text, err := protojson.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		table, stderr, _ := runWith(t, nil, string(text), "allocate", "-f", "-")
		if !strings.Contains(strings.Join(strings.Fields(table), " "), message) {
			t.Errorf("%v: table %s, %s", objective, table, stderr)
		}

		silent := proto.Clone(request).(*elastallocv1.AllocateRequest)
		for _, job := range silent.GetSnapshot().GetJobs() {
			job.Overrun = 0
		}
		want, err := service.Allocate(t.Context(), silent)
		if err != nil {
			t.Fatal(err)
		}
		want.Report.Warnings = append(want.Report.Warnings, &elastallocv1.Warning{
			Code: elastallocv1.WarningCode_WARNING_CODE_ETA_RAN_OUT, JobId: "hangs", Message: message,
		})
		if diff := cmp.Diff(want, response, protocmp.Transform(), protocmp.IgnoreFields(&elastallocv1.SolveReport{}, "solve_time"),
			protocmp.IgnoreFields(&elastallocv1.Attempt{}, "duration")); diff != "" {
			t.Errorf("%v (-without +with):\n%s", objective, diff)
		}
	}
	if got := servertest.Metrics(t, server)[`elastalloc_warnings_total{code="eta-ran-out"}`]; got != 2 {
		t.Errorf("the metric is %v", got)
	}
	if page := servertest.Page(t, server, "/"); !strings.Contains(page, "eta-ran-out") {
		t.Errorf("the status page has no warning:\n%s", page)
	}
}

// TestUnixSocket calls a server on a Unix socket.
func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	server := startServer(t, "--listen=unix:"+socket)
	if server.Addr != "unix://"+socket {
		t.Errorf("the log names %q", server.Addr)
	}
	for _, address := range []string{"unix://" + socket, "unix:" + socket} {
		stdout, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json", "--budget=1m", "--server", address)
		if status != cli.ExitDone || stderr != "" {
			t.Errorf("%s: exit status %d, stderr %q, stdout %s", address, status, stderr, stdout)
		}
	}
	if page := servertest.Page(t, server, "/"); !strings.Contains(page, "gRPC on unix://"+socket) {
		t.Errorf("the status page does not name the socket:\n%s", page)
	}
}

// TestServerWithMissingSolver checks that a missing program is visible in the log, in the metrics and
// in the attempts of a decision, and that calls succeed.
func TestServerWithMissingSolver(t *testing.T) {
	server := startServer(t, "--backends=cbc,exact", "--cbc=/nonexistent/cbc")
	logs := server.Logs()
	if !strings.Contains(logs, `"level":"WARN","msg":"backend is missing","backend":"cbc","error":"backend is unavailable: `) {
		t.Errorf("the log has no line about the missing cbc:\n%s", logs)
	}
	for _, backend := range []string{"cbc", "highs"} { // The server does not have the second.
		stdout, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json",
			"--budget=1m", "--backend", backend, "--server", server.Addr)
		if want := "warning: decided by exact, not by " + backend + ": "; !strings.Contains(stderr, want) {
			t.Errorf("stderr is %q; want %q", stderr, want)
		}
		if status != cli.ExitDone || !strings.Contains(stdout, "decided by     exact") ||
			!strings.Contains(stdout, backend+": unavailable after") {
			t.Errorf("exit status %d, stderr %q, stdout %s; want the result of exact and that %s is unavailable", status, stderr, stdout, backend)
		}
	}
	clitest.CheckContains(t, "/metrics", scrape(t, server),
		`elastalloc_backend_up{backend="cbc"} 0`,
		`elastalloc_backend_up{backend="exact"} 1`,
		`elastalloc_fallbacks_total{backend="cbc",outcome="unavailable"} 2`)
}

// TestServerOpensBreaker checks that a solver that always crashes is called five times and not a sixth
// time, and that log, metrics and status page show it.
func TestServerOpensBreaker(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cbc")
	script := "#!/bin/sh\necho Version: 2.10.12\nfor argument; do [ $argument = -solve ] && kill -SEGV $$; done\nexit 0\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, "--backends=cbc,exact", "--cbc="+program)
	for range 8 {
		_, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json", "--budget=1m", "--backend=cbc", "--server", server.Addr)
		if status != cli.ExitDone {
			t.Fatalf("exit status %d, stderr %q", status, stderr)
		}
	}
	clitest.CheckContains(t, "/metrics", scrape(t, server),
		`elastalloc_backend_up{backend="cbc"} 0`,
		`elastalloc_fallbacks_total{backend="cbc",outcome="crashed"} 5`,
		`elastalloc_fallbacks_total{backend="cbc",outcome="unavailable"} 3`)
	clitest.CheckContains(t, "the status page", servertest.Page(t, server, "/"),
		"<b>cbc</b> 2.10.12", "down since ", "5 failed in a row: CBC has no complete solution", "<b>cbc crashed</b> after ")
	wait.For(t, "the log has one message about cbc", func() (bool, string) { // It may be written after the responses.
		logs := server.Logs()
		return strings.Count(logs, `"level":"WARN","msg":"backend circuit is open","backend":"cbc","until":"`) == 1 &&
			strings.Contains(logs, `"failures":5,"cause":"CBC has no complete solution: no solution file; signal: segmentation fault`), logs
	})
}

// TestServerWithSolvers checks that the real solvers are probed and used.
func TestServerWithSolvers(t *testing.T) {
	server := startServer(t, "--backends=exact,cbc,highs",
		"--cbc="+solvertest.Program(t, solver.BackendCBC), "--highs="+solvertest.Program(t, solver.BackendHiGHS))
	for _, backend := range []string{"cbc", "highs"} {
		if logs := server.Logs(); !strings.Contains(logs, `"msg":"backend found","backend":"`+backend+`","version":"`) {
			t.Errorf("the log does not show the version of %s:\n%s", backend, logs)
		}
		if metrics := scrape(t, server); !strings.Contains(metrics, `elastalloc_backend_up{backend="`+backend+`"} 1`) {
			t.Errorf("/metrics does not show that %s is up", backend)
		}
		stdout, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json",
			"--budget=1m", "--backend", backend, "--server", server.Addr)
		if status != cli.ExitDone || !strings.Contains(stdout, "decided by     "+backend) || !strings.Contains(stdout, "proven optimal") {
			t.Errorf("exit status %d, stderr %q, stdout %s; want an optimum of %s", status, stderr, stdout, backend)
		}
	}
}

func TestServerFlagsFromEnvironment(t *testing.T) {
	t.Setenv("ELASTALLOC_MAX_JOBS", "3")
	server := startServer(t)
	_, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json", "--budget=1m", "--server", server.Addr)
	if status != cli.ExitBadInput || !strings.Contains(stderr, "snapshot.jobs: has 4 jobs; must have at most 3") {
		t.Errorf("exit status %d, stderr %q; want the fourth job rejected", status, stderr)
	}
}

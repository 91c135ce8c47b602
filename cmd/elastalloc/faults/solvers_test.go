//go:build linux

package faults

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

const (
	// generous is a time that only a hanging program exceeds, even on a busy machine. It is the budget
	// of decisions that complete by themselves, and the time that callers wait in addition to any
	// budget.
	generous = 2 * time.Minute
	// hangBudget is the budget if the solver hangs, which takes three quarters of it. Another backend
	// proves the optimum in the remaining time.
	hangBudget = 8 * time.Second
	// longestDetail is the maximum length of the detail of an attempt, in bytes.
	longestDetail = 1200
	// memoryGrowth is the maximum growth of the memory of a server during a fault. A decision for 40
	// jobs needs a few megabytes, and the programs below write up to a gigabyte.
	memoryGrowth = 64 << 20
)

// fault is a failure of a solver.
type fault struct {
	name string
	// edit modifies the correct solution that the program has in $SOLUTION.
	edit func(*solved, *solution)
	// script is what the program does to solve the model, in the working directory of the run. The
	// default is writesSolution.
	script string
	// before runs before the solver is called, and during while it runs. Both may be nil.
	before func(t *testing.T, program string)
	during func(t *testing.T, tempDir string)
	// hangs reports that the solver uses all of its time.
	hangs bool
	// outcome and detail are the expected outcome of the attempt and parts of its detail.
	outcome elastallocv1.Outcome
	detail  []string
}

// expectation is the expected attempt.
type expectation struct {
	outcome elastallocv1.Outcome
	detail  []string
}

const (
	answered    = elastallocv1.Outcome_OUTCOME_ANSWERED
	unavailable = elastallocv1.Outcome_OUTCOME_UNAVAILABLE
	timedOut    = elastallocv1.Outcome_OUTCOME_TIMED_OUT
	crashed     = elastallocv1.Outcome_OUTCOME_CRASHED
	invalidPlan = elastallocv1.Outcome_OUTCOME_INVALID_PLAN
)

func TestSolverFaults(t *testing.T) {
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	for _, kind := range solverKinds() {
		for _, f := range solverFaults() {
			t.Run(kind.name+" "+f.name, func(t *testing.T) {
				t.Parallel()
				testFault(t, kind, &f, request, p)
			})
		}
	}
}

// TestMissingSolver checks a program that is missing at the start: the server starts and logs it, and
// another backend decides.
func TestMissingSolver(t *testing.T) {
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	for _, kind := range solverKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := &scene{kind: kind, budget: generous}
			s.server = startServer(t, "--backends="+kind.name+",exact", "--"+kind.name+"=/nonexistent/"+kind.name)
			s.client = newAllocator(t, s.server)
			if logs := s.server.Logs(); !strings.Contains(logs, `"level":"WARN","msg":"backend is missing","backend":"`+kind.name+`"`) {
				t.Errorf("the log has no line about the missing %s:\n%s", kind.name, logs)
			}
			if up, there := metric(t, s.server, `elastalloc_backend_up{backend="`+kind.name+`"}`); up != 0 || !there {
				t.Errorf("elastalloc_backend_up is %v, %v; want 0", up, there)
			}
			response := s.allocate(t, request)
			checkOptimal(t, response, p)
			attempt := checkAttempts(t, response, kind, expectation{unavailable, []string{"/nonexistent/" + kind.name}})
			s.checkFallbacks(t, unavailable)
			t.Log(attempt.GetDetail())
		})
	}
}

// testFault requests a decision of a solver that fails: exact decides instead, the report and the
// metrics show the failure, no process and no file remain, and the solver is used again when it works.
func testFault(t *testing.T, kind solverKind, f *fault, request *elastallocv1.AllocateRequest, p *solved) {
	t.Helper()
	s := startScene(t, kind)
	if f.hangs {
		s.budget = hangBudget
	}
	lied := p.solution(p.optimal)
	if f.edit != nil {
		f.edit(p, lied)
	}
	s.install(t, lied, cmp.Or(f.script, writesSolution))
	if f.before != nil {
		f.before(t, s.program)
	}
	memory := peakMemory(t, s.server.PID())

	var during sync.WaitGroup
	if f.during != nil {
		during.Go(func() { f.during(t, s.tempDir) })
	}
	response := s.allocate(t, request)
	during.Wait()

	want := expectation{f.outcome, f.detail}
	checkOptimal(t, response, p)
	attempt := checkAttempts(t, response, kind, want)
	s.checkFallbacks(t, want.outcome)
	s.checkNothingLeft(t)
	grown := peakMemory(t, s.server.PID()) - memory
	if grown > memoryGrowth {
		t.Errorf("the server used %d MB more; want at most %d MB", grown>>20, memoryGrowth>>20)
	}
	t.Logf("%s after %v, %d KB more memory: %s", outcomeName(attempt.GetOutcome()),
		attempt.GetDuration().AsDuration().Round(time.Millisecond), grown>>10, attempt.GetDetail())

	s.install(t, p.solution(p.optimal), writesSolution)
	response = s.allocate(t, request)
	checkOptimal(t, response, p)
	checkAttempts(t, response, kind, expectation{outcome: answered})
}

// scene is a server with its own solver and its own directory for temporary files.
type scene struct {
	kind    solverKind
	server  *servertest.Server
	client  elastallocv1.AllocatorServiceClient
	program string
	tempDir string
	// budget is the time budget of its decisions.
	budget time.Duration
}

// writesSolution is the script of a solver that works.
const writesSolution = `cp "$SOLUTION" solution.txt`

// startScene starts a server whose solver is installed later.
func startScene(t *testing.T, kind solverKind, flags ...string) *scene {
	t.Helper()
	s := newScene(t, kind)
	s.start(t, flags...)
	return s
}

// newScene returns a scene whose server is not running.
func newScene(t *testing.T, kind solverKind) *scene {
	t.Helper()
	s := &scene{kind: kind, program: filepath.Join(t.TempDir(), kind.name), tempDir: t.TempDir(), budget: generous}
	s.install(t, new(solution), "exit 1") // For the probe.
	return s
}

// start starts the server of a scene. It may be called again after the server has exited.
func (s *scene) start(t *testing.T, flags ...string) {
	t.Helper()
	s.server = startServerWithEnv(t, append(os.Environ(), "TMPDIR="+s.tempDir),
		append([]string{"--backends=" + s.kind.name + ",exact", "--" + s.kind.name + "=" + s.program}, flags...)...)
	s.client = newAllocator(t, s.server)
}

// install replaces the solver atomically by a program that prints the version of the solver and then
// runs the script.
func (s *scene) install(t *testing.T, at *solution, script string) {
	t.Helper()
	var text strings.Builder
	s.kind.write(&text, at)
	path := s.program + ".solution"
	writeFile(t, path, text.String(), 0o600)
	writeFile(t, s.program, strings.Join([]string{
		"#!/bin/sh",
		"echo '" + s.kind.version + "'",
		`[ "$*" = "` + s.kind.versionFlag + `" ] && exit`,
		"SOLUTION=" + path,
		script,
	}, "\n"), 0o700)
}

// writeFile replaces a file atomically. A file that is open for writing cannot be executed, and a child
// process briefly inherits open files, so a lock prevents child processes from starting while the file
// is written.
func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path+".new", []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// allocate requests a decision with the solver. It must succeed before the deadline.
func (s *scene) allocate(t *testing.T, request *elastallocv1.AllocateRequest) *elastallocv1.AllocateResponse {
	t.Helper()
	response, err := s.tryAllocate(t.Context(), request)
	if err != nil {
		t.Fatalf("the call failed: %v; the server's log:\n%s", err, s.server.Logs())
	}
	return response
}

// tryAllocate requests a decision with the solver.
func (s *scene) tryAllocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget+generous)
	defer cancel()
	return s.client.Allocate(ctx, &elastallocv1.AllocateRequest{
		Snapshot: request.GetSnapshot(),
		Options: &elastallocv1.AllocateOptions{
			Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS,
			Backend:   s.kind.backend, TimeBudget: durationpb.New(s.budget),
		},
	})
}

// checkOptimal checks that a decision is the proven optimum.
func checkOptimal(t *testing.T, response *elastallocv1.AllocateResponse, p *solved) {
	t.Helper()
	report := response.GetReport()
	if report.GetReason() != elastallocv1.Reason_REASON_OPTIMAL || !closeTo(report.GetObjective(), p.optimum) {
		t.Errorf("objective %.12g is called %s; want the optimum %.12g, proven",
			report.GetObjective(), report.GetReason(), p.optimum)
	}
}

// checkAttempts checks the backends of the report and returns the attempt of the solver.
func checkAttempts(
	t *testing.T, response *elastallocv1.AllocateResponse, kind solverKind, want expectation,
) *elastallocv1.Attempt {
	t.Helper()
	attempts := response.GetReport().GetAttempts()
	wantAttempts, wantBackend := 2, elastallocv1.Backend_BACKEND_EXACT
	if want.outcome == answered {
		wantAttempts, wantBackend = 1, kind.backend
	}
	if len(attempts) != wantAttempts || response.GetReport().GetBackend() != wantBackend {
		t.Fatalf("%s decided after the attempts %v; want %s after %d", response.GetReport().GetBackend(), attempts, wantBackend, wantAttempts)
	}
	attempt, last := attempts[0], attempts[len(attempts)-1]
	if attempt.GetBackend() != kind.backend || attempt.GetOutcome() != want.outcome {
		t.Errorf("the first attempt is %v; want %s of %s", attempt, want.outcome, kind.name)
	}
	if last.GetBackend() != wantBackend || last.GetOutcome() != answered {
		t.Errorf("the last attempt is %v; want the result of %s", last, wantBackend)
	}
	detail := attempt.GetDetail()
	for _, part := range want.detail {
		if part = strings.ReplaceAll(part, "SOLVER", kind.title); !strings.Contains(detail, part) {
			t.Errorf("the detail %q does not contain %q", detail, part)
		}
	}
	if len(detail) > longestDetail || !utf8.ValidString(detail) || strings.ContainsAny(detail, "\n\x00\x1b") {
		t.Errorf("the detail of %d bytes is not readable: %.300q", len(detail), detail)
	}
	return attempt
}

// checkFallbacks checks that the metrics count a failure of the solver, and that the log warns of a
// broken solver.
func (s *scene) checkFallbacks(t *testing.T, outcome elastallocv1.Outcome) {
	t.Helper()
	for _, o := range []elastallocv1.Outcome{unavailable, timedOut, crashed, invalidPlan} {
		want := 0.0
		if o == outcome {
			want = 1
		}
		series := `elastalloc_fallbacks_total{backend="` + s.kind.name + `", outcome="` + outcomeName(o) + `"}`
		if got, there := metric(t, s.server, series); got != want || !there {
			t.Errorf("%s is %v, %v; want %v", series, got, there, want)
		}
	}
	broken := outcome == crashed || outcome == invalidPlan
	wait.For(t, "the log", func() (bool, string) { // The line may be written after the response.
		warns := strings.Contains(s.server.Logs(), `"msg":"backend is broken","request_id":`)
		return warns == broken, fmt.Sprintf("it warns of a broken backend: %v; want %v:\n%s", warns, broken, s.server.Logs())
	})
}

// outcomeName returns the name of an outcome in the metrics.
func outcomeName(o elastallocv1.Outcome) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(o.String(), "OUTCOME_")), "_", "-")
}

// checkNothingLeft checks that no processes and no files of the solver remain. On a busy machine, a
// process takes some time to exit after SIGKILL.
func (s *scene) checkNothingLeft(t *testing.T) {
	t.Helper()
	wait.For(t, "the end of all processes of the solver", func() (bool, string) {
		left := solverProcesses(t, s.tempDir)
		return len(left) == 0, describe(left)
	})
	files, err := os.ReadDir(s.tempDir)
	if err != nil || len(files) > 0 {
		t.Errorf("files in the folder for temporary files: %v, %v", files, err)
	}
}

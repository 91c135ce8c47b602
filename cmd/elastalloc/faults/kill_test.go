//go:build linux

package faults

import (
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestServerKilled kills a server while its solver runs. The solver is killed too, and the next server removes its
// files.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	s := startScene(t, solverKinds()[0])
	s.install(t, p.solution(p.optimal), "trap '' TERM; exec sleep 1000")
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := s.tryAllocate(t.Context(), request); status.Code(err) != codes.Unavailable {
			t.Errorf("the error of the call in flight is %v; want UNAVAILABLE, which clients retry on another server", err)
		}
	})
	wait.Until(t, "a solver running", func() bool { return len(solverProcesses(t, s.tempDir)) > 0 })
	if err := s.server.Kill(); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	wait.Until(t, "the end of the solver", func() bool { return len(solverProcesses(t, s.tempDir)) == 0 })
	if left, err := os.ReadDir(s.tempDir); err != nil || len(left) != 1 {
		t.Fatalf("the files of the killed server are %v, %v; want the folder of its run", left, err)
	}

	s.start(t)
	s.checkNothingLeft(t)
	if logs := s.server.Logs(); !strings.Contains(logs, `"msg":"removed folders of killed processes","folders":1`) {
		t.Errorf("the log has no line about a removed folder:\n%s", logs)
	}
	s.install(t, p.solution(p.optimal), writesSolution)
	checkAttempts(t, s.allocate(t, request), s.kind, expectation{outcome: answered})
}

// TestServerStartsNextToAnother starts a server on a disk on which another server runs a solver, and checks that the
// folder of this solver is not removed.
func TestServerStartsNextToAnother(t *testing.T) {
	t.Parallel()
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	s := startScene(t, solverKinds()[0])
	started := s.program + ".started"
	s.install(t, p.solution(p.optimal), "while [ ! -e "+started+" ]; do sleep 0.01; done; "+writesSolution)
	var calls sync.WaitGroup
	calls.Go(func() {
		response, err := s.tryAllocate(t.Context(), request)
		if err != nil {
			t.Errorf("the call failed: %v", err)
			return
		}
		if attempts := response.GetReport().GetAttempts(); len(attempts) != 1 || attempts[0].GetOutcome() != answered {
			t.Errorf("the attempts are %v; want the result of the solver", attempts)
		}
	})
	wait.Until(t, "a solver running", func() bool { return len(solverProcesses(t, s.tempDir)) > 0 })
	startServerWithEnv(t, append(os.Environ(), "TMPDIR="+s.tempDir))
	writeFile(t, started, "", 0o600)
	calls.Wait()
	s.checkNothingLeft(t)
}

// TestManyHangingSolvers requests 32 concurrent decisions whose solvers hang and ignore TERM. Another backend decides
// each in time, and no processes or files remain.
func TestManyHangingSolvers(t *testing.T) {
	t.Parallel()
	const calls = 32
	request := randomRequest(40, 70, 1)
	for _, kind := range solverKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := startScene(t, kind, "--max-inflight=64")
			s.budget = hangBudget
			s.install(t, new(solution), "trap '' TERM; (trap '' TERM; exec sleep 1000) & while :; do sleep 1000; done")
			var (
				group    sync.WaitGroup
				mutex    sync.Mutex
				outcomes = map[string]int{}
			)
			for range calls {
				group.Go(func() {
					response, err := s.tryAllocate(t.Context(), request)
					if err != nil {
						t.Errorf("the call failed: %v", err)
						return
					}
					report := response.GetReport()
					attempt := report.GetAttempts()[0]
					// The breaker may have opened.
					if o := attempt.GetOutcome(); attempt.GetBackend() != kind.backend || o != timedOut && o != unavailable {
						t.Errorf("the first attempt is %v; want the attempt of a hanging solver", attempt)
					}
					if report.GetBackend() == kind.backend {
						t.Error("a hanging solver has a result")
					}
					checkPool(t, request, response)
					mutex.Lock()
					defer mutex.Unlock()
					outcomes[outcomeName(attempt.GetOutcome())+" then "+report.GetReason().String()]++
				})
			}
			group.Wait()
			s.checkNothingLeft(t)
			if got, there := metric(t, s.server, "elastalloc_inflight_requests"); got != 0 || !there {
				t.Errorf("elastalloc_inflight_requests is %v, %v; want 0", got, there)
			}
			t.Log(outcomes)
		})
	}
}

// checkPool checks that a decision has an allocation for every job and at most the nodes of the pool.
func checkPool(t *testing.T, request *elastallocv1.AllocateRequest, response *elastallocv1.AllocateResponse) {
	t.Helper()
	snapshot := request.GetSnapshot()
	if got, want := len(response.GetAllocations()), len(snapshot.GetJobs()); got != want {
		t.Errorf("there are %d allocations; want %d", got, want)
	}
	total := int32(0)
	for _, allocation := range response.GetAllocations() {
		total += allocation.GetNodes()
	}
	if total+response.GetReport().GetIdleNodes() != snapshot.GetTotalNodes() {
		t.Errorf("%d nodes are allocated and %d idle; the pool has %d", total, response.GetReport().GetIdleNodes(), snapshot.GetTotalNodes())
	}
}

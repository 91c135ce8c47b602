//go:build linux

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestClockJumps sets the clock of the machine far forward and far back while
// calls run: no call fails, no time is negative or longer than the budget, the
// metrics are plausible, and the server drains. It needs a separate virtual machine,
// which `make clock-jump` starts.
func TestClockJumps(t *testing.T) {
	if os.Getenv("ELASTALLOC_FAULTS_SET_CLOCK") == "" {
		t.Skip("sets the clock of the machine; `make clock-jump` runs it in a virtual machine")
	}
	request := randomRequest(40, 70, 1)
	p := newSolved(t, request)
	s := startScene(t, solverKinds()[0])
	// The budget suffices for another backend after a hanging solver on an emulated, slow machine.
	s.budget = 4 * time.Second
	s.install(t, new(solution), "trap '' TERM; while :; do sleep 1000; done")
	load := startSteadyLoad(t, s, request)

	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "the clock\tcalls\tfailed\tproven\tslowest\tlongest solve\tsolver that hangs meanwhile")
	jumps := []struct {
		name string
		to   func(now time.Time) time.Time
	}{
		{"forward a day", func(now time.Time) time.Time { return now.Add(24 * time.Hour) }},
		{"back two days", func(now time.Time) time.Time { return now.Add(-48 * time.Hour) }},
		// Linux rejects times at which the machine would not have been running.
		{"to 1970", func(time.Time) time.Time { return time.Date(1970, 1, 1, 6, 0, 0, 0, time.UTC) }},
		{"to 2100", func(time.Time) time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }},
	}
	load.await(t, 50)
	load.report(rows, "untouched", "")
	for _, jump := range jumps {
		// The clock jumps during a decision whose solver has to be stopped.
		var hanging sync.WaitGroup
		var ended string
		hanging.Go(func() { ended = requestHanging(t, s, request, p) })
		wait.Until(t, "a solver running", func() bool { return len(solverProcesses(t, s.tempDir)) > 0 })
		setClock(t, jump.to(time.Now()))
		hanging.Wait()
		load.await(t, 50)
		requestByCommand(t, s, request)
		checkTimes(t, s)
		load.report(rows, jump.name, ended)
	}
	load.stop()
	s.checkNothingLeft(t)
	if err := s.server.Stop(); err != nil {
		t.Errorf("after the jumps Stop returned %v; log:\n%s", err, s.server.Logs())
	}
	rows.Flush()
	t.Logf("calls:\n%s", table.String())
}

// setClock sets the wall clock, and checks that it is set.
func setClock(t *testing.T, to time.Time) {
	t.Helper()
	value := syscall.NsecToTimeval(to.UnixNano())
	if err := syscall.Settimeofday(&value); err != nil {
		t.Fatalf("setting the clock to %v: %v", to, err)
	}
	// Compare wall clock times, because Sub uses the monotonic clock.
	if off := time.Now().UnixMilli() - to.UnixMilli(); off < 0 || off > 60_000 {
		t.Fatalf("the clock differs from %v by %d ms", to, off)
	}
}

// requestHanging requests a decision with the hanging solver, and describes the result.
func requestHanging(t *testing.T, s *scene, request *elastallocv1.AllocateRequest, p *solved) string {
	t.Helper()
	response, err := s.tryAllocate(t.Context(), request)
	if err != nil {
		t.Errorf("the call failed: %v", err)
		return ""
	}
	checkOptimal(t, response, p)
	attempt := response.GetReport().GetAttempts()[0]
	took := attempt.GetDuration().AsDuration()
	if attempt.GetOutcome() != timedOut || took <= 0 || took > s.budget {
		t.Errorf("the attempt is %v; want one that timed out within %v", attempt, s.budget)
	}
	return fmt.Sprintf("%s after %v", outcomeName(attempt.GetOutcome()), took.Round(time.Millisecond))
}

// requestByCommand requests a decision from the server with the command line.
func requestByCommand(t *testing.T, s *scene, request *elastallocv1.AllocateRequest) {
	t.Helper()
	text, err := protojson.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "request.json")
	writeFile(t, path, string(text), 0o600)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, binary, "allocate", "--file", path, "--server", s.server.Addr,
		"--backend=exact", "--budget=900ms", "--output=json").CombinedOutput()
	if err != nil || !json.Valid(output) || !strings.Contains(string(output), "REASON_OPTIMAL") {
		t.Errorf("elastalloc allocate: %v, %s", err, output)
	}
}

// checkTimes checks that the times in the metrics are plausible.
func checkTimes(t *testing.T, s *scene) {
	t.Helper()
	const series = `elastalloc_solve_duration_seconds_%s{backend="exact",limit="none",objective="progress"}`
	sum, _ := metric(t, s.server, fmt.Sprintf(series, "sum"))
	count, there := metric(t, s.server, fmt.Sprintf(series, "count"))
	if !there || math.IsNaN(sum) || sum <= 0 || sum > count*s.budget.Seconds() {
		t.Errorf("%v decisions took %v s; want each to take at most %v", count, sum, s.budget)
	}
}

// steadyLoad makes calls continuously and checks each of them.
type steadyLoad struct {
	stop  func()
	calls atomic.Int64

	mutex sync.Mutex
	// seen contains the results since the last report.
	seen struct {
		calls, failed, proven int
		slowest, longestSolve time.Duration
	}
}

// startSteadyLoad starts two callers of the exact backend, until stop is called.
func startSteadyLoad(t *testing.T, s *scene, request *elastallocv1.AllocateRequest) *steadyLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	l := &steadyLoad{}
	l.stop = func() { cancel(); callers.Wait() }
	t.Cleanup(l.stop)
	for range 2 {
		callers.Go(func() {
			for ctx.Err() == nil {
				l.call(ctx, t, s, request)
			}
		})
	}
	return l
}

// call makes one call, with the deadline and the budget that the defaults give it.
func (l *steadyLoad) call(ctx context.Context, t *testing.T, s *scene, request *elastallocv1.AllocateRequest) {
	t.Helper()
	const budget = elastalloc.DefaultBudget
	limited, cancel := context.WithTimeout(ctx, budget+generous)
	defer cancel()
	start := time.Now()
	response, err := s.client.Allocate(limited, request)
	took := time.Since(start)
	if ctx.Err() != nil {
		return // The load has stopped.
	}
	report := response.GetReport()
	solve := report.GetSolveTime().AsDuration()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.seen.calls++
	l.seen.slowest, l.seen.longestSolve = max(l.seen.slowest, took), max(l.seen.longestSolve, solve)
	// On a slow machine, a search may reach its time limit.
	proven := report.GetReason() == elastallocv1.Reason_REASON_OPTIMAL
	if err != nil || solve <= 0 || solve > budget || !proven && took < budget/2 {
		l.seen.failed++
		t.Errorf("the response after %v is %v, %v; want an optimum, or the best plan after %v", took, report, err, budget)
	}
	if proven {
		l.seen.proven++
	}
	l.calls.Add(1)
}

// await waits until some more calls have completed.
func (l *steadyLoad) await(t *testing.T, more int64) {
	t.Helper()
	enough := l.calls.Load() + more
	wait.Until(t, "another 50 calls", func() bool { return l.calls.Load() >= enough })
}

// report writes a row with the results since the last report.
func (l *steadyLoad) report(rows *tabwriter.Writer, name, hanging string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	fmt.Fprintf(rows, "%s\t%d\t%d\t%d\t%v\t%v\t%s\n", name, l.seen.calls, l.seen.failed, l.seen.proven,
		l.seen.slowest.Round(time.Millisecond), l.seen.longestSolve.Round(time.Millisecond), hanging)
	l.seen.calls, l.seen.failed, l.seen.proven, l.seen.slowest, l.seen.longestSolve = 0, 0, 0, 0, 0
}

package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// newPage returns the page of a server under load with the given backends.
func newPage(t *testing.T, backends ...Backend) *Page {
	t.Helper()
	page, err := New(Config{
		Version: "v1", Backends: backends,
		Address: func() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50051} },
		Ready:   func() bool { return true },
		Load: func() ingress.Load {
			return ingress.Load{Inflight: 3, MaxInflight: 3, Queued: 2, MaxQueue: 9, Rejected: 17, Memory: 5<<20 + 1, MaxMemory: 256 << 20}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// text returns the text of the page at a time, without tags and entities.
func (p *Page) text(t *testing.T, now time.Time) string {
	t.Helper()
	var written strings.Builder
	if err := p.page.Execute(&written, p.view(now)); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(written.String(), "<body>")
	var text strings.Builder
	for part := range strings.SplitSeq(body, "<") {
		_, after, _ := strings.Cut(part, ">")
		text.WriteString(" " + after)
	}
	return strings.Join(strings.Fields(html.UnescapeString(text.String())), " ")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	got := newPage(t).text(t, time.Now())
	for _, want := range []string{
		"3 of at most 3", "2 of at most 9", "Rejected for load 17",
		"Memory of calls 6 of at most 256 MiB", "127.0.0.1:50051", "Last responses None since the start.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not contain %q: %s", want, got)
		}
	}
}

func TestBackends(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	since := now.Add(-90 * time.Second)
	for name, test := range map[string]struct {
		state chain.BackendState
		want  string
	}{
		"up": {chain.BackendState{Up: true}, "cbc 2.10 up 0 0 0"},
		"up once more": {
			chain.BackendState{Up: true, Since: since, Failures: 2, Cause: "no matter"}, "up again since 2026-03-01 02:58:30 0 0 0",
		},
		"down": {
			chain.BackendState{Since: since, OpenUntil: now.Add(27 * time.Second), Failures: 5, Cause: "signal: killed"},
			"down since 2026-03-01 02:58:30, next try in 27s 5 failed in a row: signal: killed",
		},
		"before a trial": {
			chain.BackendState{Since: since, OpenUntil: now, Failures: 5, Cause: "x"}, "down since 2026-03-01 02:58:30, the next decision tries it",
		},
		"during a trial": {
			chain.BackendState{Since: since, OpenUntil: now, HalfOpen: true, Failures: 1, Cause: "x"},
			"a decision is trying it now 1 failed in a row: x",
		},
		"missing": {
			chain.BackendState{NeverUp: true, Since: since, OpenUntil: now.Add(time.Second), Cause: "no such file"},
			"missing since 2026-03-01 02:58:30, next try in 1s no such file",
		},
		"control codes": {chain.BackendState{Since: since, Cause: "a\u202eb\x1b[2J<b>"}, `a\u202eb\x1b[2J<b>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := newPage(t, Backend{Name: solver.BackendCBC, Version: "2.10", State: func() chain.BackendState { return test.state }})
			if got := page.text(t, now); !strings.Contains(got, test.want) {
				t.Errorf("the page does not contain %q: %s", test.want, got)
			}
		})
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		report *solver.Report
		want   string
	}{
		"optimal": {
			&solver.Report{Backend: "exact", Reason: solver.ReasonOptimal, Limit: solver.LimitNone,
				RelativeGap: 3e-10, Objective: 19.03, GreedyObjective: 10}, "exact optimal 0% +90.3% 607ms",
		},
		"time limit": {
			&solver.Report{Backend: "exact", Reason: solver.ReasonFeasible, Limit: solver.LimitTime,
				RelativeGap: 0.0012, Objective: 9, GreedyObjective: 10}, "exact feasible, time limit reached 0.12% -10.0%",
		},
		"gap reached": {
			&solver.Report{Backend: "exact", Reason: solver.ReasonFeasible, Limit: solver.LimitGap,
				RelativeGap: 0.01234, Objective: 1, GreedyObjective: 0}, "exact feasible, requested gap reached 1.3% –",
		},
		"no report": {nil, "queue 40 70 607ms"},
		"warnings": {&solver.Report{Backend: "exact", Reason: solver.ReasonOptimal, Warnings: []solver.Warning{
			{Code: solver.WarningNeverFits, JobID: "a"}, {Code: solver.WarningIdleWithQueue}, {Code: solver.WarningNeverFits, JobID: "b"},
		}}, "warnings: 2 × never-fits ( a , b ), idle-with-queue"},
		"fallback": {&solver.Report{Backend: "exact", Reason: solver.ReasonOptimal, Attempts: []solver.Attempt{
			{Backend: "highs", Outcome: solver.OutcomeUnavailable, Detail: "circuit open"},
			{Backend: "cbc", Outcome: solver.OutcomeInvalidPlan, Detail: "<img>", Duration: time.Second},
			{Backend: "exact", Outcome: solver.OutcomeAnswered},
		}}, "highs unavailable after 0s: circuit open cbc invalid plan after 1s: <img>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page := newPage(t)
			event := &ingress.Event{
				Method: "Allocate", Began: now.Add(-65 * time.Second), Total: 607 * time.Millisecond,
				HasSnapshot: true, SnapshotID: "queue", Jobs: 40, Nodes: 70, Outcome: ingress.Outcome{Report: test.report},
			}
			if test.report != nil {
				event.Decision = &solver.Decision{Report: *test.report}
			}
			page.Observe(t.Context(), event)
			got := page.text(t, now)
			for _, want := range []string{"Successful calls 1 since the start", "02:58:55 1m04s ago Allocate queue 40 70", test.want} {
				if !strings.Contains(got, want) {
					t.Errorf("the page does not contain %q: %s", want, got)
				}
			}
		})
	}
}

// TestFailedCallsDoNotHideResponses checks that the last responses are shown after many failed calls, and how a
// failed call is shown.
func TestFailedCallsDoNotHideResponses(t *testing.T) {
	t.Parallel()
	page := newPage(t)
	page.Observe(t.Context(), &ingress.Event{Method: "Allocate", SnapshotID: "successful"})
	for i := range 2 * keptCalls {
		page.Observe(t.Context(), &ingress.Event{
			Method: "Allocate", Caller: "10.0.0.7", RequestID: fmt.Sprint("id-", i), Err: errors.New("bad fields: snapshot.jobs[1].id"),
		})
	}
	got := page.text(t, time.Now())
	for _, want := range []string{
		"Failed calls 100 since the start", " successful ", "Allocate – 10.0.0.7 Unknown id-99 0s bad fields: snapshot.jobs[1].id",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not contain %q: %s", want, got)
		}
	}
	if strings.Contains(got, "id-49 ") || !strings.Contains(got, "id-50 ") {
		t.Errorf("want the last %d failed calls", keptCalls)
	}
}

// TestHistoryIsBounded checks the limits of the history for many decisions with long ids and details.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var h history
	const many = 3*keptCalls + 7
	report := &solver.Report{Backend: solver.BackendExact}
	for range 100 {
		report.Attempts = append(report.Attempts,
			solver.Attempt{Backend: solver.BackendCBC, Outcome: solver.OutcomeCrashed, Detail: strings.Repeat("y", 1<<10)})
	}
	var v view
	for i := range many {
		h.Observe(t.Context(), &ingress.Event{SnapshotID: fmt.Sprint(i, strings.Repeat("x", 1<<20)), Outcome: ingress.Outcome{Report: report}})
		h.recall(&v)
		if v.AnsweredCount != i+1 || len(v.Answered) != min(i+1, keptCalls) {
			t.Fatalf("after %d responses it counts %d and keeps %d", i+1, v.AnsweredCount, len(v.Answered))
		}
		for j := range v.Answered {
			if want := fmt.Sprint(i-j, "x"); !strings.HasPrefix(v.Answered[j].SnapshotID, want) {
				t.Fatalf("response %d from the end is %.10q; want %q", j, v.Answered[j].SnapshotID, want)
			}
		}
	}
	size := 0
	for _, call := range v.Answered {
		size += len(call.SnapshotID)
		for _, attempt := range call.Report.Attempts {
			size += len(attempt.Detail)
		}
	}
	if limit := keptCalls * (1 + keptAttempts) * 210; size > limit {
		t.Errorf("%d bytes of text are kept; want at most %d", size, limit)
	}
	if got := h.recall(&v)[solver.BackendCBC]; got != (tally{Failed: 100 * many}) {
		t.Errorf("tally %+v; want every failure counted", got)
	}
}

// TestHistoryIsShared checks, under the race detector, that calls can complete while the page is shown.
func TestHistoryIsShared(t *testing.T) {
	t.Parallel()
	var h history
	var v view
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				report := &solver.Report{Attempts: []solver.Attempt{{Backend: solver.BackendExact, Outcome: solver.OutcomeAnswered}}}
				h.Observe(t.Context(), &ingress.Event{Outcome: ingress.Outcome{Report: report}})
				h.recall(new(view))
			}
		})
	}
	group.Wait()
	if tallies := h.recall(&v); v.AnsweredCount != 400 || tallies[solver.BackendExact].Answered != 400 {
		t.Errorf("%d responses, %+v; want 400", v.AnsweredCount, tallies)
	}
}

// TestLastDecision checks that the jobs of the last decision are shown with the reasons to wait, changed and waiting
// jobs first, and that the number of jobs is limited.
func TestLastDecision(t *testing.T) {
	t.Parallel()
	decision := solver.Decision{Allocations: []solver.Allocation{
		{JobID: "steady", Current: 4, Nodes: 4, Change: solver.ChangeKeep},
		{JobID: "<b>new", Nodes: 8, NodeType: "a<i>100", Change: solver.ChangeStart},
		{JobID: "next", Change: solver.ChangeWait, WaitReason: solver.WaitBehind, BehindJobID: "large"},
		{JobID: "llama", Current: 2, Change: solver.ChangePreempt, WaitReason: solver.WaitNotWorthIt},
	}}
	page := newPage(t)
	if got := page.text(t, time.Now()); strings.Contains(got, "Last decision") {
		t.Errorf("there is a last decision: %s", got)
	}
	page.Observe(t.Context(), &ingress.Event{SnapshotID: "queue", Outcome: ingress.Outcome{Decision: &decision, Report: &decision.Report}})
	got := page.text(t, time.Now())
	for _, want := range []string{
		"Last decision Job id contains Search queue : first the jobs",
		"<b>new 0 8 a<i>100 start next 0 0 wait behind large llama 2 0 preempt not worth it steady 4 4 keep",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not contain %q: %s", want, got)
		}
	}
	many := solver.Decision{Allocations: make([]solver.Allocation, keptJobs+7)}
	long := strings.Repeat("x", 1<<20)
	for i := range many.Allocations {
		many.Allocations[i] = solver.Allocation{JobID: long, Nodes: 1, Change: solver.ChangeStart}
	}
	page.Observe(t.Context(), &ingress.Event{Outcome: ingress.Outcome{Decision: &many, Report: &many.Report}})
	var v view
	page.recall(&v)
	if len(v.Decided.jobs()) != keptJobs || v.Decided.notKept != 7 || len(v.Decided.jobs()[0].ID) > 210 {
		t.Errorf("%d jobs and %d more, ids of %d bytes; want %d, 7 and few",
			len(v.Decided.jobs()), v.Decided.notKept, len(v.Decided.jobs()[0].ID), keptJobs)
	}
}

// TestHistoryIsSmall checks that a page keeps less than 8 MiB of responses with many groups, warnings, certificates,
// attempts and jobs.
func TestHistoryIsSmall(t *testing.T) {
	page := newPage(t)
	live := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	jobs, before := testtier.Conformance.Examples(10_000, 100_000), live()
	for n := range 2 * keptCalls {
		report := solver.Report{
			Groups: make([]solver.GroupReport, 10_000), NodePrices: make([]float64, 1000), Certificate: make(solver.Certificate, 10_000),
		}
		for range 1000 {
			report.Attempts = append(report.Attempts, solver.Attempt{Outcome: solver.OutcomeCrashed, Detail: strings.Repeat("x", 10_000)})
			report.Warnings = append(report.Warnings, solver.Warning{Code: solver.WarningNeverFits, Message: strings.Repeat("x", 1000)})
		}
		request := &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Jobs: make([]*elastallocv1.Job, jobs)}}
		for i := range request.GetSnapshot().GetJobs() {
			request.Snapshot.Jobs[i] = new(elastallocv1.Job)
		}
		decision := &solver.Decision{Allocations: make([]solver.Allocation, jobs), Report: report}
		page.Observe(t.Context(), &ingress.Event{
			Method: "Allocate", SnapshotID: strings.Repeat("x", 10_000),
			Outcome: ingress.Outcome{Decision: decision, Report: &decision.Report}, Request: request,
			RequestBytes: jobs, Size: guard.NewEstimator(request, 1).Size(bytes.Repeat([]byte("\x0a\x02\x22\x00"), jobs)),
			Err: []error{nil, errors.New(strings.Repeat("x", 10_000))}[n%2],
		})
	}
	if used := live() - before; used > 8<<20 {
		t.Errorf("the page keeps %d bytes; want at most 8 MiB", used)
	}
	runtime.KeepAlive(page)
}

// TestReasonsAreComputedOnce checks that concurrent requests of the page compute the reasons only once, and do not
// wait for them.
func TestReasonsAreComputedOnce(t *testing.T) {
	t.Parallel()
	page := newPage(t)
	looking, found := make(chan struct{}), make(chan struct{})
	page.config.Explain = func(context.Context, Decided, []string) (Insight, bool) {
		close(looking)
		<-found
		return Insight{Reasons: map[string]Reason{"a": {Nodes: 1, Why: solver.WhyOnlySize, Text: "its only size"}}}, true
	}
	decision := &solver.Decision{Allocations: []solver.Allocation{{JobID: "a", Nodes: 1}}}
	page.Observe(t.Context(), &ingress.Event{
		Method: "Allocate", Outcome: ingress.Outcome{Decision: decision, Report: &decision.Report},
		Request: &elastallocv1.AllocateRequest{Snapshot: &elastallocv1.Snapshot{Jobs: []*elastallocv1.Job{{Id: "a"}}}},
	})
	show := func() <-chan string {
		shown := make(chan string, 1)
		go func() {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
			shown <- w.Body.String()
		}()
		return shown
	}
	first := show()
	<-looking
	select {
	case text := <-show():
		if !strings.Contains(text, "not available yet") {
			t.Errorf("the page does not state that there are no reasons yet: %s", text)
		}
	case <-time.After(wait.Timeout):
		t.Error("the page waits for the reasons of another request")
	}
	close(found)
	if text := <-first; !strings.Contains(text, "its only size") {
		t.Errorf("the page lacks the reason: %s", text)
	}
}

// TestSearch checks that the jobs of the last decision are found by a part of their ids, and that they precede the last
// responses on the page.
func TestSearch(t *testing.T) {
	t.Parallel()
	page := newPage(t)
	page.config.Explain = func(context.Context, Decided, []string) (Insight, bool) { return Insight{}, false }
	decision := solver.Decision{}
	for i := range 1000 {
		decision.Allocations = append(decision.Allocations, solver.Allocation{
			JobID: fmt.Sprintf("team-a/<b>/Run-%04d", i), Current: 1, Nodes: 1, Change: solver.ChangeKeep,
		})
	}
	page.Observe(t.Context(), &ingress.Event{Method: "Allocate", Outcome: ingress.Outcome{Decision: &decision, Report: &decision.Report}})
	show := func(target string) string {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self'") {
			t.Errorf("the browser does not send the form: %s", policy)
		}
		return w.Body.String()
	}
	for target, test := range map[string]struct {
		rows int
		want string
	}{
		"/":                          {50, "950 more are not shown"},
		"/?job=run-0999":             {1, "team-a/&lt;b&gt;/Run-0999"},
		"/?job=%20RUN-099%20&paused": {10, `<input type="hidden" name="paused">`},
		"/?job=team-a":               {200, "800 more are not shown"},
		"/?job=<b>/":                 {200, `value="&lt;b&gt;/"`},
		"/?job=none":                 {0, "0 jobs whose id contains <bdi>none</bdi>"},
	} {
		text := show(target)
		got := strings.Count(text, `<td class="n" data-label="next">`)
		if got != test.rows || !strings.Contains(text, test.want) || strings.Contains(text, "<b>/") {
			t.Errorf("%s shows %d jobs; want %d and %q:\n%s", target, got, test.rows, test.want, text)
		}
		if jobs, responses := strings.Index(text, ">Last decision<"), strings.Index(text, ">Last responses<"); jobs < 0 || jobs > responses {
			t.Errorf("%s: the last responses precede the last decision", target)
		}
	}
}

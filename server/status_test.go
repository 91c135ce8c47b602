package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// ask makes a request to admin HTTP and returns the status code and the header.
func (h *harness) ask(t *testing.T, method, path string) (int, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.AdminAddr().String()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode, response.Header
}

// checkPage checks that a page holds every text, written as HTML, in this order.
func checkPage(t *testing.T, page string, texts ...string) {
	t.Helper()
	rest := page
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("the page does not show %q, or not in its place:\n%s", text, page)
		}
		rest = after
	}
}

func TestStatusPageOfAnIdleServer(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.MaxInflight = 64 })
	code, page := h.get(t, "/")
	if code != http.StatusOK {
		t.Fatalf("the status page is %d", code)
	}
	checkPage(t, page,
		`<meta http-equiv="refresh"`, "<title>ready – elastalloc on ", `<span class="good">ready</span>`,
		`href="/metrics"`, `href="/healthz"`, `href="/readyz"`, `href="/debug/pprof/"`, `href="/?paused"`,
		"v0.0.0-test, go1", "UTC", "<b>0</b> of at most 64", "<b>0</b> since the start",
		"<b>exact</b>", `<span class="good">up</span>`,
		"<b>cbc</b>", `<span class="bad">resting since `, "no program",
		"<b>greedy</b>", `<span class="good">up</span>`,
		"None since the start.",
	)
	_, header := h.ask(t, http.MethodGet, "/")
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	digest := sha256.Sum256([]byte(style))
	for name, want := range map[string]string{
		"Content-Type":            "text/html; charset=utf-8",
		"Cache-Control":           "no-store",
		"X-Content-Type-Options":  "nosniff",
		"Content-Security-Policy": "style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "';",
	} {
		if got := header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
	if got := header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; ") {
		t.Errorf("the policy is %q; want it to begin by allowing nothing", got)
	}
	if _, page := h.get(t, "/?paused"); strings.Contains(page, "http-equiv") || !strings.Contains(page, `href="/"`) {
		t.Error("a paused page refreshes itself, or does not lead back")
	}
}

func TestStatusPageIsOnlyAtTheRoot(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodHead, "/", http.StatusOK},
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodDelete, "/", http.StatusMethodNotAllowed},
		{http.MethodGet, "/index.html", http.StatusNotFound},
		{http.MethodGet, "/status", http.StatusNotFound},
		{http.MethodGet, "/favicon.ico", http.StatusNotFound},
	} {
		if code, _ := h.ask(t, test.method, test.path); code != test.want {
			t.Errorf("%s %s is %d; want %d", test.method, test.path, code, test.want)
		}
	}
}

// TestStatusPageShowsDecisions follows a backend that crashes until it rests, with
// decisions of every kind.
func TestStatusPageShowsDecisions(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) {
		config := fakeChainConfig(smallest)
		broken := fakeBackend{name: solver.BackendCBC, solve: func(context.Context, *solver.Problem) (solver.Result, error) {
			return solver.Result{}, errors.New(`it printed "<img src=x onerror=alert(1)>"`)
		}}
		breaker := chain.NewBreaker(broken, chain.BreakerConfig{Failures: 1, OpenTime: time.Hour})
		config.Backends = append(config.Backends, breaker)
		c.Allocator = decider{chain: chain.New(config)}
		c.Backends = []Backend{
			{Name: solver.BackendExact}, {Name: solver.BackendCBC, Version: "2.10.12", State: breaker.State}, {Name: solver.BackendGreedy},
		}
		c.MaxInflight = 7
	})
	for _, change := range []func(*elastallocv1.AllocateRequest){
		func(r *elastallocv1.AllocateRequest) { r.Snapshot.Id = "first" },
		func(r *elastallocv1.AllocateRequest) {
			r.Snapshot.Id, r.Options.Backend = "broken", elastallocv1.Backend_BACKEND_CBC
		},
		func(r *elastallocv1.AllocateRequest) {
			r.Snapshot.Id, r.Options.Backend = "refused", elastallocv1.Backend_BACKEND_CBC
		},
		nil, // The idle nodes are filled.
		func(r *elastallocv1.AllocateRequest) {
			r.Snapshot.Id = "</td><script>alert(1)</script>\u202e\x00" + strings.Repeat("long ", 100)
		},
	} {
		request := proto.CloneOf(smallRequest())
		if change == nil {
			request.Snapshot.Id = "filled"
			if _, err := h.client.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: request.Snapshot}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		change(request)
		if _, err := h.client.Allocate(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	_, page := h.get(t, "/")
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") || strings.ContainsAny(page, "\u202e\x00") || strings.Contains(page, strings.Repeat("long ", 50)) {
		t.Errorf("what callers and programs say is not escaped or not cut:\n%s", page)
	}
	checkPage(t, page,
		"<b>0</b> of at most 7", "<b>5</b> since the start",
		"<b>exact</b>", `data-label="answered">4<`, `data-label="failed">0<`, `data-label="not asked">0<`,
		"<b>cbc</b> 2.10.12", "resting since ", ", next try from ", "1 failure: it printed &#34;&lt;img",
		`data-label="answered">0<`, `class="n warn" data-label="failed">1<`, `data-label="not asked">1<`,
		"<b>greedy</b>", `data-label="answered">0<`,
		"&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;��long ",
		">filled<", `data-label="jobs">2<`, `data-label="nodes">8<`, "filled idle nodes", `data-label="gap">–<`, `data-label="over greedy">–<`,
		">refused<", `data-label="by">exact<`, ">feasible<", `data-label="over greedy">&#43;0.0 %<`,
		"cbc not asked: <bdi>circuit open until ",
		">broken<", `data-label="by">exact<`, "<b>cbc crashed</b> after ", "<bdi>it printed",
		">first<", `data-label="took">`,
	)
}

// TestStatusPageShowsCallsWithoutADecision checks that a request that failed by our
// fault is there, and how to find its cause.
func TestStatusPageShowsCallsWithoutADecision(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) {
		config := fakeChainConfig(smallest)
		config.Backends = nil
		config.Greedy = fakeBackend{name: solver.BackendGreedy, solve: func(context.Context, *solver.Problem) (solver.Result, error) {
			return solver.Result{}, errors.New("a secret")
		}}
		c.Allocator = decider{chain: chain.New(config)}
	})
	if _, err := h.client.Allocate(t.Context(), smallRequest()); err == nil {
		t.Fatal("there is an answer")
	}
	_, page := h.get(t, "/")
	checkPage(t, page, "<b>0</b> since the start", ">small<", `<td colspan="4" class="bad">no decision: error Internal; request id `)
	if strings.Contains(page, "a secret") {
		t.Error("the page shows the cause, which belongs into the log")
	}
}

// TestStatusPageShowsWhoLeft checks that a caller who leaves does not look like a
// fault of ours.
func TestStatusPageShowsWhoLeft(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := start(t, func(c *Config) { c.Allocator = fakeAllocator(g.solve) })
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := h.client.Allocate(ctx, smallRequest())
		left <- err
	}()
	<-g.entered
	leave()
	if err := <-left; err == nil {
		t.Fatal("there is an answer")
	}
	for { // The server hears of it a little later.
		if _, page := h.get(t, "/"); strings.Contains(page, "no decision") {
			checkPage(t, page, ">small<", `class="fill">no decision: the caller left; request id `)
			return
		}
	}
}

func TestStatusPageWhileDraining(t *testing.T) {
	t.Parallel()
	g := newGate()
	h := start(t, func(c *Config) { c.Allocator, c.MaxInflight = fakeAllocator(g.solve), 64 })
	inflight := make(chan error, 1)
	go func() {
		_, err := h.client.Allocate(t.Context(), smallRequest())
		inflight <- err
	}()
	<-g.entered
	_, page := h.get(t, "/")
	checkPage(t, page, ">ready<", "<b>1</b> of at most 64")
	h.stop()
	for {
		if code, _ := h.get(t, "/readyz"); code != http.StatusOK {
			break
		}
	}
	_, page = h.get(t, "/")
	checkPage(t, page, "<title>draining", `<span class="bad">draining: on its way out</span>`, "<b>1</b> of at most 64")
	close(g.open)
	if err := <-inflight; err != nil {
		t.Error(err)
	}
}

// TestStatusPageShowsLoad checks the figures of a queue and of a server that turns
// calls away.
func TestStatusPageShowsLoad(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	page, err := newStatusPage(h.Server)
	if err != nil {
		t.Fatal(err)
	}
	page.load = func() Load { return Load{Inflight: 3, MaxInflight: 3, Queued: 2, MaxQueued: 9, Shed: 17} }
	var text strings.Builder
	if err := page.page.Execute(&text, page.view(time.Now())); err != nil {
		t.Fatal(err)
	}
	checkPage(t, text.String(), `class="warn"><b>3</b> of at most 3`, `class="warn"><b>2</b> of at most 9`, `class="warn"><b>17</b> since the start`)
}

// TestHistoryIsBounded checks what is kept of many decisions with long ids and
// details.
func TestHistoryIsBounded(t *testing.T) {
	h := new(history)
	const many = 3*keptDecisions + 7
	for i := range many {
		request := call{snapshot: &solver.Snapshot{ID: fmt.Sprint(i, strings.Repeat("x", 1<<20))}}
		report := &solver.Report{Backend: solver.BackendExact}
		for range 100 {
			report.Attempts = append(report.Attempts,
				solver.Attempt{Backend: solver.BackendCBC, Outcome: solver.OutcomeCrashed, Detail: strings.Repeat("y", 1<<10)})
		}
		h.remember(t.Context(), time.Now(), request, report, nil)
		last, decided, _ := h.recall()
		if decided != i+1 || len(last) != min(i+1, keptDecisions) {
			t.Fatalf("after %d decisions it knows of %d and keeps %d", i+1, decided, len(last))
		}
		for j := range last {
			if want := fmt.Sprint(i-j, "x"); !strings.HasPrefix(last[j].snapshotID, want) {
				t.Fatalf("decision %d from the end is %.10q; want %q", j, last[j].snapshotID, want)
			}
		}
	}
	last, _, tallies := h.recall()
	size := 0
	for _, d := range last {
		size += len(d.snapshotID)
		for _, a := range d.report.Attempts {
			size += len(a.Detail)
		}
	}
	if most := keptDecisions * (1 + keptFailures) * 210; size > most {
		t.Errorf("%d bytes of text are kept; want at most %d", size, most)
	}
	if got := tallies[solver.BackendCBC]; got != (tally{failed: 100 * many}) {
		t.Errorf("tally %+v; want every failure counted", got)
	}
}

// TestHistoryIsShared checks, under the race detector, that decisions are made while
// the page is shown.
func TestHistoryIsShared(t *testing.T) {
	h := new(history)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				report := &solver.Report{Attempts: []solver.Attempt{{Backend: solver.BackendExact, Outcome: solver.OutcomeAnswered}}}
				h.remember(t.Context(), time.Now(), call{snapshot: new(solver.Snapshot)}, report, nil)
				h.recall()
			}
		})
	}
	group.Wait()
	if _, decided, tallies := h.recall(); decided != 400 || tallies[solver.BackendExact].answered != 400 {
		t.Errorf("%d decisions, %+v; want 400", decided, tallies)
	}
	var nobody *history
	nobody.remember(t.Context(), time.Now(), call{}, nil, nil)
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain-id_1":      "plain-id_1",
		"Größe 大きさ":       "Größe 大きさ",
		"a\u202eb\x1b[2J": "a\uFFFDb\uFFFD[2J",
		"line\nbreak":     "line\uFFFDbreak",
	} {
		if got := html.UnescapeString(printable(in)); got != want {
			t.Errorf("printable(%q) = %q; want %q", in, got, want)
		}
	}
}

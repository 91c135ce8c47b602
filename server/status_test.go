package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// request makes a request to admin HTTP and returns the status code and the header.
func (h *harness) request(t *testing.T, method, path string) (int, http.Header) {
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

// checkPage checks that a page contains the texts, written as HTML, in this order.
func checkPage(t *testing.T, page string, texts ...string) {
	t.Helper()
	rest := page
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("the page does not contain %q in this order:\n%s", text, page)
		}
		rest = after
	}
}

func TestStatusPageOfIdleServer(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.MaxInflight = 64 })
	code, page := h.get(t, "/")
	if code != http.StatusOK {
		t.Fatalf("the status page is %d", code)
	}
	checkPage(t, page,
		`<meta http-equiv="refresh"`, "<title>ready – elastalloc on ", `<span class="good">ready</span>`,
		`href="/metrics"`, `href="/healthz"`, `href="/readyz"`, `href="/debug/pprof/"`, `href="/?paused"`,
		"v0.0.0-test, go1", "UTC", "<b>0</b> of at most 64", "<b>0</b> since the start", "<b>0</b> since the start",
		"<b>exact</b>", `<span class="good">up</span>`,
		"<b>cbc</b>", `<span class="bad">down since `, "no program",
		"<b>greedy</b>", `<span class="good">up</span>`,
		"None since the start.", "None since the start.",
	)
	_, header := h.request(t, http.MethodGet, "/")
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
		t.Errorf("the policy is %q; want it to allow nothing by default", got)
	}
	if _, page := h.get(t, "/?paused"); strings.Contains(page, "http-equiv") || !strings.Contains(page, `href="/"`) {
		t.Error("a paused page refreshes itself, or has no link to continue")
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
		if code, _ := h.request(t, test.method, test.path); code != test.want {
			t.Errorf("%s %s is %d; want %d", test.method, test.path, code, test.want)
		}
	}
}

// TestStatusPageShowsCalls checks that the page shows responses and errors, and escapes texts of callers and
// programs.
func TestStatusPageShowsCalls(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) {
		config := fakeChainConfig(smallest)
		broken := fakeBackend{name: solver.BackendCBC, solve: func(context.Context, *problem.Problem) (problem.Result, error) {
			return problem.Result{}, errors.New(`it printed "<img src=x onerror=alert(1)>"`)
		}}
		config.Backends = append(config.Backends, broken)
		c.Allocator = decider{chain: chain.New(config)}
	})
	request := smallRequest()
	request.Options.Backend = elastallocv1.Backend_BACKEND_CBC
	request.Snapshot.Id = "</td><script>alert(1)</script>\u202e\x00" + strings.Repeat("long ", 40)
	h.allocate(t, request)
	request.Snapshot.Jobs[1].Id = request.GetSnapshot().GetJobs()[0].GetId()
	request.Snapshot.Jobs[1].MaxNodes = new(int32(-1))
	if _, err := h.client.Allocate(t.Context(), request); status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	_, page := h.get(t, "/")
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") ||
		strings.ContainsAny(page, "\u202e\x00") || strings.Contains(page, strings.Repeat("long ", 38)) {
		t.Errorf("texts of callers and programs are not escaped or not truncated:\n%s", page)
	}
	checkPage(t, page,
		"<b>exact</b>", `data-label="succeeded">1<`, `data-label="failed">0<`, "<b>cbc</b>", `class="n warn" data-label="failed">1<`,
		"Last failed calls", ">Allocate</td>", ">InvalidArgument<", "<bdi>bad fields: snapshot.jobs[1]",
		"Last responses", ">Allocate</td>", "&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;",
		`data-label="jobs">2<`, `data-label="nodes">8<`, `data-label="backend">exact<`, ">feasible<",
		`data-label="over greedy">&#43;0.0%<`, "<b>cbc crashed</b> after ", "it printed",
	)
}

func TestStatusPageWhileDraining(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h := start(t, func(c *Config) { c.Allocator, c.MaxInflight = fakeAllocator(g.solveWithoutContext), 64 })
	inflight := h.occupy(t, g)
	_, page := h.get(t, "/")
	checkPage(t, page, ">ready<", "<b>1</b> of at most 64")
	h.stop()
	for {
		if code, _ := h.get(t, "/readyz"); code != http.StatusOK {
			break
		}
	}
	_, page = h.get(t, "/")
	checkPage(t, page, "<title>draining", `<span class="bad">draining</span>`, "<b>1</b> of at most 64")
	close(g.open)
	if err := <-inflight; err != nil {
		t.Error(err)
	}
}

package controller_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/elastalloc/elastalloc/kube/controller"
)

func TestAdmin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	c.passes(8)
	ready := errors.New("not yet")
	admin := controller.Admin(c.registry, func(context.Context) error { return ready }, []*controller.Loop{c.loop})
	ask := func(caller, host, path string) (int, string) {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		r.RemoteAddr, r.Host = caller, host
		admin.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	get := func(path string) (int, string) { return ask("127.0.0.1:4711", "localhost:9464", path) }
	if code, _ := get("/readyz"); code != 503 {
		t.Errorf("not ready is %d", code)
	}
	ready = nil
	for path, want := range map[string]string{
		"/readyz": "ok", "/healthz": "ok", "/metrics": "elastalloc_controller_pool_nodes", "/": "Job/default/long",
	} {
		if code, body := get(path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s is %d: %s", path, code, body)
		}
	}
	for _, want := range []string{": decided; ", "Job/default/short  4      4 "} {
		if _, body := get("/"); !strings.Contains(body, want) {
			t.Errorf("the page is %s; want %q", body, want)
		}
	}
	// Names of jobs, among the pods of a cluster or to a page in a browser.
	for _, from := range [][2]string{
		{"10.0.0.7:4711", "10.0.0.8:9464"}, {"10.0.0.7:4711", "localhost:9464"},
		{"127.0.0.1:4711", "evil.example:9464"}, {"127.0.0.1:4711", ""}, {"", "127.0.0.1"},
	} {
		for _, path := range []string{"/", "/metrics"} {
			if code, body := ask(from[0], from[1], path); code != 200 || strings.Contains(body, "long") || !strings.Contains(body, "training") {
				t.Errorf("%s for %q by %q is %d: %s", path, from[1], from[0], code, body)
			}
		}
	}
	for _, host := range []string{"[::1]:9464", "127.0.0.1"} {
		if _, body := ask("[::1]:4711", host, "/"); !strings.Contains(body, "Job/default/long") {
			t.Errorf("for %q the page is %s", host, body)
		}
	}
	problems, err := testutil.GatherAndLint(c.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}

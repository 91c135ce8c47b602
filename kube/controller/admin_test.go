package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
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
	admin := &controller.Admin{Metrics: c.registry, Ready: func(context.Context) error { return ready }, Loops: []*controller.Loop{c.loop}}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		admin.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return w.Code, w.Body.String()
	}
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
	var decisions struct{ Pools []controller.Report }
	if _, body := get("/decisions"); json.Unmarshal([]byte(body), &decisions) != nil || len(decisions.Pools) != 1 ||
		decisions.Pools[0].Decision.Result != "decided" || !slices.ContainsFunc(decisions.Pools[0].Jobs, func(j controller.JobReport) bool {
		return j.Job == "Job/default/short" && j.Nodes == 4 && *j.Target == 4
	}) {
		t.Errorf("decisions are %s", body)
	}
	problems, err := testutil.GatherAndLint(c.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}

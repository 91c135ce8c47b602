package controller_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/internal/testing/prometheustest"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
)

// TestRules lets a real Prometheus scrape a controller and evaluate the rules of deploy/ without their waiting
// times. Each series that rules and dashboard query must exist. No alert may fire without a fault, and after a
// fault exactly its alerts must fire.
func TestRules(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../../deploy/helm/elastalloc-controller/files/controller.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dashboard, err := os.ReadFile("../../deploy/helm/elastalloc-controller/files/controller.dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var registry atomic.Pointer[prometheus.Registry]
	var lost atomic.Int64
	scraped := func() string {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry.Load(), promhttp.HandlerOpts{}).ServeHTTP(w,
			httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		return w.Body.String()
	}
	start := func(c *cluster) {
		c.start()
		if err := recording.Register(c.registry, func() recording.Stats { return recording.Stats{Failed: lost.Load()} }); err != nil {
			t.Fatal(err)
		}
		registry.Store(c.registry)
	}
	c := newCluster(t, 8,
		worldtest.Job("long", 8, map[string]string{"work": "50000h", "nodes": "4,8"}),
		worldtest.Job("short", 0, map[string]string{"work": "1h", "nodes": "4"}),
	)
	c.now = time.Now()
	start(c)
	c.passes(12)
	c.want(map[string]int{"long": 4, "short": 4})
	address, _ := prometheustest.Start(t, "elastalloc-controller",
		regexp.MustCompile(`for: \d+m`).ReplaceAllString(string(rules), "for: 0s"), scraped)
	connection, err := promapi.NewClient(promapi.Config{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	prometheusAPI := promv1.NewAPI(connection)
	query := func(expr string) (model.Vector, error) {
		answer, _, _, err := prometheusAPI.Query(t.Context(), expr, time.Time{}) // By its own clock.
		if err != nil {
			return nil, err
		}
		vector, ok := answer.(model.Vector)
		if !ok {
			return nil, fmt.Errorf("%s is a %s", expr, answer.Type())
		}
		return vector, nil
	}
	// firing returns the names of the alerts that fire, once rules were evaluated on the last scrape.
	firing := func() []string {
		names := []string{}
		answer, _ := query(`ALERTS{alertstate="firing"}`)
		for _, series := range answer {
			names = append(names, strings.TrimPrefix(string(series.Metric["alertname"]), "ElastallocController"))
		}
		slices.Sort(names)
		return slices.Compact(names)
	}

	asked := regexp.MustCompile(`(elastalloc_[a-z_]+|up)\{[^}]*\}`)
	texts := strings.NewReplacer(`\"`, `"`, "$namespace", ".*", "$pool", ".*",
		"$job", "elastalloc-controller").Replace(string(rules) + string(dashboard))
	for _, selector := range asked.FindAllString(texts, -1) {
		if strings.HasPrefix(selector, "elastalloc_controller_eta_age_seconds{") || strings.Contains(selector, "job=") {
			wait.For(t, "data of "+selector, func() (bool, string) {
				answer, err := query(strings.Replace(selector, " == 1", "", 1))
				return len(answer) > 0, fmt.Sprint(err)
			})
		}
	}
	wait.For(t, "no alert, while all is well", func() (bool, string) { // Before the first scrape it is absent.
		got := firing()
		return len(got) == 0, fmt.Sprintf("%v fire", got)
	})

	// A job with bad annotations; most nodes are gone, and so is the disk of the recording.
	bad := worldtest.Job("bad", 0, map[string]string{"work": "soon"})
	bad.SetResourceVersion("")
	if err := c.client.Create(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	ready := func(status corev1.ConditionStatus) {
		for i := range 5 {
			var node corev1.Node
			if err := c.client.Get(t.Context(), types.NamespacedName{Name: fmt.Sprintf("node-%03d", i)}, &node); err != nil {
				t.Fatal(err)
			}
			node.Status.Conditions[0].Status = status
			if err := c.client.Status().Update(t.Context(), &node); err != nil {
				t.Fatal(err)
			}
		}
	}
	ready(corev1.ConditionUnknown)
	lost.Store(3)
	c.passes(4)
	fires := func(want ...string) {
		t.Helper()
		wait.For(t, "the alerts of what is wrong", func() (bool, string) {
			got := firing()
			return slices.Equal(got, want), fmt.Sprintf("%v fire; want %v", got, want)
		})
	}
	fires("Outage", "Pinned", "RecordingLost") // Pods on nodes that are not ready cost no other node.

	// The nodes are back, and pods stay when they should go: two decisions are given up.
	ready(corev1.ConditionTrue)
	c.linger, c.step = true, time.Minute
	for n := 0; c.count("stuck_total", "") < 2 && n < 20; n++ {
		more := worldtest.Job(fmt.Sprintf("more-%d", n), 0, map[string]string{"work": "1m", "nodes": "4", "weight": fmt.Sprint(100 * (n + 1))})
		more.SetResourceVersion("")
		if err := c.client.Create(t.Context(), more); err != nil {
			t.Fatal(err)
		}
		c.passes(20)
	}
	fires("Pinned", "RecordingLost", "Stuck")

	// Another process, which never gets the lease. What was counted in the last hour stays.
	start(c)
	wait.For(t, "the alert that none acts", func() (bool, string) {
		got := firing()
		return slices.Equal(got, []string{"NoLeader", "RecordingLost", "Stuck"}), fmt.Sprintf("%v fire", got)
	})
}

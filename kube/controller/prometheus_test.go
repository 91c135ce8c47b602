package controller_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/controller"
	"github.com/elastalloc/elastalloc/kube/internal/testing/prometheustest"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
	"github.com/elastalloc/elastalloc/kube/world"
)

// scrapedTimes returns the remaining times of TestPrometheus. All have times: a scrape that a busy machine misses ends the
// series that have none.
func scrapedTimes() string {
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMilli() }
	return fmt.Sprintf(`
left{namespace="default",job_name="now"} 3600 %[1]d
left{namespace="default",job_name="late"} 3600 %[2]d
left{namespace="default",job_name="stale"} 3600 %[3]d
left{namespace="default",job_name="twice",pod="0"} 1 %[1]d
left{namespace="default",job_name="twice",pod="1"} 2 %[1]d
left{namespace="default",job_name="negative"} -1 %[1]d
left{namespace="default",job_name="infinite"} +Inf %[1]d
left{namespace="default",job_name="nan"} NaN %[1]d
left{namespace="elsewhere",job_name="other"} 3600 %[1]d
done{namespace="default",job_name="now"} 0.75 %[1]d
`, ago(0), ago(4*time.Minute), ago(11*time.Minute))
}

// queried is a cluster whose pool has a query.
type queried struct{ *cluster }

// newQueried returns a cluster with the jobs of scrapedTimes after two passes.
func newQueried(t *testing.T, querier controller.Querier, query string, in config.RemainingUnit, annotations map[string]string) queried {
	t.Helper()
	c := newCluster(t, 8)
	for _, name := range []string{"now", "late", "stale", "twice", "negative", "infinite", "nan", "other"} {
		job := worldtest.Job(name, 1, annotations)
		job.SetResourceVersion("")
		if err := c.client.Create(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	c.kubelet()
	c.now = time.Now()
	c.querier, c.pool.RemainingQuery, c.pool.RemainingIn = querier, query, in
	c.start()
	c.passes(2)
	return queried{c}
}

func (c queried) failures() float64 { return c.count("query_failures_total", "") }

// jobs returns the observed jobs by name.
func (c queried) jobs() map[string]*world.Job {
	jobs := make(map[string]*world.Job)
	for _, j := range c.loop.Report().State.Jobs {
		jobs[j.Object.GetName()] = j
	}
	return jobs
}

// TestPrometheus has a real Prometheus scrape remaining times, each of which is used, with
// its age, or leaves its job alone for the reason that the documentation gives.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	address, stop := prometheustest.Start(t, "jobs", "groups: []", scrapedTimes)
	querier, err := controller.NewPrometheus(address, promconfig.DefaultHTTPClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the first scrape", func() (bool, string) {
		samples, err := querier.Query(t.Context(), "done", time.Now())
		return len(samples) > 0, fmt.Sprint(samples, err)
	})
	checkSources(t, newQueried(t, querier, "left # of each job", config.Seconds, nil))

	// Ratios imply that the remaining shares take as long as the completed ones.
	c := newQueried(t, querier, "done", config.Ratio, map[string]string{"work": "8000h"})
	if e := c.jobs()["now"].Estimate; e.Source != world.SourceQuery ||
		e.Remaining < 2000*time.Hour-time.Minute || e.Remaining > 2000*time.Hour {
		t.Errorf("a quarter of 8000h is %v by %s", e.Remaining, e.Source)
	}
	checkFailingQueries(t, querier)
	c = newQueried(t, querier, "left > 1e9", config.Seconds, nil)
	if j := c.jobs()["now"]; j.Estimate.Source != "ended" || c.failures() != 0 {
		t.Errorf("after an empty result a job is estimated by %s and %v queries failed; want completed jobs and none",
			j.Estimate.Source, c.failures())
	}

	// Prometheus stops: its last result stays in use until it is too old.
	c = newQueried(t, querier, "left", config.Seconds, nil)
	stop()
	for _, want := range []string{"query", "ended"} {
		c.now = c.now.Add(6 * time.Minute)
		c.passes(2)
		if j := c.jobs()["now"]; string(j.Estimate.Source)+string(j.Pinned) != want || c.failures() == 0 {
			t.Errorf("without Prometheus a job is %+v, and %v queries failed; want %s", j, c.failures(), want)
		}
	}
}

// checkSources checks which remaining times are used, the reasons why others are not, and their ages.
func checkSources(t *testing.T, c queried) {
	t.Helper()
	jobs := c.jobs()
	for name, want := range map[string]struct{ source, why string }{
		"now": {"query", ""}, "late": {"query", ""},
		"stale":    {"ended", "query: its report is older than 10m0s, and no work is declared"},
		"twice":    {"ended", "no source reports its remaining time"},
		"negative": {"ended", "no source reports its remaining time"},
		"infinite": {"ended", "no source reports its remaining time"},
		"nan":      {"ended", "no source reports its remaining time"},
		"other":    {"ended", "no source reports its remaining time"},
	} {
		j := jobs[name]
		if string(j.Estimate.Source) != want.source || !strings.Contains(j.FallbackReason, want.why) || j.Pinned != "" {
			t.Errorf("%s: %s, %q by %q; want %s, %q", name, j.Pinned, j.FallbackReason, j.Estimate.Source, want.source, want.why)
		}
	}
	if now, late := jobs["now"].Estimate.Age, jobs["late"].Estimate.Age; late < 4*time.Minute || now > late-3*time.Minute {
		t.Errorf("the ages are %v and %v; want about 0 and 4m", now, late)
	}
	if n := c.failures(); n != 0 {
		t.Errorf("%v queries failed; want 0", n)
	}
}

// checkFailingQueries checks that jobs are estimated by their declared work, if they have any, after queries that fail.
func checkFailingQueries(t *testing.T, querier controller.Querier) {
	t.Helper()
	for name, query := range map[string]string{
		"no PromQL": "left(", "a scalar": "1", "a range": "left[5m]", "no labels": "sum(left)",
	} {
		for want, annotations := range map[string]map[string]string{"ended": nil, "work": {"work": "8000h"}} {
			c := newQueried(t, querier, query, config.Seconds, annotations)
			if c.failures() == 0 {
				t.Errorf("%s: no query failed", name)
			}
			for _, j := range c.jobs() {
				if got := string(j.Estimate.Source) + string(j.Pinned); got != want {
					t.Errorf("%s: %s is %s; want %s", name, j.ID, got, want)
				}
			}
		}
	}
}

// TestPrometheusCredentials queries a server that requires a token and has a certificate of its own CA.
func TestPrometheusCredentials(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.Header.Get("Authorization") != "Bearer secret" && (user != "u" || password != "secret") {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"a","job_name":"b"},"value":[1,"60"]}]}}`)
	}))
	t.Cleanup(server.Close)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	secret := file("secret", "secret")
	for text, want := range map[string]string{
		"{address: ADDRESS, tls: {caFile: " + ca + "}, bearerTokenFile: " + secret + "}":                        "",
		"{address: ADDRESS, tls: {caFile: " + ca + "}, basicAuth: {username: u, passwordFile: " + secret + "}}": "",
		"{address: ADDRESS, tls: {insecureSkipVerify: true}, basicAuth: {username: u, password: secret}}":       "",
		"{address: ADDRESS, tls: {caFile: " + ca + "}}":                                                         "401",
		"{address: ADDRESS, bearerTokenFile: " + secret + "}":                                                   "certificate",
	} {
		c, err := config.Parse([]byte("prometheus: "+strings.Replace(text, "ADDRESS", server.URL, 1)+
			"\npools: [{name: p, nodeSelector: {a: b}}]"), []string{"Job"})
		if err != nil {
			t.Fatal(err)
		}
		querier, err := controller.NewPrometheus(c.Prometheus, c.PrometheusClient)
		if err != nil {
			t.Fatal(err)
		}
		samples, err := querier.Query(t.Context(), "left", time.Now())
		if got := fmt.Sprint(err); want == "" && (err != nil || len(samples) != 1) || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %v, error %v; want error %q", text, samples, err, want)
		}
	}
}

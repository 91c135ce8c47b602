package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/metricsdoc"
	"github.com/elastalloc/elastalloc/internal/testing/testcert"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	check := func(want map[string]string) {
		t.Helper()
		for name, value := range want {
			if got, found := h.series(t, name); !found || value != "" && got != value {
				t.Errorf("%s is %q, found %v; want %q", name, got, found, value)
			}
		}
	}
	check(map[string]string{
		`elastalloc_solve_duration_seconds_bucket{backend="exact",limit="time",objective="progress",le="0.0005"}`: "0",
		`elastalloc_solve_duration_seconds_bucket{backend="greedy",limit="none",objective="progress",le="2.5"}`:   "0",
		`elastalloc_relative_gap_count{backend="exact"}`:                                                          "0",
		`elastalloc_gain_over_greedy_ratio_count`:                                                                 "0",
		`elastalloc_greedy_comparisons_total{comparison="not-comparable"}`:                                        "0",
		`elastalloc_fallbacks_total{backend="exact",outcome="invalid-plan"}`:                                      "0",
		`elastalloc_snapshot_jobs_count`:                                                                          "0",
		`elastalloc_snapshot_nodes_count`:                                                                         "0",
		`elastalloc_changes_total{change="scale-down"}`:                                                           "0",
		`elastalloc_resizes_total{reason="lost-capacity"}`:                                                        "0",
		`elastalloc_idle_nodes_count`:                                                                             "0",
		`elastalloc_waiting_jobs_count`:                                                                           "0",
		`elastalloc_warnings_total{code="load-shed-to-greedy"}`:                                                   "0",
		`elastalloc_inflight_requests`:                                                                            "0",
		`elastalloc_shed_total`:                                                                                   "0",
		`elastalloc_solve_duration_seconds_bucket{backend="exact",limit="time",objective="progress",le="0.9"}`:    "0",
		`elastalloc_solve_duration_seconds_bucket{backend="exact",limit="time",objective="progress",le="1"}`:      "0",
		withinSeries("0.9"):                      "0",
		withinSeries("1"):                        "0",
		`elastalloc_backend_up{backend="exact"}`: "1",
		`elastalloc_backend_up{backend="cbc"}`:   "0",
		handledSeries(codes.OK):                  "0",
		handledSeries(codes.InvalidArgument):     "0",
		"go_goroutines":                          "",
		"process_open_fds":                       "",
	})
	if _, page := h.get(t, "/metrics"); !strings.Contains(page, `version="v0.0.0-test"`) ||
		strings.Contains(page, `elastalloc_fallbacks_total{backend="exact",outcome="answered"}`) {
		t.Error("build info is missing or a response is counted as a fallback")
	}

	for range 2 {
		if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.client.Allocate(t.Context(), nil); err == nil {
		t.Fatal("an empty request succeeds")
	}
	if _, err := h.client.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: smallRequest().GetSnapshot()}); err != nil {
		t.Fatal(err)
	}
	h.ingress.Drain()
	if _, err := h.client.Allocate(t.Context(), smallRequest()); status.Code(err) != codes.Unavailable {
		t.Fatalf("while draining the error is %v", err)
	}
	check(map[string]string{
		`elastalloc_solve_duration_seconds_count{backend="exact",limit="none",objective="progress"}`:  "2",
		`elastalloc_solve_duration_seconds_count{backend="greedy",limit="none",objective="progress"}`: "0",
		`elastalloc_relative_gap_count{backend="exact"}`:                                              "2",
		`elastalloc_relative_gap_count{backend="greedy"}`:                                             "0", // FillIdle does not optimize.
		`elastalloc_gain_over_greedy_ratio_sum`:                                                       "2",
		`elastalloc_greedy_comparisons_total{comparison="equal"}`:                                     "2",
		`elastalloc_snapshot_jobs_sum`:                                                                "6",
		`elastalloc_snapshot_nodes_sum`:                                                               "24",
		handledSeries(codes.OK):                                                                       "2",
		handledSeries(codes.InvalidArgument):                                                          "1",
		handledSeries(codes.Unavailable):                                                              "1",
	})
}

// TestGreedyComparison checks which objectives are compared.
func TestGreedyComparison(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		objective, greedy float64
		want              string
		ratio             float64
	}{
		{11, 10, "better", 1.1},
		{10, 10, "equal", 1},
		{10 + 1e-9, 10, "equal", 1 + 1e-10},
		{9, 10, "worse", 0.9},
		{10, 1, "better", 10},
		{1, 10, "worse", 0.1},
		{10.1, 1, "not-comparable", 0},
		{1, 10.1, "not-comparable", 0},
		{-1, -2, "not-comparable", 0},
		{-1, 2, "not-comparable", 0},
		{1, 0, "not-comparable", 0},
		{0, 0, "not-comparable", 0},
		{5, 1e-12, "not-comparable", 0},
		{math.Inf(1), math.Inf(1), "not-comparable", 0},
		{math.NaN(), 1, "not-comparable", 0},
	} {
		if comparison, ratio := compareWithGreedy(c.objective, c.greedy); comparison != c.want || ratio != c.ratio {
			t.Errorf("%v and %v: %s, %v; want %s, %v", c.objective, c.greedy, comparison, ratio, c.want, c.ratio)
		}
	}
}

// TestMetricsNeverFall checks that no count, sum or bucket decreases, and that no sum becomes NaN, whatever the objectives are. Prometheus
// would take a decrease for a restart of the server.
func TestMetricsNeverFall(t *testing.T) {
	t.Parallel()
	objective := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-2, 2),
		rapid.SampledFrom([]float64{0, 1, -1, 1e-300, math.NaN(), math.Inf(1), math.Inf(-1)}))
	rapid.Check(t, func(t *rapid.T) {
		registry := prometheus.NewPedanticRegistry()
		m := newMetrics(registry, "v0.0.0-test", []Backend{
			{Name: "exact", State: func() chain.BackendState { return chain.BackendState{Up: true} }},
		})
		before := totals(t, registry)
		for range rapid.IntRange(1, 10).Draw(t, "decisions") {
			r := solver.Report{
				Backend: "exact", Objective: objective.Draw(t, "objective"), GreedyObjective: objective.Draw(t, "greedy"),
				SolveTime: time.Duration(rapid.IntRange(0, 1e10).Draw(t, "time")), IdleNodes: rapid.IntRange(0, 100).Draw(t, "idle"),
				Attempts: []solver.Attempt{{Backend: "exact", Outcome: solver.OutcomeAnswered}},
			}
			r.Bound = r.Objective + math.Abs(objective.Draw(t, "slack"))
			if r.RelativeGap = solver.RelativeGap(r.Objective, r.Bound); math.IsNaN(r.RelativeGap) {
				r.RelativeGap = 0
			}
			event := &ingress.Event{Jobs: rapid.IntRange(0, 100).Draw(t, "jobs"), Nodes: rapid.IntRange(0, 100).Draw(t, "nodes")}
			event.Decision, event.Report = &solver.Decision{Report: r}, &r
			m.Observe(context.Background(), event)
			after := totals(t, registry)
			for name, value := range before {
				if !(after[name] >= value) {
					t.Fatalf("%s falls from %v to %v after %+v", name, value, after[name], r)
				}
			}
			before = after
		}
	})
}

// totals returns the values of all counters, and the counts, sums and buckets of all histograms, of decisions.
func totals(t *rapid.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	totals := make(map[string]float64)
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "elastalloc_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			name := family.GetName() + fmt.Sprint(metric.GetLabel())
			if c := metric.GetCounter(); c != nil {
				totals[name] = c.GetValue()
			}
			if h := metric.GetHistogram(); h != nil {
				totals[name+" sum"], totals[name+" count"] = h.GetSampleSum(), float64(h.GetSampleCount())
				for _, bucket := range h.GetBucket() {
					totals[fmt.Sprint(name, " up to ", bucket.GetUpperBound())] = float64(bucket.GetCumulativeCount())
				}
			}
		}
	}
	return totals
}

// TestObjectiveLabel checks the label objective.
func TestObjectiveLabel(t *testing.T) {
	t.Parallel()
	h := startReal(t)
	for objective, calls := range map[elastallocv1.Objective]int{
		elastallocv1.Objective_OBJECTIVE_PROGRESS: 1, elastallocv1.Objective_OBJECTIVE_UNSPECIFIED: 2,
	} {
		for range calls {
			request := smallRequest()
			request.Options.Objective = objective
			h.allocate(t, request)
		}
	}
	for objective, want := range map[string]string{"progress": "1", "total-time": "2"} {
		name := `elastalloc_solve_duration_seconds_count{backend="exact",limit="none",objective="` + objective + `"}`
		if got, _ := h.series(t, name); got != want {
			t.Errorf("%s is %q; want %s", name, got, want)
		}
	}
}

// TestDecisionsAreCounted checks that the number of snapshots is the number of decisions, which alerts depend on,
// also for a pool with several node types.
func TestDecisionsAreCounted(t *testing.T) {
	t.Parallel()
	h := startReal(t)
	request := &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{
			NodeTypes: []*elastallocv1.NodeType{{Id: "a100", Nodes: 5}, {Id: "t4", Nodes: 2}},
			Jobs:      []*elastallocv1.Job{{Id: "job", RemainingEta: durationpb.New(time.Hour)}},
		},
		Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
	}
	h.allocate(t, request)
	_, err := h.client.Explain(t.Context(), &elastallocv1.ExplainRequest{Snapshot: request.GetSnapshot(), Options: request.GetOptions()})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"elastalloc_snapshot_jobs_count": "1", "elastalloc_snapshot_nodes_sum": "7"} {
		if got, _ := h.series(t, name); got != want {
			t.Errorf("%s is %q; want %s", name, got, want)
		}
	}
}

// TestOutcomesAreCounted checks the metrics of the changes of jobs by decisions.
func TestOutcomesAreCounted(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.Allocator = fakeAllocator(smallest) })
	r := smallRequest() // A job on 2 of 8 nodes, and a queued job.
	r.Snapshot.Jobs = append(r.Snapshot.Jobs, &elastallocv1.Job{
		Id: "big", RemainingEta: durationpb.New(time.Hour), MinNodes: new(int32(16)),
	})
	if _, err := h.client.Allocate(t.Context(), r); err != nil { // Two jobs get a node each.
		t.Fatal(err)
	}
	if _, err := h.client.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: r.GetSnapshot()}); err != nil { // Nothing changes.
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		`elastalloc_changes_total{change="start"}`:          "1",
		`elastalloc_changes_total{change="scale-down"}`:     "1",
		`elastalloc_changes_total{change="keep"}`:           "1",
		`elastalloc_changes_total{change="wait"}`:           "3",
		`elastalloc_changes_total{change="preempt"}`:        "0",
		`elastalloc_resizes_total{reason="scale-down"}`:     "1",
		`elastalloc_resizes_total{reason="resume"}`:         "0",
		`elastalloc_idle_nodes_count`:                       "2",
		`elastalloc_idle_nodes_sum`:                         "12",
		`elastalloc_waiting_jobs_sum`:                       "3",
		`elastalloc_warnings_total{code="never-fits"}`:      "2",
		`elastalloc_warnings_total{code="idle-with-queue"}`: "1",
		`elastalloc_warnings_total{code="empty-pool"}`:      "0",
		`elastalloc_relative_gap_count{backend="exact"}`:    "1",
	} {
		if got, _ := h.series(t, name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
}

// TestResizesAreCounted checks that decisions of Allocate and FillIdle count the jobs that they resize, and that
// first starts and other methods do not count.
func TestResizesAreCounted(t *testing.T) {
	t.Parallel()
	h := startReal(t)
	job := func(id string, current, size int32, trained time.Duration) *elastallocv1.Job {
		return &elastallocv1.Job{
			Id: id, RemainingEta: durationpb.New(time.Hour), CurrentNodes: current,
			MinNodes: &size, MaxNodes: &size, TrainingTime: durationpb.New(trained),
		}
	}
	grown := &elastallocv1.Snapshot{TotalNodes: 8, Jobs: []*elastallocv1.Job{
		job("keeps", 1, 1, time.Hour), job("grows", 1, 2, time.Hour),
		job("shrinks", 2, 1, time.Hour), job("resumes", 0, 1, time.Hour), job("starts", 0, 1, 0),
	}}
	shrunk := &elastallocv1.Snapshot{TotalNodes: 2, Jobs: []*elastallocv1.Job{job("stays", 2, 2, time.Hour), job("loses", 2, 2, time.Hour)}}
	h.allocate(t, &elastallocv1.AllocateRequest{Snapshot: grown})
	if _, err := h.client.Explain(t.Context(), &elastallocv1.ExplainRequest{Snapshot: grown}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.client.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: shrunk}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		`elastalloc_resizes_total{reason="scale-up"}`:      "1",
		`elastalloc_resizes_total{reason="scale-down"}`:    "1",
		`elastalloc_resizes_total{reason="resume"}`:        "1",
		`elastalloc_resizes_total{reason="move"}`:          "0",
		`elastalloc_resizes_total{reason="pause"}`:         "0",
		`elastalloc_resizes_total{reason="lost-capacity"}`: "1",
		`elastalloc_changes_total{change="scale-up"}`:      "1",
		`elastalloc_changes_total{change="scale-down"}`:    "1",
		`elastalloc_changes_total{change="start"}`:         "2",
		`elastalloc_changes_total{change="preempt"}`:       "1",
	} {
		if got, _ := h.series(t, name); got != want {
			t.Errorf("%s is %q; want %s", name, got, want)
		}
	}
}

func TestHistogramsAreNative(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	families, err := h.config.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "elastalloc_") {
			continue
		}
		for _, series := range family.GetMetric() {
			if histogram := series.GetHistogram(); histogram != nil && (histogram.Schema == nil || len(histogram.GetBucket()) == 0) {
				t.Errorf("%s is not both native and classic", family.GetName())
			}
		}
	}
}

func TestFallbackIsCountedAndLogged(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) {
		c.Allocator = fakeAllocator(func(context.Context, *problem.Problem) (problem.Result, error) {
			return problem.Result{}, errors.New("out of luck")
		})
	})
	got, err := h.client.Allocate(t.Context(), smallRequest())
	if err != nil || got.GetReport().GetBackend() != elastallocv1.Backend_BACKEND_GREEDY {
		t.Fatalf("response is %v, %v", got, err)
	}
	if value, _ := h.series(t, `elastalloc_fallbacks_total{backend="exact",outcome="crashed"}`); value != "1" {
		t.Errorf("%q fallbacks; want 1", value)
	}
	if h.logs.Line(`"level":"WARN"`, `"snapshot_id":"small"`, "out of luck") == "" {
		t.Errorf("the broken backend is not logged:\n%s", h.logs)
	}
}

// TestBreakerGauge checks that the gauge of a backend follows the state of its breaker.
func TestBreakerGauge(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	h := start(t, func(c *Config) {
		state := func() chain.BackendState { return chain.BackendState{Up: works.Load()} }
		c.Backends = []Backend{{Name: solver.BackendExact, State: state}, {Name: solver.BackendGreedy, State: up}}
	})
	for _, up := range []bool{false, true, false} {
		works.Store(up)
		want := map[bool]string{false: "0", true: "1"}[up]
		if value, _ := h.series(t, `elastalloc_backend_up{backend="exact"}`); value != want {
			t.Errorf("up: %t, the gauge is %q", up, value)
		}
	}
}

// TestNamedGroupsAreObserved checks that exactly the groups that the operator names have metrics.
func TestNamedGroupsAreObserved(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, func(c *Config) {
		c.Allocator = allocator
		c.MetricsGroups = []string{"vision", "speech"}
	})
	r := smallRequest()
	r.Options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	r.Snapshot.Groups = []*elastallocv1.Group{{Id: "vision", Quota: 5, Limit: new(int32(2))}, {Id: "other"}}
	for _, job := range r.GetSnapshot().GetJobs() {
		job.GroupId = "vision"
	}
	if _, err := h.client.Allocate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		`elastalloc_group_nodes_sum{group="vision"}`:         "2",
		`elastalloc_group_short_nodes_sum{group="vision"}`:   "3",
		`elastalloc_group_limit_price_count{group="vision"}`: "1",
		`elastalloc_group_nodes_count{group="speech"}`:       "0",
	} {
		if got, _ := h.series(t, name); got != want {
			t.Errorf("%s is %q; want %s", name, got, want)
		}
	}
	if _, page := h.get(t, "/metrics"); strings.Contains(page, `group="other"`) {
		t.Error("a group that the operator did not name has metrics")
	}
}

// TestNamedNodeTypesAreObserved checks that exactly the node types that the operator names have metrics.
func TestNamedNodeTypesAreObserved(t *testing.T) {
	t.Parallel()
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, func(c *Config) {
		c.Allocator = allocator
		c.MetricsNodeTypes = []string{"a100", "h100"}
	})
	r := smallRequest()
	r.Options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	r.Snapshot.TotalNodes, r.Snapshot.NodeTypes = 0, []*elastallocv1.NodeType{{Id: "a100", Nodes: 1000}, {Id: "t4", Nodes: 1}}
	for _, job := range r.GetSnapshot().GetJobs() {
		job.CurrentNodeType = "a100"
		job.Speeds = []*elastallocv1.TypeSpeed{{NodeType: "t4"}}
	}
	if _, err := h.client.Allocate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		`elastalloc_node_type_idle_nodes_sum{node_type="a100"}`:   "1000",
		`elastalloc_node_type_price_sum{node_type="a100"}`:        "0",
		`elastalloc_node_type_price_count{node_type="a100"}`:      "1",
		`elastalloc_node_type_idle_nodes_count{node_type="h100"}`: "0",
	} {
		if got, _ := h.series(t, name); got != want {
			t.Errorf("%s is %q; want %s", name, got, want)
		}
	}
	if _, page := h.get(t, "/metrics"); strings.Contains(page, `node_type="t4"`) {
		t.Error("a node type that the operator did not name has metrics")
	}
}

// TestMetricsAreDocumented compares docs/reference/metrics.md with the metrics of a server with all features.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	id := testcert.New(t, t.TempDir())
	recorder, _ := newRecorder(t)
	h := start(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.MetricsGroups, c.Recorder = id.CertFile, id.KeyFile, []string{"research"}, recorder
		c.MetricsNodeTypes = []string{"a100"}
	})
	metricsdoc.Check(t, "../docs/reference/metrics.md", "elastalloc serve", h.config.Registry)
}

// TestRunbookExplainsWarnings checks that the runbook states what to do about every warning, under the alert for warnings.
func TestRunbookExplainsWarnings(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../deploy/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(runbook), "\n## ElastallocWarnings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, code := range apiconv.Names[elastallocv1.WarningCode]() {
		if !strings.Contains(section, "*"+code+"*") {
			t.Errorf("the section ElastallocWarnings of deploy/runbook.md lacks *%s*", code)
		}
	}
}

// TestOpenMetricsFamilies checks that every family occurs once in OpenMetrics. The family of a counter has its name
// without _total.
func TestOpenMetricsFamilies(t *testing.T) {
	h := start(t, nil)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.AdminAddr().String()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/openmetrics-text") ||
		!strings.HasSuffix(string(page), "# EOF\n") {
		t.Fatalf("the page is of the type %s", kind)
	}
	times := make(map[string]int)
	for line := range strings.Lines(string(page)) {
		if name, found := strings.CutPrefix(line, "# TYPE "); found {
			name, _, _ = strings.Cut(name, " ")
			if times[name]++; times[name] == 2 {
				t.Errorf("the family %s occurs twice", name)
			}
		}
	}
	for _, name := range []string{
		"elastalloc_warnings", "go_memstats_alloc_bytes", "go_memstats_heap_alloc_bytes", "go_memstats_heap_inuse_bytes", "process_open_fds",
	} {
		if times[name] == 0 {
			t.Errorf("the family %s is missing", name)
		}
	}
}

package server

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// metrics are the metrics of the decisions of a server. They are an observer of calls.
type metrics struct {
	solveDuration *prometheus.HistogramVec
	relativeGap   *prometheus.HistogramVec
	gain          prometheus.Histogram
	fallbacks     *prometheus.CounterVec
	snapshotJobs  prometheus.Histogram
	snapshotNodes prometheus.Histogram
	changes       *prometheus.CounterVec
	resizes       *prometheus.CounterVec
	idleNodes     prometheus.Histogram
	waitingJobs   prometheus.Histogram
	warnings      *prometheus.CounterVec
}

// newMetrics registers the metrics of decisions, those of the backends and of the build,
// and those of Go and of the process. All series of the backends exist from the start.
func newMetrics(registry prometheus.Registerer, version string, backends []Backend) *metrics {
	sizes := prometheus.ExponentialBuckets(1, 4, 10)
	fromNone := append([]float64{0}, sizes...)
	auto := promauto.With(registry)
	auto.NewGauge(prometheus.GaugeOpts{
		Name:        "elastalloc_build_info",
		Help:        "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}).Set(1)
	registry.MustRegister(goCollector{collectors.NewGoCollector()}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &metrics{
		solveDuration: auto.NewHistogramVec(histogram("elastalloc_solve_duration_seconds",
			"Time inside the backend that answered, by backend, objective and the limit that ended the search.",
			latencies()), []string{"backend", "objective", "limit"}),
		relativeGap: auto.NewHistogramVec(histogram("elastalloc_relative_gap",
			"Fraction by which the optimum may exceed the answer. Proven optimal is up to 1e-9.",
			[]float64{solver.OptimalGap, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}), []string{"backend"}),
		gain: auto.NewHistogram(histogram("elastalloc_gain_over_greedy_ratio",
			"Objective divided by what greedy would have scored: 1.1 is 10 % more. Only where greedy scores above 0.",
			[]float64{.9, 1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10})),
		fallbacks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "elastalloc_fallbacks_total",
			Help: "Attempts that gave no answer, so that the next backend was asked, by backend and outcome.",
		}, []string{"backend", "outcome"}),
		snapshotJobs:  auto.NewHistogram(histogram("elastalloc_snapshot_jobs", "Jobs in the snapshots decided.", sizes)),
		snapshotNodes: auto.NewHistogram(histogram("elastalloc_snapshot_nodes", "Nodes in the pools of the snapshots decided.", sizes)),
		changes: counters(registry, "elastalloc_changes_total",
			"Jobs in decisions, by what the decision means for them.", "change", apiconv.Names[elastallocv1.Change]()...),
		resizes: counters(registry, "elastalloc_resizes_total",
			"Running and paused jobs whose nodes a decision changes, by reason. First starts are not resizes.", "reason", resizeReasons()...),
		idleNodes:   auto.NewHistogram(histogram("elastalloc_idle_nodes", "Nodes that a decision leaves idle.", fromNone)),
		waitingJobs: auto.NewHistogram(histogram("elastalloc_waiting_jobs", "Jobs that a decision leaves without nodes.", fromNone)),
		warnings: counters(registry, "elastalloc_warnings_total",
			"Warnings in decisions, by code.", "code", apiconv.Names[elastallocv1.WarningCode]()...),
	}
	for _, backend := range backends {
		name := string(backend.Name)
		m.relativeGap.WithLabelValues(name)
		for _, objective := range apiconv.Names[elastallocv1.Objective]() {
			for _, limit := range apiconv.Names[elastallocv1.Limit]() {
				m.solveDuration.WithLabelValues(name, objective, limit)
			}
		}
		for _, outcome := range apiconv.Names[elastallocv1.Outcome]() {
			if outcome != string(solver.OutcomeAnswered) {
				m.fallbacks.WithLabelValues(name, outcome)
			}
		}
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "elastalloc_backend_up",
			Help:        "Whether a backend of this server is asked: 0 while its program is missing or its breaker is open, until an attempt has succeeded.",
			ConstLabels: prometheus.Labels{"backend": name},
		}, func() float64 {
			if backend.State().Up {
				return 1
			}
			return 0
		})
	}
	return m
}

// counters registers counters that differ in a label, whose series exist from the start.
func counters(registry prometheus.Registerer, name, help, label string, values ...string) *prometheus.CounterVec {
	vec := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

// Observe observes a decision. A sampled span in ctx becomes the exemplar of how long the
// search took: from a slow bucket to the trace of a call in it.
func (m *metrics) Observe(ctx context.Context, e *ingress.Event) {
	if e.Err != nil || e.Decision == nil {
		return
	}
	m.snapshotJobs.Observe(float64(e.Jobs))
	m.snapshotNodes.Observe(float64(e.Nodes))
	m.observeOutcome(e.Decision)
	for reason, count := range e.Resizes {
		m.resizes.WithLabelValues(reason).Add(float64(count))
	}
	r := e.Report
	if r == nil {
		return
	}
	observeWithTrace(ctx, m.solveDuration.WithLabelValues(string(r.Backend), string(e.Objective), string(r.Limit)), r.SolveTime.Seconds())
	for _, attempt := range r.Attempts {
		if attempt.Outcome != solver.OutcomeAnswered {
			m.fallbacks.WithLabelValues(string(attempt.Backend), string(attempt.Outcome)).Inc()
		}
	}
	m.relativeGap.WithLabelValues(string(r.Backend)).Observe(r.RelativeGap)
	if r.GreedyObjective > 0 {
		m.gain.Observe(r.Objective / r.GreedyObjective)
	}
}

// observeOutcome observes what a decision does to the jobs.
func (m *metrics) observeOutcome(d *solver.Decision) {
	counts := make(map[solver.Change]int)
	waiting := 0
	for i := range d.Allocations {
		counts[d.Allocations[i].Change]++
		if d.Allocations[i].Nodes == 0 {
			waiting++
		}
	}
	for change, count := range counts {
		m.changes.WithLabelValues(string(change)).Add(float64(count))
	}
	m.idleNodes.Observe(float64(d.Report.IdleNodes))
	m.waitingJobs.Observe(float64(waiting))
	for _, warning := range d.Report.Warnings {
		m.warnings.WithLabelValues(string(warning.Code)).Inc()
	}
}

// registerLoad registers the metrics of a server's load, which ask for it whenever they
// are scraped, so that they and the status page agree.
func registerLoad(registry prometheus.Registerer, load func() ingress.Load) {
	auto := promauto.With(registry)
	gauge := func(name, help string, value func(ingress.Load) int) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(load())) })
	}
	gauge("elastalloc_inflight_requests", "Calls being decided.", func(l ingress.Load) int { return l.Inflight })
	gauge("elastalloc_inflight_limit", "Maximum number of calls decided at once.", func(l ingress.Load) int { return l.MaxInflight })
	gauge("elastalloc_memory_bytes", "Bytes that calls hold, by estimate: received, decoded, work space and answers that are not read.",
		func(l ingress.Load) int { return l.Memory })
	gauge("elastalloc_memory_limit_bytes", "Maximum number of bytes that calls hold.", func(l ingress.Load) int { return l.MaxMemory })
	gauge("elastalloc_queued_requests", "Calls that wait for their turn.", func(l ingress.Load) int { return l.Queued })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "elastalloc_shed_total", Help: "Calls turned away because there were too many.",
	}, func() float64 { return float64(load().Shed) })
}

// latencies are the buckets of times, in seconds. They have the default time budget and the latency
// objective of 1 s as bounds.
func latencies() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, .9, 1, 2.5}
}

// histogram returns the options of a histogram that is both classic, for every scraper,
// and native, for those that support the finer resolution.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// goCollector is the collector of Go's metrics without go_memstats_alloc_bytes, which equals
// go_memstats_heap_alloc_bytes: in OpenMetrics the counter go_memstats_alloc_bytes_total belongs to
// a family of the same name.
type goCollector struct{ prometheus.Collector }

// Describe sends the descriptions of the metrics.
func (c goCollector) Describe(into chan<- *prometheus.Desc) {
	forward(into, c.Collector.Describe, func(d *prometheus.Desc) *prometheus.Desc { return d })
}

// Collect sends the metrics.
func (c goCollector) Collect(into chan<- prometheus.Metric) {
	forward(into, c.Collector.Collect, prometheus.Metric.Desc)
}

// forward sends on what a collector sends, but for go_memstats_alloc_bytes.
func forward[T any](into chan<- T, send func(chan<- T), describe func(T) *prometheus.Desc) {
	sent := make(chan T)
	go func() {
		defer close(sent)
		send(sent)
	}()
	for value := range sent {
		if !strings.Contains(describe(value).String(), `fqName: "go_memstats_alloc_bytes",`) {
			into <- value
		}
	}
}

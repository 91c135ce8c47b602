package server

import (
	"context"
	"math"
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

// metrics is the metrics of decisions. It is an observer of calls.
type metrics struct {
	solveDuration *prometheus.HistogramVec
	relativeGap   *prometheus.HistogramVec
	gain          prometheus.Histogram
	comparisons   *prometheus.CounterVec
	fallbacks     *prometheus.CounterVec
	snapshotJobs  prometheus.Histogram
	snapshotNodes prometheus.Histogram
	changes       *prometheus.CounterVec
	resizes       *prometheus.CounterVec
	idleNodes     prometheus.Histogram
	waitingJobs   prometheus.Histogram
	warnings      *prometheus.CounterVec
}

// newMetrics registers the metrics of decisions, of the backends, of the build, of Go and of the process. All
// series of the backends start at 0.
func newMetrics(registry prometheus.Registerer, version string, backends []Backend) *metrics {
	sizes := prometheus.ExponentialBuckets(1, 4, 10)
	fromNone := append([]float64{0}, sizes...)
	auto := promauto.With(registry)
	auto.NewGauge(prometheus.GaugeOpts{
		Name:        "elastalloc_build_info",
		Help:        "Always 1. The labels are the versions of elastalloc and Go.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	}).Set(1)
	registry.MustRegister(goCollector{collectors.NewGoCollector()}, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &metrics{
		solveDuration: auto.NewHistogramVec(histogram("elastalloc_solve_duration_seconds",
			"Time in the backend that produced the plan, by backend, objective and the limit that stopped the search.",
			latencies()), []string{"backend", "objective", "limit"}),
		relativeGap: auto.NewHistogramVec(histogram("elastalloc_relative_gap",
			"Proven upper bound on the relative improvement that is possible. Up to 1e-9 counts as proven optimal.",
			[]float64{solver.OptimalGap, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}), []string{"backend"}),
		gain: auto.NewHistogram(histogram("elastalloc_gain_over_greedy_ratio",
			"Objective divided by the objective of the greedy baseline: 1.1 is an improvement of 10%. Without decisions that are not comparable.",
			[]float64{.9, 1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10})),
		comparisons: counters(registry, "elastalloc_greedy_comparisons_total",
			"Decisions, by comparison of the objective with the objective of the greedy baseline.", "comparison",
			comparisonBetter, comparisonEqual, comparisonWorse, comparisonNone),
		fallbacks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "elastalloc_fallbacks_total",
			Help: "Calls of a backend that returned no plan, so that the next backend was called, by backend and outcome.",
		}, []string{"backend", "outcome"}),
		snapshotJobs:  auto.NewHistogram(histogram("elastalloc_snapshot_jobs", "Jobs per snapshot.", sizes)),
		snapshotNodes: auto.NewHistogram(histogram("elastalloc_snapshot_nodes", "Nodes per pool.", sizes)),
		changes: counters(registry, "elastalloc_changes_total",
			"Jobs in decisions, by change.", "change", apiconv.Names[elastallocv1.Change]()...),
		resizes: counters(registry, "elastalloc_resizes_total",
			"Running and paused jobs that a decision resizes, by reason. First starts are not resizes.", "reason", resizeReasons()...),
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
			Help:        "0 while the program of the backend is missing or its circuit breaker is open, otherwise 1.",
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

// counters registers a counter with a label. The series of the values start at 0.
func counters(registry prometheus.Registerer, name, help, label string, values ...string) *prometheus.CounterVec {
	vec := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, value := range values {
		vec.WithLabelValues(value)
	}
	return vec
}

// Observe observes a decision. If ctx has a sampled span, its trace is the exemplar of the search time.
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
	comparison, ratio := compareWithGreedy(r.Objective, r.GreedyObjective)
	m.comparisons.WithLabelValues(comparison).Inc()
	if comparison != comparisonNone {
		m.gain.Observe(ratio)
	}
}

// The values of the label comparison.
const (
	comparisonBetter = "better"
	comparisonEqual  = "equal"
	comparisonWorse  = "worse"
	comparisonNone   = "not-comparable"
)

// maxComparable is the largest factor between two comparable objectives. A larger factor means that one of them is almost 0, so
// that a few such ratios would determine the mean.
const maxComparable = 10

// compareWithGreedy compares an objective with the objective of the greedy baseline, and returns their ratio if both are positive
// and differ at most by the factor maxComparable.
func compareWithGreedy(objective, greedy float64) (comparison string, ratio float64) {
	ratio = objective / greedy
	switch {
	case !(objective > 0 && greedy > 0 && ratio >= 1.0/maxComparable && ratio <= maxComparable): // also without NaN
		return comparisonNone, 0
	case math.Abs(ratio-1) <= solver.OptimalGap:
		return comparisonEqual, ratio
	case ratio > 1:
		return comparisonBetter, ratio
	default:
		return comparisonWorse, ratio
	}
}

// observeOutcome observes the allocations and warnings of a decision.
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

// registerLoad registers the metrics of a server's load. They call load at each scrape, so that they agree
// with the status page.
func registerLoad(registry prometheus.Registerer, load func() ingress.Load) {
	auto := promauto.With(registry)
	gauge := func(name, help string, value func(ingress.Load) int) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(load())) })
	}
	gauge("elastalloc_inflight_requests", "Calls in a slot.", func(l ingress.Load) int { return l.Inflight })
	gauge("elastalloc_inflight_limit", "Number of slots (--max-inflight).", func(l ingress.Load) int { return l.MaxInflight })
	gauge("elastalloc_memory_bytes",
		"Estimated memory of all calls: encoded and decoded requests, work space, and responses that are not read.",
		func(l ingress.Load) int { return l.Memory })
	gauge("elastalloc_memory_limit_bytes", "Maximum memory of all calls (--max-memory).", func(l ingress.Load) int { return l.MaxMemory })
	gauge("elastalloc_queued_requests", "Calls that wait for a slot.", func(l ingress.Load) int { return l.Queued })
	auto.NewCounterFunc(prometheus.CounterOpts{
		Name: "elastalloc_shed_total", Help: "Calls rejected for load with RESOURCE_EXHAUSTED.",
	}, func() float64 { return float64(load().Rejected) })
}

// latencies returns the bucket bounds of durations, in seconds. They include the default time budget of 0.9 s
// and the latency objective of 1 s.
func latencies() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, .9, 1, 2.5}
}

// histogram returns the options of a histogram that is both classic and native. Scrapers that support native
// histograms get a finer resolution.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// goCollector collects Go's metrics without go_memstats_alloc_bytes, which is equal to
// go_memstats_heap_alloc_bytes. In OpenMetrics its name collides with the family of the counter
// go_memstats_alloc_bytes_total.
type goCollector struct{ prometheus.Collector }

// Describe sends the descriptions of the metrics.
func (c goCollector) Describe(into chan<- *prometheus.Desc) {
	forward(into, c.Collector.Describe, func(d *prometheus.Desc) *prometheus.Desc { return d })
}

// Collect sends the metrics.
func (c goCollector) Collect(into chan<- prometheus.Metric) {
	forward(into, c.Collector.Collect, prometheus.Metric.Desc)
}

// forward forwards what a collector sends, except go_memstats_alloc_bytes.
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

package server

import (
	"context"
	"errors"
	"runtime"
	"time"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Metrics are the metrics of a server. A nil *Metrics observes nothing.
type Metrics struct {
	solveDuration *prometheus.HistogramVec
	relativeGap   *prometheus.HistogramVec
	gain          prometheus.Histogram
	fallbacks     *prometheus.CounterVec
	snapshotJobs  prometheus.Histogram
	snapshotNodes prometheus.Histogram
	grpc          *grpcprometheus.ServerMetrics
}

// NewMetrics builds the metrics of a server and registers them, together with
// those of gRPC, of Go and of the process. The series of every backend named exist
// from the start. What only a running server has, its load and its certificate, the
// server registers beside them. The error names every metric that the registerer has
// already.
func NewMetrics(registerer prometheus.Registerer, version string, backends []Backend) (*Metrics, error) {
	latencies := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	sizes := prometheus.ExponentialBuckets(1, 4, 10)
	m := &Metrics{
		solveDuration: prometheus.NewHistogramVec(histogram("elastalloc_solve_duration_seconds",
			"Time inside the backend that answered, by backend and by what is known about the answer.",
			latencies), []string{"backend", "reason"}),
		relativeGap: prometheus.NewHistogramVec(histogram("elastalloc_relative_gap",
			"Share by which the optimum may exceed the answer, of rebalancing decisions. Proven optimal is up to 1e-9.",
			[]float64{solver.OptimalGap, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}), []string{"backend"}),
		gain: prometheus.NewHistogram(histogram("elastalloc_gain_over_greedy_ratio",
			"Objective of rebalancing decisions divided by what greedy would have scored: 1.1 is 10 % more. Not observed where greedy scores 0.",
			[]float64{.9, 1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 5, 10})),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "elastalloc_fallbacks_total",
			Help: "Tries that gave no answer, so that the next backend was asked, by backend and outcome.",
		}, []string{"backend", "outcome"}),
		snapshotJobs: prometheus.NewHistogram(histogram("elastalloc_snapshot_jobs",
			"Jobs in the snapshots decided.", sizes)),
		snapshotNodes: prometheus.NewHistogram(histogram("elastalloc_snapshot_nodes",
			"Nodes in the pools of the snapshots decided.", sizes)),
		grpc: grpcprometheus.NewServerMetrics(grpcprometheus.WithServerHandlingTimeHistogram(
			grpcprometheus.WithHistogramBuckets(latencies))),
	}
	buildInfo := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "elastalloc_build_info",
		Help:        "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})

	buildInfo.Set(1)
	all := []prometheus.Collector{
		m.solveDuration, m.relativeGap, m.gain, m.fallbacks, m.snapshotJobs, m.snapshotNodes,
		m.grpc, buildInfo,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	for _, backend := range backends {
		name := string(backend.Name)
		m.relativeGap.WithLabelValues(name)
		for _, reason := range apiconv.Names[elastallocv1.Reason]() {
			m.solveDuration.WithLabelValues(name, reason)
		}
		for _, outcome := range apiconv.Names[elastallocv1.Outcome]() {
			if outcome != string(solver.OutcomeAnswered) {
				m.fallbacks.WithLabelValues(name, outcome)
			}
		}
		all = append(all, backendUp(backend))
	}

	var failed []error
	for _, collector := range all {
		failed = append(failed, registerer.Register(collector))
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return m, nil
}

// addCertificate adds when the certificate that a server shows expires.
func (m *Metrics) addCertificate(registerer prometheus.Registerer, expiry func() time.Time) error {
	return registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "elastalloc_certificate_expiration_timestamp_seconds",
		Help: "When the TLS certificate that is served expires, in seconds since 1970.",
	}, func() float64 { return float64(expiry().Unix()) }))
}

// backendUp returns the gauge of a backend, which asks it for its state whenever it
// is scraped, so that the two cannot differ.
func backendUp(backend Backend) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "elastalloc_backend_up",
		Help:        "Whether a backend of this server is asked: 0 while its program is missing or it rests after failures, until a try has succeeded.",
		ConstLabels: prometheus.Labels{"backend": string(backend.Name)},
	}, func() float64 {
		if backend.state().Up {
			return 1
		}
		return 0
	})
}

// histogram returns the options of a histogram that is both classic, for every
// scraper, and native, for those that take the finer resolution.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// observe observes a decision on a snapshot. One that only fills idle nodes has no
// search, no gap and no gain. A sampled span in ctx becomes the
// exemplar of how long the search took: from a slow bucket to the trace of a call in it.
func (m *Metrics) observe(ctx context.Context, c call, r *solver.Report) {
	if m == nil {
		return
	}
	m.snapshotJobs.Observe(float64(len(c.snapshot.Jobs)))
	m.snapshotNodes.Observe(float64(c.snapshot.TotalNodes))
	if c.filling {
		return
	}
	observeWithTrace(ctx, m.solveDuration.WithLabelValues(string(r.Backend), string(r.Reason)), r.SolveTime.Seconds())
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

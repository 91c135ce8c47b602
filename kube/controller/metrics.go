package controller

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// Metrics are what the controller tells Prometheus.
type Metrics struct {
	moments, changes, stuck, unused, patchErrors, queryFailures *prometheus.CounterVec
	settle                                                      *prometheus.HistogramVec
	nodes, poolNodes, jobs, pinned, etaAge, gap, lastDecision   *prometheus.GaugeVec
	outage                                                      *prometheus.GaugeVec
	objective, greedy                                           *prometheus.GaugeVec
}

// NewMetrics returns metrics that are registered with a registry.
func NewMetrics(registry prometheus.Registerer, mode string) *Metrics {
	register := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: "elastalloc_controller_" + name, Help: help}, append([]string{"pool"}, labels...))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register.NewGaugeVec(prometheus.GaugeOpts{Name: "elastalloc_controller_" + name, Help: help}, append([]string{"pool"}, labels...))
	}
	m := &Metrics{
		moments:       counter("moments_total", "Times to decide, by what brought them about and what became of them.", "trigger", "result"),
		changes:       counter("changes_total", "Jobs resized, by kind and change.", "kind", "change"),
		stuck:         counter("stuck_total", "Times that pods did not go in time: jobs left alone for it, and decisions given up."),
		unused:        counter("unused_total", "Jobs that were found not to use the nodes that they had."),
		patchErrors:   counter("patch_errors_total", "Writes that the API server refused, by its reason.", "kind", "reason"),
		queryFailures: counter("query_failures_total", "Queries of remaining times that failed."),
		settle: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "elastalloc_controller_settle_seconds", Help: "Time from a decision to the last pod of it.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600},
		}, []string{"pool"}),
		nodes:        gauge("nodes", "Nodes of the pool: accepting take new pods, retaining keep their pods and take no new ones, gone run nothing.", "state"),
		poolNodes:    gauge("pool_nodes", "Nodes of the pool by why they are not accepting, and by how jobs use them.", "state"),
		jobs:         gauge("jobs", "Jobs of the pool, by state.", "state"),
		pinned:       gauge("pinned", "Jobs that keep what they hold, by reason.", "reason"),
		etaAge:       gauge("eta_age_seconds", "Age of the oldest remaining time in use, by source.", "source"),
		gap:          gauge("relative_gap", "How much better than the last decision the best one may be, as a share."),
		objective:    gauge("objective", "The objective of the last decision, in its own units."),
		greedy:       gauge("greedy_objective", "The same of the greedy allocator's decision."),
		outage:       gauge("outage", "1 while too many nodes are missing to decide anything, else 0."),
		lastDecision: gauge("last_decision_timestamp_seconds", "When the last decision was made; before the first, when the pool's loop began."),
	}
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version
	}
	register.NewGaugeVec(prometheus.GaugeOpts{
		Name: "elastalloc_controller_info", Help: "1, with the mode and the version.",
	}, []string{"mode", "version"}).WithLabelValues(mode, version).Set(1)
	return m
}

// begin makes the series of a pool whose first increment would otherwise go unseen: a counter
// that appears with 1 has not increased.
func (m *Metrics) begin(pool string, watched []kinds.Kind) {
	m.stuck.WithLabelValues(pool)
	m.unused.WithLabelValues(pool)
	m.queryFailures.WithLabelValues(pool)
	m.outage.WithLabelValues(pool)
	for _, trigger := range []string{triggerStart, triggerCadence, triggerJob, triggerNode, triggerLost, triggerStuck, triggerRetry} {
		for _, result := range []string{resultDecided, resultEmpty, resultFailed, resultRefused, resultOutage} {
			m.moments.WithLabelValues(pool, trigger, result)
		}
	}
	for _, kind := range watched {
		for _, change := range []string{changeStart, changeScaleUp, changeScaleDown, changePreempt} {
			m.changes.WithLabelValues(pool, kind.Name, change)
		}
		for _, reason := range []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonConflict, metav1.StatusReasonUnknown} {
			m.patchErrors.WithLabelValues(pool, kind.Name, string(reason))
		}
	}
}

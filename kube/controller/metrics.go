package controller

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// Metrics are the Prometheus metrics of the controller.
type Metrics struct {
	decisions, changes, stuck, unused, patchErrors, queryFailures        *prometheus.CounterVec
	settle                                                               *prometheus.HistogramVec
	nodes, typeNodes, poolNodes, jobs, pinned, etaAge, gap, lastDecision *prometheus.GaugeVec
	outage                                                               *prometheus.GaugeVec
	objective, greedy                                                    *prometheus.GaugeVec
}

// NewMetrics registers the metrics with a registry.
func NewMetrics(registry prometheus.Registerer, mode string) *Metrics {
	register := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: "elastalloc_controller_" + name, Help: help},
			append([]string{"pool"}, labels...))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return register.NewGaugeVec(prometheus.GaugeOpts{Name: "elastalloc_controller_" + name, Help: help}, append([]string{"pool"}, labels...))
	}
	m := &Metrics{
		decisions:     counter("moments_total", "Decisions, by trigger and result.", "trigger", "result"),
		changes:       counter("changes_total", "Jobs resized, by kind and change.", "kind", "change"),
		stuck:         counter("stuck_total", "Times that pods did not terminate in time: jobs pinned as Stuck, and decisions given up."),
		unused:        counter("unused_total", "Jobs that did not use their nodes."),
		patchErrors:   counter("patch_errors_total", "Writes that the API server refused, by its reason.", "kind", "reason"),
		queryFailures: counter("query_failures_total", "Failed queries of remaining times."),
		settle: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "elastalloc_controller_settle_seconds", Help: "Time from a decision until it is applied completely.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600},
		}, []string{"pool"}),
		nodes: gauge("nodes",
			"Nodes of the pool: accepting nodes accept new pods, retaining nodes keep "+
				"their pods and accept no new ones, gone nodes run no pods.", "state"),
		typeNodes: gauge("type_nodes",
			"Nodes of the pool by node type and state, in pools with node types. The state "+
				"idle counts accepting nodes without a pod of the pool's jobs.", "type", "state"),
		poolNodes:    gauge("pool_nodes", "Nodes of the pool, by the reason why they are not accepting and by their use.", "state"),
		jobs:         gauge("jobs", "Jobs of the pool, by state.", "state"),
		pinned:       gauge("pinned", "Jobs that are not resized, by reason.", "reason"),
		etaAge:       gauge("eta_age_seconds", "Age of the oldest remaining time in use, by source.", "source"),
		gap:          gauge("relative_gap", "Relative optimality gap of the last decision; 0 is proven optimal."),
		objective:    gauge("objective", "Objective value of the last decision, in the units of the objective."),
		greedy:       gauge("greedy_objective", "Objective value of the greedy baseline for the last decision."),
		outage:       gauge("outage", "1 while decisions are suspended because too many nodes are missing, 0 otherwise."),
		lastDecision: gauge("last_decision_timestamp_seconds", "Time of the last decision; before the first decision, start of the pool's loop."),
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

// begin creates the series of a pool with the value 0. Prometheus does not see an increase of a counter whose
// first sample is 1.
func (m *Metrics) begin(pool string, watched []kinds.Kind) {
	m.stuck.WithLabelValues(pool)
	m.unused.WithLabelValues(pool)
	m.queryFailures.WithLabelValues(pool)
	m.outage.WithLabelValues(pool)
	for _, trigger := range []string{triggerStart, triggerCadence, triggerJob, triggerNode, triggerLost, triggerStuck, triggerRetry} {
		for _, result := range []string{resultDecided, resultEmpty, resultFailed, resultRefused, resultOutage} {
			m.decisions.WithLabelValues(pool, trigger, result)
		}
	}
	for _, kind := range watched {
		for _, change := range []string{changeStart, changeScaleUp, changeScaleDown, changePreempt, changeMove} {
			m.changes.WithLabelValues(pool, kind.Name, change)
		}
		for _, reason := range []metav1.StatusReason{
			metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonConflict, metav1.StatusReasonUnknown,
		} {
			m.patchErrors.WithLabelValues(pool, kind.Name, string(reason))
		}
	}
}

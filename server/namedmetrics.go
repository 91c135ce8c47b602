package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// namedMetrics are metrics of the groups, or of the node types, that the operator named. They
// are an observer of calls.
type namedMetrics struct {
	byName map[string][]prometheus.Observer
	// observe has what a decision means for each group or node type in it observed, in the
	// order of the metrics.
	observe func(report *solver.Report, as func(name string, values ...float64))
}

// nodeHistogram and priceHistogram return the options of a histogram of nodes, and of prices.
func nodeHistogram(name, help string) prometheus.HistogramOpts {
	return histogram(name, help, append([]float64{0}, prometheus.ExponentialBuckets(1, 4, 8)...))
}

func priceHistogram(name, help string) prometheus.HistogramOpts {
	return histogram(name, help, []float64{0, .01, .03, .1, .3, 1, 3})
}

// newGroupMetrics registers the metrics of the named groups.
func newGroupMetrics(registerer prometheus.Registerer, names []string) (namedMetrics, error) {
	m := namedMetrics{observe: func(report *solver.Report, as func(string, ...float64)) {
		for _, g := range report.Groups {
			as(g.ID, float64(g.Nodes), float64(g.Short), g.Price)
		}
	}}
	return m.register(registerer, "group", names,
		nodeHistogram("elastalloc_group_nodes", "Nodes that a decision gives a group, of those that --metrics-groups names."),
		nodeHistogram("elastalloc_group_short_nodes", "Nodes that a decision leaves a group short of its quota."),
		priceHistogram("elastalloc_group_limit_price", "What one more node of a group's limit is worth in a decision, in units of the objective."))
}

// newNodeTypeMetrics registers the metrics of the named node types.
func newNodeTypeMetrics(registerer prometheus.Registerer, names []string) (namedMetrics, error) {
	m := namedMetrics{observe: func(report *solver.Report, as func(string, ...float64)) {
		for _, t := range report.NodeTypes {
			as(t.ID, t.Price, float64(t.IdleNodes))
		}
	}}
	return m.register(registerer, "node_type", names,
		priceHistogram("elastalloc_node_type_price", "What one more node of a type is worth in a decision, in units of the objective."),
		nodeHistogram("elastalloc_node_type_idle_nodes", "Nodes of a type that a decision leaves idle, of those that --metrics-node-types names."))
}

// register registers metrics with a label for the names, whose series exist from the start. No
// other name ever has any, whatever callers send.
func (m namedMetrics) register(
	registerer prometheus.Registerer, label string, names []string, all ...prometheus.HistogramOpts,
) (namedMetrics, error) {
	if len(names) == 0 {
		return m, nil
	}
	m.byName = make(map[string][]prometheus.Observer, len(names))
	for _, name := range names {
		m.byName[name] = make([]prometheus.Observer, len(all))
	}
	vecs := make([]prometheus.Collector, len(all))
	for n, options := range all {
		vec := prometheus.NewHistogramVec(options, []string{label})
		for name, metrics := range m.byName {
			metrics[n] = vec.WithLabelValues(name)
		}
		vecs[n] = vec
	}
	return m, register(registerer, vecs...)
}

// Observe observes what a decision means for the named groups or node types in it.
func (m namedMetrics) Observe(_ context.Context, e *ingress.Event) {
	if e.Err != nil || e.Report == nil || len(m.byName) == 0 {
		return
	}
	m.observe(e.Report, func(name string, values ...float64) {
		for n, metric := range m.byName[name] {
			metric.Observe(values[n])
		}
	})
}

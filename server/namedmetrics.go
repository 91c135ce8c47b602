package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// namedMetrics is the metrics of the groups and node types in MetricsGroups and MetricsNodeTypes. Their series
// start at 0. Other ids have no series, so that callers cannot create series. It is an observer of calls.
type namedMetrics struct {
	groupNodes, groupShort, groupPrice, typePrice, typeIdle named
}

// named is histograms by name.
type named map[string]prometheus.Observer

// newNamedMetrics registers the metrics of the named groups and node types.
func newNamedMetrics(registry prometheus.Registerer, groups, nodeTypes []string) namedMetrics {
	nodes := append([]float64{0}, prometheus.ExponentialBuckets(1, 4, 8)...)
	prices := []float64{0, .01, .03, .1, .3, 1, 3}
	metric := func(label string, names []string, name, help string, buckets []float64) named {
		vec := promauto.With(registry).NewHistogramVec(histogram(name, help, buckets), []string{label})
		series := make(named, len(names))
		for _, name := range names {
			series[name] = vec.WithLabelValues(name)
		}
		return series
	}
	return namedMetrics{
		metric("group", groups, "elastalloc_group_nodes", "Nodes of a group in --metrics-groups.", nodes),
		metric("group", groups, "elastalloc_group_short_nodes", "Nodes missing to the quota of a group.", nodes),
		metric("group", groups, "elastalloc_group_limit_price",
			"Value of one additional node of a group's limit, in units of the objective.", prices),
		metric("node_type", nodeTypes, "elastalloc_node_type_price",
			"Value of one additional node of a type, in units of the objective.", prices),
		metric("node_type", nodeTypes, "elastalloc_node_type_idle_nodes",
			"Nodes of a type in --metrics-node-types that a decision leaves idle.", nodes),
	}
}

// observe observes a value of a group or node type, if it is named.
func (n named) observe(name string, value float64) {
	if series := n[name]; series != nil {
		series.Observe(value)
	}
}

// Observe observes the groups and node types of a decision.
func (m namedMetrics) Observe(_ context.Context, e *ingress.Event) {
	if e.Err != nil || e.Report == nil {
		return
	}
	for _, g := range e.Report.Groups {
		m.groupNodes.observe(g.ID, float64(g.Nodes))
		m.groupShort.observe(g.ID, float64(g.Short))
		m.groupPrice.observe(g.ID, g.Price)
	}
	for _, t := range e.Report.NodeTypes {
		m.typePrice.observe(t.ID, t.Price)
		m.typeIdle.observe(t.ID, float64(t.IdleNodes))
	}
}

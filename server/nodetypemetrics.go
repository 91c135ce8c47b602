package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// nodeTypeMetrics are the metrics of the node types that the operator named. They are an
// observer of calls.
type nodeTypeMetrics struct {
	price, idle *prometheus.HistogramVec
	named       map[string]bool
}

// newNodeTypeMetrics registers the metrics of the named node types, whose series exist from the
// start. No other type ever has any, whatever callers send.
func newNodeTypeMetrics(registerer prometheus.Registerer, names []string) (nodeTypeMetrics, error) {
	vec := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(histogram(name, help, buckets), []string{"node_type"})
	}
	m := nodeTypeMetrics{
		price: vec("elastalloc_node_type_price", "What one more node of a type is worth in a decision, in units of the objective.",
			[]float64{0, .01, .03, .1, .3, 1, 3}),
		idle: vec("elastalloc_node_type_idle_nodes", "Nodes of a type that a decision leaves idle, of those that --metrics-node-types names.",
			append([]float64{0}, prometheus.ExponentialBuckets(1, 4, 8)...)),
		named: make(map[string]bool, len(names)),
	}
	if len(names) == 0 {
		return m, nil
	}
	for _, name := range names {
		m.named[name] = true
		m.price.WithLabelValues(name)
		m.idle.WithLabelValues(name)
	}
	return m, register(registerer, m.price, m.idle)
}

// Observe observes what a decision means for the named node types in it.
func (m nodeTypeMetrics) Observe(_ context.Context, e *ingress.Event) {
	if e.Err != nil || e.Report == nil {
		return
	}
	for _, t := range e.Report.NodeTypes {
		if m.named[t.ID] {
			m.price.WithLabelValues(t.ID).Observe(t.Price)
			m.idle.WithLabelValues(t.ID).Observe(float64(t.IdleNodes))
		}
	}
}

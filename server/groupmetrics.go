package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// groupMetrics are the metrics of the groups that the operator named. They are an observer
// of calls.
type groupMetrics struct {
	byGroup map[string]groupHistograms
}

// groupHistograms are the metrics of one group.
type groupHistograms struct{ nodes, short, price prometheus.Observer }

// newGroupMetrics registers the metrics of the named groups, whose series exist from the
// start. No other group ever has any, whatever callers send.
func newGroupMetrics(registerer prometheus.Registerer, names []string) (groupMetrics, error) {
	m := groupMetrics{byGroup: make(map[string]groupHistograms, len(names))}
	if len(names) == 0 {
		return m, nil
	}
	fromNone := append([]float64{0}, prometheus.ExponentialBuckets(1, 4, 8)...)
	vec := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(histogram(name, help, buckets), []string{"group"})
	}
	nodes := vec("elastalloc_group_nodes", "Nodes that a decision gives a group, of those that --metrics-groups names.", fromNone)
	short := vec("elastalloc_group_short_nodes", "Nodes that a decision leaves a group short of its quota.", fromNone)
	price := vec("elastalloc_group_limit_price", "What one more node of a group's limit is worth in a decision, in units of the objective.",
		[]float64{0, .01, .03, .1, .3, 1, 3})
	for _, name := range names {
		m.byGroup[name] = groupHistograms{
			nodes: nodes.WithLabelValues(name), short: short.WithLabelValues(name), price: price.WithLabelValues(name),
		}
	}
	return m, register(registerer, nodes, short, price)
}

// Observe observes what a decision means for the named groups in it.
func (m groupMetrics) Observe(_ context.Context, e *ingress.Event) {
	if e.Err != nil || e.Report == nil || len(m.byGroup) == 0 {
		return
	}
	for _, g := range e.Report.Groups {
		if h, named := m.byGroup[g.ID]; named {
			h.nodes.Observe(float64(g.Nodes))
			h.short.Observe(float64(g.Short))
			h.price.Observe(g.Price)
		}
	}
}

package controller_test

import (
	"testing"

	"github.com/elastalloc/elastalloc/internal/metricsdoc"
	"github.com/elastalloc/elastalloc/internal/recording"
)

// TestMetricsAreDocumented compares docs/reference/metrics.md with the metrics of a controller that has applied a
// decision.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 8, busy()...)
	if err := recording.Register(c.registry, func() recording.Stats { return recording.Stats{} }); err != nil {
		t.Fatal(err)
	}
	c.passes(12)
	metricsdoc.Check(t, "../../docs/reference/metrics.md", "elastalloc-controller", c.registry)
}

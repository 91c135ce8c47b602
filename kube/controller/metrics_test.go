package controller_test

import (
	"testing"

	"github.com/elastalloc/elastalloc/internal/metricsdoc"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/kube/internal/testing/worldtest"
)

// TestMetricsAreDocumented compares docs/reference/metrics.md with the metrics of a controller that has applied a
// decision in a pool with node types.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	jobs := busy()
	for _, job := range jobs {
		worldtest.OnType(job, "a100")
	}
	c := newTypedCluster(t, 8, jobs...)
	if err := recording.Register(c.registry, func() recording.Stats { return recording.Stats{} }); err != nil {
		t.Fatal(err)
	}
	c.passes(12)
	metricsdoc.Check(t, "../../docs/reference/metrics.md", "elastalloc-controller", c.registry)
}

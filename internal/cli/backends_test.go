package cli

import (
	"slices"
	"testing"

	"github.com/elastalloc/elastalloc/solver"
)

func TestBackendsFor(t *testing.T) {
	for requested, want := range map[solver.BackendName][]solver.BackendName{
		"": {"exact"}, "exact": {"exact"}, "greedy": {"exact"}, "cbc": {"exact", "cbc"}, "gurobi": {"exact"},
	} {
		if got := BackendsFor(requested); !slices.Equal(got, want) {
			t.Errorf("BackendsFor(%q) = %q; want %q", requested, got, want)
		}
	}
}

package sim

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNearAnIndependentSimulator compares mean times, in minutes, with those that a
// second simulator, written by somebody else for checking, found on public traces.
func TestNearAnIndependentSimulator(t *testing.T) {
	if testing.Short() {
		t.Skip("whole traces take seconds")
	}
	type mean struct{ queue, total float64 }
	allocator := newAllocator()
	for _, test := range []struct {
		trace           string
		nodes           int
		greedy, optimal mean
	}{
		{"itp_cluster04_50h", 70, mean{33.5, 139}, mean{3.2, 105}},
		{"itp_cluster04_50h", 190, mean{8.3, 56}, mean{1.3, 52}},
		{"helios_venus_may2020_50h", 70, mean{10.4, 210}, mean{2.0, 164}},
	} {
		file, err := os.Open(filepath.Join("../../shared/traces", test.trace+".csv"))
		if err != nil {
			t.Skip("no ../shared/traces beside the checkout")
		}
		defer file.Close()
		trace, err := ReadTrace(file)
		if err != nil {
			t.Fatal(err)
		}
		w := NewWorkload(test.trace, trace, WorkloadOptions{GPUsPerNode: DefaultGPUsPerNode, MinDuration: 5 * time.Minute})
		for name, want := range map[string]mean{"greedy": test.greedy, "optimal": test.optimal} {
			result, err := Run(t.Context(), w, policy(t, name), DefaultConfig(test.nodes), allocator)
			if err != nil {
				t.Fatal(err)
			}
			s := Summarize(result, 0)
			near := func(what string, seconds, minutes float64) {
				// The two readings of the paper differ by seconds here and there.
				if got := seconds / 60; got < 0.95*minutes-0.1 || got > 1.05*minutes+0.1 {
					t.Errorf("%s on %d nodes, %s: mean %s is %.1f min; want about %v", test.trace, test.nodes, name, what, got, minutes)
				}
			}
			near("queueing time", s.MeanQueueSeconds, want.queue)
			near("total time", s.MeanTotalSeconds, want.total)
		}
	}
}

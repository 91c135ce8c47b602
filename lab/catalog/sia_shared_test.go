package catalog

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// TestSiaSetting repeats the setting of Sia on two of its workloads, and compares mean completion times
// with the results of another simulator. The data are not part of the project.
func TestSiaSetting(t *testing.T) {
	if testing.Short() {
		t.Skip("whole traces take seconds")
	}
	const folder = "../../../shared/sia"
	file, err := os.Open(filepath.Join(folder, "speeds.csv"))
	if err != nil {
		t.Skip("no ../shared/sia next to the checkout")
	}
	defer file.Close()
	speeds, err := workloads.ReadSpeeds(file)
	if err != nil {
		t.Fatal(err)
	}
	config := sim.DefaultConfig(64)
	config.NodeTypes = []solver.NodeType{{ID: "aws", Nodes: 24}, {ID: "dgx-ext", Nodes: 16}, {ID: "rtx", Nodes: 24}}
	config.Round = time.Minute
	allocator := newAllocator()
	for _, set := range []string{"philly", "saturn"}[:testtier.Conformance.Examples(1, 2)] {
		text, err := os.ReadFile(filepath.Join(folder, set+"-3.csv"))
		if err != nil {
			t.Fatal(err)
		}
		trace, err := sim.ReadTrace(strings.NewReader(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		w := sim.NewWorkload(set, trace, sim.WorkloadOptions{GPUsPerNode: 1, Speeds: speeds})
		hours := make(map[string]float64)
		for name, want := range resultsOfSia(t, folder, set, "3") {
			result, err := find(t, name).Run(t.Context(), w, config, allocator)
			if err != nil {
				t.Fatal(err)
			}
			hours[name] = meanOf(result, (*sim.JobResult).TotalTime).Hours()
			if unproven := unproven(result); unproven > 0 {
				t.Errorf("%s under %s: %d of %d decisions are not proven", set, name, unproven, len(result.Decisions))
			}
			// If jobs never change their type, the order of submissions has a large effect. The study had neither
			// restart budgets nor a share price.
			tolerance := map[string]float64{"type-kept": 0.25, "type-partitions": 0.05}[name] + 0.03
			if got := hours[name]; got < (1-tolerance)*want || got > (1+tolerance)*want {
				t.Errorf("%s under %s: %.3f h; want about %.3f", set, name, got, want)
			}
		}
		for name, got := range hours {
			if name != "total-time" && hours["total-time"] >= got {
				t.Errorf("%s: total-time %.3f h, %s %.3f; want it below", set, hours["total-time"], name, got)
			}
		}
	}
}

// resultsOfSia returns the mean completion time in hours by policy, from the table in
// the data.
func resultsOfSia(t *testing.T, folder, set, workload string) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	var header []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) > 1 && cells[1] == "total-time" {
			header = cells
		}
		if cells[0] != workload || header == nil || header[0] != set {
			continue
		}
		for i, name := range header[1:] {
			if strings.HasSuffix(name, "*") {
				continue // with other penalties
			}
			if found[name], err = strconv.ParseFloat(cells[i+1], 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(found) != 5 {
		t.Fatalf("the table has %v", found)
	}
	return found
}

// unproven returns the number of decisions that are not proven optimal.
func unproven(r *sim.Result) int {
	count := 0
	for i := range r.Decisions {
		if r.Decisions[i].Reason != solver.ReasonOptimal {
			count++
		}
	}
	return count
}

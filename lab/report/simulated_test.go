package report

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/statistics"
	"github.com/elastalloc/elastalloc/sim"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// simulated returns runs of two jobs on pools of 70 and 90 nodes, each of which takes as many
// minutes as the table has for its policy and pool; total-time pauses every job once.
func simulated(policies ...string) *Simulated {
	minutes := map[string][2]int{
		"total-time": {80, 90}, "total-time-waiting": {95, 96}, "max-min": {100, 100}, "fifo": {300, 85}, "greedy": {120, 120},
	}
	f := &Simulated{GPUsPerNode: 8, Workload: sim.Workload{Name: "trace", Jobs: make([]sim.WorkloadJob, 2), Cut: sim.Cuts{BelowNode: 1}}}
	for i := range f.Workload.Jobs {
		f.Workload.Jobs[i] = sim.WorkloadJob{
			Demand: time.Hour, Work: time.Hour, UserEstimate: time.Hour, RequestedNodes: 1, Fate: sim.OutcomeCompleted,
		}
	}
	for n, nodes := range []int{70, 90} {
		for _, policy := range policies {
			end := time.Duration(minutes[policy][n]) * time.Minute
			run := &sim.Result{Policy: policy, Nodes: nodes}
			for range f.Workload.Jobs {
				job := sim.JobResult{End: end, Resizes: 2, Nodes: []sim.NodesAt{{Nodes: 1}, {At: end}}}
				if policy == "total-time" {
					job.Nodes = []sim.NodesAt{{Nodes: 1}, {At: time.Minute}, {At: 2 * time.Minute, Nodes: 1}, {At: end}}
				}
				run.Jobs = append(run.Jobs, job)
			}
			f.Runs = append(f.Runs, run)
		}
	}
	f.Summary = results.Summarize(f.Runs, policies[0], 1, f.Workload.Cut)
	return f
}

// recorded adds what the cluster did: two jobs, on so many nodes at once.
func (f *Simulated) recorded(nodes int) *Simulated {
	baseline := f.Summary.Baseline()
	f.Workload.Cut.BelowNode = 0 // Otherwise it is not compared.
	for _, pool := range f.Summary.Pools() {
		run := &sim.Result{Policy: catalog.Recorded, Nodes: pool, Utilization: 0.5}
		for i := range f.Workload.Jobs {
			submit := time.Duration(i) * time.Hour
			run.Jobs = append(run.Jobs, sim.JobResult{
				Submit: submit, End: submit + 4*time.Hour, Nodes: []sim.NodesAt{{At: submit, Nodes: nodes / 2}, {At: submit + 4*time.Hour}},
			})
		}
		f.Runs = append(f.Runs, run)
	}
	f.Summary = results.Summarize(f.Runs, baseline, 1, f.Workload.Cut)
	return f
}

// golden returns all that the verdict writes: the lead, the table and the JSON.
func golden(t *testing.T, f *Simulated) string {
	t.Helper()
	f.Conclude()
	text := strings.Join(f.Lead(), "\n") + "\n"
	for _, table := range verdictTable(&f.Summary) {
		text += strings.Join(table.Header, " | ") + "\n"
		for n, row := range table.Rows {
			for i, cell := range row {
				if table.Best[[2]int{n, i}] {
					cell += "*"
				}
				row[i] = cell
			}
			text += strings.Join(row, " | ") + "\n"
		}
	}
	if v := f.Summary.Verdict; v != nil {
		for i := range v.Scenarios {
			v.Scenarios[i].Runs = nil // They are those of the summary.
		}
	}
	for _, value := range []any{f.Summary.Verdict, f.Summary.Conditions} {
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		text += string(encoded) + "\n"
	}
	return text
}

// TestVerdict compares the verdicts about runs with a golden file. The reference is the recorded run on the smallest
// pool with enough nodes, otherwise FIFO, then max-min fair shares.
func TestVerdict(t *testing.T) {
	noisy := simulated("total-time", "max-min")
	noisy.Disturbance, noisy.RestartTime = sim.Disturbance{ETASigma: 0.7}, 3*time.Minute
	noisy.Workload.Jobs[0].UserEstimate *= 3
	few := simulated("total-time", "fifo", "max-min")
	few.Workload.Jobs[1].Shape = sim.Shape{MinNodes: 4, MaxNodes: 4}
	few.Workload.Jobs[1].Submit = 2 * time.Hour
	for _, run := range few.Runs {
		run.Jobs[1].Submit, run.Utilization = 2*time.Hour, map[string]float64{"total-time": 0.9, "fifo": 0.6, "max-min": 0.9}[run.Policy]
	}
	few.Summary = results.Summarize(few.Runs, "fifo", 1, few.Workload.Cut)
	belowNode := simulated("total-time", "max-min", "fifo").recorded(80)
	belowNode.Workload.Cut.BelowNode, belowNode.Summary.Cut.BelowNode = 1, 1
	text := ""
	for _, test := range []struct {
		name string
		of   *Simulated
	}{
		{"all", simulated("greedy", "total-time", "total-time-waiting", "max-min", "fifo")},
		{"what the cluster did", simulated("total-time", "max-min", "fifo").recorded(80)},
		{"more nodes than any pool", simulated("total-time", "max-min", "fifo").recorded(100)},
		{"without references", simulated("total-time", "total-time-waiting")},
		{"a rule is the best", simulated("max-min", "greedy")},
		{"one policy", simulated("total-time")},
		{"ETAs that are wrong, restarts", noisy},
		{"rigid jobs, load, idle nodes", few},
		{"jobs below a node", belowNode},
	} {
		text += "== " + test.name + "\n" + golden(t, test.of)
	}
	file := filepath.Join("testdata", "verdict.golden")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestLeadingSentence checks that the verdict leads with the most careful scenario whose mean is lower than that of
// every reference by at least 1%, and shows all scenarios in a table.
func TestLeadingSentence(t *testing.T) {
	for _, test := range []struct {
		few, noGrowth map[string][2]int // minutes by policy and pool
		want          string
	}{
		{
			map[string][2]int{"total-time": {98, 98}, "max-min": {100, 100}, "fifo": {110, 110}},
			map[string][2]int{"total-time": {99, 97}, "max-min": {100, 100}, "fifo": {120, 120}},
			"If no job has more nodes than it requested, the mean job completion time " +
				"(JCT) of total-time is 18 to 19% lower than fifo, 1 to 3% lower than max-min.",
		},
		{
			map[string][2]int{"total-time": {90, 95}, "max-min": {100, 100}, "fifo": {110, 110}},
			map[string][2]int{"total-time": {100, 100}, "max-min": {100, 100}, "fifo": {120, 120}},
			"If one job in five is elastic, and the others have the nodes that they requested, the mean job " +
				"completion time (JCT) of total-time is 14 to 18% lower than fifo, 5 to 10% lower than max-min.",
		},
		{
			map[string][2]int{"total-time": {90, 120}, "max-min": {100, 100}, "fifo": {110, 110}},
			map[string][2]int{"total-time": {101, 100}, "max-min": {100, 100}, "fifo": {120, 120}},
			"Only with all assumptions of the simulation, the mean job completion time (JCT) " +
				"of total-time is 73% lower to 6% higher than fifo, 10 to 20% lower than max-min.",
		},
	} {
		f := simulated("total-time", "max-min", "fifo")
		f.Conclude()
		f.Summary.Verdict.AddScenario(results.FewElastic, meansOf(test.few))
		f.Summary.Verdict.AddScenario(results.NoGrowth, meansOf(test.noGrowth))
		if got := verdict(&f.Summary, 8)[0]; got != test.want {
			t.Errorf("the verdict leads with\n%s\nwant\n%s", got, test.want)
		}
		if table := scenariosTable(&f.Summary)[0]; len(table.Rows) != 8 || table.Rows[2][0] != results.FewElastic ||
			table.Rows[2][3] != fmt.Sprintf("%d.0", test.few["total-time"][0]) {
			t.Errorf("the table of scenarios is %v", table.Rows)
		}
	}
	f := simulated("total-time", "max-min")
	f.Conclude()
	equal := meansOf(map[string][2]int{"total-time": {100, 100}, "max-min": {100, 100}})
	v := &f.Summary.Verdict
	*v = &results.Verdict{Policy: "total-time", ComparedWith: (*v).ComparedWith}
	(*v).AddScenario(results.AsAssumed, equal)
	(*v).AddScenario(results.NoGrowth, equal)
	got, want := leading(*v)[0], "In no scenario is the mean job completion time (JCT) of total-time lower than under max-min by at least 1%."
	if got != want {
		t.Errorf("the verdict leads with %q; want %q", got, want)
	}
}

// meansOf returns a summary of runs with means in minutes, by policy, on pools of 70 and 90 nodes.
func meansOf(minutes map[string][2]int) *results.Summary {
	s := new(results.Summary)
	for policy, means := range minutes {
		for n, nodes := range []int{70, 90} {
			s.Runs = append(s.Runs, statistics.Summary{Policy: policy, Nodes: nodes, MeanTotalSeconds: 60 * float64(means[n])})
		}
	}
	return s
}

// TestPageMarksTheBest: the page shows the verdict's table before the figure, with the best value of
// each row marked, and every table can be scrolled.
func TestPageMarksTheBest(t *testing.T) {
	f := simulated("total-time", "max-min")
	f.Conclude()
	f.Summary.Origin = &results.Origin{}
	page, err := f.page()
	if err != nil {
		t.Fatal(err)
	}
	files, err := page.Files()
	if err != nil {
		t.Fatal(err)
	}
	text := string(files[Name])
	marked, figure := strings.Index(text, `<td class="best">80.0</td>`), strings.Index(text, "<svg")
	if marked < 0 || figure < marked {
		t.Errorf("the best value is at %d and the figure at %d; want the value first", marked, figure)
	}
	if strings.Contains(text, `<td class="best">100.0</td>`) {
		t.Error("a value that is not the best is marked")
	}
	if !strings.Contains(text, ".numbers {\n  overflow-x: auto;") || !strings.Contains(text, "var(--shadow)") {
		t.Error("a wide table does not scroll visibly")
	}
	if tables, scrolled := strings.Count(text, "<table>"), strings.Count(text, `<div class="numbers" tabindex="0"`); tables != scrolled {
		t.Errorf("%d of %d tables can be scrolled", scrolled, tables)
	}
}

func TestChange(t *testing.T) {
	for want, shares := range map[string][]float64{
		"unchanged": {0.0004, -0.0004}, "0.3% higher": {0.003}, "13 to 31% lower": {-0.31, -0.13, -0.2}, "2% higher": {0.02, 0.021},
		"3% lower to 5% higher": {-0.03, 0.05}, "0 to 31% lower": {-0.31, 0},
	} {
		if got := change(shares...); got != want {
			t.Errorf("%v is %q; want %q", shares, got, want)
		}
	}
}

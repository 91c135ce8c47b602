package experiments

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/workloads"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneNodeEach decides by a simple rule: one node per job while there are free nodes,
// for running jobs first or, for the backend of the optimum, for the shortest jobs first. It reports
// decisions with unprovenAt jobs as not proven.
type oneNodeEach struct{ unprovenAt int }

func (d oneNodeEach) Allocate(
	ctx context.Context, s *solver.Snapshot, o solver.Options,
) (solver.Decision, error) {
	if err := ctx.Err(); err != nil {
		return solver.Decision{}, err
	}
	jobs := s.Jobs
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	exact := o.Backend == solver.BackendExact
	slices.SortStableFunc(order, func(a, b int) int {
		if exact {
			return cmp.Compare(jobs[a].RemainingETA, jobs[b].RemainingETA)
		}
		return -cmp.Compare(jobs[a].CurrentNodes, jobs[b].CurrentNodes)
	})
	nodes := make([]int, len(jobs))
	for n, i := range order {
		if n < s.TotalNodes {
			nodes[i] = 1
		}
	}
	decision := report.DecideNow(s, solver.Nodes(nodes...))
	report := &decision.Report
	report.Reason = solver.ReasonHeuristic
	if exact {
		report.Reason = solver.ReasonOptimal
		if len(jobs) == d.unprovenAt {
			report.Reason, report.RelativeGap = solver.ReasonFeasible, 0.01
		}
	}
	return decision, nil
}

func (d oneNodeEach) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	return d.Allocate(ctx, s, solver.Options{Backend: solver.BackendGreedy})
}

// tiny returns a workload of 120 jobs that are submitted three at a time.
func tiny(_ workloads.SyntheticKind, seed uint64) (sim.Trace, error) {
	var trace sim.Trace
	for i := range 120 {
		trace = append(trace, sim.TraceJob{
			ID:       fmt.Sprint(i),
			Submit:   time.Duration(i/3) * 7 * time.Minute,
			Duration: time.Duration(5+(i*7+int(seed))%11) * time.Minute,
			GPUs:     8,
		})
	}
	return trace, nil
}

func tinyConfig(withTrace bool) Config {
	config := Config{Pools: []int{3, 4, 150}, Seeds: 2, Generate: tiny, GPUsPerNode: 8, Workers: 2}
	if withTrace {
		config.Trace, _ = tiny(workloads.Baseline, 9)
		config.TraceName = "some<trace>"
	}
	return config
}

func runAll(t *testing.T, config Config, allocator sim.Allocator) *Results {
	t.Helper()
	results, err := Run(t.Context(), config, allocator, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestRunCounts(t *testing.T) {
	config := tinyConfig(true)
	var calls, last int
	results, err := Run(t.Context(), config, oneNodeEach{}, func(done, all int) {
		if calls++; done != calls {
			t.Errorf("call %d reports %d as done", calls, done)
		}
		last = all
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls != last {
		t.Errorf("%d of %d runs were reported", calls, last)
	}
	rows := make(map[rowKey]Row)
	for _, e := range results.Experiments {
		for _, row := range e.Rows {
			rows[rowKey{row.Setting, row.Source, row.Policy, row.Nodes}] = row
		}
	}
	for _, setting := range settings() {
		for _, source := range []Source{Synthetic, Trace} {
			for _, policy := range setting.Policies {
				for _, nodes := range config.Pools {
					key := rowKey{setting.Name, source, policy, nodes}
					checkRow(t, setting, key, rows[key])
				}
			}
		}
	}
	if p := results.Proof; p.Proven != p.Decisions || p.Decisions == 0 || len(p.Unproven) != 0 {
		t.Errorf("%d of %d decisions proven, %d kept", p.Proven, p.Decisions, len(p.Unproven))
	}
}

// rowKey identifies a row of the results.
type rowKey struct {
	setting string
	source  Source
	policy  string
	nodes   int
}

// checkRow checks the counts of a row, and which comparisons it has.
func checkRow(t *testing.T, setting setting, key rowKey, row Row) {
	t.Helper()
	runs := 2
	if key.source == Trace && setting.Disturbance == (sim.Disturbance{}) {
		runs = 1 // There is nothing random in it.
	}
	if row.Runs != runs || row.Jobs != 120 || row.Decisions == 0 {
		t.Errorf("%+v: %d runs of %d jobs; want %d of 120", key, row.Runs, row.Jobs, runs)
	}
	if (row.ExtraJobsPer100 == nil) != (key.policy == greedyPolicy) {
		t.Errorf("%+v: additional jobs %v", key, row.ExtraJobsPer100)
	}
	if setting.Batch != (row.OverBound != nil) || (setting.Batch && row.OverBound.Mean < 1) {
		t.Errorf("%+v is %v of the bound", key, row.OverBound)
	}
}

func TestNumberOf(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Number
	}{{nil, Number{}}, {[]float64{5}, Number{5, 0}}, {[]float64{2, 4, 6}, Number{4, 2}}} {
		if got := numberOf(test.values); got != test.want {
			t.Errorf("numberOf(%v) = %v; want %v", test.values, got, test.want)
		}
	}
}

func TestResultsJSON(t *testing.T) {
	config := tinyConfig(true)
	config.Origin = results.Origin{
		Command: "lab paper", Version: "v1", Time: time.Unix(0, 0).UTC(), Go: "go1", OS: "os", Arch: "arch", Cores: 3,
	}
	text, err := runAll(t, config, oneNodeEach{}).json()
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Origin      map[string]any
		Seeds       int
		Pools       []int
		Trace       string
		Experiments []struct {
			Name, Title string
			Results     []struct {
				Quantity, Unit string
				Paper          []float64
				Ours           map[string][]float64
			}
			Rows    []map[string]any
			Timings []map[string]any
		}
		Proof map[string]any
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Seeds != 2 || len(read.Pools) != 3 || read.Trace != "some<trace>" {
		t.Errorf("seeds %d, pools %v, trace %q", read.Seeds, read.Pools, read.Trace)
	}
	origin := map[string]any{
		"command": "lab paper", "version": "v1", "time": "1970-01-01T00:00:00Z", "go": "go1", "os": "os", "arch": "arch", "cores": 3.0,
	}
	if diff := gocmp.Diff(origin, read.Origin); diff != "" {
		t.Errorf("origin (-want +got):\n%s", diff)
	}
	papers := make(map[string][]float64)
	for _, e := range read.Experiments {
		if e.Title == "" || len(e.Rows)+len(e.Timings) == 0 {
			t.Errorf("%s has the title %q, %d rows and %d timings", e.Name, e.Title, len(e.Rows), len(e.Timings))
		}
		for _, r := range e.Results {
			if r.Quantity == "" || len(r.Ours["synthetic"]) == 0 || len(r.Ours["trace"]) == 0 {
				t.Errorf("%s has the result %+v", e.Name, r)
			}
		}
		papers[e.Name] = e.Results[0].Paper
	}
	want := map[string][]float64{
		"queueing-time": {32}, "total-time": nil, "additional-jobs": {17.4}, "heterogeneous-eta": {24.1},
		"eta-disturbance": {-2.4, -0.6}, "bugs-and-kills": {15}, "scaling-delay": {-0.9, 1.8}, "decision-times": {400},
		"variants": nil, "hesrpt-bound": nil,
	}
	if diff := gocmp.Diff(want, papers); diff != "" {
		t.Errorf("the paper's numbers (-want +got):\n%s", diff)
	}
	if read.Proof["decisions"] == 0.0 || read.Proof["proven"] != read.Proof["decisions"] {
		t.Errorf("the proof is %v", read.Proof)
	}
}

// TestReport checks that the page stands alone, is well-formed and has everything
// once, with a trace and without.
func TestReport(t *testing.T) {
	for _, withTrace := range []bool{true, false}[:testtier.Conformance.Examples(1, 2)] {
		config := tinyConfig(withTrace)
		config.Origin = results.Origin{
			Command: "lab paper --seeds 2", Version: "v1.2.3", Time: time.Unix(0, 0), Go: "go1.99", OS: "plan9", Arch: "mips", Cores: 3,
		}
		results := runAll(t, config, oneNodeEach{})
		report, err := results.page()
		if err != nil {
			t.Fatal(err)
		}
		files, err := report.Files()
		if err != nil {
			t.Fatal(err)
		}
		drawn := 1
		for _, section := range report.Sections {
			drawn += len(section.Figures)
		}
		page := files["report.html"]
		checkContents(t, page, results, drawn)
		checkText(t, string(page), withTrace)
	}
}

// checkContents checks that a page is well-formed, and has all figures and an entry in its table of contents for each
// experiment.
func checkContents(t *testing.T, page []byte, results *Results, figures int) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(page))
	pictures := 0
	ids, targets := make(map[string]int), make(map[string]bool)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		element, _ := token.(xml.StartElement)
		if element.Name.Local == "svg" {
			pictures++
		}
		for _, attribute := range element.Attr {
			switch target, internal := strings.CutPrefix(attribute.Value, "#"); {
			case element.Name.Local == "h2" && attribute.Name.Local == "id":
				ids[attribute.Value]++
			case attribute.Name.Local == "href" && internal:
				targets[target] = true
			}
		}
	}
	if pictures != figures || figures < 13 {
		t.Errorf("%d of %d figures are in the page", pictures, figures)
	}
	for i := range results.Experiments {
		if name := results.Experiments[i].Name; ids[name] != 1 || !targets[name] {
			t.Errorf("%d sections %s, in the table of contents: %v", ids[name], name, targets[name])
		}
	}
	for target := range targets {
		if ids[target] != 1 {
			t.Errorf("the table of contents has %s, which is nowhere", target)
		}
	}
}

// checkText checks that a page stands alone, has its origin, and has no paragraph twice.
func checkText(t *testing.T, page string, withTrace bool) {
	t.Helper()
	for _, bad := range []string{
		"http:", "https:", "<script", "<link", "src=", "@import", "url(", "NaN", "Inf", " 0.0\u00a0%", ">0.0\u00a0%",
	} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	for _, want := range []string{
		"lab paper --seeds 2", "v1.2.3", "1970-01-01 00:00 UTC", "3 cores", "plan9/mips", "go1.99", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if svg, heading := strings.Index(page, "<svg"), strings.Index(page, "<h2"); svg > heading {
		t.Error("the first figure is after the start of the first section")
	}
	paragraphs := make(map[string]bool)
	for _, block := range strings.Split(page, "<p>")[1:] {
		paragraph, _, _ := strings.Cut(block, "</p>")
		if paragraphs[paragraph] {
			t.Errorf("twice in the page: %s", paragraph)
		}
		paragraphs[paragraph] = true
	}
	if strings.Contains(page, "some&lt;trace&gt;") != withTrace || strings.Contains(page, "<th>trace</th>") != withTrace {
		t.Errorf("with a trace: %v, and the page disagrees", withTrace)
	}
}

// TestUnproven checks that decisions that are not proven are counted and named, and that
// their requests are kept.
func TestUnproven(t *testing.T) {
	results := runAll(t, tinyConfig(false), oneNodeEach{unprovenAt: 5})
	proof := results.Proof
	if len(proof.Unproven) == 0 || len(proof.Unproven) != proof.Decisions-proof.Proven {
		t.Fatalf("%d kept; %d of %d proven", len(proof.Unproven), proof.Proven, proof.Decisions)
	}
	seen := make(map[string]bool)
	for i := range proof.Unproven {
		kept := &proof.Unproven[i]
		if seen[kept.File] {
			t.Errorf("%s is there twice", kept.File)
		}
		seen[kept.File] = true
		text, err := kept.JSON()
		if err != nil {
			t.Fatal(err)
		}
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal(text, request); err != nil {
			t.Fatal(err)
		}
		if budget := request.GetOptions().GetTimeBudget().AsDuration(); budget != sim.DefaultDecisionBudget {
			t.Errorf("%s has the budget %v; want that of the decision", kept.File, budget)
		}
		if len(request.GetSnapshot().GetJobs()) != 5 || strings.Contains(kept.File, "greedy") {
			t.Errorf("%s has %d jobs; only those with 5 are unproven", kept.File, len(request.GetSnapshot().GetJobs()))
		}
	}
}

func TestRunRefuses(t *testing.T) {
	short, _ := tiny(workloads.Baseline, 1)
	for i := range short {
		short[i].Duration = time.Minute
	}
	for want, change := range map[string]func(*Config){
		"seeds is 0":               func(c *Config) { c.Seeds = 0 },
		"workers is 0":             func(c *Config) { c.Workers = 0 },
		"gpus-per-node is 0":       func(c *Config) { c.GPUsPerNode = 0 },
		"pools is empty":           func(c *Config) { c.Pools = nil },
		"pools has 3 nodes":        func(c *Config) { c.Pools = []int{3, 3} },
		"has no job of at least 5": func(c *Config) { c.Trace = short },
	} {
		config := tinyConfig(true)
		change(&config)
		if _, err := Run(t.Context(), config, oneNodeEach{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want %q", err, want)
		}
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	results, err := Run(ctx, tinyConfig(false), oneNodeEach{}, func(done, _ int) {
		if done == 3 {
			cancel()
		}
	})
	if results != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("results %v, error %v; want it canceled", results, err)
	}
}

// TestResults checks the results of measures made up for them.
func TestResults(t *testing.T) {
	m := &measures{pools: []int{70, 150, 190}, sources: []Source{Synthetic, Trace}}
	for i, nodes := range m.pools {
		add := func(source Source, setting, policy string, jobs int, queue, total float64, extra *Number) {
			m.rows = append(m.rows, Row{
				Setting: setting, Source: source, Policy: policy, Nodes: nodes, Jobs: jobs, Runs: 1, ExtraJobsPer100: extra,
				QueueSeconds: Number{Mean: 60 * queue}, TotalSeconds: Number{Mean: 60 * total}, Resizes: Number{Mean: 10 * total},
			})
		}
		add(Synthetic, baselineSetting, greedyPolicy, 447, []float64{10, 10, 0}[i], 200, nil)
		add(Synthetic, baselineSetting, optimalPolicy, 447, []float64{12, 5, 0}[i], 100, &Number{Mean: []float64{1, 18, 2}[i]})
		add(Synthetic, baselineSetting, "hesrpt", 447, 1, []float64{90, 100.04, 110}[i], &Number{})
		add(Synthetic, etaSetting, optimalPolicy, 447, 5, 103, &Number{Mean: []float64{0.5, 16, 2}[i]})
		add(Synthetic, bugSetting, optimalPolicy, 447, 5, 50, &Number{Mean: 14.5})
		add(Trace, baselineSetting, optimalPolicy, 99, 1, 1, &Number{}) // Too few to count.
	}
	got := make(map[string]string)
	for _, e := range m.experiments() {
		for _, r := range e.Results {
			got[e.Name+" "+r.Quantity] = strings.Join(r.Cells(m.sources)[1:], "|")
		}
	}
	verdict := (&Results{Experiments: m.experiments(), Pools: []int{70, 150, 190}, sources: m.sources}).Lead()[0]
	if want := "synthetic: the mean job completion time (JCT) is up to 50.0% lower " +
		"than with greedy (70 nodes), the mean queueing time up to 50.0% (150 nodes). " +
		"They are not lower on 0 and 2 of 3 pools."; verdict != want {
		t.Errorf("%q; want %q", verdict, want)
	}
	for quantity, want := range map[string]string{
		"queueing-time largest decrease":                              "32.0%|50.0%|0%",
		"queueing-time at a pool of":                                  "150 nodes|150 nodes|70 nodes",
		"queueing-time decrease at 150 nodes":                         "32.0%|50.0%|0%",
		"queueing-time pool sizes without a lower mean queueing time": "0|2|3",
		"total-time largest decrease":                                 "–|50.0%|0%",
		"total-time pool sizes without a lower mean JCT":              "0|0|3",
		"additional-jobs most additional jobs per 100":                "+17.4|+18.0|–",
		"additional-jobs at a pool of":                                "110 nodes|150 nodes|–",
		"additional-jobs at 70 nodes":                                 "–|+1.0|–",
		"additional-jobs at 190 nodes":                                "–|+2.0|–",
		"eta-disturbance change of additional jobs per 100":           "−2.4 to −0.6|−2.0 to 0|–",
		"eta-disturbance change of the mean JCT of optimal":           "–|+3.0%|−100.0%",
		"bugs-and-kills most additional jobs per 100":                 "+15.0|+14.5|–",
		"bugs-and-kills change of the most":                           "−2.4|−3.5|–",
		"variants hesrpt: mean JCT":                                   "–|−10.0 to +10.0%|−100.0%",
		"variants hesrpt: mean queueing time":                         "–|−11.0 to +1.0 min|−1.0 min",
		"decision-times mean":                                         "400 ms|–|–",
	} {
		if got[quantity] != want {
			t.Errorf("%s: %q; want %q", quantity, got[quantity], want)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		digits digits
		value  float64
		want   string
	}{
		{whole, 70, "70"},
		{whole, 0.4, "0.4"},
		{tenths, -1.25, "−1.2"},
		{tenths, 0.004, "0.004"},
		{tenths, 0, "0"},
		{tenths, 4e-9, "0"},
		{signedTenths, 2, "+2.0"},
		{signedTenths, -0.04, "−0.04"},
		{signedTenths, -1e-12, "0"},
		{threeDigits, 1.234, "1.23"},
		{threeDigits, 0.2345, "0.234"},
		{threeDigits, 12.34, "12.3"},
		{threeDigits, 1234, "1234"},
		{threeDigits, 0, "0"},
		{threeDigits, 0.0004, "0.0004"},
	} {
		if got := test.digits.write(test.value); got != test.want {
			t.Errorf("%v in format %v is %q; want %q", test.value, test.digits, got, test.want)
		}
	}
	for want, values := range map[string][]float64{
		"–": nil, "+2.0": {2}, "−1.0 to +2.0": {2, -1, 1}, "+1.0": {1.01, 0.99},
	} {
		if got := signedTenths.writeRange(values); got != want {
			t.Errorf("the range of %v is %q; want %q", values, got, want)
		}
	}
	if one, two := tenths.writeSpread(Number{3, 1}, 1), tenths.writeSpread(Number{3, 1}, 2); one != "3.0" || two != "3.0 ± 1.0" {
		t.Errorf("the number is %q of one run and %q of two", one, two)
	}
}

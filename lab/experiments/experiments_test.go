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

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneNodeEach decides by a rule so simple that tests can foresee it: one node for
// everybody while nodes last, running jobs first or, asked for the optimum, the
// shortest first. It calls a decision with the given number of jobs unproven.
type oneNodeEach struct{ unprovenAt int }

func (d oneNodeEach) Allocate(
	ctx context.Context, request *elastallocv1.AllocateRequest,
) (*elastallocv1.AllocateResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	jobs := request.GetSnapshot().GetJobs()
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	report := &elastallocv1.SolveReport{Reason: elastallocv1.Reason_REASON_HEURISTIC}
	exact := request.GetOptions().GetBackend() == elastallocv1.Backend_BACKEND_EXACT
	slices.SortStableFunc(order, func(a, b int) int {
		if exact {
			return cmp.Compare(jobs[a].GetRemainingEta().AsDuration(), jobs[b].GetRemainingEta().AsDuration())
		}
		return -cmp.Compare(jobs[a].GetCurrentNodes(), jobs[b].GetCurrentNodes())
	})
	if exact {
		report.Reason = elastallocv1.Reason_REASON_OPTIMAL
		if len(jobs) == d.unprovenAt {
			report.Reason, report.RelativeGap = elastallocv1.Reason_REASON_FEASIBLE, 0.01
		}
	}
	response := &elastallocv1.AllocateResponse{Report: report}
	for _, job := range jobs {
		response.Allocations = append(response.Allocations, &elastallocv1.Allocation{JobId: job.GetId()})
	}
	for n, i := range order {
		if n < int(request.GetSnapshot().GetTotalNodes()) {
			response.Allocations[i].Nodes = 1
		}
	}
	return response, nil
}

// tiny returns a workload of 120 jobs that come by threes.
func tiny(_ sim.SyntheticKind, seed uint64) (sim.Trace, error) {
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
	config := Config{Pools: []int{3, 4, 150}, Seeds: 2, Draw: tiny, GPUsPerNode: 8, Workers: 2}
	if withTrace {
		config.Trace, _ = tiny(sim.Baseline, 9)
		config.TraceName = "some<trace>"
	}
	return config
}

func find(t *testing.T, config Config, decider sim.Decider) *Findings {
	t.Helper()
	findings, err := Run(t.Context(), config, decider, nil)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func TestRunCounts(t *testing.T) {
	config := tinyConfig(true)
	var calls, last int
	f, err := Run(t.Context(), config, oneNodeEach{}, func(done, all int) {
		if calls++; done != calls {
			t.Errorf("call %d says that %d are done", calls, done)
		}
		last = all
	})
	if err != nil {
		t.Fatal(err)
	}
	if calls != last {
		t.Errorf("%d of %d runs were reported", calls, last)
	}
	for _, setting := range Settings() {
		for _, source := range []Source{Synthetic, Trace} {
			runs := 2
			if source == Trace && setting.Disturbance == (sim.Disturbance{}) {
				runs = 1 // There is nothing random in it.
			}
			for _, policy := range setting.Policies {
				for _, nodes := range config.Pools {
					row := f.row(setting.Name, source, policy, nodes)
					if row.Runs != runs || row.Jobs != 120 || row.Decisions == 0 {
						t.Errorf("%s, %s, %s, %d nodes: %d runs of %d jobs; want %d of 120",
							setting.Name, source, policy, nodes, row.Runs, row.Jobs, runs)
					}
					if (row.ExtraJobsPer100 == nil) != (policy == greedyPolicy) {
						t.Errorf("%s of %s: additional jobs %v", policy, setting.Name, row.ExtraJobsPer100)
					}
					if setting.Batch != (row.OverBound != nil) || (setting.Batch && row.OverBound.Mean < 1) {
						t.Errorf("%s in %s is %v of the bound", policy, setting.Name, row.OverBound)
					}
				}
			}
		}
	}
	if f.proven != f.decisions || f.decisions == 0 || len(f.Unproven()) != 0 {
		t.Errorf("%d of %d decisions proven, %d kept", f.proven, f.decisions, len(f.Unproven()))
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
	results := find(t, tinyConfig(true), oneNodeEach{}).Results()
	text, err := results.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Seeds       int
		Pools       []int
		Trace       string
		Experiments []struct {
			Name, Title, Setup, Paper, Difference string
			Ours                                  map[string]string
			Rows                                  []map[string]any
			Timings                               []map[string]any
		}
		Questions []Question
		Proof     map[string]any
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if read.Seeds != 2 || len(read.Pools) != 3 || read.Trace != "some<trace>" {
		t.Errorf("seeds %d, pools %v, trace %q", read.Seeds, read.Pools, read.Trace)
	}
	var names []string
	for _, e := range read.Experiments {
		names = append(names, e.Name)
		if e.Title == "" || e.Setup == "" || e.Paper == "" || e.Difference == "" {
			t.Errorf("%s lacks a text: %+v", e.Name, e)
		}
		if e.Ours["synthetic"] == "" || e.Ours["trace"] == "" {
			t.Errorf("%s says %v of the sources", e.Name, e.Ours)
		}
		if len(e.Rows) == 0 && len(e.Timings) == 0 {
			t.Errorf("%s has no numbers", e.Name)
		}
	}
	want := []string{
		"queueing-time", "total-time", "additional-jobs", "heterogeneous-eta", "eta-disturbance", "bugs-and-kills",
		"scaling-delay", "decision-times", "variants", "hesrpt-bound",
	}
	if diff := gocmp.Diff(want, names); diff != "" {
		t.Errorf("experiments (-want +got):\n%s", diff)
	}
	for _, q := range read.Questions {
		if len(q.Answers) == 0 {
			t.Errorf("no answer to %q", q.Question)
		}
	}
	if read.Proof["share"] != 1.0 {
		t.Errorf("the proof is %v", read.Proof)
	}
}

// TestReport checks that the page stands alone, is well-formed and has everything,
// with a trace and without.
func TestReport(t *testing.T) {
	for _, withTrace := range []bool{false, true} {
		results := find(t, tinyConfig(withTrace), oneNodeEach{}).Results()
		drawn, err := Figures(results.Experiments)
		if err != nil {
			t.Fatal(err)
		}
		page, err := results.Report(drawn)
		if err != nil {
			t.Fatal(err)
		}
		decoder := xml.NewDecoder(bytes.NewReader(page))
		pictures := 0
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("not well-formed: %v", err)
			}
			if element, ok := token.(xml.StartElement); ok && element.Name.Local == "svg" {
				pictures++
			}
		}
		if pictures != len(drawn) {
			t.Errorf("%d of %d figures are in the page", pictures, len(drawn))
		}
		for _, bad := range []string{"http:", "https:", "<script", "<link", "src=", "@import", "url(", "NaN", "Inf"} {
			if bytes.Contains(page, []byte(bad)) {
				t.Errorf("the page contains %q", bad)
			}
		}
		text := string(page)
		for i := range results.Experiments {
			e := &results.Experiments[i]
			if !strings.Contains(text, `<h2 id="`+e.Name+`">`) {
				t.Errorf("the page lacks %s", e.Name)
			}
		}
		if strings.Contains(text, "some&lt;trace&gt;") != withTrace || strings.Contains(text, "<dt>Trace</dt>") != withTrace {
			t.Errorf("with a trace: %v, and the page disagrees", withTrace)
		}
	}
}

// TestUnproven checks that decisions that are not proven are counted, named and
// kept as they were asked.
func TestUnproven(t *testing.T) {
	f := find(t, tinyConfig(false), oneNodeEach{unprovenAt: 5})
	kept := f.Unproven()
	if len(kept) == 0 || len(kept) != f.decisions-f.proven {
		t.Fatalf("%d kept; %d of %d proven", len(kept), f.proven, f.decisions)
	}
	seen := make(map[string]bool)
	for i := range kept {
		if seen[kept[i].File] {
			t.Errorf("%s is there twice", kept[i].File)
		}
		seen[kept[i].File] = true
		text, err := kept[i].JSON()
		if err != nil {
			t.Fatal(err)
		}
		request := new(elastallocv1.AllocateRequest)
		if err := protojson.Unmarshal(text, request); err != nil {
			t.Fatal(err)
		}
		if len(request.GetSnapshot().GetJobs()) != 5 || strings.Contains(kept[i].File, "greedy") {
			t.Errorf("%s has %d jobs; only those with 5 are unproven", kept[i].File, len(request.GetSnapshot().GetJobs()))
		}
	}
	results := f.Results()
	answer := f.proof()
	if results.Proof.Share >= 1 || strings.Contains(answer, "100.0000 %") || !strings.Contains(answer, kept[0].File) {
		t.Errorf("share %v, answer %q", results.Proof.Share, answer)
	}
}

func TestRunRefuses(t *testing.T) {
	short, _ := tiny(sim.Baseline, 1)
	for i := range short {
		short[i].Duration = time.Minute
	}
	for want, change := range map[string]func(*Config){
		"seeds is 0":               func(c *Config) { c.Seeds = 0 },
		"workers is 0":             func(c *Config) { c.Workers = 0 },
		"gpus-per-node is 0":       func(c *Config) { c.GPUsPerNode = 0 },
		"there is no pool":         func(c *Config) { c.Pools = nil },
		"a pool has 3 nodes":       func(c *Config) { c.Pools = []int{3, 3} },
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
	f, err := Run(ctx, tinyConfig(false), oneNodeEach{}, func(done, _ int) {
		if done == 3 {
			cancel()
		}
	})
	if f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("findings %v, error %v; want it canceled", f, err)
	}
}

// TestSentences checks sentences on numbers made up for them.
func TestSentences(t *testing.T) {
	f := &Findings{pools: []int{70, 150, 190}, seeds: 1}
	for i, nodes := range f.pools {
		add := func(policy string, queue, crowded float64, extra *Number) {
			f.rows = append(f.rows, Row{
				Setting: baselineSetting, Source: Synthetic, Policy: policy, Nodes: nodes, Jobs: 447, Runs: 1,
				QueueSeconds: Number{Mean: 60 * queue}, CrowdedShare: Number{Mean: crowded}, ExtraJobsPer100: extra,
			})
		}
		add(greedyPolicy, []float64{10, 10, 0}[i], 0.1, nil)
		add(optimalPolicy, []float64{12, 5, 0}[i], []float64{0.25, 0, 0}[i], &Number{Mean: []float64{1, 18, 2}[i]})
	}
	c := f.contest(baselineSetting, Synthetic, queueMinutes)
	b := f.bell(baselineSetting, Synthetic)
	for got, want := range map[string]string{
		c.headline(): "optimal lower at 1 of 3 pool sizes, not at 70 nodes (12.0 against 10.0 min) and 190 nodes " +
			"(0.0 against 0.0 min); largest decrease 50.0 %, at 150 nodes",
		b.headline(): "up to +18.0 per 100, at 150 nodes; +1.0 at 70 and +2.0 at 190 nodes",
		f.always(queueMinutes): "Unlike in the paper, optimal is not always lower: " +
			"on the synthetic workload at 70 and 190 nodes it is not.",
		f.largestAgainst(baselineSetting, paperExtra): "+18.0 (more than the paper's 17.4) on the synthetic workload",
		rounded(-0.04, 1):                      "0.0",
		signed(-1.25):                          "−1.2",
		spanned([]float64{2, -1, 1}, signed):   "−1.0 to +2.0",
		spanned([]float64{1.01, 0.99}, signed): "+1.0",
	} {
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if text := f.crowding(baselineSetting, Synthetic, &c); !strings.Contains(text, "25.0 % of optimal's decisions") ||
		!strings.Contains(text, "at most 0.0 %") || strings.Contains(text, "At such a moment") {
		t.Errorf("of crowding it says %q", text)
	}
	if !b.isBell() {
		t.Error("1, 18, 2 is no bell")
	}
}

package main

import (
	"encoding/csv"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/statistics"
)

func TestSimulate(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	stdout := succeed(t, "simulate", "--trace=../../../cmd/elastalloc/testdata/trace.csv", "--nodes=4,6",
		"--policy=optimal,greedy,fifo", "--seed=7", "--frequency=60", "--out", out)
	clitest.CheckContains(t, "stdout", stdout,
		"4 nodes\n", "6 nodes\n", "POLICY", "optimal", "greedy", "fifo", "100.00%",
		"UNSERVED  mean time", "VERDICT", "idle node hours", "wrote 33 files to "+out)
	want := []string{
		"additional_jobs.png", "additional_jobs.svg", "changes.png", "changes.svg",
		"decision_times.png", "decision_times.svg", "distribution.png", "distribution.svg",
		"jobs.csv", "jobs_fifo.png", "jobs_fifo.svg", "jobs_optimal.png", "jobs_optimal.svg", "later.png", "later.svg",
		"nodes_over_time.png", "nodes_over_time.svg", "queue_over_time.png", "queue_over_time.svg", "queueing_time.png",
		"queueing_time.svg", "report.html", "slowdown_median.png", "slowdown_median.svg", "slowdown_p95.png",
		"slowdown_p95.svg", "summary.json", "total_time.png", "total_time.svg", "unserved_time.png", "unserved_time.svg",
		"utilization.png", "utilization.svg",
	}
	if diff := cmp.Diff(want, filesIn(t, out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"results"}, filesIn(t, filepath.Dir(out))); diff != "" {
		t.Errorf("next to the results (-want +got):\n%s", diff)
	}
	checkSummary(t, out)
	checkJobs(t, out, 6)
}

// checkSummary checks the fields and the runs of summary.json.
func checkSummary(t *testing.T, out string) {
	t.Helper()
	var summary struct{ Runs, Comparisons []map[string]any }
	readJSON(t, &summary, out, "summary.json")
	if len(summary.Runs) != 6 || len(summary.Comparisons) != 4 {
		t.Fatalf("%d runs and %d comparisons; want 6 and 4", len(summary.Runs), len(summary.Comparisons))
	}
	keys := func(object any) []string {
		return slices.Sorted(maps.Keys(object.(map[string]any)))
	}
	run := summary.Runs[0]
	if diff := cmp.Diff([]string{
		"completed", "decisions", "idle_node_hours", "jobs", "later_than_ideal_share",
		"makespan_s", "max_slowdown", "max_total_s", "max_unserved_big_s",
		"mean_queue_s", "mean_total_s", "mean_unserved_s", "moves", "node_price", "nodes", "p50_total_s", "p95_total_s", "p99_total_s",
		"pauses", "policy", "resizes", "seed", "solve_ms", "trace", "unproven", "utilization", "weighted_mean_total_s",
	}, keys(run)); diff != "" {
		t.Errorf("fields of a run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"max", "mean", "median", "p95"}, keys(run["solve_ms"])); diff != "" {
		t.Errorf("fields of solve_ms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"baseline", "extra_jobs", "extra_jobs_per_100", "nodes", "policy", "queue_reduction", "total_reduction",
	}, keys(summary.Comparisons[0])); diff != "" {
		t.Errorf("fields of a comparison (-want +got):\n%s", diff)
	}
	if run["trace"] != "trace" || run["policy"] != "optimal" || run["nodes"] != 4.0 || run["seed"] != 7.0 {
		t.Errorf("the first run is %v", run)
	}
	for _, c := range summary.Comparisons {
		if c["baseline"] != "greedy" {
			t.Errorf("the baseline of %v is not greedy", c)
		}
	}
}

// checkJobs checks that jobs.csv has the same number of jobs for every run.
func checkJobs(t *testing.T, out string, runs int) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(read(t, out, "jobs.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	jobs := make(map[string]int)
	for _, record := range records[1:] {
		jobs[record[1]+record[2]]++
	}
	if len(jobs) != runs {
		t.Errorf("jobs.csv has %d runs; want %d", len(jobs), runs)
	}
	for run, n := range jobs {
		if n != jobs["optimal4"] {
			t.Errorf("jobs.csv has %d jobs of %s and %d of another run", n, run, jobs["optimal4"])
		}
	}
}

// TestSimulateReportsCuts checks the counts of omitted jobs and GPUs of a trace.
func TestSimulateReportsCuts(t *testing.T) {
	folder := t.TempDir()
	out := filepath.Join(folder, "results")
	trace := write(t, folder, "own.csv",
		"job_id,submit_s,duration_s,gpus,start_s,allowed_nodes\nhuge,0,600,500,10,1 2 4 8 16\nwide,1,600,512,11,1 8 64\nshort,2,9,8,12,\n")
	stdout := succeed(t, "simulate", "--trace", trace, "--nodes=64", "--min-duration=10s",
		"--policy=recorded,optimal,max-min", "--restart-time=10m", "--vary=weights", "--out", out)
	clitest.CheckContains(t, "stdout", strings.Join(strings.Fields(stdout), " "),
		"1 job is left out as shorter than 10s.", "1 job is simulated on fewer GPUs than requested (up to 500): 372 GPUs are not simulated.",
		"The cluster (recorded) occupied up to 80 nodes at once", "A pool of 64 nodes is smaller, so recorded cannot be compared there.",
		"optimal compared with max-min fair shares (max-min): the mean", "a restart takes 10m.")
	clitest.CheckContains(t, "summary.json", read(t, out, "summary.json"),
		`"jobs_cut": 1`, `"gpus_cut": 372`, `"most_gpus": 500`, `"later_than_max_min": `, `"trace": "own+weights"`)
}

// TestSimulateScenarios checks that the scenarios of the verdict equal the results of --vary rigid-most and
// --max-growth 1, for every policy of the comparison, and that the leading sentence is about the most careful one
// that gains.
func TestSimulateScenarios(t *testing.T) {
	t.Run("default sizes", func(t *testing.T) { testScenarios(t, "", "") })
	t.Run("sizes of the trace", func(t *testing.T) {
		testScenarios(t, ",min_nodes,max_nodes,allowed_nodes,speeds", ",1,8,,", ",,,1 2 3 4 6,1 1.9 2.7 3.4 4.5")
	})
}

// testScenarios runs TestSimulateScenarios on a trace with additional columns, whose values the jobs repeat.
func testScenarios(t *testing.T, columns string, values ...string) {
	t.Helper()
	folder := t.TempDir()
	text := "job_id,submit_s,duration_s,gpus" + columns + "\n"
	for i := range 30 {
		text += fmt.Sprintf("%d,%d,%d,%d%s\n", i, 60*i, 300+700*(i%7), 1+7*(i%5), values[i%len(values)])
	}
	trace := write(t, folder, "own.csv", text)
	simulate := func(name string, args ...string) (results.Verdict, string) {
		out := filepath.Join(folder, name)
		stdout := succeed(t,
			append([]string{"simulate", "--trace", trace, "--nodes=10", "--policy=total-time,max-min,fifo", "--out", out}, args...)...)
		var summary results.Summary
		readJSON(t, &summary, out, "summary.json")
		return *summary.Verdict, strings.Join(strings.Fields(stdout), " ")
	}
	all, stdout := simulate("all")
	pinned, _ := simulate("pinned", "--vary=rigid-most")
	limited, _ := simulate("limited", "--max-growth=1")
	want := map[string][]results.Reference{
		"as-assumed": all.ComparedWith, "one-in-five-elastic": pinned.ComparedWith, "no-job-above-its-request": limited.ComparedWith,
	}
	got, leading := make(map[string][]results.Reference), ""
	for _, scenario := range all.Scenarios {
		got[scenario.Name] = scenario.ComparedWith
		if len(scenario.Runs) != 3 || len(scenario.ComparedWith) != 2 {
			t.Errorf("%s has %d runs and %d comparisons; want 3 and 2", scenario.Name, len(scenario.Runs), len(scenario.ComparedWith))
		}
		lower := func(r results.Reference) bool { return r.Pools[0].MeanTotalSeconds <= 0.99*r.Pools[0].ReferenceSeconds }
		if lower(scenario.ComparedWith[0]) && lower(scenario.ComparedWith[1]) {
			leading = scenario.Name // The last one is the most careful one.
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenarios (-runs with the same assumptions +verdict):\n%s", diff)
	}
	if all.Leading != leading {
		t.Errorf("%q leads; want %q", all.Leading, leading)
	}
	clitest.CheckContains(t, "stdout", stdout, "SCENARIO FIFO MAX-MIN TOTAL-TIME TO FIFO TO MAX-MIN", "no-job-above-its-request")
	if cmp.Equal(got["as-assumed"], got["one-in-five-elastic"]) || cmp.Equal(got["as-assumed"], got["no-job-above-its-request"]) {
		t.Error("the assumptions change nothing")
	}
}

// TestSimulateRecorded checks that policies are compared with the recorded schedule if the trace has the start times
// of all jobs, and otherwise with FIFO. With simulated hanging jobs, there is no recorded schedule.
func TestSimulateRecorded(t *testing.T) {
	folder := t.TempDir()
	known := write(t, folder, "known.csv", "job_id,submit_s,duration_s,gpus,start_s\na,0,3600,32,600\nb,60,600,8,4200\nc,7200,60,8,7200\n")
	unknown := write(t, folder, "unknown.csv", "job_id,submit_s,duration_s,gpus,start_s\na,0,3600,32,600\nb,60,600,8,\nc,7200,60,8,7200\n")
	for n, test := range []struct{ flags, first, says string }{
		{"--nodes=4 --trace=" + known, "recorded", "what the cluster did (recorded)"},
		{"--nodes=4 --policy=total-time,fifo --trace=" + known, "recorded", "recorded 1.2 (utilization 77.5%)"},
		{"--nodes=4,2 --trace=" + known, "recorded", "(recorded), on 4 nodes: the mean"},
		{"--nodes=4 --trace=" + unknown, "fifo-backfill", "FIFO with backfill (fifo-backfill)"},
		{"--nodes=4 --policy=total-time,fifo --trace=" + unknown, "fifo", "FIFO with fixed sizes (fifo)"},
		{"--nodes=4 --bug-share=0.5 --trace=" + known, "fifo-backfill", "FIFO with backfill (fifo-backfill)"},
	} {
		out := filepath.Join(folder, fmt.Sprint(n))
		stdout := succeed(t, append([]string{"simulate", "--out", out}, strings.Fields(test.flags)...)...)
		clitest.CheckContains(t, test.flags, strings.Join(strings.Fields(stdout), " "), test.says)
		var summary results.Summary
		readJSON(t, &summary, out, "summary.json")
		if got := summary.Verdict.ComparedWith[0].Policy; got != test.first {
			t.Errorf("with %s the verdict compares with %s first; want %s", test.flags, got, test.first)
		}
	}
}

// TestSimulateUnit checks that outputs use the name of the unit if a node is a GPU, and that jobs get the requested
// GPUs.
func TestSimulateUnit(t *testing.T) {
	folder := t.TempDir()
	trace := write(t, folder, "own.csv",
		"job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,3600,32,,\nb,60,600,3,1 3 6,1 2.2 3.1\nc,7200,60,1,,\n")
	out := filepath.Join(folder, "results")
	stdout := succeed(t, "simulate", "--trace", trace, "--gpus-per-node=1", "--unit=gpu",
		"--nodes=40", "--policy=total-time,max-min,fifo,srpt,greedy", "--out", out)
	clitest.CheckContains(t, "stdout", strings.Join(strings.Fields(stdout), " "), "40 gpus",
		"on pools of 40 gpus", "idle gpu hours", "on up to 32 gpus", "Idle gpu hours")
	if strings.Contains(strings.ToLower(strings.ReplaceAll(stdout, out, "")), "node") {
		t.Errorf("the terminal shows nodes:\n%s", stdout)
	}
	page := regexp.MustCompile(`(?s)<style>.*?</style>|<dd>elastalloc-lab.*?</dd>`).ReplaceAllString(read(t, out, "report.html"), "")
	for _, text := range regexp.MustCompile(`>[^<]*[nN]ode[^<]*<`).FindAllString(page, -1) {
		t.Errorf("the page shows %s", text)
	}
	clitest.CheckContains(t, "jobs.csv", read(t, out, "jobs.csv"), "own,fifo,40,1,a,0,0,3600,")
}

// TestSimulateMachines checks the reported placements: jobs of 3 GPUs on machines of 4 leave no place for jobs of 2.
func TestSimulateMachines(t *testing.T) {
	folder := t.TempDir()
	trace := write(t, folder, "own.csv", "job_id,submit_s,duration_s,gpus,min_nodes,max_nodes\n"+
		"left,0,3600,2,2,2\nshort,0,300,2,2,2\nright,0,3600,2,2,2\nlarge,400,600,4,4,4\n")
	for flags, want := range map[string]struct {
		moves    float64
		unplaced int
		says     string
	}{
		"--placement=move": {0.25, 0, "fifo 1.2 0.00 0.00 0.00 ms 0.25 0"},
		// The decisions from 600 s to 3600 s, and the starts 1 s after each decision and submission.
		"--placement=stay": {0, 11 + 12, "MOVED restarts per job on other machines, without a resize"},
		"--placement=none": {0, -1, "A machine has 4 gpus."},
		"--placement=move --block-machines=2 --damaged=0": {0.25, 0, "A machine has 4 gpus, and a block 2 machines."},
	} {
		out := filepath.Join(folder, flags)
		stdout := succeed(t, append([]string{
			"simulate", "--trace", trace, "--gpus-per-node=1", "--nodes=8", "--policy=fifo", "--unit=gpu",
			"--restart-time=60", "--machine-units=4", "--out", out,
		}, strings.Fields(flags)...)...)
		clitest.CheckContains(t, flags, strings.Join(strings.Fields(stdout), " "), want.says)
		var summary results.Summary
		readJSON(t, &summary, out, "summary.json")
		moves, unplaced := 0.0, -1
		if run := summary.Runs[0]; run.Unplaced != nil {
			moves, unplaced = *run.PlacementMoves, *run.Unplaced
		}
		if moves != want.moves || unplaced != want.unplaced {
			t.Errorf("%s: %v moves, %v unplaced; want %+v", flags, moves, unplaced, want)
		}
	}
}

// TestSimulateDamaged checks that size limits avoid decisions without a placement: three jobs of 4 GPUs and one of 2
// have no place on machines of 4 of which some lack a GPU. The seed selects the damaged machines.
func TestSimulateDamaged(t *testing.T) {
	folder := t.TempDir()
	trace := write(t, folder, "own.csv", "job_id,submit_s,duration_s,gpus,max_nodes\na,0,3600,4,4\nb,0,3600,4,4\nc,0,3600,4,4\nd,0,3600,4,4\n")
	simulate := func(name string, args ...string) (statistics.Summary, string) {
		out := filepath.Join(folder, name)
		stdout := succeed(t, append([]string{
			"simulate", "--trace", trace, "--gpus-per-node=1", "--nodes=16", "--policy=total-time", "--unit=gpu", "--machine-units=4",
			"--damaged=0.5", "--placement=move", "--out", out,
		}, args...)...)
		var summary results.Summary
		readJSON(t, &summary, out, "summary.json")
		return summary.Runs[0], strings.Join(strings.Fields(stdout), " ")
	}
	counts, stdout := simulate("counts", "--seed=2")
	limited, _ := simulate("limits", "--seed=2", "--size-limits")
	if *counts.Unplaced == 0 || *limited.Unplaced != 0 || limited.MeanTotalSeconds >= counts.MeanTotalSeconds || counts.Nodes != 16 {
		t.Errorf("%d decisions have no place, %d with size limits, and the mean is %.0f s and %.0f s; want a lower one with size limits",
			*counts.Unplaced, *limited.Unplaced, counts.MeanTotalSeconds, limited.MeanTotalSeconds)
	}
	clitest.CheckContains(t, "seed 2", stdout, "16 gpus total-time", "A machine has 4 gpus. Machines of the pool of 16 lack 3 gpus together.")
	_, stdout = simulate("other", "--seed=1")
	clitest.CheckContains(t, "seed 1", stdout, "lack 4 gpus together.")
}

// TestSimulateTeams checks the results if teams share the pool.
func TestSimulateTeams(t *testing.T) {
	folder := t.TempDir()
	trace := write(t, folder, "own.csv", "job_id,submit_s,duration_s,gpus,group\na,0,600,32,vision\nb,1,600,32,speech\nc,2,60,8,speech\n")
	groups := write(t, folder, "groups.csv", "id,quota\nvision,3\nspeech,5\n")
	out := filepath.Join(folder, "results")
	stdout := succeed(t, "simulate", "--trace", trace, "--groups", groups, "--nodes=8", "--policy=static-partitions,total-time", "--out", out)
	clitest.CheckContains(t, "stdout", stdout, "USED", "  TEAM\n", "1.00\n")
	var summary struct{ Runs []statistics.Summary }
	readJSON(t, &summary, out, "summary.json")
	for _, run := range summary.Runs {
		if len(run.Teams) != 2 || run.Teams[0].Team != "vision" || run.Teams[0].Quota != 3 || run.Teams[1].Jobs != 2 ||
			run.WorstTeam == nil || run.Policy == catalog.Partitions && *run.WorstTeam != 1 {
			t.Errorf("the run is %+v; want two teams, each compared with its partition", run)
		}
	}
	clitest.CheckContains(t, "jobs.csv", read(t, out, "jobs.csv"), ",speech,completed\n")
}

// TestSimulateWholeCluster simulates teams on node types and machines. The limits of both teams leave one of them only the
// slow nodes, and the other only the fast ones.
func TestSimulateWholeCluster(t *testing.T) {
	folder := t.TempDir()
	trace := write(t, folder, "own.csv",
		"job_id,submit_s,duration_s,gpus,group\na,0,600,4,vision\nb,1,600,8,speech\nc,2,60,1,speech\nd,3,600,2,vision\n")
	groups := write(t, folder, "groups.csv", "id,quota,parent_id,limit,type_limits\nlab,16,,,\nvision,8,lab,,fast=0\nspeech,8,lab,,slow=0\n")
	simulate := func(args ...string) (map[string]statistics.Summary, string, string) {
		out := filepath.Join(t.TempDir(), "results")
		stdout := succeed(t, append([]string{
			"simulate", "--trace", trace, "--gpus-per-node=1", "--node-types=fast=8:2,slow=16", "--restart-time=10", "--out", out,
		}, args...)...)
		var summary results.Summary
		readJSON(t, &summary, out, "summary.json")
		runs := make(map[string]statistics.Summary)
		for _, run := range summary.Runs {
			runs[run.Policy] = run
		}
		return runs, read(t, out, "jobs.csv"), strings.Join(strings.Fields(stdout), " ")
	}
	types := func(jobs, policy string) (list []string) {
		for line := range strings.Lines(jobs) {
			if fields := strings.Split(strings.TrimSpace(line), ","); slices.Contains(fields, policy) {
				list = append(list, fields[len(fields)-1])
			}
		}
		return list
	}
	runs, jobs, stdout := simulate("--groups", groups, "--machine-units=fast=8,slow=4", "--damaged=0.5", "--placement=move", "--size-limits")
	if diff := cmp.Diff([]string{"slow", "fast", "fast", "slow"}, types(jobs, "total-time")); diff != "" {
		t.Errorf("node types of the jobs (-want +got):\n%s%s", diff, jobs)
	}
	clitest.CheckContains(t, "stdout", stdout, "A machine has these nodes: fast=8,slow=4.", "TEAM", "TYPE")
	if got := slices.Sorted(maps.Keys(runs)); !slices.Equal(got, []string{"total-time", "total-time-open", "type-partitions"}) ||
		*runs["total-time"].Unplaced != 0 {
		t.Errorf("the runs on machines are %v", runs)
	}
	runs, jobs, _ = simulate("--groups", groups)
	if len(types(jobs, "team-type-partitions")) != 4 || runs["static-partitions"].Jobs != 4 ||
		runs["team-type-partitions"].Moves != 0 || len(runs["total-time"].Teams) != 2 {
		t.Errorf("the runs without machines are %v", runs)
	}
	// Quotas divide the nodes that jobs can use.
	runs, _, _ = simulate("--quotas=equal", "--machine-units=8", "--damaged=1", "--policy=total-time")
	run := runs["total-time"]
	quotas, usable := run.Teams[0].Quota+run.Teams[1].Quota, run.NodeTypes[0].Nodes+run.NodeTypes[1].Nodes
	if quotas != usable || usable >= 24 {
		t.Errorf("the quotas are %d of %d nodes", quotas, usable)
	}
}

// simulatedJobs simulates the synthetic baseline, in the quick tier its first hours, and returns the table
// of its jobs.
func simulatedJobs(t *testing.T, args ...string) string {
	t.Helper()
	folder := t.TempDir()
	workload := "--synthetic=baseline"
	if !testtier.Conformance.Selected() {
		workload = "--trace=" + write(t, folder, "trace.csv", succeed(t, "trace", workload, "--for=15h"))
	}
	out := filepath.Join(folder, "results")
	succeed(t, append([]string{"simulate", workload, "--nodes=70", "--out", out}, args...)...)
	return read(t, out, "jobs.csv")
}

// TestSimulateTotalTime checks that parameters of the objective reach the policies.
func TestSimulateTotalTime(t *testing.T) {
	simulate := func(args ...string) string {
		return simulatedJobs(t, append([]string{"--policy=total-time,greedy"}, args...)...)
	}
	plain := simulate()
	if plain != simulate("--total-time=resize_price=75,fairness=1,aging=8h") {
		t.Error("the defaults differ from the documented values")
	}
	if plain == simulate("--total-time=resize_price=1h") {
		t.Error("a price of resizes has no effect")
	}
}

// TestSimulateETAs checks that ETAs only affect the policies that use them.
func TestSimulateETAs(t *testing.T) {
	if testing.Short() {
		t.Skip("whole simulations take minutes under the race detector")
	}
	simulate := func(policy string, args ...string) string {
		return simulatedJobs(t, append([]string{"--policy=" + policy}, args...)...)
	}
	for _, policy := range []string{"optimal", "max-min"} {
		plain := simulate(policy)
		for _, flags := range []string{"--eta-sigma=0.7", "--eta=unknown",
			"--eta=unknown --eta-sigma=0.7"}[:testtier.Conformance.Examples(1, 3)] {
			if same := simulate(policy, strings.Fields(flags)...) == plain; same != (policy == "max-min") {
				t.Errorf("with %s, the results of %s are unchanged: %v", flags, policy, same)
			}
		}
	}
}

// TestSimulateIsDeterministic compares two runs of a disturbed synthetic workload,
// with different numbers of workers.
func TestSimulateIsDeterministic(t *testing.T) {
	simulate := func(workers string) string {
		return simulatedJobs(t, "--nodes=190,170", "--policy=greedy,max-min", "--eta-error=0.1",
			"--bug-share=0.15", "--kill-share=0.1", "--scaling-delay=15s", "--workers", workers)
	}
	one, three := simulate("1"), simulate("3")
	if one != three {
		t.Error("jobs.csv depends on the number of workers")
	}
	clitest.CheckContains(t, "jobs.csv", one, ",completed\n", ",hung\n", ",killed\n")
}

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/cmd/internal/cli"
	"github.com/elastalloc/elastalloc/sim"
)

// filesIn returns the names of the files of a folder, none if it is missing.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestSimulate(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results")
	stdout, stderr, status := runWith(t, nil, "simulate", "--trace=../elastalloc/testdata/trace.csv", "--nodes=4,6",
		"--policy=optimal,greedy,fifo", "--seed=7", "--frequency=60", "--out", out)
	if status != cli.ExitDone || stderr != "" {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{"4 nodes\n", "6 nodes\n", "POLICY", "optimal", "greedy", "fifo", "100.00 %", "UNSERVED  mean time", "wrote 23 files to " + out} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout does not show %q:\n%s", want, stdout)
		}
	}
	want := []string{
		"additional_jobs.png", "additional_jobs.svg", "changes.png", "changes.svg", "decision_times.png", "decision_times.svg",
		"jobs.csv", "jobs_greedy.png", "jobs_greedy.svg", "jobs_optimal.png", "jobs_optimal.svg", "queueing_time.png",
		"queueing_time.svg", "report.html", "slowdown_median.png", "slowdown_median.svg", "slowdown_p95.png",
		"slowdown_p95.svg", "summary.json", "total_time.png", "total_time.svg", "unserved_time.png", "unserved_time.svg",
	}
	if diff := cmp.Diff(want, filesIn(t, out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"results"}, filesIn(t, filepath.Dir(out))); diff != "" {
		t.Errorf("beside the results (-want +got):\n%s", diff)
	}
	checkSummary(t, out)
	checkJobs(t, out, 6)
}

// checkSummary checks the fields and the runs of summary.json.
func checkSummary(t *testing.T, out string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct{ Runs, Comparisons []map[string]any }
	if err := json.Unmarshal(text, &summary); err != nil {
		t.Fatal(err)
	}
	if len(summary.Runs) != 6 || len(summary.Comparisons) != 4 {
		t.Fatalf("%d runs and %d comparisons; want 6 and 4", len(summary.Runs), len(summary.Comparisons))
	}
	keys := func(object any) []string {
		return slices.Sorted(maps.Keys(object.(map[string]any)))
	}
	run := summary.Runs[0]
	if diff := cmp.Diff([]string{
		"completed", "decisions", "jobs", "makespan_s", "max_slowdown", "max_total_s", "max_unserved_big_s",
		"mean_queue_s", "mean_total_s", "mean_unserved_s", "node_price", "nodes", "p50_total_s", "p95_total_s", "p99_total_s",
		"pauses", "policy", "rescales", "seed", "solve_ms", "trace", "unproven", "utilization", "weighted_mean_total_s",
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
	file, err := os.Open(filepath.Join(out, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
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

// TestSimulateSaysWhatIsCut checks the counts of what is left out of a trace.
func TestSimulateSaysWhatIsCut(t *testing.T) {
	folder := t.TempDir()
	trace := filepath.Join(folder, "own.csv")
	text := "job_id,submit_s,duration_s,gpus,start_s,max_nodes\nhuge,0,600,500,10,\nwide,1,600,500,11,64\nshort,2,9,8,12,\n"
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "results")
	stdout, stderr, status := runWith(t, nil, "simulate", "--trace", trace, "--nodes=64", "--min-duration=10s",
		"--policy=recorded,optimal,max-min", "--restart-time=10m", "--vary=weights", "--out", out)
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{
		"1 job is left out as shorter than 10s", "1 job is cut to 16 nodes, and asked for up to 500 GPUs: 372 GPUs are not simulated",
		"recorded held up to 80 nodes at once", "a pool of 64 nodes is smaller, so recorded cannot be compared there",
	} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("stdout does not show %q:\n%s", want, stdout)
		}
	}
	content, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"jobs_cut": 1`, `"gpus_cut": 372`, `"most_gpus": 500`, `"later_than_max_min": `, `"trace": "own+weights"`} {
		if !strings.Contains(string(content), want) {
			t.Errorf("summary.json lacks %s", want)
		}
	}
}

// TestSimulatePins: what the verdict says of one job in five that is elastic is what
// --vary rigid-most shows.
func TestSimulatePins(t *testing.T) {
	folder := t.TempDir()
	text := "job_id,submit_s,duration_s,gpus\n"
	for i := range 30 {
		text += fmt.Sprintf("%d,%d,%d,%d\n", i, 60*i, 300+700*(i%7), 1+7*(i%5))
	}
	trace := filepath.Join(folder, "own.csv")
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	verdict := func(args ...string) string {
		stdout, stderr, status := runWith(t, nil, append([]string{"simulate", "--trace", trace, "--nodes=10", "--policy=total-time,max-min"}, args...)...)
		if status != cli.ExitDone {
			t.Fatalf("exit status %d, stderr %q", status, stderr)
		}
		_, verdict, _ := strings.Cut(strings.Join(strings.Fields(stdout), " "), "the mean total time is ")
		return verdict
	}
	pinned, _, _ := strings.Cut(verdict("--vary=rigid-most", "--out", filepath.Join(folder, "pinned")), ".")
	if got := verdict("--out", filepath.Join(folder, "all")); !strings.Contains(got, "nodes they asked for: "+pinned+". Who loses") ||
		strings.HasPrefix(got, pinned+".") {
		t.Errorf("%q; want what --vary rigid-most shows, %q", got, pinned)
	}
}

// TestSimulateTeams checks what is written where teams share the pool.
func TestSimulateTeams(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	trace := write("own.csv", "job_id,submit_s,duration_s,gpus,group\na,0,600,32,vision\nb,1,600,32,speech\nc,2,60,8,speech\n")
	groups := write("groups.csv", "id,quota\nvision,3\nspeech,5\n")
	out := filepath.Join(folder, "results")
	stdout, stderr, status := runWith(t, nil, "simulate", "--trace", trace, "--groups", groups, "--nodes=8",
		"--policy=static-partitions,total-time", "--out", out)
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	for _, want := range []string{"HELD", "  TEAM\n", "1.00\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout does not show %q:\n%s", want, stdout)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct{ Runs []sim.Summary }
	if err := json.Unmarshal(text, &summary); err != nil {
		t.Fatal(err)
	}
	for _, run := range summary.Runs {
		if len(run.Teams) != 2 || run.Teams[0].Team != "vision" || run.Teams[0].Quota != 3 || run.Teams[1].Jobs != 2 ||
			run.WorstTeam == nil || run.Policy == sim.PartitionsPolicy && *run.WorstTeam != 1 {
			t.Errorf("the run is %+v; want two teams, each beside its partition", run)
		}
	}
	jobs, err := os.ReadFile(filepath.Join(out, "jobs.csv"))
	if err != nil || !strings.Contains(string(jobs), ",speech,completed\n") {
		t.Errorf("jobs.csv has no team: %v\n%s", err, jobs)
	}
}

// simulatedJobs simulates the synthetic baseline and returns the table of its jobs.
func simulatedJobs(t *testing.T, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "results")
	_, stderr, status := runWith(t, nil, append([]string{"simulate", "--synthetic=baseline", "--out", out}, args...)...)
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	jobs, err := os.ReadFile(filepath.Join(out, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	return string(jobs)
}

// TestSimulateTotalTime checks that parameters of the objective reach the policies.
func TestSimulateTotalTime(t *testing.T) {
	simulate := func(args ...string) string {
		return simulatedJobs(t, append([]string{"--nodes=70", "--policy=total-time,greedy"}, args...)...)
	}
	plain := simulate()
	if plain != simulate("--total-time=rescale_price=75,fairness=1,aging=8h") {
		t.Error("the defaults are others than said")
	}
	if plain == simulate("--total-time=rescale_price=1h") {
		t.Error("a price of changes changes nothing")
	}
}

// TestSimulateToldETAs: what policies are told of the work left reaches those that look at it
// alone.
func TestSimulateToldETAs(t *testing.T) {
	if testing.Short() {
		t.Skip("whole simulations take minutes under the race detector")
	}
	simulate := func(policy string, args ...string) string {
		return simulatedJobs(t, append([]string{"--nodes=70", "--policy=" + policy}, args...)...)
	}
	for _, policy := range []string{"optimal", "max-min"} {
		plain := simulate(policy)
		for _, told := range []string{"--eta-sigma=0.7", "--eta=unknown", "--eta=unknown --eta-sigma=0.7"} {
			if same := simulate(policy, strings.Fields(told)...) == plain; same != (policy == "max-min") {
				t.Errorf("with %s, %s makes the same of the jobs: %v", told, policy, same)
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
	for _, outcome := range []string{",completed\n", ",hung\n", ",killed\n"} {
		if !strings.Contains(one, outcome) {
			t.Errorf("no job has the outcome %q", outcome)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(trace, []byte("job_id,submit_s,duration_s,gpus\na,0,1,1\nb,0,x,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apps, speeds := filepath.Join(t.TempDir(), "apps.csv"), filepath.Join(t.TempDir(), "speeds.csv")
	for file, text := range map[string]string{
		apps:   "job_id,submit_s,duration_s,gpus,application,work_s,min_nodes\nx,0,,1,gpt,60,4\n",
		speeds: "application,node_type,nodes,speed\nbert,a,1,1\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const good, typed = "--trace=../elastalloc/testdata/trace.csv --nodes=4", "--trace=../elastalloc/testdata/trace.csv --node-types"
	for args, want := range map[string]string{
		"--nodes=4":                    "[trace synthetic] is required",
		good + " --synthetic=baseline": "[synthetic trace] were all set",
		"--synthetic=baseline":         "[nodes node-types] is required",
		"--synthetic=baseline --nodes=4 --gpus-per-node=4":       "[gpus-per-node synthetic] were all set",
		"--synthetic=other --nodes=4":                            `--synthetic is "other"; want one of baseline, heterogeneous`,
		"--trace=missing.csv --nodes=4":                          "no such file",
		"--nodes=4 --trace=" + trace:                             `bad.csv: trace line 3: duration_s is "x"`,
		"--trace=../elastalloc/testdata/trace.csv --nodes=0,4,4": "--nodes is 0; want 1 to 2147483647\n  --nodes names 4 twice",
		good + " --policy=best":                                  `unknown policy "best" (want one of optimal, `,
		good + " --policy=fifo,fifo":                             `--policy names "fifo" twice`,
		good + " --min-duration=-1s":                             "--min-duration is -1s",
		good + " --min-duration=1000h":                           "trace has no job of at least 1000h",
		good + " --min-duration=soon":                            `--min-duration is "soon"; want a duration, such as 90s`,
		good + " --gpus-per-node=0":                              "--gpus-per-node is 0; want at least 1",
		good + " --frequency=0":                                  "--frequency is 0s",
		good + " --frequency=1.5s":                               "--frequency is 1.5s; want whole seconds",
		good + " --steps=25":                                     "--steps is 25; want 1 to 24",
		good + " --scaling-delay=5m":                             "--scaling-delay is 5m0s; want whole seconds, at least 0s and less than the frequency",
		good + " --restart-time=1.5s":                            "--restart-time is 1.5s; want whole seconds",
		good + " --restart-time=15s --scaling-delay=15s":         "--restart-time is set beside a scaling delay; want at most one",
		good + " --vary=colours":                                 `--vary: unknown variation "colours" (want some of weights, `,
		good + " --vary=weights,weights-rising":                  `--vary: variation "weights-rising" is one too many`,
		good + " --vary=minimums,rigid-most":                     `--vary: variation "rigid-most" is one too many`,
		good + " --policy=recorded":                              "has no start_s",
		good + " --eta-error=1":                                  "--eta-error is 1; want at least 0 and less than 1",
		good + " --eta-error=30":                                 "--eta-error is 30; want at least 0 and less than 1; did you mean 0.3?",
		good + " --eta-error=NaN":                                "--eta-error is NaN",
		good + " --eta-sigma=-1":                                 "--eta-sigma is -1; want 0 to 5",
		good + " --eta-sigma=NaN":                                "--eta-sigma is NaN",
		good + " --eta=guessed":                                  "want one of told, unknown",
		good + " --eta=unknown --eta-error=0.1":                  "[eta eta-error]",
		good + " --bug-share=0.6 --kill-share=0.5":               "together at most 1",
		good + " --workers=0":                                    "--workers is 0",
		good + " --quotas=fair":                                  "--quotas is \"fair\"; want one of demand, equal",
		good + " --teams=-1 --team-limit=0.5":                    "--teams is -1; want at least 1\n  --team-limit is 0.5; want 1 to 1e+06",
		good + " --team-limit=2":                                 "--team-limit has no teams",
		good + " --teams=1000":                                   "trace has 2 users; want at least one for each of 1000 teams",
		good + " --total-time=speed=1,aging=soon,fairness=x": "--total-time: aging is \"soon\"; want a duration, such as 90s, 5m or 300\n" +
			"  --total-time: fairness is \"x\"; want a number\n  --total-time: unknown parameter \"speed\" (want some of aging, eta_error, fairness, ",
		good + " --total-time=quota_price=-1":        "--total-time: quota_price is -1; want 0 to 1e+06",
		good + " --policy=fifo --total-time=aging=0": "--total-time sets aging; want a policy of total time",
		good + " --quotas=equal":                     "of trace has no group",
		good + " --groups=missing.csv":               "no such file",
		good + " --groups=" + trace:                  "bad.csv: groups line 1: column id is missing\n  line 1: column quota is missing",
		good + " --policy=static-partitions":         "the policy static-partitions needs teams",
		good + " --node-types=fast=2":                "[node-types nodes] were all set",
		good + " --policy=type-kept":                 "the policy type-kept needs node types",
		good + " --speeds=missing.csv":               "--speeds has no node types; want --node-types as well",
		typed + "=fast=0,slow=2:x,,=3": "--node-types: \"fast=0\" names no nodes; want ID=NODES[:SPEED], such as a100=16:4\n" +
			"  --node-types: \"slow=2:x\" has speed \"x\"; want a number greater than 0 and at most 1e+09\n" +
			"  --node-types: \"\" names no nodes; want ID=NODES[:SPEED], such as a100=16:4\n",
		typed + "=a=2,b=2 --node-types=a=4":                    "--node-types names two clusters of 4 nodes; results are told apart by that",
		typed + "=a=2,a=2":                                     `"a" twice`,
		typed + "=a=2 --policy=fifo":                           "the policy fifo knows no node types (want some of total-time, ",
		typed + "=a=2 --scaling-delay=15s":                     "--scaling-delay is set beside node types; want a restart time",
		typed + "=a=2 --teams=1":                               "beside teams",
		typed + "=a=2 --speeds=missing.csv":                    "no such file",
		typed + "=a=2 --speeds=" + trace:                       "bad.csv: speeds line 1: column application is missing\n  line 1: column node_type is missing",
		typed + "=a=2 --trace=" + apps + " --speeds=" + speeds: `apps: job "x" has the application "gpt", of which there are no speeds`,
		typed + "=b=2 --trace=" + apps:                         "has no size that fits a node type of the cluster",
	} {
		t.Run(args, func(t *testing.T) {
			parent := t.TempDir()
			out := filepath.Join(parent, "results")
			stdout, stderr, status := runWith(t, nil, append([]string{"simulate", "--out", out}, strings.Fields(args)...)...)
			if status != cli.ExitBadInput || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("exit status %d, stdout %q, stderr %q; want %d and %q", status, stdout, stderr, cli.ExitBadInput, want)
			}
			if left := filesIn(t, parent); len(left) != 0 {
				t.Errorf("unexpected files: %v", left)
			}
		})
	}
}

func TestSimulateKeepsExistingFiles(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "--trace=../elastalloc/testdata/trace.csv", "--nodes=4", "--policy=fifo", "--out", out}
	_, stderr, status := runWith(t, nil, args...)
	if status != cli.ExitBadInput || !strings.Contains(stderr, "exists and is not empty") {
		t.Errorf("exit status %d, stderr %q; want the folder refused", status, stderr)
	}
	if diff := cmp.Diff([]string{"notes.txt"}, filesIn(t, out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	parent := t.TempDir()
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{
		"simulate", "--synthetic=baseline", "--nodes=70", "--out", filepath.Join(parent, "results"),
	}, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, func(string) (string, bool) { return "", false })
	if status != cli.ExitFailed || !strings.Contains(stderr.String(), "interrupted; nothing was written") {
		t.Errorf("exit status %d, stderr %q; want %d", status, &stderr, cli.ExitFailed)
	}
	if left := filesIn(t, parent); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSimulateNeedsItsSolver checks that a missing program is an error instead of a
// fallback to another backend.
func TestSimulateNeedsItsSolver(t *testing.T) {
	parent := t.TempDir()
	_, stderr, status := runWith(t, nil, "simulate", "--trace=../elastalloc/testdata/trace.csv", "--nodes=4",
		"--policy=optimal-cbc", "--cbc=/nonexistent/cbc", "--out", filepath.Join(parent, "results"))
	if status != cli.ExitFailed || !strings.Contains(stderr, "backend cbc:") {
		t.Errorf("exit status %d, stderr %q; want cbc missed", status, stderr)
	}
	if left := filesIn(t, parent); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

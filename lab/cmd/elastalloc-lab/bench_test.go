package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/testing/clitest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// benchResults runs bench with JSON output and returns its rows.
func benchResults(t *testing.T, env map[string]string, args ...string) []benchRow {
	t.Helper()
	stdout, stderr, status := runWith(t, env, append([]string{"bench", "-o", "json"}, args...)...)
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	return parseBench(t, stdout)
}

// parseBench parses the JSON of bench and fails for an unknown field.
func parseBench(t *testing.T, stdout string) []benchRow {
	t.Helper()
	var report struct {
		Results []benchRow `json:"results"`
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return report.Results
}

func TestBench(t *testing.T) {
	rows := benchResults(t, nil, "--backends", "exact,greedy", "--objective", "progress",
		"-f", "../../../cmd/elastalloc/testdata/queue.json", "../../../examples/snapshot.json")
	row := func(name string, jobs, nodes int, backend solver.BackendName, reason string, objective float64) benchRow {
		return benchRow{Instance: name, Jobs: jobs, Nodes: nodes, Backend: backend, Reason: reason, Objective: &objective}
	}
	want := []benchRow{
		row("queue", 4, 16, solver.BackendExact, "optimal", 12.676666667),
		row("queue", 4, 16, solver.BackendGreedy, "heuristic", 6.733333333),
		row("snapshot", 40, 110, solver.BackendExact, "optimal", 117.368278),
		row("snapshot", 40, 110, solver.BackendGreedy, "heuristic", 61.676942),
	}
	ignored := cmpopts.IgnoreFields(benchRow{}, "Bound", "RelativeGap", "WallSeconds")
	if diff := cmp.Diff(want, rows, ignored, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
		t.Fatalf("rows (-want +got):\n%s", diff)
	}
	for i, row := range rows {
		// The row of greedy has a proven bound, which is at least the optimum in the previous row.
		optimum := *rows[i-i%2].Objective
		if row.Bound == nil || *row.Bound < optimum || *row.RelativeGap != solver.RelativeGap(*row.Objective, *row.Bound) {
			t.Errorf("bound %v and gap %v of %s on %s; the optimum is %v", row.Bound, row.RelativeGap, row.Backend, row.Instance, optimum)
		}
		if row.WallSeconds <= 0 {
			t.Errorf("%s took %v s on %s", row.Backend, row.WallSeconds, row.Instance)
		}
	}
}

// TestBenchJSONNames checks the names of the JSON output, which scripts rely on.
func TestBenchJSONNames(t *testing.T) {
	stdout := succeed(t, "bench", "-o", "json", "-f", "../../../cmd/elastalloc/testdata/queue.json", "--backends", "exact")
	var report map[string][]map[string]any
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, row := range report["results"] {
		for name := range row {
			names[name] = true
		}
	}
	want := map[string]bool{
		"instance": true, "jobs": true, "nodes": true, "backend": true, "formulation": true, "reason": true,
		"objective": true, "bound": true, "relative_gap": true, "wall_s": true,
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// TestBenchObjectives decides a snapshot under both objectives. The formulation of the
// paper is not used for OBJECTIVE_TOTAL_TIME.
func TestBenchObjectives(t *testing.T) {
	const file = "../../../cmd/elastalloc/testdata/queue.json"
	rows := benchResults(t, nil, "--backends", "exact,greedy", "--objective", "progress,total-time", "-f", file)
	var names []string
	for _, row := range rows {
		names = append(names, row.Instance)
	}
	want := []string{"queue progress", "queue progress", "queue total-time", "queue total-time"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	if *rows[0].Objective == *rows[2].Objective || *rows[2].Objective < *rows[3].Objective {
		t.Errorf("objectives %v, %v, greedy's %v", *rows[0].Objective, *rows[2].Objective, *rows[3].Objective)
	}
	rows = benchResults(t, map[string]string{"ELASTALLOC_CBC": "/nonexistent/cbc"}, "--backends",
		"cbc", "--formulation", "one-hot,paper", "--objective", "total-time", "-f", file)
	if len(rows) != 1 || rows[0].Formulation != solver.FormulationOneHot || rows[0].Instance != "queue" {
		t.Errorf("rows %+v; want one of one-hot", rows)
	}
}

// TestBenchFolder checks which files of folders are instances, and their names.
func TestBenchFolder(t *testing.T) {
	folder := t.TempDir()
	queue := read(t, "../../../cmd/elastalloc/testdata/queue.json")
	for name, text := range map[string]string{
		"a.json": queue, "queue.json": queue, "b.json": `{"a": 1}`, "c.json": `{}`, "notes.txt": "no JSON",
	} {
		write(t, folder, name, text)
	}
	if err := os.Mkdir(filepath.Join(folder, "folder.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := runWith(t, nil, "bench", "-o", "json", "--backends",
		"greedy", "-f", folder, "-f", "../../../cmd/elastalloc/testdata/queue.json")
	if status != cli.ExitDone {
		t.Fatalf("exit status %d, stderr %q", status, stderr)
	}
	var names []string
	for _, row := range parseBench(t, stdout) {
		names = append(names, row.Instance)
	}
	if diff := cmp.Diff([]string{"a", filepath.Join(folder, "queue.json"), "../../../cmd/elastalloc/testdata/queue.json"}, names); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	clitest.CheckContains(t, "stderr", stderr, "parse AllocateRequest in ", "c.json: invalid request: snapshot: is missing")
	if strings.Count(stderr, "\n") != 2 {
		t.Errorf("stderr is %q; want a line for each of two files", stderr)
	}
}

// TestBenchTable compares the table of given rows with a golden file.
func TestBenchTable(t *testing.T) {
	row := func(name string, backend solver.BackendName, formulation solver.Formulation,
		reason string, seconds float64, figures ...float64) benchRow {
		r := benchRow{Instance: name, Jobs: 40, Nodes: 110, Backend: backend, Formulation: formulation, Reason: reason, WallSeconds: seconds}
		if len(figures) == 2 {
			gap := solver.RelativeGap(figures[0], figures[1])
			r.Objective, r.Bound, r.RelativeGap = &figures[0], &figures[1], &gap
		}
		return r
	}
	const exact, highs, cbc, greedy = solver.BackendExact, solver.BackendHiGHS, solver.BackendCBC, solver.BackendGreedy
	const oneHot, paper = solver.FormulationOneHot, solver.FormulationPaper
	rows := []benchRow{
		row("all have results", exact, "", "optimal", 0.002, 100, 100),
		row("all have results", highs, oneHot, "optimal", 0.2, 100, 100),
		row("all have results", highs, paper, "feasible", 60, 99, 100),
		row("all have results", cbc, oneHot, "unavailable", 0),
		row("all have results", greedy, "", "heuristic", 0.00001, 50, 100),
		row("exact is slower", exact, "", "optimal", 0.5, 10, 10),
		row("exact is slower", highs, oneHot, "optimal", 0.25, 10, 10),
		row("exact is slower", highs, paper, "timed-out", 60),
		row("exact is slower", cbc, oneHot, "unavailable", 0),
		row("exact is slower", greedy, "", "heuristic", 0.00002, 5, 10),
		row("no proof", exact, "", "feasible", 60, 10, 10.01),
		row("no proof", highs, oneHot, "feasible", 60, 10, 10.01),
		row("no proof", highs, paper, "crashed", 1),
		row("no proof", cbc, oneHot, "unavailable", 0),
		row("no proof", greedy, "", "heuristic", 0.00003, 5, 10.01),
	}
	candidateOf := func(name solver.BackendName, formulation solver.Formulation, version string, missing error) candidate {
		backend := elastalloc.Backend{Name: name, Version: version, Missing: missing}
		return candidate{backend: backend, formulation: formulation}
	}
	candidates := []candidate{
		candidateOf(exact, "", "", nil),
		candidateOf(highs, oneHot, "1.10.0", nil),
		candidateOf(highs, paper, "1.10.0", nil),
		candidateOf(cbc, oneHot, "", solver.ErrUnavailable),
		candidateOf(greedy, "", "", nil),
	}
	var table bytes.Buffer
	if err := writeBenchTable(&table, rows, candidates, cli.Screen{}); err != nil {
		t.Fatal(err)
	}
	clitest.CompareGolden(t, "bench.golden", table.String())
}

// fake is a backend with a given Solve function.
type fake struct {
	name  solver.BackendName
	solve func(context.Context, *problem.Problem) (problem.Result, error)
}

func (f fake) Name() solver.BackendName { return f.name }

func (f fake) Solve(ctx context.Context, p *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
	return f.solve(ctx, p)
}

// fakeCandidate returns HiGHS with a given Solve function.
func fakeCandidate(
	t *testing.T, limit time.Duration, solve func(context.Context, *problem.Problem) (problem.Result, error),
) candidate {
	t.Helper()
	c, err := newCandidate(solver.BackendHiGHS, nil, limit, func(b problem.Backend) problem.Backend {
		if b.Name() == solver.BackendHiGHS {
			return fake{solver.BackendHiGHS, solve}
		}
		return b
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// oneInstance returns an instance of one node and one job.
func oneInstance(name string) instance {
	return instance{
		name:     name,
		snapshot: &solver.Snapshot{TotalNodes: 1, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{solver.NewJob("a", time.Hour)}},
		options:  solver.Options{Objective: solver.ObjectiveProgress}.WithDefaults(),
	}
}

// TestBenchWithoutPlan checks that the row of a backend without a plan has its outcome, and no numbers of the
// fallback.
func TestBenchWithoutPlan(t *testing.T) {
	for reason, solve := range map[string]func(context.Context, *problem.Problem) (problem.Result, error){
		"unavailable": func(context.Context, *problem.Problem) (problem.Result, error) {
			return problem.Result{}, solver.ErrUnavailable
		},
		"crashed":      func(context.Context, *problem.Problem) (problem.Result, error) { panic("a step of -1") },
		"invalid-plan": func(context.Context, *problem.Problem) (problem.Result, error) { return problem.Result{Bound: 1}, nil },
		"timed-out": func(ctx context.Context, _ *problem.Problem) (problem.Result, error) {
			<-ctx.Done() // until the limit
			return problem.Result{}, ctx.Err()
		},
	} {
		t.Run(reason, func(t *testing.T) {
			limit := time.Minute
			if reason == "timed-out" {
				limit = 10 * time.Millisecond
			}
			backend := fakeCandidate(t, limit, solve)
			backend.formulation = solver.FormulationPaper
			rows, err := compare(t.Context(), []instance{oneInstance("one")}, []candidate{backend}, new(progress))
			if err != nil {
				t.Fatal(err)
			}
			want := []benchRow{{
				Instance: "one", Jobs: 1, Nodes: 1, Backend: solver.BackendHiGHS, Formulation: solver.FormulationPaper, Reason: reason,
			}}
			if diff := cmp.Diff(want, rows, cmpopts.IgnoreFields(benchRow{}, "WallSeconds")); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBenchKeepsPlanOfBackend checks that the row of a backend whose plan the check improves has the objective of
// the backend, and its gap to the bound of the check.
func TestBenchKeepsPlanOfBackend(t *testing.T) {
	one := oneInstance("one")
	one.snapshot.TotalNodes = 4
	backend := fakeCandidate(t, time.Minute, func(_ context.Context, p *problem.Problem) (problem.Result, error) {
		plan := problem.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for step := range plan[i] {
				plan[i][step] = p.Jobs[i].Options[0]
			}
		}
		return problem.Result{Plan: plan, Bound: math.Inf(1), Claim: &problem.Claim{Objective: math.NaN(), Bound: math.NaN()}}, nil
	})
	row, err := measure(t.Context(), one, backend)
	if err != nil {
		t.Fatal(err)
	}
	exact, err := newCandidate(solver.BackendExact, nil, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	best, err := measure(t.Context(), one, exact)
	if err != nil {
		t.Fatal(err)
	}
	if row.Reason != "feasible" || *row.Objective >= *best.Objective || *row.Bound != *best.Bound ||
		*row.RelativeGap != solver.RelativeGap(*row.Objective, *row.Bound) {
		t.Errorf("%s: objective %v, bound %v, gap %v; the optimum is %v",
			row.Reason, *row.Objective, *row.Bound, *row.RelativeGap, *best.Objective)
	}
}

// TestBenchCheckLimit checks that the search and the bound of the check share one limit, and that the proof of a
// solver counts if the check has none.
func TestBenchCheckLimit(t *testing.T) {
	last := trial{checked: time.Minute}
	c := check{limit: time.Minute, last: &last}
	ctx, done := c.begin(t.Context())
	defer done()
	if ctx.Err() == nil {
		t.Error("a check continues after its limit")
	}
	rows := []benchRow{
		{Instance: "one", Reason: "feasible", WallSeconds: 2, Claimed: true},
		{Instance: "one", Reason: "optimal", WallSeconds: 3},
		{Instance: "one", Reason: "feasible", WallSeconds: 1},
	}
	if diff := cmp.Diff(map[string]float64{"one": 2}, fastestOptima(rows)); diff != "" {
		t.Errorf("fastest proofs (-want +got):\n%s", diff)
	}
}

// TestBenchInterrupted checks that completed rows are kept.
func TestBenchInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	backend := fakeCandidate(t, time.Minute, func(ctx context.Context, _ *problem.Problem) (problem.Result, error) {
		if calls++; calls == 2 {
			cancel()
			return problem.Result{}, ctx.Err()
		}
		return problem.Result{}, errors.New("broken")
	})
	instances := []instance{oneInstance("first"), oneInstance("second"), oneInstance("third")}
	rows, err := compare(ctx, instances, []candidate{backend}, new(progress))
	if err == nil || err.Error() != "interrupted after 1 of 3 rows" {
		t.Errorf("error %v; want the interruption", err)
	}
	if len(rows) != 1 || rows[0].Instance != "first" {
		t.Errorf("rows %+v; want the row of the first instance", rows)
	}
}

// TestBenchStopsOnSignal interrupts the real program while a solver hangs.
func TestBenchStopsOnSignal(t *testing.T) {
	folder := t.TempDir()
	started := filepath.Join(folder, "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Skipf("named pipes are not supported: %v", err)
	}
	// The solver reports that it has started, and hangs.
	program := filepath.Join(folder, "highs")
	script := "#!/bin/sh\n[ \"$1\" = --version ] && echo 'HiGHS version 1.10.0' && exit\necho >'" + started + "'\nsleep 600\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), binary, "bench", "-o", "json", "-f",
		"../../../cmd/elastalloc/testdata/queue.json", "--backends", "exact,highs", "--highs", program)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := command.Wait()
	if status := command.ProcessState.ExitCode(); status != cli.ExitFailed ||
		!strings.Contains(stderr.String(), "interrupted after 1 of 2 rows") {
		t.Errorf("%v, exit status %d, stderr %q; want %d and the interruption", err, status, stderr.String(), cli.ExitFailed)
	}
	if rows := parseBench(t, stdout.String()); len(rows) != 1 || rows[0].Reason != "optimal" {
		t.Errorf("rows %+v; want the row of exact", rows)
	}
}

// TestBenchWithoutSolvers checks that a missing program does not stop the others.
func TestBenchWithoutSolvers(t *testing.T) {
	env := map[string]string{"ELASTALLOC_CBC": "/nonexistent/cbc", "ELASTALLOC_HIGHS": "/nonexistent/highs"}
	var reasons []string
	for _, row := range benchResults(t, env, "-f", "../../../cmd/elastalloc/testdata/queue.json") {
		reasons = append(reasons, string(row.Backend)+" "+row.Reason)
		if (row.Objective == nil) != (row.Reason == "unavailable") {
			t.Errorf("the objective of %s is %v although it is %s", row.Backend, row.Objective, row.Reason)
		}
	}
	if diff := cmp.Diff([]string{"exact optimal", "highs unavailable", "cbc unavailable"}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// TestBenchSolvers compares exact with the real solvers in both formulations.
func TestBenchSolvers(t *testing.T) {
	env := map[string]string{
		"ELASTALLOC_CBC":   solvertest.Program(t, solver.BackendCBC),
		"ELASTALLOC_HIGHS": solvertest.Program(t, solver.BackendHiGHS),
	}
	rows := benchResults(t, env, "--formulation", "one-hot,paper", "-f", "../../../cmd/elastalloc/testdata/queue.json",
		"../../../cmd/elastalloc/testdata/more_jobs_than_nodes.json", "../../../cmd/elastalloc/testdata/shrunken_pool.json")
	if len(rows) != 3*5 {
		t.Fatalf("%d rows; want the rows of five candidates on three instances", len(rows))
	}
	for i, row := range rows {
		optimum := rows[i-i%5].Objective
		if row.Reason != "optimal" || row.Objective == nil || math.Abs(*row.Objective-*optimum) > 1e-6**optimum {
			t.Errorf("%s: %s %s is %s with %v; want the optimum %v", row.Instance, row.Backend, row.Formulation, row.Reason, row.Objective, *optimum)
		}
		if (row.Formulation == "") != (row.Backend == solver.BackendExact) {
			t.Errorf("%s has the formulation %q", row.Backend, row.Formulation)
		}
	}
}

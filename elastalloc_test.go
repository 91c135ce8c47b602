package elastalloc_test

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/audittest"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// missingPrograms returns names of programs that do not exist.
func missingPrograms() map[solver.BackendName]string {
	return map[solver.BackendName]string{"cbc": "/nonexistent/cbc", "highs": "/nonexistent/highs"}
}

// auditedAllocator audits all of its decisions.
type auditedAllocator struct{ *elastalloc.Allocator }

func (a auditedAllocator) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	return audittest.Allocate(ctx, s, o, a.Allocator.Allocate)
}

// newAllocator returns an allocator without a default time budget.
func newAllocator(t *testing.T, options elastalloc.Options) auditedAllocator {
	t.Helper()
	if options.DefaultBudget == 0 {
		options.DefaultBudget = elastalloc.NoBudget
	}
	a, err := elastalloc.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return auditedAllocator{a}
}

// twoJobs returns a snapshot without optional fields.
func twoJobs() *solver.Snapshot {
	return &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
		{ID: "a", RemainingETA: time.Hour}, {ID: "b", RemainingETA: 3 * time.Hour},
	}}
}

func TestBackends(t *testing.T) {
	for name, test := range map[string]struct {
		names   []solver.BackendName
		want    []solver.BackendName
		problem string
	}{
		"the default": {want: []solver.BackendName{"exact", "greedy"}},
		"all": {
			names: []solver.BackendName{"highs", "exact", "cbc", "greedy"}, want: []solver.BackendName{"highs", "exact", "cbc", "greedy"},
		},
		"greedy alone":   {names: []solver.BackendName{"greedy"}, want: []solver.BackendName{"greedy"}},
		"none":           {names: []solver.BackendName{}, want: []solver.BackendName{"greedy"}},
		"greedy first":   {names: []solver.BackendName{"greedy", "exact"}, problem: `backend "greedy" never fails`},
		"unknown":        {names: []solver.BackendName{"exact", "gurobi"}, problem: `unknown backend "gurobi" (must be one of exact, `},
		"in upper case":  {names: []solver.BackendName{"EXACT"}, problem: `unknown backend "EXACT"`},
		"one twice":      {names: []solver.BackendName{"exact", "cbc", "exact"}, problem: `backend "exact" is named twice`},
		"without a name": {names: []solver.BackendName{""}, problem: `unknown backend ""`},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := elastalloc.New(elastalloc.Options{Backends: test.names, Programs: missingPrograms()})
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("error %v; want %q", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []solver.BackendName
			for _, backend := range a.Backends() {
				names = append(names, backend.Name)
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("backends (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLiteralSnapshot checks that unset fields and explicit defaults lead to the same decision.
func TestLiteralSnapshot(t *testing.T) {
	explicit := twoJobs()
	explicit.Horizon = solver.DefaultHorizon()
	for i := range explicit.Jobs {
		explicit.Jobs[i] = solver.NewJob(explicit.Jobs[i].ID, explicit.Jobs[i].RemainingETA)
	}
	a := newAllocator(t, elastalloc.Options{})
	literal := twoJobs()
	got, err := a.Allocate(t.Context(), literal, solver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := a.Allocate(t.Context(), explicit, solver.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Allocations, got.Allocations); diff != "" {
		t.Errorf("allocations (-explicit +literal):\n%s", diff)
	}
	if got.Report.Reason != solver.ReasonOptimal || got.Report.Objective != want.Report.Objective {
		t.Errorf("report %+v; want the proven optimum %v", got.Report, want.Report.Objective)
	}
	byName, err := a.Allocate(t.Context(), explicit, solver.Options{
		Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
	})
	if err != nil || byName.Report.Objective != got.Report.Objective || len(got.Report.Warnings) > 0 {
		t.Errorf("report %+v, %v by name and the warnings %v; want the objective %v of the defaults",
			byName.Report, err, got.Report.Warnings, got.Report.Objective)
	}
	if diff := cmp.Diff(twoJobs(), literal); diff != "" {
		t.Errorf("the caller's snapshot was changed (-before +after):\n%s", diff)
	}
}

// TestBadFields checks values that only callers in process can pass. None of them panics.
func TestBadFields(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{MaxJobs: 3})
	job := func(change func(*solver.Job)) *solver.Snapshot {
		s := twoJobs()
		change(&s.Jobs[1])
		return s
	}
	for name, test := range map[string]struct {
		snapshot *solver.Snapshot
		options  solver.Options
		want     []string
	}{
		"no snapshot":   {nil, solver.Options{}, []string{"snapshot"}},
		"negative pool": {&solver.Snapshot{TotalNodes: -1}, solver.Options{}, []string{"snapshot.total_nodes"}},
		"empty job": {
			&solver.Snapshot{Jobs: make([]solver.Job, 1)}, solver.Options{}, []string{"snapshot.jobs[0].id", "snapshot.jobs[0].remaining_eta"},
		},
		"same id":  {job(func(j *solver.Job) { j.ID = "a" }), solver.Options{}, []string{"snapshot.jobs[1].id"}},
		"ETA of 0": {job(func(j *solver.Job) { j.RemainingETA = 0 }), solver.Options{}, []string{"snapshot.jobs[1].remaining_eta"}},
		"negative range": {
			job(func(j *solver.Job) { j.MinNodes, j.MaxNodes = -1, -1 }), solver.Options{}, []string{"snapshot.jobs[1].min_nodes"},
		},
		"NaN weight": {job(func(j *solver.Job) { j.Weight = new(math.NaN()) }), solver.Options{}, []string{"snapshot.jobs[1].weight"}},
		"empty speeds": {
			job(func(j *solver.Job) { j.Scaling.Speeds = []float64{} }), solver.Options{}, []string{"snapshot.jobs[1].scaling.table.speeds"},
		},
		"empty sizes":   {job(func(j *solver.Job) { j.AllowedNodes = []int{} }), solver.Options{}, []string{"snapshot.jobs[1].allowed_nodes"}},
		"too many jobs": {&solver.Snapshot{Jobs: make([]solver.Job, 4)}, solver.Options{}, []string{"snapshot.jobs"}},
		"huge pool":     {&solver.Snapshot{TotalNodes: math.MaxInt}, solver.Options{}, []string{"snapshot.total_nodes"}},
		"huge sizes": {
			job(func(j *solver.Job) {
				j.MinNodes, j.MaxNodes, j.CurrentNodes, j.ETANodes = math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt
				j.AllowedNodes = []int{1, math.MaxInt}
			}), solver.Options{},
			[]string{
				"snapshot.jobs[1].min_nodes", "snapshot.jobs[1].max_nodes", "snapshot.jobs[1].current_nodes",
				"snapshot.jobs[1].allowed_nodes[1]", "snapshot.jobs[1].eta_nodes",
			},
		},
		"no demand": {
			job(func(j *solver.Job) { j.ETANodes, j.Scaling.DoublingEfficiency = 1<<20, 1e-300 }),
			solver.Options{}, []string{"snapshot.jobs[1].eta_nodes"},
		},
		"options": {
			twoJobs(), solver.Options{Backend: "gurobi", Formulation: "two-hot", TimeBudget: -1, RelativeGap: math.NaN(), Admission: "lifo"},
			[]string{"options.backend", "options.formulation", "options.time_budget", "options.relative_gap", "options.admission"},
		},
		"both": {job(func(j *solver.Job) { j.ID = "" }), solver.Options{RelativeGap: 1}, []string{"snapshot.jobs[1].id", "options.relative_gap"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.Allocate(t.Context(), test.snapshot, test.options)
			paths := solvertest.InvalidPaths(t, err)
			if diff := cmp.Diff(test.want, paths); diff != "" {
				t.Errorf("bad fields (-want +got):\n%s", diff)
			}
			if strings.HasPrefix(paths[0], "snapshot") {
				_, err := a.FillIdle(t.Context(), test.snapshot)
				if solvertest.InvalidPaths(t, err) == nil {
					t.Error("idle nodes are filled; want bad fields")
				}
			}
		})
	}
}

func TestFillIdle(t *testing.T) {
	s := twoJobs()
	s.Jobs[0].CurrentNodes = 4
	s.Jobs = append(s.Jobs, solver.Job{ID: "never", RemainingETA: time.Hour, MinNodes: 9},
		solver.Job{ID: "c", RemainingETA: time.Hour}, solver.Job{ID: "d", RemainingETA: time.Hour})
	s.TotalNodes = 8
	s.Jobs[1], s.Jobs[2] = s.Jobs[2], s.Jobs[1] // The job that never fits is first in the queue.
	got, err := newAllocator(t, elastalloc.Options{}).FillIdle(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	want := solver.Decision{
		Allocations: []solver.Allocation{
			{JobID: "a", Current: 4, Nodes: 4, Change: solver.ChangeKeep},
			{JobID: "never", Change: solver.ChangeWait, WaitReason: solver.WaitNeverFits},
			{JobID: "b", Nodes: 4, Change: solver.ChangeStart},
			{JobID: "c", Change: solver.ChangeWait, WaitReason: solver.WaitNoRoom},
			{JobID: "d", Change: solver.ChangeWait, WaitReason: solver.WaitBehind, BehindJobID: "c"},
		},
		Report: solver.Report{Warnings: []solver.Warning{
			{Code: solver.WarningNeverFits, JobID: "never", Message: `job "never" needs at least 16 nodes; the pool has 8`},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newAllocator(t, elastalloc.Options{}).FillIdle(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("the error of a canceled call is %v", err)
	}
}

// TestFormulationIgnored checks that a formulation without effect is a warning, and that an external
// backend cannot decide the default objective with the formulation of the paper.
func TestFormulationIgnored(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{Backends: []solver.BackendName{solver.BackendExact, solver.BackendCBC}})
	s := &solver.Snapshot{TotalNodes: 1, Jobs: []solver.Job{solver.NewJob("a", time.Hour)}}
	for _, formulation := range []solver.Formulation{solver.FormulationPaper, solver.FormulationOneHot, ""} {
		d, err := a.Allocate(t.Context(), s, solver.Options{Formulation: formulation})
		want := "options.formulation is " + solver.APIName("FORMULATION", formulation) +
			" and has no effect: options.backend is BACKEND_EXACT and options.objective is OBJECTIVE_TOTAL_TIME"
		if w := d.Report.Warnings; err != nil || (formulation == "") != (len(w) == 0) ||
			len(w) > 0 && (w[0].Code != solver.WarningOptionsIgnored || w[0].Message != want) {
			t.Errorf("%q: warnings %+v, %v; want %s", formulation, w, err, want)
		}
		d, err = a.Allocate(t.Context(), s, solver.Options{Formulation: formulation, Objective: solver.ObjectiveProgress})
		if err != nil || len(d.Report.Warnings) > 0 {
			t.Errorf("%q with the objective progress: warnings %+v, %v", formulation, d.Report.Warnings, err)
		}
	}
	for _, backend := range []solver.BackendName{solver.BackendCBC, solver.BackendHiGHS} {
		_, err := a.Allocate(t.Context(), s, solver.Options{Backend: backend, Formulation: solver.FormulationPaper})
		want := "options.formulation: is FORMULATION_PAPER, for which options.objective must be OBJECTIVE_PROGRESS; it is OBJECTIVE_TOTAL_TIME"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", backend, err, want)
		}
	}
}

// TestDefaultObjectiveDecidesAll checks that a snapshot that the objective of the paper cannot decide needs
// no options.
func TestDefaultObjectiveDecidesAll(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{})
	job := solver.NewJob("a", time.Hour)
	grouped := job
	grouped.GroupID = "team"
	for name, s := range map[string]*solver.Snapshot{
		"groups":      {TotalNodes: 4, Jobs: []solver.Job{grouped}, Groups: []solver.Group{{ID: "team", Limit: new(2)}}},
		"node types":  {TotalNodes: 4, Jobs: []solver.Job{job}, NodeTypes: []solver.NodeType{{ID: "x", Nodes: 2}, {ID: "y", Nodes: 2}}},
		"size limits": {TotalNodes: 4, Jobs: []solver.Job{job}, SizeLimits: []solver.SizeLimit{{Size: 4, Nodes: 0}}},
	} {
		if d, err := a.Allocate(t.Context(), s, solver.Options{}); err != nil || d.Allocations[0].Nodes != 2 {
			t.Errorf("%s: %+v, %v; want 2 nodes", name, d.Allocations, err)
		}
		if _, err := a.Allocate(t.Context(), s, solver.Options{Objective: solver.ObjectiveProgress}); err == nil {
			t.Errorf("%s with the objective progress: no error", name)
		}
	}
}

// TestOptionsIgnored checks the warning for parameters of the other objective.
func TestOptionsIgnored(t *testing.T) {
	s := &solver.Snapshot{TotalNodes: 1, Jobs: []solver.Job{solver.NewJob("a", time.Hour)}}
	for objective, want := range map[solver.Objective]int{"": 0, solver.ObjectiveProgress: 1, solver.ObjectiveTotalTime: 0} {
		d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(), s, solver.Options{
			Objective: objective, TotalTime: solver.TotalTimeOptions{Aging: new(time.Hour)},
		})
		if err != nil || len(d.Report.Warnings) != want {
			t.Errorf("%q: warnings %+v, %v; want %d", objective, d.Report.Warnings, err, want)
		}
		for _, w := range d.Report.Warnings {
			if w.Code != solver.WarningOptionsIgnored ||
				w.Message != "options.total_time is set and has no effect: options.objective is OBJECTIVE_PROGRESS" {
				t.Errorf("the warning is %+v", w)
			}
		}
	}
}

// TestSpeedsWithoutNodeTypes checks that speeds on node types have no effect on the decision and its
// audit if there are no node types.
func TestSpeedsWithoutNodeTypes(t *testing.T) {
	job := solver.Job{ID: "a", RemainingETA: time.Hour, Speeds: []solver.TypeSpeed{{NodeType: "fast", AllowedNodes: []int{64}}}}
	for allowed, want := range map[int]int{0: solver.DefaultMaxNodes, 4: 4} {
		if allowed > 0 {
			job.AllowedNodes = []int{allowed}
		}
		d, err := newAllocator(t, elastalloc.Options{}).Allocate(t.Context(),
			&solver.Snapshot{TotalNodes: 64, Jobs: []solver.Job{job}}, solver.Options{})
		if err != nil || d.Allocations[0].Nodes != want {
			t.Errorf("%+v, %v; want %d nodes", d.Allocations, err, want)
		}
		job.AllowedNodes = nil
	}
}

// TestMissingPrograms checks that a backend without its program reports it, and that decisions fall back.
func TestMissingPrograms(t *testing.T) {
	for _, noBreakers := range []bool{false, true} {
		a := newAllocator(t, elastalloc.Options{
			Backends: []solver.BackendName{"cbc", "exact"}, Programs: missingPrograms(), NoBreakers: noBreakers,
		})
		cbc, exact := a.Backends()[0], a.Backends()[1]
		if !errors.Is(cbc.Missing, solver.ErrUnavailable) || cbc.Version != "" || cbc.State().Up {
			t.Errorf("cbc of version %q is missing for %v, up %v", cbc.Version, cbc.Missing, cbc.State().Up)
		}
		if exact.Missing != nil || !exact.State().Up {
			t.Errorf("exact is missing for %v", exact.Missing)
		}
		d, err := a.Allocate(t.Context(), twoJobs(), solver.Options{Backend: solver.BackendCBC})
		if err != nil {
			t.Fatal(err)
		}
		if d.Report.Backend != solver.BackendExact || d.Report.Attempts[0].Outcome != solver.OutcomeUnavailable {
			t.Errorf("report %+v; want the result of exact after cbc", d.Report)
		}
	}
}

func TestPrograms(t *testing.T) {
	programs := map[solver.BackendName]string{
		"cbc": solvertest.Program(t, solver.BackendCBC), "highs": solvertest.Program(t, solver.BackendHiGHS),
	}
	a := newAllocator(t, elastalloc.Options{Backends: []solver.BackendName{"cbc", "highs"}, Programs: programs})
	for _, backend := range a.Backends()[:2] {
		if backend.Missing != nil || backend.Version == "" || !backend.State().Up {
			t.Errorf("%s has version %q and is missing for %v", backend.Name, backend.Version, backend.Missing)
		}
	}
}

// TestProbeOfAnotherProgram checks that a program that is not the solver counts as missing.
func TestProbeOfAnotherProgram(t *testing.T) {
	a := newAllocator(t, elastalloc.Options{
		Backends: []solver.BackendName{"cbc"}, Programs: map[solver.BackendName]string{"cbc": "true"},
	})
	if missing := a.Backends()[0].Missing; !errors.Is(missing, solver.ErrUnavailable) {
		t.Errorf("missing is %v; want it to wrap %v", missing, solver.ErrUnavailable)
	}
}

// wrongSolver is a solver that claims that a plan with one node per job is optimal.
type wrongSolver struct{}

func (wrongSolver) Name() solver.BackendName { return solver.BackendCBC }

func (wrongSolver) Solve(_ context.Context, p *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
	plan := make(problem.Plan, len(p.Jobs))
	for i := range plan {
		plan[i] = solver.Nodes(1, 1, 1, 1, 1)
	}
	return problem.Result{
		Plan: plan, Bound: math.Inf(1), Claim: &problem.Claim{Optimal: true, Objective: 1, Bound: 1}, Detail: "Optimal",
	}, nil
}

// TestClaimsAreVerified checks that a wrong claim is refuted, that the optimum is returned instead, and
// that the breaker opens.
func TestClaimsAreVerified(t *testing.T) {
	var opened []solver.BackendName
	// The probe of the program succeeds, so that the breaker is closed at first.
	program := filepath.Join(t.TempDir(), "cbc")
	script := "#!/bin/sh\necho 'Welcome to the CBC MILP Solver'\necho 'Version: 2.10.8'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	a := newAllocator(t, elastalloc.Options{
		Backends: []solver.BackendName{"cbc"}, Programs: map[solver.BackendName]string{"cbc": program},
		Middleware: func(b problem.Backend) problem.Backend {
			if b.Name() == solver.BackendCBC {
				return wrongSolver{}
			}
			return b
		},
		OnBackendChange: func(name solver.BackendName, state chain.BackendState) {
			if !state.Up {
				opened = append(opened, name)
			}
		},
	})
	if missing := a.Backends()[0].Missing; missing != nil {
		t.Fatal(missing)
	}
	for range chain.FailureThreshold {
		d, err := a.Allocate(t.Context(), twoJobs(), solver.Options{Backend: solver.BackendCBC, Objective: solver.ObjectiveProgress})
		if err != nil {
			t.Fatal(err)
		}
		if r := d.Report; r.Attempts[0].Outcome != solver.OutcomeInvalidPlan || r.Reason != solver.ReasonOptimal {
			t.Fatalf("report %+v; want the claim refuted and the optimum instead", r)
		}
	}
	if diff := cmp.Diff([]solver.BackendName{"cbc"}, opened); diff != "" {
		t.Errorf("opened breakers (-want +got):\n%s", diff)
	}
}

// TestProgramInstalledLater checks that a backend is used again by a trial after its program is installed.
func TestProgramInstalledLater(t *testing.T) {
	installed, err := exec.LookPath(solvertest.Program(t, solver.BackendCBC))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "cbc")
		var changes []bool
		a := newAllocator(t, elastalloc.Options{
			Backends: []solver.BackendName{"cbc", "exact"}, Programs: map[solver.BackendName]string{"cbc": program},
			OnBackendChange: func(_ solver.BackendName, state chain.BackendState) { changes = append(changes, state.Up) },
		})
		decide := func(want solver.Outcome) {
			t.Helper()
			// The context has no deadline and there is no budget, because the clock of the bubble
			// does not advance while the program runs.
			d, err := a.Allocate(context.Background(), twoJobs(), solver.Options{Backend: solver.BackendCBC})
			if err != nil {
				t.Fatal(err)
			}
			if attempt := d.Report.Attempts[0]; attempt.Backend != solver.BackendCBC || attempt.Outcome != want {
				t.Errorf("attempt %+v; want %s", attempt, want)
			}
		}
		decide(solver.OutcomeUnavailable)
		time.Sleep(chain.OpenDuration + 1)
		decide(solver.OutcomeUnavailable) // The trial fails, because the program is still missing.
		if err := os.Symlink(installed, program); err != nil {
			t.Fatal(err)
		}
		decide(solver.OutcomeUnavailable) // The breaker is open again.
		time.Sleep(chain.OpenDuration + 1)
		decide(solver.OutcomeAnswered)
		if diff := cmp.Diff([]bool{false, true}, changes); diff != "" {
			t.Errorf("changes to up (-want +got):\n%s", diff)
		}
	})
}

// counted counts the searches of a backend.
type counted struct {
	problem.Backend
	searches *int
}

func (c counted) Solve(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	*c.searches++
	return c.Backend.Solve(ctx, p, o)
}

// TestMiddleware checks that every backend is wrapped, including greedy.
func TestMiddleware(t *testing.T) {
	searches := make(map[solver.BackendName]*int)
	a := newAllocator(t, elastalloc.Options{Middleware: func(b problem.Backend) problem.Backend {
		searches[b.Name()] = new(int)
		return counted{b, searches[b.Name()]}
	}})
	if _, err := a.Allocate(t.Context(), twoJobs(), solver.Options{}); err != nil {
		t.Fatal(err)
	}
	if len(searches) != 2 || *searches["exact"] != 1 || *searches["greedy"] != 1 {
		t.Errorf("searches %v; want one of exact and one of greedy", searches)
	}
}

// TestBackendsAreListed checks that the import rules cover the package of every backend, and that the glossary names
// every backend.
func TestBackendsAreListed(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	rules, glossary := read(".golangci.yml"), read("docs/reference/glossary.md")
	const module = "github.com/elastalloc/elastalloc/"
	for _, path := range regexp.MustCompile(`"`+module+`(greedy|solver/\w+)"`).FindAllStringSubmatch(read("backends.go"), -1) {
		name := path[1]
		if name == "solver/chain" || name == "solver/problem" { // They have no backend.
			continue
		}
		for _, rule := range []string{`"**/` + name + `/*.go"`, "- pkg: " + module + name + "\n"} {
			if !strings.Contains(rules, rule) {
				t.Errorf(".golangci.yml lacks %q for the package of a backend", rule)
			}
		}
	}
	for _, name := range elastalloc.BackendNames() {
		if !regexp.MustCompile("(?m)^- \\*\\*Backend\\*\\*: .*`" + string(name) + "`").MatchString(glossary) {
			t.Errorf("docs/reference/glossary.md: the entry Backend lacks %s", name)
		}
	}
}

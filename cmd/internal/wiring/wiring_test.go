package wiring

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// nowhere names programs that are not there.
func nowhere() Programs { return Programs{CBC: "/nonexistent/cbc", HiGHS: "/nonexistent/highs"} }

func TestBackends(t *testing.T) {
	for name, test := range map[string]struct {
		names   string
		want    []solver.BackendName
		problem string
	}{
		"the default":         {names: "exact", want: []solver.BackendName{"exact"}},
		"all":                 {names: "highs exact cbc greedy", want: []solver.BackendName{"highs", "exact", "cbc"}},
		"greedy alone":        {names: "greedy", want: nil},
		"none":                {names: "", want: nil},
		"greedy not last":     {names: "greedy exact", problem: `backend "greedy" always answers`},
		"an unknown one":      {names: "exact gurobi", problem: `there is no backend "gurobi"; want some of exact, cbc, highs, greedy`},
		"one that is no name": {names: "EXACT", problem: `there is no backend "EXACT"`},
		"one twice":           {names: "exact cbc exact", problem: `backend "exact" is named twice`},
		"greedy twice":        {names: "greedy greedy", problem: `backend "greedy" always answers`},
	} {
		t.Run(name, func(t *testing.T) {
			backends, err := Backends(t.Context(), strings.Fields(test.names), nowhere())
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
			for _, backend := range backends {
				names = append(names, backend.Name())
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("backends (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingPrograms checks that a backend without its program is there, and says
// of itself and when asked that it cannot be asked.
func TestMissingPrograms(t *testing.T) {
	backends, err := Contenders(t.Context(), []string{"cbc", "highs", "exact"}, nowhere())
	if err != nil {
		t.Fatal(err)
	}
	for _, backend := range backends[:2] {
		_, err := backend.Solve(t.Context(), new(solver.Problem), solver.SolveOptions{})
		if !errors.Is(backend.Missing, solver.ErrUnavailable) || !errors.Is(err, solver.ErrUnavailable) || backend.Version != "" {
			t.Errorf("%s of version %q is missing for %v and answers with %v", backend.Name(), backend.Version, backend.Missing, err)
		}
	}
	if backends[2].Missing != nil {
		t.Errorf("exact is missing: %v", backends[2].Missing)
	}
}

func TestPrograms(t *testing.T) {
	programs := Programs{CBC: solvertest.Program(t, solver.BackendCBC), HiGHS: solvertest.Program(t, solver.BackendHiGHS)}
	backends, err := Contenders(t.Context(), []string{"cbc", "highs"}, programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, backend := range backends {
		if backend.Missing != nil || backend.Version == "" {
			t.Errorf("%s has version %q and is missing for %v", backend.Name(), backend.Version, backend.Missing)
		}
	}
}

// TestProbeOfAProgramThatIsNoSolver checks that it counts as a missing one.
func TestProbeOfAProgramThatIsNoSolver(t *testing.T) {
	backends, err := Contenders(t.Context(), []string{"cbc"}, Programs{CBC: "true"})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(backends[0].Missing, solver.ErrUnavailable) {
		t.Errorf("missing is %v; want it to wrap %v", backends[0].Missing, solver.ErrUnavailable)
	}
}

// liar is a solver that calls the plan of one node for everybody optimal.
type liar struct{}

func (liar) Name() solver.BackendName { return solver.BackendCBC }

func (liar) Solve(_ context.Context, p *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
	plan := make(solver.Plan, len(p.Jobs))
	for i := range plan {
		plan[i] = []int{1, 1, 1, 1, 1}
	}
	return solver.Result{
		Plan: plan, Bound: math.Inf(1), Claim: &solver.Claim{Optimal: true, Objective: 1, Bound: 1}, Detail: "Optimal",
	}, nil
}

// TestChainsJudge checks that every chain has what solvers claim judged.
func TestChainsJudge(t *testing.T) {
	snapshot := &solver.Snapshot{
		TotalNodes: 8, Horizon: solver.DefaultHorizon(),
		Jobs: []solver.Job{solver.NewJob("a", time.Hour), solver.NewJob("b", 3*time.Hour)},
	}
	backend := Backend{Backend: liar{}}
	options := solver.DefaultOptions()
	options.Backend = solver.BackendCBC
	for name, chain := range map[string]interface {
		Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	}{
		"Chain": Chain([]Backend{backend}, time.Minute),
		"Alone": Alone(backend, time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			decision, err := chain.Allocate(t.Context(), snapshot, options)
			if err != nil {
				t.Fatal(err)
			}
			report := decision.Report
			if report.Attempts[0].Outcome != solver.OutcomeInvalidPlan || report.Reason != solver.ReasonOptimal {
				t.Errorf("report %+v; want the lie refuted and the optimum in its place", report)
			}
		})
	}
}

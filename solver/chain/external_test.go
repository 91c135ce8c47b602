//go:build unix

package chain_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/external"
	"github.com/elastalloc/elastalloc/solver/milp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawn returns a snapshot of queued jobs drawn from a seed. With as many nodes as
// jobs, all sizes are forced to 1: the model has one plan. On such snapshots, and
// in the paper's formulation, CBC 2.10.8 has been seen to report a wrong optimum,
// 142.088 for 143.108, and infeasibility, and on some of 20 jobs to abort.
func drawn(jobs, nodes int, seed uint64) *solver.Snapshot {
	r := rand.New(rand.NewPCG(seed, 70))
	s := &solver.Snapshot{ID: fmt.Sprint(seed), TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		eta := 3600 * math.Exp(r.NormFloat64()*1.5+0.5)
		s.Jobs = append(s.Jobs, solver.NewJob(fmt.Sprintf("job-%d", i+1), time.Duration(eta*1e3)*time.Millisecond))
	}
	return s
}

// newChain returns a chain of CBC, which is never trusted, and the exact backend.
func newChain(program string) *chain.Chain {
	return chain.New(chain.Config{
		Backends: []solver.Backend{external.CBC(program), exact.New()},
		Greedy:   greedy.New(),
		Prover:   exact.New(),
	})
}

func paperOnCBC() solver.Options {
	o := solver.DefaultOptions()
	o.Backend, o.Formulation = solver.BackendCBC, solver.FormulationPaper
	return o
}

// provenOptimum returns the optimum of a snapshot, by the exact backend.
func provenOptimum(t *testing.T, s *solver.Snapshot) float64 {
	t.Helper()
	p := solver.NewProblem(s, solver.AdmissionFIFO)
	result, err := exact.New().Solve(t.Context(), p, solver.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objective := p.Objective(result.Plan)
	if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap {
		t.Fatalf("the optimum %v is not proven: gap %g", objective, gap)
	}
	return objective
}

// TestWhateverCBCSays asks the real CBC about snapshots of the kinds that it has
// erred on: what is called optimal is the proven optimum, and where CBC's answer
// does not hold, that of the exact backend does.
func TestWhateverCBCSays(t *testing.T) {
	program := solvertest.Program(t, solver.BackendCBC)
	snapshots := []*solver.Snapshot{drawn(20, 26, 2)}
	for seed := range uint64(8) {
		snapshots = append(snapshots, drawn(70, 70, seed))
	}
	for _, s := range snapshots {
		t.Run(fmt.Sprintf("%d jobs on %d nodes, seed %s", len(s.Jobs), s.TotalNodes, s.ID), func(t *testing.T) {
			o := paperOnCBC()
			o.TimeBudget = time.Minute
			d, err := newChain(program).Allocate(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			r := d.Report
			t.Logf("%s, %s, objective %.10g, attempts %+v", r.Backend, r.Reason, r.Objective, r.Attempts)
			want := provenOptimum(t, s)
			switch {
			case r.Reason == solver.ReasonOptimal:
				if math.Abs(r.Objective-want) > 1e-9*want {
					t.Errorf("objective %.12g is called optimal; the optimum is %.12g", r.Objective, want)
				}
			case r.Backend != solver.BackendCBC:
				t.Errorf("reason %s of %s; want a proof", r.Reason, r.Backend)
			case r.Limit != solver.LimitTime && r.Objective < want*(1-1e-6):
				t.Errorf("objective %.12g stands; the optimum is %.12g", r.Objective, want)
			}
		})
	}
}

// TestWhatCBCHasSaid has a program write what CBC 2.10.8 is known to have written
// on a snapshot whose sizes are all forced to 1.
func TestWhatCBCHasSaid(t *testing.T) {
	s := drawn(70, 70, 1)
	p := solver.NewProblem(s, solver.AdmissionFIFO)
	model, err := milp.Build(p, solver.FormulationPaper)
	if err != nil {
		t.Fatal(err)
	}
	want := provenOptimum(t, s)
	plan := solver.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for step := range plan[i] {
			plan[i][step].Nodes = 1
		}
	}
	// The solution file with a first line; an objective is one of the model.
	file := func(status string, objective float64) string {
		var text strings.Builder
		fmt.Fprintf(&text, "%s - objective value %.8f\n", status, objective/model.Objective(1))
		i := 0
		for name, value := range model.Start(plan) {
			fmt.Fprintf(&text, "%7d %s %22.8g %22.8g\n", i, name, value, 0.0)
			i++
		}
		return text.String()
	}
	// CBC's program writes the file that its last argument names.
	program := func(solution string, lines ...string) string {
		dir := t.TempDir()
		path := filepath.Join(dir, "cbc")
		script := append([]string{
			"#!/bin/sh", "echo 'Version: 2.10.8 '", "for last; do :; done", "cp " + dir + `/solution "$last"`,
		}, lines...)
		if err := os.WriteFile(filepath.Join(dir, "solution"), []byte(solution), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(script, "\n")), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}

	tests := []struct {
		name    string
		program string
		outcome solver.Outcome
		detail  []string
	}{
		{
			"the optimum", program(file("Optimal", want)),
			solver.OutcomeAnswered, []string{"CBC 2.10.8 says: Optimal, objective"},
		},
		{
			"a wrong optimum", program(file("Optimal", want*142.088/143.108)),
			solver.OutcomeInvalidPlan, []string{
				"CBC 2.10.8 says: Optimal", "refuted: it calls ",
				fmt.Sprintf("exact has a plan of %.10g", want),
			},
		},
		{
			"infeasibility", program(file("Infeasible", 17)),
			solver.OutcomeInvalidPlan, []string{"CBC 2.10.8 says: Infeasible, but every problem has a plan"},
		},
		{
			"that no integer is feasible", program(file("Integer infeasible", want)),
			solver.OutcomeInvalidPlan, []string{"CBC 2.10.8 says: Integer infeasible"},
		},
		{
			"nothing, by an abort", program("", "rm \"$last\"",
				"echo 'cbc: ClpNonLinearCost.cpp:1047: void ClpNonLinearCost::goBackAll(const CoinIndexedVector*): Assertion failed.'",
				"kill -ABRT $$"),
			solver.OutcomeCrashed, []string{"signal: aborted", "ClpNonLinearCost.cpp:1047"},
		},
		{
			"a relaxation", program(file("Stopped on time (no integer solution - continuous used)", want*1.01)),
			solver.OutcomeTimedOut, []string{"no integer solution"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := newChain(test.program).Allocate(t.Context(), s, paperOnCBC())
			if err != nil {
				t.Fatal(err)
			}
			r := d.Report
			if r.Reason != solver.ReasonOptimal || math.Abs(r.Objective-want) > 1e-9*want {
				t.Errorf("objective %.12g is called %s; the optimum is %.12g", r.Objective, r.Reason, want)
			}
			var got []solver.Outcome
			for _, a := range r.Attempts {
				got = append(got, a.Outcome)
			}
			outcomes := []solver.Outcome{test.outcome}
			if test.outcome != solver.OutcomeAnswered {
				outcomes = append(outcomes, solver.OutcomeAnswered)
			}
			if diff := cmp.Diff(outcomes, got); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			for _, part := range test.detail {
				if !strings.Contains(r.Attempts[0].Detail, part) {
					t.Errorf("detail %q does not say %q", r.Attempts[0].Detail, part)
				}
			}
		})
	}
}

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
	"github.com/elastalloc/elastalloc/solver/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// randomSnapshot returns a snapshot of queued jobs with random ETAs. If there are as many nodes as jobs, all
// sizes are forced to 1, and the model has one plan. On such snapshots, with the paper's formulation, CBC
// 2.10.8 has reported a wrong optimum (142.088 instead of 143.108) and infeasibility. On some snapshots
// of 20 jobs it has aborted.
func randomSnapshot(jobs, nodes int, seed uint64) *solver.Snapshot {
	r := rand.New(rand.NewPCG(seed, 70))
	s := &solver.Snapshot{ID: fmt.Sprint(seed), TotalNodes: nodes, Horizon: solver.DefaultHorizon()}
	for i := range jobs {
		eta := 3600 * math.Exp(r.NormFloat64()*1.5+0.5)
		s.Jobs = append(s.Jobs, solver.NewJob(fmt.Sprintf("job-%d", i+1), time.Duration(eta*1e3)*time.Millisecond))
	}
	return s
}

// newChain returns a chain of CBC and the exact backend.
func newChain(program string) *chain.Chain {
	return chain.New(chain.Config{
		Backends: []problem.Backend{external.CBC(program), exact.New()},
		Greedy:   greedy.New(),
		Prover:   exact.New(),
	})
}

func paperCBCOptions() solver.Options {
	o := solver.Options{Objective: solver.ObjectiveProgress}.WithDefaults()
	o.Backend, o.Formulation = solver.BackendCBC, solver.FormulationPaper
	return o
}

// provenOptimum returns the optimum of a snapshot, by the exact backend.
func provenOptimum(t *testing.T, s *solver.Snapshot) float64 {
	t.Helper()
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objective := p.Objective(result.Plan)
	if gap := solver.RelativeGap(objective, result.Bound); gap > solver.OptimalGap {
		t.Fatalf("the optimum %v is not proven: gap %g", objective, gap)
	}
	return objective
}

// TestRealCBC calls the real CBC with snapshots like those for which it has reported wrong results. A plan
// that is reported as optimal is optimal. If the result of CBC is refuted, the exact backend has the plan.
func TestRealCBC(t *testing.T) {
	program := solvertest.Program(t, solver.BackendCBC)
	snapshots := []*solver.Snapshot{randomSnapshot(20, 26, 2)}
	for seed := range uint64(8) {
		snapshots = append(snapshots, randomSnapshot(70, 70, seed))
	}
	for _, s := range snapshots {
		t.Run(fmt.Sprintf("%d jobs on %d nodes, seed %s", len(s.Jobs), s.TotalNodes, s.ID), func(t *testing.T) {
			o := paperCBCOptions()
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
					t.Errorf("objective %.12g is reported as optimal; the optimum is %.12g", r.Objective, want)
				}
			case r.Backend != solver.BackendCBC:
				t.Errorf("reason %s of %s; want a proof", r.Reason, r.Backend)
			case r.Limit != solver.LimitTime && r.Objective < want*(1-1e-6):
				t.Errorf("objective %.12g is accepted; the optimum is %.12g", r.Objective, want)
			}
		})
	}
}

// fakeCBC returns a script that, like CBC, writes the file that its last argument names. Then it runs the lines.
func fakeCBC(t *testing.T, solution string, lines ...string) string {
	t.Helper()
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

// TestFakeCBC replaces CBC by a program that writes what CBC 2.10.8 has written for snapshots whose sizes
// are all forced to 1.
func TestFakeCBC(t *testing.T) {
	s := randomSnapshot(70, 70, 1)
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	model, err := milp.Build(p, solver.FormulationPaper)
	if err != nil {
		t.Fatal(err)
	}
	want := provenOptimum(t, s)
	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for step := range plan[i] {
			plan[i][step].Nodes = 1
		}
	}
	// file returns a solution file. objective is in the units of the model.
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

	tests := []struct {
		name    string
		program string
		outcome solver.Outcome
		detail  []string
	}{
		{
			"the optimum", fakeCBC(t, file("Optimal", want)),
			solver.OutcomeAnswered, []string{"CBC 2.10.8 reports: Optimal, objective"},
		},
		{
			"a wrong optimum", fakeCBC(t, file("Optimal", want*142.088/143.108)),
			solver.OutcomeInvalidPlan, []string{
				"CBC 2.10.8 reports: Optimal", "refuted: the claimed optimum is ",
				fmt.Sprintf("exact has a plan of %.10g", want),
			},
		},
		{
			"infeasibility", fakeCBC(t, file("Infeasible", 17)),
			solver.OutcomeInvalidPlan, []string{"CBC 2.10.8 reports: Infeasible, but every problem has a plan"},
		},
		{
			"integer infeasibility", fakeCBC(t, file("Integer infeasible", want)),
			solver.OutcomeInvalidPlan, []string{"CBC 2.10.8 reports: Integer infeasible"},
		},
		{
			"an abort", fakeCBC(t, "", "rm \"$last\"",
				"echo 'cbc: ClpNonLinearCost.cpp:1047: void ClpNonLinearCost::goBackAll(const CoinIndexedVector*): Assertion failed.'",
				"kill -ABRT $$"),
			solver.OutcomeCrashed, []string{"signal: aborted", "ClpNonLinearCost.cpp:1047"},
		},
		{
			"a relaxation", fakeCBC(t, file("Stopped on time (no integer solution - continuous used)", want*1.01)),
			solver.OutcomeTimedOut, []string{"no integer solution"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := newChain(test.program).Allocate(t.Context(), s, paperCBCOptions())
			if err != nil {
				t.Fatal(err)
			}
			r := d.Report
			if r.Reason != solver.ReasonOptimal || math.Abs(r.Objective-want) > 1e-9*want {
				t.Errorf("objective %.12g is reported as %s; the optimum is %.12g", r.Objective, r.Reason, want)
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
					t.Errorf("detail %q does not contain %q", r.Attempts[0].Detail, part)
				}
			}
		})
	}
}

//go:build unix

package faults

import (
	"context"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/milp"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// solved is the problem of a request with its optimum, computed in this process, and other legal plans.
type solved struct {
	model *milp.Model
	// optimal and smallest are legal plans: the best plan, and the plan with the smallest size of every job. The
	// plan greatest exceeds the pool.
	optimal, smallest, greatest problem.Plan
	core                        *problem.Problem
	// optimum is the proven objective.
	optimum float64
}

// newSolved solves the problem of a request.
func newSolved(t *testing.T, request *elastallocv1.AllocateRequest) *solved {
	t.Helper()
	converted, err := apiconv.FromAllocateRequest(request, solver.DefaultMaxJobs)
	if err != nil {
		t.Fatal(err)
	}
	core := problem.NewProblem(converted.Snapshot.WithDefaults(), converted.Options.WithDefaults().Admission)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := exact.New().Solve(ctx, core, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &solved{
		core: core, optimal: result.Plan, optimum: core.Objective(result.Plan),
		smallest: problem.NewPlan(len(core.Jobs), core.Steps), greatest: problem.NewPlan(len(core.Jobs), core.Steps),
	}
	if gap := solver.RelativeGap(p.optimum, result.Bound); gap > solver.OptimalGap {
		t.Fatalf("the optimum %v is not proven: gap %g", p.optimum, gap)
	}
	if p.model, err = milp.Build(core, solver.FormulationOneHot); err != nil {
		t.Fatal(err)
	}
	for i, job := range core.Jobs {
		for step := range core.Steps {
			p.smallest[i][step], p.greatest[i][step] = job.Options[0], job.Options[len(job.Options)-1]
		}
	}
	return p
}

// solution is the solution file of a solver.
type solution struct {
	status    string
	objective float64 // in the units of the model
	columns   []column
}

// column is a line of a solution.
type column struct{ name, value string }

// solution returns the solution file of a correct solver for a plan.
func (p *solved) solution(plan problem.Plan) *solution {
	s := &solution{status: "Optimal", objective: p.core.Objective(plan) / p.model.Objective(1)}
	for name, value := range p.model.Start(plan) {
		s.columns = append(s.columns, column{name, fmt.Sprintf("%.12g", value)})
	}
	return s
}

// solverKind is a solver that fault programs replace.
type solverKind struct {
	name    string
	title   string
	backend elastallocv1.Backend
	// version is the output of the program with versionFlag.
	version, versionFlag string
	// write writes a solution in the format of the solver.
	write func(io.Writer, *solution)
}

func solverKinds() []solverKind {
	return []solverKind{
		{
			name: "cbc", title: "CBC", backend: elastallocv1.Backend_BACKEND_CBC,
			version: "Version: 2.10.8 ", versionFlag: "-quit", write: writeCBC,
		},
		{
			name: "highs", title: "HiGHS", backend: elastallocv1.Backend_BACKEND_HIGHS,
			version:     "HiGHS version 1.10.0 Githash n/a. Copyright (c) 2025 HiGHS under MIT licence terms",
			versionFlag: "--version", write: writeHiGHS,
		},
	}
}

func writeCBC(w io.Writer, s *solution) {
	fmt.Fprintf(w, "%s - objective value %.8f\n", s.status, s.objective)
	for i, c := range s.columns {
		fmt.Fprintf(w, "%7d %s %22s %22d\n", i, c.name, c.value, 0)
	}
}

func writeHiGHS(w io.Writer, s *solution) {
	fmt.Fprintf(w, "Model status\n%s\n\n# Primal solution values\n", s.status)
	if s.status == "Infeasible" {
		fmt.Fprintln(w, "None")
		return
	}
	fmt.Fprintf(w, "Feasible\nObjective %.12g\n# Columns %d\n", s.objective, len(s.columns))
	for _, c := range s.columns {
		fmt.Fprintf(w, "%s %s\n", c.name, c.value)
	}
	fmt.Fprintln(w, "# Rows 0")
}

// closeTo reports whether two objectives are equal up to rounding.
func closeTo(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

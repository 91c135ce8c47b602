package milp

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestStart checks that the warm start of any legal plan is feasible, has the
// value of the plan, cannot be improved by serving more, and leads back to the plan.
func TestStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.Snapshots().Draw(t, "snapshot")
		p := problem.NewProblem(s, rapid.SampledFrom(solver.Admissions()).Draw(t, "admission"))
		plan := randomPlan(t, p)
		for _, formulation := range formulations() {
			m, f := newFile(t, p, formulation)
			values := map[string]float64{}
			for name, v := range m.Start(plan) {
				values[name] = v
			}
			if len(values) != m.Columns() {
				t.Fatalf("%s: the start has %d of %d columns", formulation, len(values), m.Columns())
			}
			if err := f.check(values); err != nil {
				t.Fatalf("%s: the start is not feasible: %v", formulation, err)
			}
			objective := m.Objective(f.minimized(values))
			if want := p.Objective(plan); math.Abs(objective-want) > 1e-8*want {
				t.Fatalf("%s: the start has the value %v; want %v", formulation, objective, want)
			}
			got, err := m.Plan(values)
			if err != nil {
				t.Fatalf("%s: Plan(): %v", formulation, err)
			}
			if diff := cmp.Diff(plan, got); diff != "" {
				t.Fatalf("%s: Plan(Start(plan)) (-want +got):\n%s", formulation, diff)
			}
			f.maximizeContinuous(values)
			if most := m.Objective(f.minimized(values)); most > objective+1e-8*max(1, objective)+1e-14*solvertest.Magnitude(p) {
				t.Fatalf("%s: serving more has the value %v; the start %v", formulation, most, objective)
			}
		}
	})
}

// randomPlan returns a random legal plan. Each job gets at most the nodes that remain if all later jobs
// get their smallest sizes.
func randomPlan(t *rapid.T, p *problem.Problem) problem.Plan {
	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for step := range p.Steps {
		free := p.Capacity[step]
		for i := range p.Jobs {
			free -= int(p.Jobs[i].Options[0].Nodes)
		}
		for i := range p.Jobs {
			sizes := p.Jobs[i].Options
			fitting := len(sizes)
			for int(sizes[fitting-1].Nodes-sizes[0].Nodes) > free {
				fitting--
			}
			plan[i][step] = rapid.SampledFrom(sizes[:fitting]).Draw(t, "nodes")
			free -= int(plan[i][step].Nodes - sizes[0].Nodes)
		}
	}
	if err := p.Check(plan); err != nil {
		t.Fatalf("the random plan is not legal: %v", err)
	}
	return plan
}

func TestStartStops(t *testing.T) {
	p := &problem.Problem{Capacity: []int{2}, Steps: 1, Jobs: []problem.AdmittedJob{job(9, 1, 2)}}
	m, err := Build(p, solver.FormulationPaper)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range m.Start(problem.Plan{solver.Nodes(2)}) {
		if name != "n_1_1" || v != 2 {
			t.Errorf("first column is %s = %v; want n_1_1 = 2", name, v)
		}
		break
	}
}

func TestPlan(t *testing.T) {
	p := &problem.Problem{Capacity: []int{9}, Steps: 1, Jobs: []problem.AdmittedJob{job(9, 0, 2), job(9, 1, 2)}}
	tests := []struct {
		name        string
		formulation solver.Formulation
		values      map[string]float64
		want        problem.Plan
		problem     string // part of the error
	}{
		{
			name: "missing columns are 0", formulation: solver.FormulationPaper,
			values: map[string]float64{"n_2_1": 2, "dm_1_1_0": 1, "unknown": 0.5},
			want:   problem.Plan{solver.Nodes(0), solver.Nodes(2)},
		},
		{
			name: "nearly integral", formulation: solver.FormulationOneHot,
			values: map[string]float64{"x_1_1_2": 0.999991, "x_1_1_0": -9e-6, "x_2_1_1": 1.000009},
			want:   problem.Plan{solver.Nodes(2), solver.Nodes(1)},
		},
		{
			name: "fractional nodes", formulation: solver.FormulationPaper,
			values:  map[string]float64{"n_2_1": 1.0001},
			problem: "n_2_1 is 1.0001; must be an integer",
		},
		{
			name: "fractional delta", formulation: solver.FormulationPaper,
			values:  map[string]float64{"n_2_1": 1, "dp_2_1_2": 0.5},
			problem: "dp_2_1_2 is 0.5; must be an integer",
		},
		{
			name: "fractional choice", formulation: solver.FormulationOneHot,
			values:  map[string]float64{"x_1_1_0": 0.5, "x_1_1_2": 0.5},
			problem: "x_1_1_0 is 0.5; must be an integer",
		},
		{
			name: "NaN", formulation: solver.FormulationOneHot,
			values:  map[string]float64{"x_1_1_0": math.NaN()},
			problem: "x_1_1_0 is NaN; must be an integer",
		},
		{
			name: "infinite", formulation: solver.FormulationPaper,
			values:  map[string]float64{"n_1_1": math.Inf(1)},
			problem: "n_1_1 is +Inf",
		},
		{
			name: "below its bound", formulation: solver.FormulationPaper,
			values:  map[string]float64{"n_1_1": 2},
			problem: "n_2_1 is 0; must be between 1 and 2",
		},
		{
			name: "above its bound", formulation: solver.FormulationOneHot,
			values:  map[string]float64{"x_1_1_0": 2},
			problem: "x_1_1_0 is 2; must be between 0 and 1",
		},
		{
			name: "two sizes", formulation: solver.FormulationOneHot,
			values:  map[string]float64{"x_1_1_0": 1, "x_1_1_2": 1, "x_2_1_1": 1},
			problem: "job 1 does not have exactly one size in step 1",
		},
		{
			name: "no size", formulation: solver.FormulationOneHot,
			values:  map[string]float64{"x_1_1_0": 1},
			problem: "job 2 does not have exactly one size in step 1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := Build(p, test.formulation)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := m.Plan(test.values)
			if test.problem != "" {
				if !errors.Is(err, solver.ErrInvalidPlan) || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("Plan(): %v; want an invalid plan: %s", err, test.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, plan); diff != "" {
				t.Errorf("Plan() (-want +got):\n%s", diff)
			}
		})
	}
}

package milp

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

func formulations() []solver.Formulation {
	return []solver.Formulation{solver.FormulationPaper, solver.FormulationOneHot}
}

// job returns a job that does one unit of work per node and step.
func job(demand float64, sizes ...int) problem.AdmittedJob {
	work := make([]float64, len(sizes))
	for n, k := range sizes {
		work[n] = float64(k)
	}
	return problem.AdmittedJob{Demand: demand, Gain: []float64{1, 1}, Options: solver.Nodes(sizes...), FirstStepWork: work, StepWork: work}
}

func TestBuildErrors(t *testing.T) {
	good := &problem.Problem{Capacity: []int{1}, Steps: 1, Jobs: []problem.AdmittedJob{job(1, 1)}}
	if _, err := Build(good, "simplex"); err == nil {
		t.Error("no error for an unknown formulation")
	}
	empty := &problem.Problem{Capacity: []int{1}, Steps: 1, Jobs: []problem.AdmittedJob{job(1)}}
	if _, err := Build(empty, solver.FormulationPaper); err == nil {
		t.Error("no error for a job without sizes")
	}
	sized := job(1, 1, 2)
	sized.OptionValue = []float64{0, -1}
	p := &problem.Problem{Capacity: []int{2}, Steps: 1, Jobs: []problem.AdmittedJob{sized}}
	if _, err := Build(p, solver.FormulationPaper); !errors.Is(err, solver.ErrUnsuited) {
		t.Errorf("Build() in the paper's formulation with a value of a size: %v; want it to wrap %v", err, solver.ErrUnsuited)
	}
	huge := &problem.Problem{Capacity: slices.Repeat([]int{1}, solver.MaxSteps), Steps: solver.MaxSteps}
	one := job(1, 1, 2, 4, 8, 16)
	for range MaxColumns / (solver.MaxSteps * 6) {
		huge.Jobs = append(huge.Jobs, one)
	}
	if _, err := Build(huge, solver.FormulationPaper); !errors.Is(err, solver.ErrUnsuited) || !errors.Is(err, solver.ErrUnavailable) {
		t.Errorf("Build() of too large a problem: %v; want it to wrap %v", err, solver.ErrUnsuited)
	}
}

// TestEveryAssignment enumerates all values of the integer columns of small models. The feasible
// assignments must be the legal plans, one per plan, and the best one must be the optimum.
func TestEveryAssignment(t *testing.T) {
	withDelay := job(7, 1, 2, 4)
	withDelay.FirstStepWork = []float64{0.5, 1, 2}
	weighted := job(3, 2, 3)
	weighted.Gain = []float64{5, 5}
	falling := job(9, 1, 3)
	falling.FirstStepWork, falling.StepWork = []float64{2, 1}, []float64{2, 1}
	valued, costly := job(3, 0, 1, 2), job(9, 1, 3)
	valued.Gain, valued.OptionValue = []float64{0, 0}, []float64{-1, 4, 5}
	costly.OptionValue = []float64{-2, -1}
	tests := []struct {
		name    string
		problem problem.Problem
	}{
		{"no nodes", problem.Problem{Capacity: []int{0, 0}, Steps: 2, Jobs: []problem.AdmittedJob{job(2, 0, 1)}}},
		{"only size", problem.Problem{Capacity: []int{8, 8}, Steps: 2, Jobs: []problem.AdmittedJob{job(20, 8)}}},
		{"only size 0", problem.Problem{Capacity: []int{8}, Steps: 1, Jobs: []problem.AdmittedJob{job(20, 0)}}},
		{"gaps", problem.Problem{Capacity: []int{9}, Steps: 1, Jobs: []problem.AdmittedJob{job(20, 1, 4, 9)}}},
		{"neighbours", problem.Problem{Capacity: []int{3, 3}, Steps: 2, Jobs: []problem.AdmittedJob{job(4, 2, 3)}}},
		{"two jobs", problem.Problem{Capacity: []int{5}, Steps: 1, Jobs: []problem.AdmittedJob{job(3, 1, 2), weighted}}},
		{"waiting", problem.Problem{Capacity: []int{3}, Steps: 1, Jobs: []problem.AdmittedJob{job(3, 0, 2), job(2, 1, 2)}}},
		{"first step", problem.Problem{Capacity: []int{4}, Steps: 1, Jobs: []problem.AdmittedJob{withDelay}}},
		{"more is slower", problem.Problem{Capacity: []int{3, 3}, Steps: 2, Jobs: []problem.AdmittedJob{falling}}},
		{"values of sizes alone", problem.Problem{Capacity: []int{3}, Steps: 1, Jobs: []problem.AdmittedJob{valued, valued}}},
		{"values and progress", problem.Problem{Capacity: []int{4}, Steps: 1, Jobs: []problem.AdmittedJob{valued, costly}}},
		{"ends at once", problem.Problem{Capacity: []int{2, 2}, Steps: 2, Jobs: []problem.AdmittedJob{job(1e-6, 0, 2)}}},
	}
	for _, test := range tests {
		for _, formulation := range formulations() {
			t.Run(fmt.Sprintf("%s/%s", test.name, formulation), func(t *testing.T) {
				checkAssignments(t, &test.problem, formulation)
			})
		}
	}
}

// checkAssignments enumerates the assignments of the model of a problem in a formulation.
func checkAssignments(t *testing.T, p *problem.Problem, formulation solver.Formulation) {
	t.Helper()
	if formulation == solver.FormulationPaper && p.Jobs[0].OptionValue != nil {
		t.Skip("the paper's formulation has no value of a size")
	}
	optimum, ok := solvertest.Exhaustive(p)
	if !ok {
		t.Fatal("the problem has no plan")
	}
	m, f := newFile(t, p, formulation)
	seen, best := map[string]bool{}, math.Inf(-1)
	f.forEachInteger(func(values map[string]float64) {
		f.maximizeContinuous(values)
		if f.check(values) != nil {
			return
		}
		plan, err := m.Plan(values)
		if err != nil {
			t.Fatalf("Plan() of a feasible assignment: %v", err)
		}
		if err := p.Check(plan); err != nil {
			t.Errorf("a feasible plan is not legal: %v", err)
		}
		if seen[fmt.Sprint(plan)] {
			t.Errorf("plan %v has two assignments", plan)
		}
		seen[fmt.Sprint(plan)] = true
		objective := m.Objective(f.minimized(values))
		if want := p.Objective(plan); !near(objective, want) {
			t.Errorf("objective of %v is %v; want %v", plan, objective, want)
		}
		best = max(best, objective)
	})
	if want := legalPlans(p); len(seen) != want {
		t.Errorf("%d plans are feasible; %d are legal", len(seen), want)
	}
	if !near(best, optimum.Objective) {
		t.Errorf("optimum %v; want %v", best, optimum.Objective)
	}
}

// legalPlans counts the legal plans of a problem.
func legalPlans(p *problem.Problem) int {
	count, plan := 0, problem.NewPlan(len(p.Jobs), p.Steps)
	var choose func(cell int)
	choose = func(cell int) {
		if cell == len(p.Jobs)*p.Steps {
			if p.Check(plan) == nil {
				count++
			}
			return
		}
		for _, k := range p.Jobs[cell/p.Steps].Options {
			plan[cell/p.Steps][cell%p.Steps] = k
			choose(cell + 1)
		}
	}
	choose(0)
	return count
}

func near(a, b float64) bool { return math.Abs(a-b) <= tolerance*max(math.Abs(a), math.Abs(b)) }

// TestSmallestBigM checks that M is valid and that no smaller M is.
func TestSmallestBigM(t *testing.T) {
	for _, sizes := range [][]int{{1, 2, 4, 8, 16}, {0, 1, 2}, {3, 4}, {0, 7}, {5, 6, 20}} {
		job := job(1, sizes...)
		valid := func(bigM float64) bool { // Whether every legal n has deltas for every k.
			for _, n := range sizes {
				for _, k := range sizes {
					if !sideSatisfied(float64(n-k), bigM) || !sideSatisfied(float64(k-n), bigM) {
						return false
					}
				}
			}
			return true
		}
		if got := bigM(&job); !valid(got) || valid(got*(1-1e-12)) {
			t.Errorf("sizes %v: M = %v is not the smallest valid one", sizes, got)
		}
	}
}

// sideSatisfied reports whether a binary satisfies the paper's inequalities (delta -), or
// (delta +), for the difference.
func sideSatisfied(difference, bigM float64) bool {
	for _, delta := range []float64{0, 1} {
		if (1-delta)/bigM-bigM*delta <= difference && difference <= bigM*(1-delta) {
			return true
		}
	}
	return false
}

func TestColumnNames(t *testing.T) {
	p := &problem.Problem{Capacity: []int{9, 9}, Steps: 2, Jobs: []problem.AdmittedJob{job(9, 1), job(9, 0, 2)}}
	want := map[solver.Formulation]string{
		solver.FormulationPaper: "[n_1_1 n_1_2 n_2_1 n_2_2 dm_1_1_1 dm_1_2_1 dm_2_1_0 dm_2_1_2 dm_2_2_0 dm_2_2_2 " +
			"dp_1_1_1 dp_1_2_1 dp_2_1_0 dp_2_1_2 dp_2_2_0 dp_2_2_2 s_1_1 s_1_2 s_2_1 s_2_2]",
		solver.FormulationOneHot: "[x_1_1_1 x_1_2_1 x_2_1_0 x_2_1_2 x_2_2_0 x_2_2_2 s_1_1 s_1_2 s_2_1 s_2_2]",
	}
	for _, formulation := range formulations() {
		m, f := newFile(t, p, formulation)
		var names []string
		for i := range m.Columns() {
			names = append(names, m.ColumnName(i))
		}
		if got := fmt.Sprint(names); got != want[formulation] {
			t.Errorf("%s: columns %s; want %s", formulation, got, want[formulation])
		}
		if fmt.Sprint(names) != fmt.Sprint(f.columns) {
			t.Errorf("%s: the file has columns %v", formulation, f.columns)
		}
		if len(f.rows) != m.Rows() {
			t.Errorf("%s: Rows() = %d; the file has %d", formulation, m.Rows(), len(f.rows))
		}
	}
}

// TestObjectiveScale checks the range of the objective of the file for small and large weights.
func TestObjectiveScale(t *testing.T) {
	for _, weight := range []float64{0, 5e-324, 1e-300, 1e-58, 1e-6, 1, 1e6, solver.MaxWeight} {
		first := job(4, 1, 2)
		first.Gain = []float64{weight, weight}
		p := &problem.Problem{Capacity: []int{3, 3}, Steps: 2, Jobs: []problem.AdmittedJob{first}}
		plan := problem.Plan{solver.Nodes(2, 2)}
		for _, formulation := range formulations() {
			m, f := newFile(t, p, formulation)
			values := map[string]float64{}
			for name, v := range m.Start(plan) {
				values[name] = v
			}
			minimized := f.minimized(values)
			if got, want := m.Objective(minimized), p.Objective(plan); !near(got, want) && math.Abs(got-want) > 1e-300 {
				t.Errorf("weight %v: Objective(%v) = %v; want %v",
					weight, minimized, got, want)
			}
			if weight > 1e-30 && weight < 1e300 && (-minimized < 1 || -minimized > 1e6) {
				t.Errorf("weight %v: the objective of the file is %v", weight, minimized)
			}
		}
	}
}

// TestCoefficients checks that coefficients are larger than the tolerances of solvers, for short and
// for long jobs.
func TestCoefficients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := problem.NewProblem(solvertest.Snapshots().Draw(t, "snapshot"), solver.AdmissionPreemptive)
		for _, formulation := range formulations() {
			_, f := newFile(t, p, formulation)
			for name, row := range f.rows {
				for c, coefficient := range row.terms {
					if v := math.Abs(coefficient); v < minSpeed || v > 1e4 {
						t.Fatalf("%s: coefficient of %s in %s is %v", formulation, c, name, coefficient)
					}
				}
			}
		}
	})
}

func BenchmarkWriteMPS(b *testing.B) {
	s := &solver.Snapshot{TotalNodes: 4000, Horizon: solver.DefaultHorizon()}
	for i := range 1000 {
		s.Jobs = append(s.Jobs, solver.NewJob(fmt.Sprint("job-", i), time.Duration(60+i*37)*time.Second))
	}
	p := problem.NewProblem(s, solver.AdmissionFIFO)
	for _, formulation := range formulations() {
		b.Run(string(formulation), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m, err := Build(p, formulation)
				if err != nil {
					b.Fatal(err)
				}
				var size counter
				if err := m.WriteMPS(&size); err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
			}
		})
	}
}

// counter counts the bytes that are written to it.
type counter int

// Write counts the bytes of p.
func (c *counter) Write(text []byte) (int, error) {
	*c += counter(len(text))
	return len(text), nil
}

package milp

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// integralityTolerance is the maximum distance of a solver's value from an integer.
const integralityTolerance = 1e-5

// Plan returns the plan of a solver's values by column name. Missing columns are 0. The error wraps
// solver.ErrInvalidPlan if a value is not integral within 1e-5 or violates the bounds of its column,
// or if a job does not have exactly one size in a step. The plan may still exceed the pool, so the
// caller has to check it.
func (m *Model) Plan(solution map[string]float64) (problem.Plan, error) {
	values := make([]int, m.integers)
	for i := range values {
		v, err := m.integer(i, solution)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	plan := problem.NewPlan(len(m.problem.Jobs), m.problem.Steps)
	for i := range plan {
		job := &m.problem.Jobs[i]
		for t := range plan[i] {
			c := m.cell(i, t)
			if m.formulation == solver.FormulationPaper {
				plan[i][t] = solver.NewOption(0, values[c[nodes]])
				continue
			}
			chosen := values[c[choice] : c[choice]+len(job.Options)]
			first := slices.Index(chosen, 1)
			if first < 0 || slices.Contains(chosen[first+1:], 1) {
				return nil, fmt.Errorf("%w: job %d does not have exactly one size in step %d", solver.ErrInvalidPlan, i+1, t+1)
			}
			plan[i][t] = job.Options[first]
		}
	}
	return plan, nil
}

// integer returns the value of integer column i.
func (m *Model) integer(i int, solution map[string]float64) (int, error) {
	name, c := m.ColumnName(i), &m.columns[i]
	v := solution[name]
	rounded := math.Round(v)
	if !(math.Abs(v-rounded) <= integralityTolerance) { // False for NaN.
		return 0, fmt.Errorf("%w: %s is %v; must be an integer", solver.ErrInvalidPlan, name, v)
	}
	if rounded < c.lower || rounded > c.upper {
		return 0, fmt.Errorf("%w: %s is %v; must be between %v and %v", solver.ErrInvalidPlan, name, v, c.lower, c.upper)
	}
	return int(rounded), nil
}

// Start yields the names and values of all columns for a legal plan, in order. It is a warm start.
func (m *Model) Start(plan problem.Plan) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		values := m.values(plan)
		for i, v := range values {
			if !yield(m.ColumnName(i), v) {
				return
			}
		}
	}
}

// values returns the values of all columns for a legal plan.
func (m *Model) values(plan problem.Plan) []float64 {
	progress := make([][]float64, len(plan))
	for i := range plan {
		progress[i] = m.problem.Jobs[i].AppendProgress(nil, plan[i])
	}
	groups := m.problem.GroupNodes(plan)
	values := make([]float64, len(m.columns))
	for i := range m.columns {
		c := &m.columns[i]
		if c.kind == shortage {
			values[i] = max(0, c.upper-float64(groups[c.position.job-1])) // The upper bound is the floor.
			continue
		}
		job, step, size := c.position.job-1, c.position.step-1, c.position.size
		option := plan[job][step]
		switch c.kind {
		case nodes:
			values[i] = float64(option.Nodes)
		case deltaMinus:
			values[i] = indicator(option.Nodes <= size.Nodes)
		case deltaPlus:
			values[i] = indicator(option.Nodes >= size.Nodes)
		case choice:
			values[i] = indicator(option == size)
		case done:
			values[i] = progress[job][step] * c.upper // The upper bound is the demand.
		}
	}
	return values
}

func indicator(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

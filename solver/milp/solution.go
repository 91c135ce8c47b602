package milp

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// integrality is how far a solver's value may be from an integer.
const integrality = 1e-5

// Plan reads the plan out of a solver's values by column name; a column that is not listed
// is 0. A value that is not integral within 1e-5 or outside the column's bounds, and a job
// that has not exactly one size in a step, is an error that wraps problem.ErrInvalidPlan. The
// plan may still exceed the pool: the caller checks it.
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
			if m.formulation == problem.FormulationPaper {
				plan[i][t] = snapshot.NewOption(0, values[c[nodes]])
				continue
			}
			chosen := values[c[choice] : c[choice]+len(job.Options)]
			first := slices.Index(chosen, 1)
			if first < 0 || slices.Contains(chosen[first+1:], 1) {
				return nil, fmt.Errorf("%w: job %d has not exactly one size in step %d", problem.ErrInvalidPlan, i+1, t+1)
			}
			plan[i][t] = job.Options[first]
		}
	}
	return plan, nil
}

// integer returns a solver's value of integer column i.
func (m *Model) integer(i int, solution map[string]float64) (int, error) {
	name, c := m.ColumnName(i), &m.columns[i]
	v := solution[name]
	rounded := math.Round(v)
	if !(math.Abs(v-rounded) <= integrality) { // A NaN is not.
		return 0, fmt.Errorf("%w: %s is %v; want an integer", problem.ErrInvalidPlan, name, v)
	}
	if rounded < c.lower || rounded > c.upper {
		return 0, fmt.Errorf("%w: %s is %v; want %v to %v", problem.ErrInvalidPlan, name, v, c.lower, c.upper)
	}
	return int(rounded), nil
}

// Start yields every column and its value under a legal plan, in the order of
// ColumnName: a warm start.
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

// values returns the value of every column under a legal plan.
func (m *Model) values(plan problem.Plan) []float64 {
	progress := make([][]float64, len(plan))
	for i := range plan {
		progress[i] = m.problem.Jobs[i].Progress(plan[i])
	}
	groups := m.problem.GroupNodes(plan)
	values := make([]float64, len(m.columns))
	for i := range m.columns {
		c := &m.columns[i]
		if c.kind == short {
			values[i] = max(0, c.upper-float64(groups[c.position.job-1])) // The upper bound is the floor.
			continue
		}
		job, step, size := c.position.job-1, c.position.step-1, c.position.size
		held := plan[job][step]
		switch c.kind {
		case nodes:
			values[i] = float64(held.Nodes)
		case minus:
			values[i] = indicator(held.Nodes <= size.Nodes)
		case plus:
			values[i] = indicator(held.Nodes >= size.Nodes)
		case choice:
			values[i] = indicator(held == size)
		case served:
			values[i] = progress[job][step] * c.upper // The upper bound is the demand.
		}
	}
	return values
}

func indicator(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

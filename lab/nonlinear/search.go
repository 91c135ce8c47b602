package nonlinear

import (
	"cmp"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// finished determines the possible nodes of a completed job in later steps.
type finished int

const (
	// keepsMinSize is the simplified formulation, equation (> min): any legal size, of which the
	// smallest is optimal.
	keepsMinSize finished = iota
	// returnsToZero is the nonlinear formulation, equations (define y 1) to (return 0 if finish): no
	// nodes.
	returnsToZero
)

// row is the nodes of one job in every step.
type row struct {
	nodes []int
	value float64 // term of the job in the objective
}

// search is a branch-and-bound search over all combinations of the rows of jobs. The bound assumes the
// best row for every later job.
type search struct {
	problem *problem.Problem
	rows    []map[int][]row // of each job by nodes in the first step, the best first
}

func newSearch(p *problem.Problem, f finished) *search {
	s := &search{problem: p, rows: make([]map[int][]row, len(p.Jobs))}
	for i := range p.Jobs {
		s.rows[i] = rowsByFirst(&p.Jobs[i], p.Steps, f)
	}
	return s
}

// rowsByFirst returns the rows of a job by its nodes in the first step, the best first.
func rowsByFirst(job *problem.AdmittedJob, steps int, f finished) map[int][]row {
	byFirst := map[int][]row{}
	var extend func(nodes []int)
	extend = func(nodes []int) {
		if len(nodes) == steps {
			// Value treats a size that is not legal, such as 0, as no progress.
			byFirst[nodes[0]] = append(byFirst[nodes[0]], row{nodes: slices.Clone(nodes), value: job.Value(solver.Nodes(nodes...))})
			return
		}
		if f == returnsToZero && isFinished(job, nodes) {
			extend(append(nodes, 0))
			return
		}
		for _, k := range job.Options {
			extend(append(nodes, int(k.Nodes)))
		}
	}
	extend(make([]int, 0, steps))
	for k, rows := range byFirst {
		byFirst[k] = undominated(rows)
	}
	return byFirst
}

func isFinished(job *problem.AdmittedJob, nodes []int) bool {
	progress := job.AppendProgress(nil, solver.Nodes(nodes...))
	return len(progress) > 0 && progress[len(progress)-1] >= 1
}

// undominated sorts rows by value and removes rows that use at least as many nodes as a better row in
// every step.
func undominated(rows []row) []row {
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.value, a.value), slices.Compare(a.nodes, b.nodes))
	})
	var kept []row
	for _, r := range rows {
		if !slices.ContainsFunc(kept, func(better row) bool { return takesNoMore(better.nodes, r.nodes) }) {
			kept = append(kept, r)
		}
	}
	return kept
}

// takesNoMore reports whether a is at most b in every step.
func takesNoMore(a, b []int) bool {
	for t := range a {
		if a[t] > b[t] {
			return false
		}
	}
	return true
}

// best returns the largest objective of a plan with the given first step, or exceeding if that is larger.
func (s *search) best(first []int, exceeding float64) float64 {
	free := slices.Clone(s.problem.Capacity)
	best := exceeding
	var place func(i int, value, bound float64)
	place = func(i int, value, bound float64) {
		if i == len(first) {
			best = max(best, value)
			return
		}
		rows := s.rows[i][first[i]]
		for _, r := range rows {
			bound := bound - rows[0].value + r.value
			if bound <= best {
				return // Later rows are worse.
			}
			if take(free, r.nodes) {
				place(i+1, value+r.value, bound)
				giveBack(free, r.nodes)
			}
		}
	}
	place(0, 0, s.bound(first))
	return best
}

// bound returns an upper bound of the value of a plan with the given first step.
func (s *search) bound(first []int) float64 {
	bound := 0.0
	for i, k := range first {
		bound += s.rows[i][k][0].value
	}
	return bound
}

// take removes the nodes of a row from the free nodes. It returns false if they do not fit.
func take(free, nodes []int) bool {
	if !takesNoMore(nodes, free) {
		return false
	}
	for t, k := range nodes {
		free[t] -= k
	}
	return true
}

func giveBack(free, nodes []int) {
	for t, k := range nodes {
		free[t] += k
	}
}

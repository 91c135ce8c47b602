package solvertest

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// tieTolerance is the relative difference up to which Exhaustive treats two objectives as equal.
const tieTolerance = 1e-12

// roundingError is the rounding error of a sum, relative to the magnitude of its terms.
const roundingError = 1e-15

// Optimum is the result of exhaustive search.
type Optimum struct {
	// Plan is an optimal plan. Among the plans whose objective is within tieTolerance of the optimum,
	// it has the fewest changed jobs, then the fewest moves, then the fewest nodes in the first step,
	// then the smallest sum of the indices of the node types.
	Plan problem.Plan
	// Objective is the largest objective of any plan. The objective of Plan is within tieTolerance of it.
	Objective float64
	// Changed is the number of jobs whose option in the first step of Plan is not their current one.
	Changed int
	// Nodes is the number of nodes that Plan allocates in the first step.
	Nodes int
	// Moves is the number of jobs that move to another node type.
	Moves int
	// Types is the sum of the indices of the node types of the jobs.
	Types int
}

// Exhaustive returns the optimum of a problem by enumerating all legal plans. It reports false if there
// is none. The time grows with sizes^(steps*jobs).
func Exhaustive(p *problem.Problem) (Optimum, bool) {
	s := &search{
		problem: p,
		choices: make([][]choice, len(p.Jobs)),
		rest:    make([]float64, len(p.Jobs)+1),
		free:    slices.Clone(p.Capacity),
		rows:    make([]int, len(p.Rows)),
		used:    make([]int, len(p.Groups)),
		typed:   make([]map[int32]int, len(p.Groups)),
		chosen:  make(problem.Plan, len(p.Jobs)),
		best:    Optimum{Objective: math.Inf(-1)},
	}
	for i := range slices.Backward(p.Jobs) {
		s.choices[i] = enumerate(&p.Jobs[i], p.Steps)
		best, worst := s.choices[i][0].value, s.choices[i][len(s.choices[i])-1].value
		s.rest[i] = best + s.rest[i+1]
		s.tie += roundingError * max(math.Abs(best), math.Abs(worst))
	}
	for g := range p.Groups {
		s.typed[g] = make(map[int32]int)
		s.tie += roundingError * p.QuotaPrice * float64(p.Groups[g].Floor)
	}
	s.maximize(0, 0)
	if math.IsInf(s.best.Objective, -1) {
		return Optimum{}, false
	}
	s.tie += tieTolerance * math.Abs(s.best.Objective)
	s.best.Changed = math.MaxInt
	s.breakTies(0, 0, Optimum{})
	return s.best, true
}

// choice is one plan of one job.
type choice struct {
	options []solver.Option
	value   float64
	tie     Optimum // its contribution to Changed, Moves, Nodes and Types
}

// enumerate returns all plans of a job by decreasing value.
func enumerate(job *problem.AdmittedJob, steps int) []choice {
	plans := [][]solver.Option{nil}
	for range steps {
		var longer [][]solver.Option
		for _, options := range plans {
			for _, k := range job.Options {
				longer = append(longer, append(slices.Clone(options), k))
			}
		}
		plans = longer
	}
	choices := make([]choice, len(plans))
	for n, options := range plans {
		now := options[0]
		choices[n] = choice{options: options, value: job.Value(options), tie: Optimum{Nodes: int(now.Nodes), Types: int(now.Type)}}
		if now != job.Current {
			choices[n].tie.Changed = 1
		}
		if now.MovesFrom(job.Current) {
			choices[n].tie.Moves = 1
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(b.value, a.value) })
	return choices
}

// search is the state of the recursion over the jobs.
type search struct {
	problem *problem.Problem
	choices [][]choice
	// rest[i] is an upper bound on the value of the jobs from i on, without capacity limits.
	rest []float64
	// tie is the difference up to which an objective is treated as equal to the best one.
	tie    float64
	free   []int           // by step
	rows   []int           // nodes that count in each row
	used   []int           // by group, in the first step; problems with groups have no other
	typed  []map[int32]int // by group and node type
	chosen problem.Plan
	best   Optimum
}

// maximize finds the best objective over the choices of the jobs from i on. value is the value of the
// jobs before i.
func (s *search) maximize(i int, value float64) {
	if i == len(s.choices) {
		s.best.Objective = max(s.best.Objective, value-s.shortfall())
		return
	}
	for _, c := range s.choices[i] {
		if value+c.value+s.rest[i+1] <= s.best.Objective {
			return // The following choices have smaller values.
		}
		if s.allocate(i, c, 1) {
			s.maximize(i+1, value+c.value)
		}
		s.allocate(i, c, -1)
	}
}

// before reports whether o precedes other in the order of ties.
func (o *Optimum) before(other *Optimum) bool {
	return slices.Compare([]int{o.Changed, o.Moves, o.Nodes, o.Types}, []int{other.Changed, other.Moves, other.Nodes, other.Types}) < 0
}

// breakTies finds Optimum.Plan among the plans with the best objective.
func (s *search) breakTies(i int, value float64, partial Optimum) {
	if !partial.before(&s.best) {
		return
	}
	if i == len(s.choices) {
		if value-s.shortfall() < s.best.Objective-s.tie {
			return
		}
		partial.Plan, partial.Objective = s.chosen.Clone(), s.best.Objective
		s.best = partial
		return
	}
	for _, c := range s.choices[i] {
		if value+c.value+s.rest[i+1] < s.best.Objective-s.tie {
			return
		}
		if s.allocate(i, c, 1) {
			s.chosen[i] = c.options
			s.breakTies(i+1, value+c.value, Optimum{
				Changed: partial.Changed + c.tie.Changed, Moves: partial.Moves + c.tie.Moves,
				Nodes: partial.Nodes + c.tie.Nodes, Types: partial.Types + c.tie.Types,
			})
		}
		s.allocate(i, c, -1)
	}
}

// allocate adds the nodes of a choice to job i, or removes them if sign is -1. It reports whether all
// allocations fit the pool and the limits of the job's groups.
func (s *search) allocate(i int, c choice, sign int) bool {
	fits := true
	for t, k := range c.options {
		s.free[t] -= sign * int(k.Nodes)
		fits = fits && s.free[t] >= 0
	}
	for n, row := range s.problem.Rows {
		if now := c.options[0]; int(now.Type) == row.Type {
			s.rows[n] += sign * countedNodes(s.problem.Jobs[i].PieceNodes, int(now.Nodes), row.Size)
			fits = fits && s.rows[n] <= row.Nodes
		}
	}
	if len(s.used) == 0 {
		return fits
	}
	for g := s.problem.Jobs[i].Group; g >= 0; g = s.problem.Groups[g].Parent {
		s.used[g] += sign * int(c.options[0].Nodes)
		fits = fits && s.used[g] <= s.problem.Groups[g].Limit
		on := c.options[0].Type
		s.typed[g][on] += sign * int(c.options[0].Nodes)
		if limits := s.problem.Groups[g].TypeLimits; limits != nil {
			fits = fits && s.typed[g][on] <= limits[on]
		}
	}
	return fits
}

// shortfall returns the cost of the quotas that are not met.
func (s *search) shortfall() float64 {
	cost := 0.0
	for g, used := range s.used {
		cost += s.problem.QuotaPrice * float64(max(0, s.problem.Groups[g].Floor-used))
	}
	return cost
}

// CountedNodes returns how many nodes of an allocation of a job lie in pieces of at least the given size.
func CountedNodes(job *solver.Job, nodes, size int) int {
	return countedNodes(job.PieceNodes, nodes, size)
}

// countedNodes counts piece by piece.
func countedNodes(pieceNodes, nodes, size int) (counted int) {
	for nodes > 0 {
		piece := nodes
		if pieceNodes > 0 && pieceNodes < nodes {
			piece = pieceNodes
		}
		if nodes -= piece; piece >= size {
			counted += piece
		}
	}
	return counted
}

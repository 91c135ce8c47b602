// Package nonlinear measures the cost of the simplification of the paper's model. In the first,
// nonlinear formulation, a job releases its nodes when it completes. In the simplified formulation,
// which the rest of this project solves, a completed job keeps at least its smallest size until the
// end of the horizon. The paper calls the impact minimal, since only the first step of a plan takes
// effect.
//
// Compare solves both formulations by exhaustive search, for snapshots of a few jobs, and compares
// their first steps. Both use the legal sizes of the simplified formulation.
package nonlinear

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/problem"
)

// tieTolerance is the relative difference up to which two objectives are equal.
const tieTolerance = 1e-9

// Comparison compares the first steps of both formulations.
type Comparison struct {
	// First is the first step of the simplified formulation, in nodes per job, and NonlinearFirst
	// the first step of the nonlinear formulation. Ties are resolved by the fewest resized jobs, then
	// by the fewest nodes, then by the order of nodes.
	First, NonlinearFirst []int
	// Optimum is the optimum of the nonlinear formulation, and Reached its optimum if the first step
	// is First.
	Optimum, Reached float64
	// Differs reports that First is not an optimal first step of the nonlinear formulation. Tied
	// reports that another optimal first step of the simplified formulation is.
	Differs, Tied bool
}

// Loss returns the relative decrease of the optimum of the nonlinear formulation if the first step is
// First.
func (c Comparison) Loss() float64 {
	if !c.Differs {
		return 0
	}
	return (c.Optimum - c.Reached) / c.Optimum
}

// Compare solves both formulations. It returns false if the problem has no plan. In the worst case, its
// run time is proportional to sizes^(steps*jobs).
func Compare(p *problem.Problem) (Comparison, bool) {
	firsts := firstSteps(p)
	simplified, nonlinear := newSearch(p, keepsMinSize), newSearch(p, returnsToZero)
	simplifiedOptimum, optimum := simplified.optimum(firsts), nonlinear.optimum(firsts)
	if math.IsInf(simplifiedOptimum, -1) {
		return Comparison{}, false
	}
	best := simplified.firstStepsReaching(firsts, simplifiedOptimum)
	c := Comparison{First: best[0], NonlinearFirst: nonlinear.firstStepsReaching(firsts, optimum)[0], Optimum: optimum}
	c.Reached = nonlinear.best(c.First, math.Inf(-1))
	c.Differs = !reaches(c.Reached, optimum)
	c.Tied = c.Differs && len(nonlinear.firstStepsReaching(best, optimum)) > 0
	return c, true
}

// optimum returns the largest objective for the given first steps, -Inf if there is no plan.
func (s *search) optimum(firsts [][]int) float64 {
	promising := slices.Clone(firsts)
	slices.SortStableFunc(promising, func(a, b []int) int { return cmp.Compare(s.bound(b), s.bound(a)) })
	best := math.Inf(-1)
	for _, first := range promising {
		best = s.best(first, best)
	}
	return best
}

// firstStepsReaching returns the first steps for which a plan reaches the optimum.
func (s *search) firstStepsReaching(firsts [][]int, optimum float64) [][]int {
	var best [][]int
	for _, first := range firsts {
		below := optimum - 2*tieTolerance*math.Abs(optimum)
		if reaches(s.best(first, below), optimum) {
			best = append(best, first)
		}
	}
	return best
}

// reaches reports whether a value equals the best one within tieTolerance.
func reaches(value, best float64) bool { return value >= best-tieTolerance*math.Abs(best) }

// firstSteps returns every first step that fits the pool, in nodes per job, in the order in which the
// allocator resolves ties.
func firstSteps(p *problem.Problem) [][]int {
	var all [][]int
	nodes := make([]int, len(p.Jobs))
	var assign func(i, total int)
	assign = func(i, total int) {
		if total > p.Capacity[0] {
			return
		}
		if i == len(nodes) {
			all = append(all, slices.Clone(nodes))
			return
		}
		for _, k := range p.Jobs[i].Options {
			nodes[i] = int(k.Nodes)
			assign(i+1, total+nodes[i])
		}
	}
	assign(0, 0)
	slices.SortStableFunc(all, func(a, b []int) int {
		return cmp.Or(cmp.Compare(changed(p, a), changed(p, b)), cmp.Compare(sum(a), sum(b)))
	})
	return all
}

func changed(p *problem.Problem, nodes []int) int {
	count := 0
	for i, k := range nodes {
		if k != int(p.Jobs[i].Current.Nodes) {
			count++
		}
	}
	return count
}

func sum(nodes []int) int {
	total := 0
	for _, k := range nodes {
		total += k
	}
	return total
}

// Package parent asks what the paper's simplification costs. Its first formulation, the
// non-linear parent of the one that is solved everywhere else in this project, has the nodes
// of a job return to 0 once it has finished; the final one lets it hold its smallest size.
// Since only the first step of a plan is carried out, the paper calls the impact minimal.
//
// On snapshots of a few jobs exhaustive search solves both, the parent with the legal sizes
// of the final formulation, so that the first steps they decide on can be compared.
package parent

import (
	"cmp"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// tieTolerance is the relative difference up to which two objectives are equal.
const tieTolerance = 1e-9

// Comparison is what the simplified model's first step means in the parent.
type Comparison struct {
	// First is the first step that the simplified model decides on, nodes per job, and
	// ParentFirst the parent's: among the best that of the fewest changed jobs, then of the
	// fewest nodes, then the first in order of nodes.
	First, ParentFirst []int
	// Optimum is the parent's best objective, and Reached the best if it begins with First.
	Optimum, Reached float64
	// Differs says that First is not among the parent's best first steps, and Tied that
	// another one that is best in the simplified model is.
	Differs, Tied bool
}

// Loss returns the share of the parent's optimum that is lost by carrying out the
// simplified model's first step and continuing as well as the parent can.
func (c Comparison) Loss() float64 {
	if !c.Differs {
		return 0
	}
	return (c.Optimum - c.Reached) / c.Optimum
}

// Compare solves both models. It reports false if the problem has no plan. The time
// grows with sizes^(steps*jobs) at worst.
func Compare(p *solver.Problem) (Comparison, bool) {
	firsts := firstSteps(p)
	simplified, parent := newSearch(p, holdsSmallest), newSearch(p, returnsToZero)
	simplifiedOptimum, optimum := simplified.optimum(firsts), parent.optimum(firsts)
	if math.IsInf(simplifiedOptimum, -1) {
		return Comparison{}, false
	}
	best := simplified.reaching(firsts, simplifiedOptimum)
	c := Comparison{First: best[0], ParentFirst: parent.reaching(firsts, optimum)[0], Optimum: optimum}
	c.Reached = parent.best(c.First, math.Inf(-1))
	c.Differs = !reaches(c.Reached, optimum)
	c.Tied = c.Differs && len(parent.reaching(best, optimum)) > 0
	return c, true
}

// optimum returns the best objective over the given first steps, -Inf if there is no plan.
func (s *search) optimum(firsts [][]int) float64 {
	promising := slices.Clone(firsts)
	slices.SortStableFunc(promising, func(a, b []int) int { return cmp.Compare(s.bound(b), s.bound(a)) })
	best := math.Inf(-1)
	for _, first := range promising {
		best = s.best(first, best)
	}
	return best
}

// reaching returns those first steps from which the optimum can be reached.
func (s *search) reaching(firsts [][]int, optimum float64) [][]int {
	var best [][]int
	for _, first := range firsts {
		below := optimum - 2*tieTolerance*math.Abs(optimum)
		if reaches(s.best(first, below), optimum) {
			best = append(best, first)
		}
	}
	return best
}

// reaches reports whether a value is the best one, rounding aside.
func reaches(value, best float64) bool { return value >= best-tieTolerance*math.Abs(best) }

// firstSteps returns every first step that fits the pool, in nodes per job, in the order in
// which the allocator tells equal plans apart.
func firstSteps(p *solver.Problem) [][]int {
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

func changed(p *solver.Problem, nodes []int) int {
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

package exact

import "github.com/elastalloc/elastalloc/solver"

// NewAsking returns a backend that asks about time each time that it has done this much work.
func NewAsking(work int) *Solver {
	s := New()
	s.effort.quantum = work
	return s
}

// NewAnxious returns a backend whose effort is so small that problems of a few jobs take the
// ways through the search that are made for hard ones.
func NewAnxious(kind int) *Solver {
	s := New()
	s.effort = anxious()[kind]
	return s
}

// Anxieties is the number of kinds of NewAnxious.
func Anxieties() int { return len(anxious()) }

func anxious() []effort {
	sizes := *usual() // prices per size at once, with beams that hold next to nothing
	sizes.easyWork, sizes.maxLabels, sizes.visits, sizes.denseRows = 1, 4, 1, 6
	sizes.firstWidth, sizes.lastWidth, sizes.leftWidths = 2, 2, [2]int{1, 2}
	sizes.minSampled, sizes.maxSubproblems, sizes.sizesWork = 6, 50, 10_000_000
	proven := sizes // prices per size, with beams that hold what is left
	proven.leftWidths, proven.denseRows, proven.maxLabels = usual().leftWidths, usual().denseRows, usual().maxLabels
	branching := *usual() // no prices per size, and nothing but splitting
	branching.easyWork, branching.minSampled, branching.maxSubproblems = 1<<50, 2, 100
	branching.firstWidth, branching.lastWidth, branching.maxLabels, branching.visits = 1, 1, 3, 1
	return []effort{sizes, proven, branching}
}

// WithWitness returns the backend, which reports a contradiction where a lemma cuts off the
// plan: of a problem whose optimum is known.
func (s *Solver) WithWitness(plan solver.Plan) *Solver {
	s.witness = plan
	return s
}

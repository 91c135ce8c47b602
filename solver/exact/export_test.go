package exact

import (
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
)

// NewAsking returns a backend that asks about time each time that it has done this much work.
func NewAsking(work int) *Solver {
	s := New()
	s.effort.Quantum = work
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

func anxious() []model.Effort {
	sizes := *model.Usual() // prices per size at once, with beams that hold next to nothing
	sizes.EasyWork, sizes.MaxLabels, sizes.Visits, sizes.DenseRows = 1, 4, 1, 6
	sizes.FirstWidth, sizes.LastWidth, sizes.FirstStates, sizes.LastStates = 2, 2, 1, 1
	sizes.MinSampled, sizes.SizesWork = 6, 10_000_000
	proven := sizes // prices per size, with beams that hold what is left
	proven.FirstStates, proven.LastStates, proven.DenseRows, proven.MaxLabels = model.Usual().FirstStates, model.Usual().LastStates, model.Usual().DenseRows, model.Usual().MaxLabels
	core := *model.Usual() // no prices per size, and core searches that hold next to nothing
	core.BundleWork, core.MinSampled = 0, 2
	core.FirstWidth, core.LastWidth, core.MaxLabels, core.Visits, core.MaxColumns = 1, 1, 3, 1, 2
	return []model.Effort{sizes, proven, core}
}

// NewWithoutSizePrices returns a backend that has no prices per size.
func NewWithoutSizePrices() *Solver {
	s := New()
	s.effort.BundleWork = 0
	return s
}

// WithWitness returns the backend, which reports a contradiction where a lemma cuts off the
// plan: of a problem whose optimum is known.
func (s *Solver) WithWitness(plan solver.Plan) *Solver {
	s.witness = plan
	return s
}

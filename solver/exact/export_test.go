package exact

import (
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// NewWithQuantum returns a backend that checks the deadline after each given amount of work.
func NewWithQuantum(work int) *Solver {
	s := New()
	s.effort.CheckInterval = work
	return s
}

// NewWithSmallEffort returns a backend with small work limits. With these limits, problems of a few
// jobs use the stages that otherwise only hard problems reach.
func NewWithSmallEffort(kind int) *Solver {
	s := New()
	s.effort = smallEfforts()[kind]
	return s
}

// SmallEfforts returns the number of variants of NewWithSmallEffort.
func SmallEfforts() int { return len(smallEfforts()) }

func smallEfforts() []model.Effort {
	sizes := *model.DefaultEffort() // prices per size at once, with very narrow beams
	sizes.FirstCoreWork, sizes.MaxLabels, sizes.FirstVisits, sizes.MaxDenseRows = 1, 4, 1, 6
	sizes.FirstWidth, sizes.LastWidth, sizes.FirstStates, sizes.LastStates = 2, 2, 1, 1
	sizes.MinSampledJobs, sizes.SizePricesWork = 6, 10_000_000
	proven := sizes // prices per size, with beams of the usual width
	proven.FirstStates, proven.LastStates, proven.MaxDenseRows, proven.MaxLabels = model.DefaultEffort().FirstStates,
		model.DefaultEffort().LastStates, model.DefaultEffort().MaxDenseRows, model.DefaultEffort().MaxLabels
	core := *model.DefaultEffort() // no prices per size, and very narrow core searches
	core.MaxEvaluationWork, core.MinSampledJobs = 0, 2
	core.FirstWidth, core.LastWidth, core.MaxLabels, core.FirstVisits, core.MaxColumns = 1, 1, 3, 1, 2
	return []model.Effort{sizes, proven, core}
}

// NewWithoutSizePrices returns a backend that skips the stage of prices per size.
func NewWithoutSizePrices() *Solver {
	s := New()
	s.effort.MaxEvaluationWork = 0
	return s
}

// WithWitness sets an optimal plan. The backend reports a contradiction if a lemma proves a bound
// below its value.
func (s *Solver) WithWitness(plan problem.Plan) *Solver {
	s.witness = plan
	return s
}

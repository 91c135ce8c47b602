package chain

import (
	"context"
	"fmt"
	"math"

	"github.com/elastalloc/elastalloc/solver"
)

// boundNoise is how far a bound may be below an objective, relative and absolute,
// for the arithmetic of the two to be the reason.
const boundNoise = 1e-9

// bound returns a proven upper bound on the optimum: the backend's own or, if it
// has none, that of Config.Bound. A legal plan above the bound disproves it, which
// is a defect that no answer may hide. Only a heuristic plan may exceed it, since
// it may leave an admitted job waiting, which the model cannot.
func (c *Chain) bound(ctx context.Context, budget budget, p *solver.Problem, a answer) (float64, error) {
	bound := a.result.Bound
	if math.IsInf(bound, 1) {
		ctx, cancel := until(ctx, budget.end)
		defer cancel()
		bound = c.config.Bound(ctx, p)
	}
	if math.IsNaN(bound) || math.IsInf(bound, 0) {
		return 0, fmt.Errorf("the bound for the plan of %s is %v", a.Backend, bound)
	}
	if !a.result.Heuristic && bound < a.objective*(1-boundNoise)-boundNoise {
		return 0, fmt.Errorf("the bound %v is wrong: a legal plan of %s has objective %v", bound, a.Backend, a.objective)
	}
	return max(bound, a.objective), nil
}

// judge returns what is known about an answer of the given relative gap and what
// ended the search for it.
func judge(result solver.Result, gap, askedGap float64) (solver.Reason, solver.Limit) {
	switch {
	case result.Heuristic:
		return solver.ReasonHeuristic, result.Limit
	case gap <= solver.OptimalGap:
		return solver.ReasonOptimal, solver.LimitNone
	case gap <= askedGap:
		return solver.ReasonFeasible, solver.LimitGap
	default:
		return solver.ReasonFeasible, result.Limit
	}
}

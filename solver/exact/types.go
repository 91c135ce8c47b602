package exact

import (
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/exact/nodetypes"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// anyGap is larger than every relative gap: with it, nodetypes.Solve only minimizes the bound at
// prices.
const anyGap = 2

// solveTypes solves a problem with node types.
func solveTypes(clock *model.Clock, p *problem.Problem, options problem.SolveOptions) problem.Result {
	found := searchTypes(clock, p, options.RelativeGap, options.Incumbent)
	result := problem.Result{
		Plan: problem.NewPlan(len(p.Jobs), 1), Bound: found.Bound, NodePrices: found.Prices, Contradiction: found.Contradiction,
		Detail: fmt.Sprintf("states searched: %d", found.States),
	}
	for i, n := range found.Choice {
		result.Plan[i][0] = p.Jobs[i].Options[n]
	}
	switch {
	case found.Complete && problem.RelativeGap(found.Value, found.Bound) <= problem.OptimalGap:
		result.Limit = problem.LimitNone
	case found.Contradiction != "":
		result.Limit = problem.LimitWork
	case clock.Expired:
		result.Limit = problem.LimitTime
	case problem.RelativeGap(found.Value, found.Bound) <= options.RelativeGap:
		result.Limit = problem.LimitGap
	default:
		result.Limit = problem.LimitWork
	}
	if math.IsInf(result.Bound, 1) {
		result.Bound = p.TrivialBound()
	}
	// The value of the choice is exact to the last digit. Its objective here is an ordinary sum,
	// which may exceed the bound by rounding.
	result.Bound = max(result.Bound, p.Objective(result.Plan))
	return result
}

// boundTypes implements Solver.Bound for a problem with node types.
func boundTypes(clock *model.Clock, p *problem.Problem) (bound float64, nodePrices []float64, contradiction string) {
	found := searchTypes(clock, p, anyGap, nil)
	if math.IsInf(found.Bound, 1) {
		return p.TrivialBound(), nil, found.Contradiction
	}
	return found.Bound, found.Prices, ""
}

// searchTypes searches a problem with node types. It starts from the incumbent if the incumbent is
// legal.
func searchTypes(clock *model.Clock, p *problem.Problem, gap float64, incumbent problem.Plan) nodetypes.Result {
	in := nodetypes.Problem{
		Capacity: p.TypeNodes, Jobs: make([][]nodetypes.Option, len(p.Jobs)),
		Current: make([]nodetypes.Allocation, len(p.Jobs)), Start: make([]int, len(p.Jobs)), Gap: gap,
	}
	legal := p.Check(incumbent) == nil
	for i := range p.Jobs {
		job, start := &p.Jobs[i], p.FeasibleOptions[i]
		if legal {
			start = incumbent[i][0]
		}
		in.Start[i] = slices.Index(job.Options, start)
		in.Current[i] = nodetypes.Allocation(job.Current)
		in.Jobs[i] = make([]nodetypes.Option, len(job.Options))
		for n, option := range job.Options {
			in.Jobs[i][n] = nodetypes.Option{Allocation: nodetypes.Allocation(option), Value: job.Value(job.Options[n : n+1])}
		}
	}
	return nodetypes.Solve(clock, &in, nodetypes.DefaultEffort())
}

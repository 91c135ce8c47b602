package exact

import (
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/exact/rows"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// anyGap is larger than every relative gap: with it, rows.Solve only minimizes the bound at
// prices.
const anyGap = 2

// solveRows solves a problem with node types or size limits.
func solveRows(clock *model.Clock, p *problem.Problem, options problem.SolveOptions) problem.Result {
	found := searchRows(clock, p, options.RelativeGap, options.Incumbent)
	result := problem.Result{
		Plan: problem.NewPlan(len(p.Jobs), 1), Bound: found.Bound, NodePrices: found.Prices,
		GroupPrices: found.GroupPrices, GroupTypePrices: found.GroupTypePrices, Contradiction: found.Contradiction,
		Detail: fmt.Sprintf("states searched: %d", found.States),
	}
	for i, n := range found.Choice {
		result.Plan[i][0] = p.Jobs[i].Options[n]
	}
	switch {
	case found.Complete && solver.RelativeGap(found.Value, found.Bound) <= solver.OptimalGap:
		result.Limit = solver.LimitNone
	case found.Contradiction != "":
		result.Limit = solver.LimitWork
	case clock.Expired:
		result.Limit = solver.LimitTime
	case solver.RelativeGap(found.Value, found.Bound) <= options.RelativeGap:
		result.Limit = solver.LimitGap
	default:
		result.Limit = solver.LimitWork
	}
	if math.IsInf(result.Bound, 1) {
		result.Bound = p.TrivialBound()
	}
	// The value of the choice is exact to the last digit. Its objective here is an ordinary sum,
	// which may exceed the bound by rounding.
	result.Bound = max(result.Bound, p.Objective(result.Plan))
	return result
}

// boundRows implements Solver.Bound for a problem with node types or size limits.
func boundRows(clock *model.Clock, p *problem.Problem) (bound float64, nodePrices []float64, contradiction string) {
	found := searchRows(clock, p, anyGap, nil)
	if math.IsInf(found.Bound, 1) {
		return p.TrivialBound(), nil, found.Contradiction
	}
	return found.Bound, found.Prices, ""
}

// searchRows searches a problem with node types or size limits. It starts from the incumbent if the
// incumbent is legal. The prices are those of Problem.Rows.
func searchRows(clock *model.Clock, p *problem.Problem, gap float64, incumbent problem.Plan) rows.Result {
	in := rows.Problem{
		Jobs: make([][]rows.Option, len(p.Jobs)), Current: make([]rows.Allocation, len(p.Jobs)),
		Start: make([]int, len(p.Jobs)), Gap: gap,
	}
	binding := bindingRows(p)
	for n, row := range binding {
		in.Capacity = append(in.Capacity, row.Nodes)
		if row.Limit < 0 {
			in.First = append(in.First, n)
		}
	}
	allocation := func(job *problem.AdmittedJob, option solver.Option) rows.Allocation {
		a := rows.Allocation{Type: int16(option.Type), Nodes: option.Nodes}
		for n, row := range binding.Counting(option, job.PieceNodes) {
			counted := int32(row.Count(option, job.PieceNodes))
			if a.Row = int16(in.First[option.Type] + n); counted == option.Nodes {
				a.RemainderRow = a.Row
			}
			a.Remainder = option.Nodes - counted
		}
		return a
	}
	legal := p.Check(incumbent) == nil
	for i := range p.Jobs {
		job, start := &p.Jobs[i], p.MinOption(i)
		if legal {
			start = incumbent[i][0]
		}
		in.Start[i] = slices.Index(job.Options, start)
		in.Current[i] = allocation(job, job.Current)
		in.Jobs[i] = make([]rows.Option, len(job.Options))
		for n, option := range job.Options {
			in.Jobs[i][n] = rows.Option{Allocation: allocation(job, option), Value: job.Value(job.Options[n : n+1])}
		}
	}
	if len(in.First) == len(binding) {
		in.First = nil
	}
	effort := rows.DefaultEffort()
	if len(p.Groups) > 0 {
		effort = rows.GroupEffort()
		addGroups(&in, p)
	}
	found := rows.Solve(clock, &in, effort)
	if found.Prices != nil {
		prices := found.Prices
		found.Prices = make([]float64, len(p.Rows))
		for n, row := range p.Rows {
			if m := slices.Index(binding, row); m >= 0 {
				found.Prices[n] = prices[m]
			}
		}
	}
	return found
}

// addGroups adds the groups of a problem.
func addGroups(in *rows.Problem, p *problem.Problem) {
	in.QuotaPrice = p.QuotaPrice
	for g := range p.Groups {
		group := &p.Groups[g]
		in.Groups = append(in.Groups, rows.Group{
			Parent: group.Parent, Limit: min(group.Limit, rows.NoLimit), Floor: group.Floor, TypeLimits: group.TypeLimits,
		})
	}
	for i := range p.Jobs {
		in.GroupOf = append(in.GroupOf, p.Jobs[i].Group)
	}
}

// bindingRows returns the capacities and the size limits that can bind: a limit does not if it has at
// least as many nodes as the row before, which counts more nodes, or if all options that count in it
// fit together.
func bindingRows(p *problem.Problem) (binding solver.Rows) {
	all := slices.Clone(p.Rows) // with the nodes of all options that count
	for n := range all {
		all[n].Nodes = 0
	}
	for i := range p.Jobs {
		job := &p.Jobs[i]
		for n, option := range job.Options {
			if n+1 < len(job.Options) && job.Options[n+1].Type == option.Type {
				continue // At least as many nodes of a larger option count.
			}
			counting := all.Counting(option, job.PieceNodes)
			for m := range counting {
				counting[m].Nodes += counting[m].Count(option, job.PieceNodes)
			}
		}
	}
	for n, row := range p.Rows {
		if row.Limit < 0 || row.Nodes < min(binding[len(binding)-1].Nodes, all[n].Nodes) {
			binding = append(binding, row)
		}
	}
	return binding
}

// Package exact proves the optimal plan of a problem without an external solver.
//
// Only the pool's capacity, one row per step, couples the jobs of the model. That
// makes it easy: a price per node and step turns it into one small problem per
// job, the best prices give an upper bound that is hardly above the optimum, and
// the few jobs that are not settled at those prices are searched exactly. One file
// an idea, each opening with its mathematics:
//
//	instance.go    the problem in the units of the search, and how ties are broken
//	knapsack.go    one step by itself, solved exactly
//	groups.go      a tree of limits and floors, and its prices
//	grouptable.go  tables merged along that tree
//	separable.go   jobs that cannot finish in the horizon, priced by a look-up
//	pricing.go     a job's best plan at given prices, by label setting
//	root.go        where the search for prices starts
//	dual.go        the best prices: column generation on a smoothed master
//	sizeprices.go  a price per size in the place of one per node
//	bundle.go      the best of those, by a proximal bundle
//	decompose.go   the search at those prices
//	incumbent.go   a legal plan from prices, job by job
//	rollout.go     a legal plan from prices, step by step
//	classes.go     which jobs are equal
//	fixing.go      which plans of a job can still be part of a better solution
//	steptable.go   the separable jobs of the core, completed exactly per step
//	lookahead.go   what the jobs not yet decided still lose, at least
//	core.go        dynamic programming over what survives
//	beam.go        the states of that search
//	search.go      branch and bound around it all
//	clock.go       when to ask whether time is up
package exact

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// noEffect is a difference of objectives that does not matter.
const noEffect = 1e-12

// minScale is the smallest scale of the objective, as a share of what it could be,
// that ties are told apart at.
const minScale = 1e-8

// Solver is the embedded exact backend. It is stateless and safe for concurrent
// use.
type Solver struct {
	// every is the work between two questions about time, 0 for quantum.
	every int
}

// New returns the embedded exact backend.
func New() *Solver { return &Solver{} }

// Name returns solver.BackendExact.
func (*Solver) Name() solver.BackendName { return solver.BackendExact }

// Solve returns an optimal plan with its proof, or, where ctx ends first, the best
// plan and the best bound so far. It has a plan for every problem that admission
// makes; the error is for one whose smallest sizes together exceed the pool.
func (s *Solver) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	c := newClock(ctx, cmp.Or(s.every, quantum))
	in, err := newInstance(c, p)
	if err != nil {
		return solver.Result{}, err
	}
	if c.ended {
		return unsearched(p, options.Incumbent), nil
	}
	search := newSearch(in, options)
	search.offer(c, in.planOf(options.Incumbent))
	bound, limit := search.run(c)
	// Where the optimum is far below what it could have been, as when a job that
	// hardly progresses holds the only node, the tie costs were too large for it:
	// search again at the scale now known.
	for scale := in.scale; limit == solver.LimitNone && in.tieTotal > tiesOnly*math.Abs(search.value) && scale > minScale*in.scale; {
		scale = max(math.Abs(search.value), scale*1e-4)
		in.setTies(c, p, scale)
		again := newSearch(in, options)
		again.offer(c, search.incumbent)
		search = again
		bound, limit = search.run(c)
	}
	if limit != solver.LimitTime {
		in.trim(search.incumbent)
		in.order(c, search.incumbent)
	}
	result := solver.Result{
		Plan:       solver.NewPlan(len(p.Jobs), p.Steps),
		NodePrices: in.nodePrices(search.prices), GroupPrices: in.nodePrices(search.groupPrices),
		Limit:  limit,
		Detail: fmt.Sprintf("branch-and-bound nodes searched: %d", search.explored),
	}
	if result.NodePrices == nil && limit == solver.LimitNone {
		// The search was over before it asked for prices.
		_, result.NodePrices = in.lagrangian(c)
	}
	objective := 0.0
	for i, chosen := range search.incumbent {
		job, nodes := &p.Jobs[i], result.Plan[i]
		for t, k := range chosen {
			nodes[t] = job.Sizes[k]
		}
		job.ReleaseFinished(nodes)
		objective += job.Value(nodes)
	}
	if len(p.Groups) > 0 {
		objective = p.Objective(result.Plan)
	}
	result.Bound = in.objectiveBound(bound)
	// They may differ by rounding only, unless sizes that no job takes are worth so much
	// less than nothing that no digit of the objective is left.
	rounding := 4 * noise * in.magnitude * in.unit
	if result.Bound < objective || result.Bound < objective+rounding && rounding <= max(noEffect, solver.OptimalGap*math.Abs(objective)) {
		result.Bound = objective
	}
	return result, nil
}

// unsearched is the result where time was up before there was anything to search: the
// incumbent if it is legal, else every job's smallest size.
func unsearched(p *solver.Problem, incumbent solver.Plan) solver.Result {
	plan := incumbent
	if p.Check(plan) != nil {
		plan = solver.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for t := range plan[i] {
				plan[i][t] = p.Jobs[i].Sizes[0]
			}
		}
	}
	bound := max(everythingServed(p), p.Objective(plan)) // Sums may differ by rounding.
	return solver.Result{Plan: plan.Clone(), Bound: bound, Limit: solver.LimitTime}
}

// everythingServed bounds the objective: every job finished in the first step, on the
// size of the largest value.
func everythingServed(p *solver.Problem) float64 {
	bound := 0.0
	for i := range p.Jobs {
		for _, gain := range p.Jobs[i].Gain {
			bound += gain
		}
		if value := p.Jobs[i].SizeValue; value != nil {
			bound += slices.Max(value)
		}
	}
	return bound
}

// Bound returns a proven upper bound on the optimum of p: the Lagrangian bound at
// the best prices found before ctx ends. It is finite for every problem that has a
// plan, and 0 for one that has none.
func (s *Solver) Bound(ctx context.Context, p *solver.Problem) (bound float64, nodePrices []float64) {
	c := newClock(ctx, cmp.Or(s.every, quantum))
	in, err := newInstance(c, p)
	if err != nil {
		return 0, nil
	}
	if c.ended {
		return everythingServed(p), nil
	}
	if len(in.groups) > 0 {
		search := newSearch(in, solver.SolveOptions{})
		bound, _ = search.run(c)
		return in.objectiveBound(bound), in.nodePrices(search.prices)
	}
	bound, nodePrices = in.lagrangian(c)
	return in.objectiveBound(bound), nodePrices
}

// lagrangian returns the Lagrangian bound in units of the search and its prices in
// those of the objective, nil where time ends before there are any.
func (in *instance) lagrangian(c *clock) (bound float64, nodePrices []float64) {
	root := newRoot(c, in, nil)
	if c.ended {
		return in.most, nil
	}
	d := newDual(c, in)
	if c.ended {
		return in.most, nil
	}
	bound, prices := d.minimise(c, root, math.Inf(-1))
	return bound, in.nodePrices(prices)
}

// nodePrices returns what prices of the search are in units of the objective.
func (in *instance) nodePrices(prices []float64) []float64 {
	var converted []float64
	for _, price := range prices {
		converted = append(converted, price*in.unit)
	}
	return converted
}

// objectiveBound turns a bound in the units of the search into one on the
// objective, which exceeds a plan's value in the search by its tie cost and the rounding
// of the sums that the bound is made of.
func (in *instance) objectiveBound(bound float64) float64 {
	return max(in.least, min(bound+in.tieTotal, in.most)+noise*in.magnitude) * in.unit
}

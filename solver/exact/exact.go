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
	"context"
	"fmt"
	"math"

	"github.com/elastalloc/elastalloc/solver"
)

// minScale is the smallest scale of the objective, as a share of what it could be,
// that ties are told apart at.
const minScale = 1e-8

// Solver is the embedded exact backend. It is stateless and safe for concurrent
// use.
type Solver struct {
	effort effort
	// witness is a plan that must never be cut off; nil is none.
	witness solver.Plan
}

// New returns the embedded exact backend.
func New() *Solver { return &Solver{effort: *usual()} }

// Name returns solver.BackendExact.
func (*Solver) Name() solver.BackendName { return solver.BackendExact }

// Solve returns an optimal plan with its proof, or, where ctx ends first, the best
// plan and the best bound so far. It has a plan for every problem that admission
// makes; the error is for one whose smallest sizes together exceed the pool.
func (s *Solver) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	c := newClock(ctx, s.effort.quantum)
	in, err := newInstance(c, p, &s.effort)
	if err != nil {
		return solver.Result{}, err
	}
	if c.ended {
		return unsearched(p, options.Incumbent), nil
	}
	search := newSearch(in, options, s.witness)
	search.offer(c, in.planOf(options.Incumbent))
	bound, limit := search.run(c)
	again := func(scale float64) {
		in.setTies(c, p, scale)
		next := newSearch(in, options, s.witness)
		next.contradiction = search.contradiction
		next.offer(c, search.incumbent)
		search = next
		bound, limit = search.run(c)
	}
	// Where the optimum is far below what it could have been, as when a job that
	// hardly progresses holds the only node, the tie costs were too large for it:
	// search again at the scale now known, or, where it is next to nothing, without any.
	tied := func() bool { return limit == solver.LimitNone && in.tieTotal > tiesOnly*math.Abs(search.value) }
	for scale := in.scale; tied() && scale > minScale*in.scale; {
		scale = max(math.Abs(search.value), scale*1e-4)
		again(scale)
	}
	neaten := func() {
		if limit != solver.LimitTime {
			in.trim(search.incumbent)
			in.order(c, search.incumbent)
		}
	}
	neaten()
	if tied() {
		if again(0); limit == solver.LimitNone && search.value != 0 {
			again(math.Abs(search.value))
			neaten()
		}
	}
	result := solver.Result{
		Plan:       solver.NewPlan(len(p.Jobs), p.Steps),
		NodePrices: in.nodePrices(search.prices), GroupPrices: in.nodePrices(search.groupPrices),
		Limit:  limit,
		Detail: fmt.Sprintf("branch-and-bound nodes searched: %d", search.explored),
	}
	if result.NodePrices == nil && limit == solver.LimitNone {
		// The search was over before it asked for prices.
		_, prices := lagrangianBound(c, in)
		result.NodePrices = in.nodePrices(prices)
	}
	if options.Certificate {
		result.Certificate = search.certificate(p)
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
	slack := search.slack()
	result.Bound = objectiveBound(in, bound, slack)
	// Values within rounding of each other are the same, if rounding is next to nothing
	// beside them or they are 0 but for rounding.
	slack *= in.unit
	small := solver.RelativeGap(objective, objective+slack) <= solver.OptimalGap || math.Abs(objective) <= slack
	if result.Bound-objective <= 2*slack && small {
		result.Bound = objective
	}
	if result.Bound < objective && search.contradiction == "" {
		search.refute(bound)
	}
	if search.contradiction != "" {
		result.Contradiction, result.Limit = search.contradiction, solver.LimitWork
		result.Bound = p.Ceiling()
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
	return solver.Result{Plan: plan.Clone(), Bound: p.Ceiling(), Limit: solver.LimitTime}
}

// Bound returns a proven upper bound on the optimum of p: the Lagrangian bound at
// the best prices found before ctx ends. It is finite for every problem that has a
// plan, and 0 for one that has none.
func (s *Solver) Bound(ctx context.Context, p *solver.Problem) (bound float64, nodePrices []float64) {
	c := newClock(ctx, s.effort.quantum)
	in, err := newInstance(c, p, &s.effort)
	if err != nil {
		return 0, nil
	}
	if c.ended {
		return p.Ceiling(), nil
	}
	if len(in.groups) > 0 {
		search := newSearch(in, solver.SolveOptions{}, s.witness)
		bound, _ = search.run(c)
		return objectiveBound(in, bound, search.slack()), in.nodePrices(search.prices)
	}
	bound, prices := lagrangianBound(c, in)
	_, values := in.value(c, newPlan(in))
	return objectiveBound(in, bound, rounding(in, bound, values, priced(in, prices))), in.nodePrices(prices)
}

package exact

import (
	"context"
	"math"
	"sync"

	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/exact/proof"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// minScale is the smallest scale of the objective, as a share of what it could be,
// that ties are told apart at.
const minScale = 1e-8

// Solver is the embedded exact backend. It is stateless and safe for concurrent
// use.
type Solver struct {
	effort model.Effort
	// memories are those of searches that are over, to be used again.
	memories sync.Pool
	// witness, if not nil, is a plan that must never be cut off.
	witness problem.Plan
}

// New returns the embedded exact backend.
func New() *Solver {
	return &Solver{effort: *model.Usual(), memories: sync.Pool{New: func() any { return new(proof.Memory) }}}
}

// Name returns problem.BackendExact.
func (*Solver) Name() problem.BackendName { return problem.BackendExact }

// Solve returns an optimal plan with its proof, or, where ctx ends first, the best
// plan and the best bound so far. It has a plan for every problem that admission
// makes; the error is for one whose smallest sizes together exceed the pool.
func (s *Solver) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	clock := model.NewClock(ctx, s.effort.Quantum)
	if p.TypeNodes != nil {
		return solveTypes(clock, p, options), nil
	}
	memory := s.memories.Get().(*proof.Memory)
	defer s.memories.Put(memory)
	in, err := model.NewInstance(clock, p, &s.effort, &memory.Instance)
	if err != nil {
		return problem.Result{}, err
	}
	if clock.Ended {
		return unsearched(p, options.Incumbent), nil
	}
	search := proof.NewSearch(in, options, s.witness, memory)
	search.Offer(clock, in.PlanOf(options.Incumbent))
	bound, limit := search.Run(clock)
	again := func(scale float64) {
		in.SetTies(clock, p, scale)
		next := proof.NewSearch(in, options, s.witness, memory)
		next.Contradiction = search.Contradiction
		next.Offer(clock, search.Incumbent)
		search = next
		bound, limit = search.Run(clock)
	}
	// Where the optimum is far below what it could have been, as when a job that
	// hardly progresses holds the only node, the tie costs were too large for it:
	// search again at the scale now known or, if that is next to nothing, without tie costs.
	// Without this TestExtremeNumbers loses proofs.
	tied := func() bool { return limit == problem.LimitNone && in.TieTotal > model.TiesOnly*math.Abs(search.Value) }
	for scale := in.Scale; tied() && scale > minScale*in.Scale; {
		scale = max(math.Abs(search.Value), scale*1e-4)
		again(scale)
	}
	neaten := func() {
		if limit != problem.LimitTime {
			in.Trim(search.Incumbent)
			in.Order(clock, search.Incumbent)
		}
	}
	neaten()
	if tied() {
		if again(0); limit == problem.LimitNone && search.Value != 0 {
			again(math.Abs(search.Value))
			neaten()
		}
	}
	prices := in.NodePrices(search.Prices)
	if prices == nil && limit == problem.LimitNone {
		// The search was over before it asked for prices.
		_, best := proof.LagrangianBound(clock, in)
		prices = in.NodePrices(best)
	}
	result := problem.Result{
		NodePrices: prices, GroupPrices: in.NodePrices(search.GroupPrices),
		Limit: limit,
	}
	if options.Certificate {
		result.Certificate = search.Certificate(p)
	}
	// Values within rounding of each other are the same, if rounding is next to nothing
	// beside them or they are 0 but for rounding.
	slack := search.Slack()
	result.Bound = proof.ObjectiveBound(in, bound, slack)
	plan, objective := planOf(p, search.Incumbent)
	slack *= in.Unit
	switch small := problem.RelativeGap(objective, objective+slack) <= problem.OptimalGap || math.Abs(objective) <= slack; {
	case limit != problem.LimitNone || math.Abs(result.Bound-objective) > 2*slack: // Below is a contradiction.
	case small:
		result.Bound = objective
	case p.Steps == 1 && search.Contradiction == "":
		in.SetTies(clock, p, 0)
		if best, better, ok := proof.Recount(clock, in, search.Incumbent, model.TiesOnly*math.Abs(search.Value)); ok {
			plan, objective = planOf(p, best)
			result.Bound = objective + better*in.Unit
		}
	}
	result.Plan = plan
	if result.Bound < objective && search.Contradiction == "" {
		search.Refute(bound)
	}
	if search.Contradiction != "" {
		result.Contradiction, result.Limit = search.Contradiction, problem.LimitWork
		result.Bound = p.TrivialBound()
	}
	return result, nil
}

// planOf returns a plan of the search as options, and its objective.
func planOf(p *problem.Problem, chosen *model.Plan) (plan problem.Plan, objective float64) {
	plan = problem.NewPlan(len(p.Jobs), p.Steps)
	for i, options := range plan {
		job := &p.Jobs[i]
		for t, k := range chosen.Of(i) {
			options[t] = job.Options[k]
		}
		job.ReleaseFinished(options)
		objective += job.Value(options)
	}
	if len(p.Groups) > 0 {
		objective = p.Objective(plan)
	}
	return plan, objective
}

// unsearched is the result where time was up before there was anything to search: the
// incumbent if it is legal, else every job's smallest size.
func unsearched(p *problem.Problem, incumbent problem.Plan) problem.Result {
	plan := incumbent
	if p.Check(plan) != nil {
		plan = problem.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for t := range plan[i] {
				plan[i][t] = p.Jobs[i].Options[0]
			}
		}
	}
	return problem.Result{Plan: plan.Clone(), Bound: p.TrivialBound(), Limit: problem.LimitTime}
}

// Bound returns a proven upper bound on the optimum of p: the Lagrangian bound at
// the best prices found before ctx ends. It is finite for every problem that has a
// plan, and 0 for one that has none.
func (s *Solver) Bound(ctx context.Context, p *problem.Problem) (bound float64, nodePrices []float64, contradiction string) {
	clock := model.NewClock(ctx, s.effort.Quantum)
	if p.TypeNodes != nil {
		return boundTypes(clock, p)
	}
	memory := new(proof.Memory)
	in, err := model.NewInstance(clock, p, &s.effort, &memory.Instance)
	if err != nil {
		return 0, nil, ""
	}
	if clock.Ended {
		return p.TrivialBound(), nil, ""
	}
	if len(in.Groups) > 0 {
		search := proof.NewSearch(in, problem.SolveOptions{}, s.witness, memory)
		bound, _ = search.Run(clock)
		if bound = proof.ObjectiveBound(in, bound, search.Slack()); search.Contradiction != "" {
			bound = p.TrivialBound()
		}
		return bound, in.NodePrices(search.Prices), search.Contradiction
	}
	bound, prices := proof.LagrangianBound(clock, in)
	_, values := in.Value(clock, model.NewPlan(in))
	return proof.ObjectiveBound(in, bound, proof.Rounding(in, bound, values, proof.Priced(in, prices))), in.NodePrices(prices), ""
}

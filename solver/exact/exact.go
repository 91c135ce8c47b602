package exact

import (
	"context"
	"math"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/model"
	"github.com/elastalloc/elastalloc/solver/exact/proof"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// minScale is the smallest scale for which tie costs are computed, as a fraction of Instance.Scale.
// Below it, the search is repeated once without tie costs. TestExtremeNumbers (go test ./solver/exact
// -run ExtremeNumbers) passes with any value between 1e-16 and 1e-2.
const minScale = 1e-8

// Solver is the embedded exact backend. It is stateless and safe for concurrent
// use.
type Solver struct {
	effort model.Effort
	// memories contains the memory of completed searches, for reuse.
	memories sync.Pool
	// witness is a known optimal plan, for tests; nil if there is none. A bound below its value is
	// reported as a contradiction.
	witness problem.Plan
}

// New returns the embedded exact backend.
func New() *Solver {
	return &Solver{effort: *model.DefaultEffort(), memories: sync.Pool{New: func() any { return new(proof.Memory) }}}
}

// Name returns solver.BackendExact.
func (*Solver) Name() solver.BackendName { return solver.BackendExact }

// Solve returns an optimal plan and its proof. If ctx is done first, it returns the best plan and
// the best bound found so far. It returns a plan for every admitted problem. It returns an error
// only if the smallest sizes of all jobs together exceed the pool or the limit of a group.
func (s *Solver) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	clock := model.NewClock(ctx, s.effort.CheckInterval)
	if p.Rows != nil {
		return solveRows(clock, p, options), nil
	}
	memory := s.memories.Get().(*proof.Memory)
	defer s.memories.Put(memory)
	in, err := model.NewInstance(clock, p, &s.effort, &memory.Instance)
	if err != nil {
		return problem.Result{}, err
	}
	if clock.Expired {
		return withoutSearch(p, options.Incumbent), nil
	}
	search := proof.NewSearch(in, options, s.witness, memory)
	search.Offer(clock, in.PlanOf(options.Incumbent))
	bound, limit := search.Run(clock)
	searchAgain := func(scale float64) {
		in.SetTies(clock, p, scale)
		next := proof.NewSearch(in, options, s.witness, memory)
		next.Contradiction = search.Contradiction
		next.Offer(clock, search.Incumbent)
		search = next
		bound, limit = search.Run(clock)
	}
	// The tie costs are too large if the optimum is far below the estimated scale, for example if a
	// job that makes little progress occupies the only node. Search again at the scale of the
	// incumbent. If that scale is negligible, search without tie costs. Without these repetitions
	// TestExtremeNumbers loses proofs.
	tiesRemain := func() bool { return limit == solver.LimitNone && in.TieTotal > model.TiesOnly*math.Abs(search.Value) }
	for scale := in.Scale; tiesRemain() && scale > minScale*in.Scale; {
		scale = max(math.Abs(search.Value), scale*1e-4)
		searchAgain(scale)
	}
	normalize := func() {
		if limit != solver.LimitTime {
			in.Trim(search.Incumbent)
			in.Order(clock, search.Incumbent)
		}
	}
	normalize()
	if tiesRemain() {
		if searchAgain(0); limit == solver.LimitNone && search.Value != 0 {
			searchAgain(math.Abs(search.Value))
			normalize()
		}
	}
	prices := in.NodePrices(search.Prices)
	if prices == nil && limit == solver.LimitNone {
		// The search completed before it computed prices.
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
	// Set the bound to the objective if the gap is within the rounding error, and if this error is
	// negligible relative to the objective or the objective is 0 within the error.
	slack := search.Slack()
	result.Bound = proof.ObjectiveBound(in, bound, slack)
	plan, objective := convertPlan(p, search.Incumbent)
	slack *= in.Unit
	// Tie costs may exceed the difference between the plan of the search and a plan that is better.
	if p.Check(options.Incumbent) == nil {
		if value := p.Objective(options.Incumbent); value > objective+slack {
			plan, objective = options.Incumbent.Clone(), value
		}
	}
	switch small := solver.RelativeGap(objective, objective+slack) <= solver.OptimalGap || math.Abs(objective) <= slack; {
	case limit != solver.LimitNone || math.Abs(result.Bound-objective) > 2*slack: // A bound below the objective is a contradiction, reported below.
	case small:
		result.Bound = objective
	case p.Steps == 1 && search.Contradiction == "":
		in.SetTies(clock, p, 0)
		if best, better, ok := proof.Recount(clock, in, search.Incumbent, model.TiesOnly*math.Abs(search.Value)); ok {
			plan, objective = convertPlan(p, best)
			result.Bound = objective + better*in.Unit
		}
	}
	result.Plan = plan
	if result.Bound < objective && search.Contradiction == "" {
		search.Refute(bound)
	}
	if search.Contradiction != "" {
		result.Contradiction, result.Limit = search.Contradiction, solver.LimitWork
		result.Bound = p.TrivialBound()
	}
	return result, nil
}

// convertPlan converts a plan of the search to options. It also returns the objective of the plan.
func convertPlan(p *problem.Problem, chosen *model.Plan) (plan problem.Plan, objective float64) {
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

// withoutSearch returns the result if ctx is done before the instance is built. The plan is the
// incumbent if it is legal; otherwise every job has its smallest size.
func withoutSearch(p *problem.Problem, incumbent problem.Plan) problem.Result {
	plan := incumbent
	if p.Check(plan) != nil {
		plan = problem.NewPlan(len(p.Jobs), p.Steps)
		for i := range plan {
			for t := range plan[i] {
				plan[i][t] = p.Jobs[i].Options[0]
			}
		}
	}
	return problem.Result{Plan: plan.Clone(), Bound: p.TrivialBound(), Limit: solver.LimitTime}
}

// Bound returns a proven upper bound on the optimum of p: the Lagrangian bound at the best prices
// found before ctx is done. The bound is finite for every problem that has a plan, and 0 for a
// problem without one.
func (s *Solver) Bound(ctx context.Context, p *problem.Problem) (bound float64, nodePrices []float64, contradiction string) {
	clock := model.NewClock(ctx, s.effort.CheckInterval)
	if p.Rows != nil {
		return boundRows(clock, p)
	}
	memory := new(proof.Memory)
	in, err := model.NewInstance(clock, p, &s.effort, &memory.Instance)
	if err != nil {
		return 0, nil, ""
	}
	if clock.Expired {
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
	return proof.ObjectiveBound(in, bound, proof.Rounding(in, bound, values, proof.PoolCost(in, prices))), in.NodePrices(prices), ""
}

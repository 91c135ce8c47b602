package exact

import (
	"context"
	"math"
	"sync"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact/horizon"
	"github.com/elastalloc/elastalloc/solver/exact/model"
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
	return &Solver{effort: *model.DefaultEffort(), memories: sync.Pool{New: func() any { return new(horizon.Memory) }}}
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
	memory := s.memories.Get().(*horizon.Memory)
	defer s.memories.Put(memory)
	in, err := model.NewInstance(clock, p, &s.effort, &memory.Instance)
	if err != nil {
		return problem.Result{}, err
	}
	if clock.Expired {
		return withoutSearch(p, options.Incumbent), nil
	}
	r := &searches{clock: clock, problem: p, options: options, in: in, memory: memory, witness: s.witness}
	from := in.PlanOf(options.Incumbent)
	if from == nil {
		r.options.Incumbent = nil // It is not a plan of the problem, legal or not.
	}
	r.search(from)
	r.reduceTies()
	return r.result(), nil
}

// searches are the searches of an instance with different tie costs, one after another. The last one is
// embedded.
type searches struct {
	clock   *model.Clock
	problem *problem.Problem
	options problem.SolveOptions
	in      *model.Instance
	memory  *horizon.Memory
	witness problem.Plan

	*horizon.Search
	// bound and limit are the result of the last search.
	bound float64
	limit solver.Limit
}

// search searches the instance from a plan, which may be nil.
func (r *searches) search(from *model.Plan) {
	next := horizon.NewSearch(r.in, r.options, r.witness, r.memory)
	if r.Search != nil {
		next.Contradiction = r.Contradiction
	}
	next.Offer(r.clock, from)
	r.Search = next
	r.bound, r.limit = next.Run(r.clock)
}

// searchAt searches again with tie costs of a scale. 0 means no tie costs.
func (r *searches) searchAt(scale float64) {
	r.in.SetTies(r.clock, r.problem, scale)
	r.search(r.Incumbent)
}

// reduceTies searches again while the tie costs are too large. They are if the optimum is far below the
// estimated scale, for example if a job that makes little progress occupies the only node. It searches
// at the scale of the incumbent. If that scale is negligible, it searches without tie costs. Without
// these repetitions TestExtremeNumbers loses proofs.
func (r *searches) reduceTies() {
	for scale := r.in.Scale; r.tiesRemain() && scale > minScale*r.in.Scale; {
		scale = max(math.Abs(r.Value), scale*1e-4)
		r.searchAt(scale)
	}
	r.normalize()
	if !r.tiesRemain() {
		return
	}
	r.searchAt(0)
	if r.limit == solver.LimitNone && r.Value != 0 {
		r.searchAt(math.Abs(r.Value))
		r.normalize()
	}
}

// tiesRemain reports whether the search is complete and tie costs cause more of the gap than they may.
func (r *searches) tiesRemain() bool {
	return r.limit == solver.LimitNone && r.in.TieTotal > model.TiesOnly*math.Abs(r.Value)
}

// normalize selects one of the plans that are equally good, unless the time has expired.
func (r *searches) normalize() {
	if r.limit != solver.LimitTime {
		r.in.Trim(r.Incumbent)
		r.in.Order(r.clock, r.Incumbent)
	}
}

// result returns the result of the last search.
func (r *searches) result() problem.Result {
	result := problem.Result{NodePrices: r.nodePrices(), GroupPrices: r.in.NodePrices(r.GroupPrices), Limit: r.limit}
	if r.options.Certificate {
		result.Certificate = r.Certificate(r.problem)
	}
	result.Plan, result.Bound = r.planAndBound()
	if r.Contradiction != "" {
		result.Contradiction, result.Limit = r.Contradiction, solver.LimitWork
		result.Bound = r.problem.TrivialBound()
	}
	return result
}

// nodePrices returns the prices of the search. If it completed before it computed prices, they are
// those of the Lagrangian bound.
func (r *searches) nodePrices() []float64 {
	prices := r.in.NodePrices(r.Prices)
	if prices == nil && r.limit == solver.LimitNone {
		_, best := horizon.LagrangianBound(r.clock, r.in)
		prices = r.in.NodePrices(best)
	}
	return prices
}

// planAndBound returns the best plan and the bound. The bound is the objective if the gap is within the
// rounding error, and if this error is negligible relative to the objective or the objective is 0 within
// the error.
func (r *searches) planAndBound() (problem.Plan, float64) {
	slack := r.Slack()
	bound := horizon.ObjectiveBound(r.in, r.bound, slack)
	plan, objective := convertPlan(r.problem, r.Incumbent)
	slack *= r.in.Unit
	// Tie costs may exceed the difference between the plan of the search and a plan that is better.
	if incumbent := r.options.Incumbent; incumbent != nil {
		if value := r.problem.Objective(incumbent); value > objective+slack && r.problem.Check(incumbent) == nil {
			plan, objective = incumbent.Clone(), value
		}
	}
	small := solver.RelativeGap(objective, objective+slack) <= solver.OptimalGap || math.Abs(objective) <= slack
	switch {
	case r.limit != solver.LimitNone || math.Abs(bound-objective) > 2*slack: // A bound below the objective is a contradiction, reported below.
	case small:
		bound = objective
	case r.problem.Steps == 1 && r.Contradiction == "":
		r.in.SetTies(r.clock, r.problem, 0)
		if best, better, ok := horizon.Recount(r.clock, r.in, r.Incumbent, model.TiesOnly*math.Abs(r.Value)); ok {
			plan, objective = convertPlan(r.problem, best)
			bound = objective + better*r.in.Unit
		}
	}
	if bound < objective && r.Contradiction == "" {
		r.Refute(r.bound)
	}
	return plan, bound
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
	memory := new(horizon.Memory)
	in, err := model.NewInstance(clock, p, &s.effort, &memory.Instance)
	if err != nil {
		return 0, nil, ""
	}
	if clock.Expired {
		return p.TrivialBound(), nil, ""
	}
	if len(in.Groups) > 0 {
		search := horizon.NewSearch(in, problem.SolveOptions{}, s.witness, memory)
		bound, _ = search.Run(clock)
		if bound = horizon.ObjectiveBound(in, bound, search.Slack()); search.Contradiction != "" {
			bound = p.TrivialBound()
		}
		return bound, in.NodePrices(search.Prices), search.Contradiction
	}
	bound, prices := horizon.LagrangianBound(clock, in)
	_, values := in.Value(clock, model.NewPlan(in))
	return horizon.ObjectiveBound(in, bound, horizon.Rounding(in, bound, values, horizon.PoolCost(in, prices))), in.NodePrices(prices), ""
}

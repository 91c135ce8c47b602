package chain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// roundingTolerance is the relative gap up to which a bound below an objective is explained by rounding.
const roundingTolerance = 1e-12

// proof is the proof of a bound.
type proof struct {
	bound float64
	// nodePrices are the node prices of the bound, from the backend if it reports them.
	nodePrices []float64
	// contradiction describes a proof that a legal plan has refuted, "" if there is none.
	contradiction string
}

// proveBound returns a proven upper bound on the optimum: the bound of the backend or of the prover's
// verification. If there is neither or if the verification is incomplete, it calls the prover. With noBound,
// the bound of a heuristic plan is +Inf.
func (r *run) proveBound(ctx context.Context, a attempt) (proof, error) {
	if r.noBound && a.result.Heuristic {
		return proof{bound: math.Inf(1), contradiction: a.result.Contradiction}, nil
	}
	bound, complete := a.result.Bound, !math.IsInf(a.result.Bound, 1)
	prices, contradiction := a.result.NodePrices, a.result.Contradiction
	if v := r.verification; v != nil && v.Outcome == solver.OutcomeAnswered {
		bound = min(bound, v.result.Bound)
		complete = v.result.Limit != solver.LimitTime
		if prices == nil {
			prices = v.result.NodePrices
		}
	}
	if !complete || math.IsInf(bound, 1) {
		ctx, cancel := withDeadline(ctx, r.budget.deadline)
		defer cancel()
		proven, err := callProver(ctx, r.chain.config.Prover, r.problem)
		if err != nil {
			return proof{}, err
		}
		bound, contradiction = min(bound, proven.bound), cmp.Or(contradiction, proven.contradiction)
		if prices == nil {
			prices = proven.nodePrices
		}
	}
	if math.IsNaN(bound) || math.IsInf(bound, 0) {
		return proof{}, fmt.Errorf("the bound for the plan of %s is %v; must be finite", a.Backend, bound)
	}
	proven := proof{bound: bound, nodePrices: prices, contradiction: contradiction}
	proven.checkAgainst(r.problem, &a)
	return proven, nil
}

// checkAgainst checks the proof against the plan of an attempt. If the plan refutes the bound, or if
// the proof has a contradiction already, it sets the bound to one that needs no search. The bound of a
// heuristic plan is raised to its objective, because the plan may exceed the optimum of the model: it
// may leave an admitted job waiting, which is not legal in the model.
func (f *proof) checkAgainst(p *problem.Problem, a *attempt) {
	refutes := solver.RelativeGap(f.bound, a.objective) > roundingTolerance && p.Check(a.result.Plan) == nil
	if f.contradiction == "" && refutes {
		f.contradiction = fmt.Sprintf("the bound %v is wrong: a legal plan of %s has objective %v", f.bound, a.Backend, a.objective)
	}
	if f.contradiction != "" {
		f.bound = p.TrivialBound()
	}
	f.bound = max(f.bound, a.objective)
	// If the terms of the objective nearly cancel, its rounding error exceeds the gap of a proven optimum.
	if e := p.RoundingError(a.result.Plan); solver.RelativeGap(a.objective, a.objective+e) > solver.OptimalGap {
		f.bound += e
	}
}

// callProver calls prover.Bound and converts a panic into an error, as solve does.
func callProver(ctx context.Context, prover problem.Prover, p *problem.Problem) (proven proof, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("bound of %s: panic: %v", prover.Name(), cause)
		}
	}()
	proven.bound, proven.nodePrices, proven.contradiction = prover.Bound(ctx, p)
	return proven, nil
}

// reasonAndLimit returns the reason and the limit of a report. A search that the time budget stopped has
// LimitTime however good its plan is, and so has a heuristic plan that replaces the plan of a backend that
// timed out. If the gap is open although an external solver completed its search, the limit is the limit of
// the verification.
func (r *run) reasonAndLimit(
	result problem.Result, attempts []solver.Attempt, contradicted bool, gap float64,
) (solver.Reason, solver.Limit) {
	optimal := gap <= solver.OptimalGap
	limit := result.Limit
	switch {
	case result.Heuristic:
		if slices.ContainsFunc(attempts, func(a solver.Attempt) bool { return a.Outcome == solver.OutcomeTimedOut }) {
			limit = solver.LimitTime
		}
		return solver.ReasonHeuristic, limit
	case limit == solver.LimitTime: // Unchanged.
	case contradicted && !optimal:
		limit = solver.LimitWork // The search is complete, but proves nothing.
	case optimal:
		limit = solver.LimitNone
	case gap <= r.options.RelativeGap:
		limit = solver.LimitGap
	case limit == solver.LimitNone && r.verification != nil && r.verification.Outcome == solver.OutcomeAnswered:
		limit = r.verification.result.Limit
	case limit == solver.LimitNone && r.verification != nil && r.verification.Outcome == solver.OutcomeTimedOut:
		limit = solver.LimitTime
	}
	if optimal {
		return solver.ReasonOptimal, limit
	}
	return solver.ReasonFeasible, limit
}

package chain

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// boundNoise is how far a bound may be below an objective, as a relative gap, for the
// arithmetic of the two to be the reason.
const boundNoise = 1e-12

// proof is what is known about the optimum.
type proof struct {
	bound float64
	// prices of nodes that come with the bound, those of the backend if it knows them.
	prices []float64
	// contradiction, where it is not empty, says which plan is above which bound.
	contradiction string
}

// bound returns a proven upper bound on the optimum: the backend's own, or that of
// the prover's verification, and the prover's Bound where neither has one or the
// verification was cut short. A heuristic plan may exceed it where it leaves an admitted job
// waiting, which the model cannot. With noBound its bound is left at +Inf.
func (r *run) bound(ctx context.Context, a answer) (proof, error) {
	if r.noBound && a.result.Heuristic {
		return proof{bound: math.Inf(1), contradiction: a.result.Contradiction}, nil
	}
	bound, complete := a.result.Bound, !math.IsInf(a.result.Bound, 1)
	prices, contradiction := a.result.NodePrices, a.result.Contradiction
	if own := r.verification; own != nil && own.Outcome == solver.OutcomeAnswered {
		bound = min(bound, own.result.Bound)
		complete = own.result.Limit != solver.LimitTime
		if prices == nil {
			prices = own.result.NodePrices
		}
	}
	if !complete || math.IsInf(bound, 1) {
		ctx, cancel := until(ctx, r.budget.end)
		defer cancel()
		own, err := prove(ctx, r.chain.config.Prover, r.problem)
		if err != nil {
			return proof{}, err
		}
		bound, contradiction = min(bound, own.bound), cmp.Or(contradiction, own.contradiction)
		if prices == nil {
			prices = own.prices
		}
	}
	if math.IsNaN(bound) || math.IsInf(bound, 0) {
		return proof{}, fmt.Errorf("the bound for the plan of %s is %v", a.Backend, bound)
	}
	proven := proof{bound: bound, prices: prices, contradiction: contradiction}
	a.test(r.problem, &proven)
	return proven, nil
}

// test holds a proof against the plan of an answer. Of one that the plan disproves, or that
// disproved itself, nothing is left but what needs no search.
func (a *answer) test(p *solver.Problem, proven *proof) {
	refutes := solver.RelativeGap(proven.bound, a.objective) > boundNoise && p.Check(a.result.Plan) == nil
	if proven.contradiction == "" && refutes {
		proven.contradiction = fmt.Sprintf("the bound %v is wrong: a legal plan of %s has objective %v", proven.bound, a.Backend, a.objective)
	}
	if proven.contradiction != "" {
		proven.bound = p.TrivialBound()
	}
	proven.bound = max(proven.bound, a.objective)
	// Of sums that cancel to next to nothing no optimum is known.
	if off := p.RoundingError(a.result.Plan); solver.RelativeGap(a.objective, a.objective+off) > solver.OptimalGap {
		proven.bound += off
	}
}

// prove asks a prover for a bound and turns a panic into an error, as solve does.
func prove(ctx context.Context, prover solver.Prover, p *solver.Problem) (proven proof, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("bound of %s: panic: %v", prover.Name(), cause)
		}
	}()
	proven.bound, proven.prices, proven.contradiction = prover.Bound(ctx, p)
	return proven, nil
}

// conclude returns what is known about an answer of the given relative gap and
// what ended the search for it. A search that time has ended says so however good its
// plan is, as does a heuristic answer instead of one that was not found in time. A gap that
// is open although a solver was done is open because our own proof has ended.
func (r *run) conclude(result solver.Result, attempts []solver.Attempt, contradicted bool, gap float64) (solver.Reason, solver.Limit) {
	optimal := gap <= solver.OptimalGap
	limit := result.Limit
	switch {
	case result.Heuristic:
		if slices.ContainsFunc(attempts, func(a solver.Attempt) bool { return a.Outcome == solver.OutcomeTimedOut }) {
			limit = solver.LimitTime
		}
		return solver.ReasonHeuristic, limit
	case limit == solver.LimitTime: // It stays.
	case contradicted && !optimal:
		limit = solver.LimitWork // The search is over, and has proven nothing.
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

// Package chain makes decisions with backends that may be missing, slow, broken or wrong. It divides the
// time budget, calls one backend after another, checks every plan, and computes objective and bound itself.
// The greedy allocator is the last fallback, so that there is always a decision. The report lists the
// attempts of all backends.
package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// Config configures a Chain. Greedy and Prover are required.
type Config struct {
	// Backends are called in this order, after the backend that the options of a decision name. A
	// *Breaker is skipped while it is open.
	Backends []problem.Backend
	// Greedy is the last fallback. Its plan is also the incumbent of the other backends, and its
	// objective is Report.GreedyObjective.
	Greedy problem.Backend
	// Prover proves the bound of a plan whose backend proves none. It also solves the problem of a plan
	// with a claim, because a plan is reported as optimal only with the proof of this program, and is
	// rejected if the proof refutes the claim. It may also be one of Backends.
	Prover problem.Prover
	// DefaultBudget is the time budget of a decision whose options set none. 0 means that only the
	// deadline of the context limits the decision.
	DefaultBudget time.Duration
}

// Chain makes decisions. It is safe for concurrent use. It keeps no state except the states of the
// breakers, which determine the backends that are called, but not the result of a backend.
type Chain struct {
	config Config
}

// New returns a chain.
func New(config Config) *Chain { return &Chain{config: config} }

// Allocate decides a valid snapshot. It calls the backend that the options name, then the configured
// backends in order, then greedy, until one returns a legal plan. If the options name greedy, it calls no
// other backend.
//
// Greedy runs first, because every report has its objective and the other backends start from its plan.
// If greedy fails and another backend has a plan, greedy's objective is 0 and its failure is the last
// attempt of the report.
//
// The error is context.Canceled if ctx was canceled, context.DeadlineExceeded if even greedy did not finish
// before the deadline of ctx, and otherwise a bug of this program: no backend returned a legal plan.
// Report.Contradiction is valid also with an error. All other fields are then unset.
func (c *Chain) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return solver.Decision{}, ctx.Err()
	}
	start := time.Now()
	p := problem.NewProblemFor(s, o)
	options := problem.SolveOptions{RelativeGap: o.RelativeGap, Formulation: o.MILP(), Certificate: o.Certificate}
	// Greedy is limited by the context of the caller, not by the budget, because it is the last fallback.
	greedy := call(ctx, c.config.Greedy, p, options)
	if greedy.Outcome == solver.OutcomeAnswered {
		options.Incumbent = greedy.result.Plan
	}
	budget := newBudget(ctx, start, time.Since(start), o.TimeBudget, c.config.DefaultBudget)
	r := &run{chain: c, budget: budget, problem: p, options: options, greedy: greedy, noBound: o.NoBound, interrupt: o.Interrupt}
	final, err := r.decideInTime(ctx, c.fallbackOrder(o.Backend))
	if err != nil {
		return solver.Decision{Report: solver.Report{Contradiction: final.chosen.result.Contradiction}}, err
	}
	chosen, attempts := final.chosen, final.attempts
	if chosen.Backend != solver.BackendGreedy && greedy.Outcome != solver.OutcomeAnswered {
		attempts = append(attempts, greedy.Attempt)
	}

	if v := final.verification; v != nil && v.Outcome == solver.OutcomeAnswered {
		if chosen.result.GroupPrices == nil {
			chosen.result.GroupPrices, chosen.result.GroupTypePrices = v.result.GroupPrices, v.result.GroupTypePrices
		}
		if chosen.result.Certificate == nil {
			chosen.result.Certificate = v.result.Certificate
		}
	}
	decision := report.Decide(s, p, chosen.result)
	out := &decision.Report
	out.Backend = chosen.Backend
	out.Objective = chosen.objective
	out.Bound, out.Contradiction = final.proof.bound, final.proof.contradiction
	out.SetPrices(p.Rows, final.proof.nodePrices)
	out.RelativeGap = solver.RelativeGap(out.Objective, out.Bound)
	out.Reason, out.Limit = final.reasonAndLimit(chosen.result, attempts, out.Contradiction != "", out.RelativeGap)
	out.GreedyObjective = greedy.objective
	out.SolveTime = chosen.Duration
	out.Attempts = attempts
	return decision, nil
}

// Solve solves a problem with the prover. The plan of the result is legal, and the bound is not below its
// objective. If ctx stopped the search, the limit of the result is LimitTime. An error is a bug of this
// program; the result then has at most a contradiction.
func (c *Chain) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	a := call(ctx, c.config.Prover, p, options)
	if a.Outcome != solver.OutcomeAnswered {
		return a.result, noPlanError([]solver.Attempt{a.Attempt})
	}
	proven := proof{bound: a.result.Bound, contradiction: a.result.Contradiction}
	proven.checkAgainst(p, &a)
	a.result.Bound, a.result.Contradiction = proven.bound, proven.contradiction
	return a.result, nil
}

// fallbackOrder returns the backends to call before greedy.
func (c *Chain) fallbackOrder(requested solver.BackendName) []problem.Backend {
	if requested == solver.BackendGreedy {
		return nil
	}
	all := c.config.Backends
	i := slices.IndexFunc(all, func(b problem.Backend) bool { return b.Name() == requested })
	if i < 0 {
		missing := Unavailable{requested, fmt.Errorf("%w: %q is not configured", solver.ErrUnavailable, requested)}
		return append([]problem.Backend{missing}, all...)
	}
	return slices.Concat(all[i:i+1], all[:i], all[i+1:])
}

// Unavailable is a backend that always fails.
type Unavailable struct {
	BackendName solver.BackendName
	// Err is the error of Solve. It wraps solver.ErrUnavailable.
	Err error
}

// Name returns the name of the backend.
func (u Unavailable) Name() solver.BackendName { return u.BackendName }

// Solve returns u.Err.
func (u Unavailable) Solve(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
	return problem.Result{}, u.Err
}

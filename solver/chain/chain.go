// Package chain makes decisions out of backends that may be absent, too slow,
// broken or wrong: it splits the time budget, asks one after the other, checks
// every plan, works out objective and bound itself, and falls back to the greedy
// allocator, so that there is always an answer, and a record of why it is this one.
package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Config is what a chain is made of. Greedy, FillIdle and Bound are required.
type Config struct {
	// Backends are asked in this order, after the one a decision asks for.
	Backends []solver.Backend
	// Greedy is the last resort and the reference of Report.GreedyObjective.
	Greedy solver.Backend
	// FillIdle returns the nodes of every job of a snapshot in ModeFillIdle.
	FillIdle func(*solver.Snapshot) []int
	// Bound returns a proven upper bound on the optimum of a problem: the better
	// the more time the context leaves it, but a finite one always.
	Bound func(context.Context, *solver.Problem) float64
	// DefaultBudget is the time for a decision that does not ask for a budget
	// itself; 0 means that only the context's deadline limits it.
	DefaultBudget time.Duration
}

// Chain makes decisions. It is safe for concurrent use and keeps no state.
type Chain struct {
	config Config
}

// New returns a chain of the given parts.
func New(config Config) *Chain { return &Chain{config: config} }

// Allocate decides on a valid snapshot. It asks the backend that the options name,
// then the configured ones in order, then greedy, until one has a legal plan; if
// the options name greedy, it asks only that.
//
// An error is context.Canceled if the caller left, context.DeadlineExceeded if not
// even greedy had answered when the caller's deadline passed, and otherwise a
// defect of this program: no backend has a legal plan, or a bound is wrong.
func (c *Chain) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return solver.Decision{}, ctx.Err()
	}
	if o.Mode == solver.ModeFillIdle {
		return c.fillIdle(s)
	}
	return c.rebalance(ctx, s, o)
}

// rebalance makes the decision of a scaling moment. Greedy's objective is worked
// out beside it; should greedy fail at that, the decision stands, the objective is
// 0 and the failure the last of the attempts.
func (c *Chain) rebalance(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	budget := newBudget(ctx, time.Now(), o.TimeBudget, c.config.DefaultBudget)
	p := solver.NewProblem(s, o.Admission)
	chosen, attempts, err := c.ask(ctx, budget, p, o)
	if err != nil {
		return solver.Decision{}, err
	}
	greedy := chosen
	if chosen.Backend != solver.BackendGreedy {
		greedy = try(ctx, c.config.Greedy, p, solveOptions(o))
		if greedy.Outcome != solver.OutcomeAnswered {
			attempts = append(attempts, greedy.Attempt)
		}
	}
	bound, err := c.bound(ctx, budget, p, chosen)
	if err != nil {
		return solver.Decision{}, err
	}

	decision := solver.Decide(s, p, chosen.result.Plan)
	report := &decision.Report
	report.Backend = chosen.Backend
	report.Objective = chosen.objective
	report.Bound = bound
	report.RelativeGap = solver.RelativeGap(report.Objective, report.Bound)
	report.Reason, report.Limit = judge(chosen.result, report.RelativeGap, o.RelativeGap)
	report.GreedyObjective = greedy.objective
	report.SolveTime = chosen.Duration
	report.Attempts = attempts
	return decision, nil
}

// ask asks one backend after the other and returns the first answer with a legal
// plan, and the attempts up to it.
func (c *Chain) ask(
	ctx context.Context, budget budget, p *solver.Problem, o solver.Options,
) (answer, []solver.Attempt, error) {
	var attempts []solver.Attempt
	backends := c.order(o.Backend)
	for i, backend := range backends {
		last := i == len(backends)-1
		a := tryWithin(ctx, budget.slice(time.Now(), last), backend, p, solveOptions(o))
		attempts = append(attempts, a.Attempt)
		if a.Outcome == solver.OutcomeAnswered {
			return a, attempts, nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return answer{}, nil, ctx.Err()
		}
	}
	// Greedy has the caller's context, not what is left of the budget.
	a := try(ctx, c.config.Greedy, p, solveOptions(o))
	attempts = append(attempts, a.Attempt)
	if a.Outcome == solver.OutcomeAnswered {
		return a, attempts, nil
	}
	if ctx.Err() != nil {
		return answer{}, nil, ctx.Err()
	}
	return answer{}, nil, noAnswerError(attempts)
}

// order returns the backends to ask before greedy.
func (c *Chain) order(requested solver.BackendName) []solver.Backend {
	if requested == solver.BackendGreedy {
		return nil
	}
	var first, rest []solver.Backend
	for _, backend := range c.config.Backends {
		if backend.Name() == requested {
			first = append(first, backend)
		} else {
			rest = append(rest, backend)
		}
	}
	if len(first) == 0 {
		first = append(first, notConfigured(requested))
	}
	return append(first, rest...)
}

// notConfigured stands for a backend that was asked for but is not there.
type notConfigured solver.BackendName

// Name returns the name that was asked for.
func (n notConfigured) Name() solver.BackendName { return solver.BackendName(n) }

// Solve returns an error wrapping solver.ErrUnavailable.
func (n notConfigured) Solve(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
	return solver.Result{}, fmt.Errorf("%w: %q is not configured", solver.ErrUnavailable, string(n))
}

func solveOptions(o solver.Options) solver.SolveOptions {
	return solver.SolveOptions{RelativeGap: o.RelativeGap, Formulation: o.Formulation}
}

// fillIdle makes the decision of a regular time. There is no model to it, so
// there is no bound either.
func (c *Chain) fillIdle(s *solver.Snapshot) (solver.Decision, error) {
	start := time.Now()
	nodes := c.config.FillIdle(s)
	duration := time.Since(start)

	p, plan := solver.Hold(s, nodes)
	if err := p.Check(plan); err != nil {
		return solver.Decision{}, fmt.Errorf("filling idle nodes: %w", err)
	}
	decision := solver.Decide(s, p, plan)
	report := &decision.Report
	report.Backend = solver.BackendGreedy
	report.Reason = solver.ReasonHeuristic
	report.Limit = solver.LimitNone
	report.Objective = p.Objective(plan)
	report.GreedyObjective = report.Objective
	report.SolveTime = duration
	report.Attempts = []solver.Attempt{
		{Backend: solver.BackendGreedy, Outcome: solver.OutcomeAnswered, Duration: duration},
	}
	return decision, nil
}

// Package chain makes decisions out of backends that may be absent, too slow,
// broken or wrong: it splits the time budget, asks one after the other, checks
// every plan, works out objective and bound itself, and falls back to the greedy
// allocator, so that there is always an answer, and a record of why it is this one.
package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Config is the parts of a chain. Greedy and Prover are required.
type Config struct {
	// Backends are asked in this order, after the one a decision asks for. A *Breaker
	// is not asked while it is open.
	Backends []solver.Backend
	// Greedy is the last resort and the reference of Report.GreedyObjective.
	Greedy solver.Backend
	// Prover proves the bound of every plan that comes without one. It solves the problem
	// of a plan that comes with a claim too, so that the plan is called optimal on our own
	// proof, or refused where that refutes the claim. It may be one of Backends as well.
	Prover solver.Prover
	// DefaultBudget is the time for a decision that does not ask for a budget
	// itself; 0 means that only the context's deadline limits it.
	DefaultBudget time.Duration
}

// Chain makes decisions. It is safe for concurrent use and keeps no state; what
// breakers remember decides who is asked, never what an answer is.
type Chain struct {
	config Config
}

// New returns a chain of the given parts.
func New(config Config) *Chain { return &Chain{config: config} }

// Allocate decides on a valid snapshot. It asks the backend that the options name,
// then the configured ones in order, then greedy, until one has a legal plan; if
// the options name greedy, it asks only that.
//
// Greedy runs first: its objective is part of every report, its plan one to start
// from, and its answer is there should no backend have one. Should greedy fail while
// another backend answers, the decision stands, greedy's objective is 0 and its
// failure the last of the attempts.
//
// An error is context.Canceled if the caller left, context.DeadlineExceeded if not
// even greedy had answered when the caller's deadline passed, and otherwise a
// defect of this program: no backend has a legal plan. One that is found in a proof goes
// into Report.Contradiction, all that there is beside an error.
func (c *Chain) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return solver.Decision{}, ctx.Err()
	}
	began := time.Now()
	p := solver.NewProblemFor(s, o)
	options := solver.SolveOptions{RelativeGap: o.RelativeGap, Formulation: o.Formulation, Certificate: o.Certificate}
	// Greedy has the caller's context, not what is left of the budget.
	greedy := try(ctx, c.config.Greedy, p, options)
	if greedy.Outcome == solver.OutcomeAnswered {
		options.Incumbent = greedy.result.Plan
	}
	budget := newBudget(ctx, began, time.Since(began), o.TimeBudget, c.config.DefaultBudget)
	r := &run{chain: c, budget: budget, problem: p, options: options, greedy: greedy, noBound: o.NoBound, hurry: o.Interrupt}
	last, err := r.decideInTime(ctx, c.order(o.Backend))
	if err != nil {
		return solver.Decision{Report: solver.Report{Contradiction: last.answer.result.Contradiction}}, err
	}
	chosen, attempts := last.answer, last.attempts
	if chosen.Backend != solver.BackendGreedy && greedy.Outcome != solver.OutcomeAnswered {
		attempts = append(attempts, greedy.Attempt)
	}

	if own := last.verification; own != nil && own.Outcome == solver.OutcomeAnswered {
		if chosen.result.GroupPrices == nil {
			chosen.result.GroupPrices = own.result.GroupPrices
		}
		if chosen.result.Certificate == nil {
			chosen.result.Certificate = own.result.Certificate
		}
	}
	decision := solver.Decide(s, p, chosen.result)
	report := &decision.Report
	report.Backend = chosen.Backend
	report.Objective = chosen.objective
	report.Bound, report.Contradiction = last.proof.bound, last.proof.contradiction
	report.SetPrices(p.Rows, last.proof.prices)
	report.RelativeGap = solver.RelativeGap(report.Objective, report.Bound)
	report.Reason, report.Limit = last.conclude(chosen.result, attempts, report.Contradiction != "", report.RelativeGap)
	report.GreedyObjective = greedy.objective
	report.SolveTime = chosen.Duration
	report.Attempts = attempts
	return decision, nil
}

// Solve has the prover solve a problem. Its plan passes the check that every plan passes, and
// its bound is above what the plan is worth. What ctx cuts short is a result with LimitTime;
// an error is a defect of this program, beside which the result has the contradiction alone.
func (c *Chain) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	a := try(ctx, c.config.Prover, p, options)
	if a.Outcome != solver.OutcomeAnswered {
		return a.result, noAnswerError([]solver.Attempt{a.Attempt})
	}
	proven := proof{bound: a.result.Bound, contradiction: a.result.Contradiction}
	a.test(p, &proven)
	a.result.Bound, a.result.Contradiction = proven.bound, proven.contradiction
	return a.result, nil
}

// order returns the backends to ask before greedy.
func (c *Chain) order(requested solver.BackendName) []solver.Backend {
	if requested == solver.BackendGreedy {
		return nil
	}
	all := c.config.Backends
	i := slices.IndexFunc(all, func(b solver.Backend) bool { return b.Name() == requested })
	if i < 0 {
		absent := Absent{requested, fmt.Errorf("%w: %q is not configured", solver.ErrUnavailable, requested)}
		return append([]solver.Backend{absent}, all...)
	}
	return slices.Concat(all[i:i+1], all[:i], all[i+1:])
}

// Absent stands for a backend that cannot be asked.
type Absent struct {
	BackendName solver.BackendName
	// Why wraps solver.ErrUnavailable.
	Why error
}

// Name returns the name of the backend.
func (a Absent) Name() solver.BackendName { return a.BackendName }

// Solve returns why the backend cannot be asked.
func (a Absent) Solve(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
	return solver.Result{}, a.Why
}

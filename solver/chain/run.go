package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// run is the execution of one decision.
type run struct {
	chain     *Chain
	budget    budget
	problem   *problem.Problem
	options   problem.SolveOptions
	greedy    attempt
	noBound   bool
	interrupt context.Context
	// verification is the prover's attempt, nil until a claim has to be verified.
	verification *attempt
}

// runResult is the result of a run.
type runResult struct {
	*run
	chosen   attempt
	attempts []solver.Attempt
	proof    proof
}

// decide calls the backends and proves a bound. It calls onPlan with the chosen plan before it computes the
// bound.
func (r *run) decide(ctx context.Context, backends []problem.Backend, onPlan func(runResult)) (result runResult, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	result.run = r
	if result.chosen, result.attempts, err = r.callBackends(ctx, backends); err != nil {
		return result, err
	}
	onPlan(result)
	result.proof, err = r.proveBound(ctx, result.chosen)
	return result, err
}

// decideInTime is decide, but if the response deadline passes, it returns the plan chosen so far, or
// greedy's plan, with a bound that is computed immediately. Computations in progress stop soon afterwards,
// because their deadlines have passed too.
func (r *run) decideInTime(ctx context.Context, backends []problem.Backend) (runResult, error) {
	search, release := withInterrupt(ctx, r.interrupt)
	deadline := r.budget.responseDeadline
	if deadline.IsZero() || !time.Now().Before(deadline) || r.greedy.Outcome != solver.OutcomeAnswered {
		defer release()
		search, cancel := withDeadline(search, deadline)
		defer cancel()
		return r.decide(search, backends, func(runResult) {})
	}
	late := r.lateResult(backends)
	var planned atomic.Pointer[runResult]
	type returned struct {
		result runResult
		err    error
	}
	done := make(chan returned, 1)
	go func() {
		defer release()
		ctx, cancel := withDeadline(search, deadline)
		defer cancel()
		result, err := r.decide(ctx, backends, func(result runResult) { planned.Store(&result) })
		done <- returned{result, err}
	}()
	select {
	case d := <-done:
		return d.result, d.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			d := <-done
			return d.result, d.err
		}
	case <-time.After(time.Until(deadline)):
	}
	// The result may have been sent at the same time.
	select {
	case d := <-done:
		return d.result, d.err
	default:
	}
	if result := planned.Load(); result != nil {
		late.chosen, late.attempts = result.chosen, result.attempts
	}
	expired, cancel := context.WithDeadline(ctx, time.Time{})
	defer cancel()
	var err error
	late.proof, err = late.proveBound(expired, late.chosen)
	return late, err
}

// lateResult returns the result of a run whose response is due before any backend has returned:
// greedy's plan.
func (r *run) lateResult(backends []problem.Backend) runResult {
	late := runResult{run: &run{chain: r.chain, problem: r.problem, options: r.options, noBound: r.noBound}, chosen: r.greedy}
	for _, backend := range backends[:min(1, len(backends))] {
		late.attempts = append(late.attempts, solver.Attempt{
			Backend: backend.Name(), Outcome: solver.OutcomeTimedOut, Detail: "the backend had not returned when the response was due",
			Duration: max(0, time.Until(r.budget.responseDeadline)),
		})
	}
	late.attempts = append(late.attempts, r.greedy.Attempt)
	return late
}

// callBackends calls one backend after another until one has a legal plan that is not refuted, and returns
// it with all attempts so far. It returns the prover's attempt instead if the verification found a better
// plan, and greedy's if no backend has a plan. The chosen attempt has the contradiction of any attempt.
func (r *run) callBackends(ctx context.Context, backends []problem.Backend) (chosen attempt, attempts []solver.Attempt, err error) {
	contradiction := ""
	defer func() { chosen.result.Contradiction = cmp.Or(chosen.result.Contradiction, contradiction) }()
	for _, backend := range backends {
		a := r.callBackend(ctx, backend)
		attempts = append(attempts, a.Attempt)
		contradiction = cmp.Or(contradiction, a.result.Contradiction)
		if v := r.verification; v != nil {
			contradiction = cmp.Or(contradiction, v.result.Contradiction)
		}
		if a.Outcome == solver.OutcomeAnswered {
			if r.verificationIsBetter(a) {
				return *r.verification, append(attempts, r.verification.Attempt), nil
			}
			return a, attempts, nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return attempt{}, nil, ctx.Err()
		}
	}
	// A verification that refuted a claim has a plan that is better than greedy's, even if the prover is
	// not one of the backends.
	last := r.greedy
	if r.verification != nil && r.verification.Outcome == solver.OutcomeAnswered {
		last = *r.verification
	}
	attempts = append(attempts, last.Attempt)
	if last.Outcome == solver.OutcomeAnswered {
		return last, attempts, nil
	}
	if ctx.Err() != nil {
		return attempt{}, nil, ctx.Err()
	}
	return attempt{}, nil, noPlanError(attempts)
}

// callBackend calls a backend within its share of the budget, verifies its claim, and reports the outcome
// to its breaker if it has one.
func (r *run) callBackend(ctx context.Context, backend problem.Backend) attempt {
	if r.isProver(backend) && r.verification != nil {
		return *r.verification
	}
	// The prover keeps its deadline and always has a plan, so no backend is called after it.
	deadline := r.budget.backendDeadline(time.Now(), r.isProver(backend))
	breaker, ok := backend.(*Breaker)
	if !ok {
		return r.callAndVerify(ctx, deadline, backend)
	}
	a, err := breaker.execute(ctx, deadline, func() attempt { return r.callAndVerify(ctx, deadline, breaker.Backend) })
	if err != nil {
		a.Attempt = solver.Attempt{Backend: breaker.Name(), Outcome: solver.OutcomeUnavailable, Detail: sanitize(err.Error(), maxDetailBytes)}
	}
	return a
}

// callAndVerify calls a backend and verifies its claim.
func (r *run) callAndVerify(ctx context.Context, deadline time.Time, backend problem.Backend) attempt {
	a := callUntil(ctx, deadline, backend, r.problem, r.options)
	if a.Outcome == solver.OutcomeAnswered && a.result.Claim != nil {
		r.verify(ctx, &a)
	}
	return a
}

// isProver reports whether a backend is the prover, which does not have to solve the same problem twice.
func (r *run) isProver(backend problem.Backend) bool {
	return r.chain.config.Prover.Name() == backend.Name()
}

func noPlanError(attempts []solver.Attempt) error {
	parts := make([]string, len(attempts))
	for i, a := range attempts {
		parts[i] = fmt.Sprintf("%s %s: %s", a.Backend, a.Outcome, a.Detail)
	}
	return fmt.Errorf("no backend returned a legal plan: %s", strings.Join(parts, "; "))
}

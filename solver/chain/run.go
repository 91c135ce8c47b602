package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// run is the course of one decision.
type run struct {
	chain   *Chain
	budget  budget
	problem *solver.Problem
	options solver.SolveOptions
	greedy  answer
	// verification is the prover's own answer, once a claim made it necessary.
	verification *answer
}

// ask asks one backend after the other, then greedy, and returns the first answer
// with a legal plan that nothing refutes, or the prover's where its verification found a
// better plan, and the attempts up to it.
func (r *run) ask(ctx context.Context, backends []solver.Backend) (answer, []solver.Attempt, error) {
	var attempts []solver.Attempt
	for _, backend := range backends {
		a := r.try(ctx, backend)
		attempts = append(attempts, a.Attempt)
		if a.Outcome == solver.OutcomeAnswered {
			if r.verifiedBetter(a) {
				return *r.verification, append(attempts, r.verification.Attempt), nil
			}
			return a, attempts, nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return answer{}, nil, ctx.Err()
		}
	}
	// A prover that refuted a claim has a better plan, whether it is among the
	// backends or not.
	last := r.greedy
	if r.verification != nil && r.verification.Outcome == solver.OutcomeAnswered {
		last = *r.verification
	}
	attempts = append(attempts, last.Attempt)
	if last.Outcome == solver.OutcomeAnswered {
		return last, attempts, nil
	}
	if ctx.Err() != nil {
		return answer{}, nil, ctx.Err()
	}
	return answer{}, nil, noAnswerError(attempts)
}

// try asks a backend within its part of the budget and verifies what it claims. Its
// breaker, if it has one, is told how that ended.
func (r *run) try(ctx context.Context, backend solver.Backend) answer {
	if r.isProver(backend) && r.verification != nil {
		return *r.verification
	}
	// The prover keeps its time and has a plan always: nothing is asked after it. A claim
	// has to be verified after the backend that makes it.
	end := r.budget.slice(time.Now(), r.isProver(backend))
	breaker, guarded := backend.(*Breaker)
	if !guarded {
		return r.tryAndVerify(ctx, end, backend)
	}
	a, err := breaker.guard(ctx, end, func() answer { return r.tryAndVerify(ctx, end, breaker.backend) })
	if err != nil {
		return failure(breaker.Name(), err)
	}
	return a
}

// tryAndVerify asks a backend that must be done by a time and verifies what it
// claims.
func (r *run) tryAndVerify(ctx context.Context, end time.Time, backend solver.Backend) answer {
	a := tryWithin(ctx, end, backend, r.problem, r.options)
	if a.Outcome == solver.OutcomeAnswered && a.result.Claim != nil {
		r.verify(ctx, &a)
	}
	return a
}

// isProver reports whether a backend is the prover, which need not solve the same
// problem twice.
func (r *run) isProver(backend solver.Backend) bool {
	return r.chain.config.Prover.Name() == backend.Name()
}

// noAnswerError says why no backend answered.
func noAnswerError(attempts []solver.Attempt) error {
	parts := make([]string, len(attempts))
	for i, a := range attempts {
		parts[i] = fmt.Sprintf("%s %s: %s", a.Backend, a.Outcome, a.Detail)
	}
	return fmt.Errorf("no backend answered: %s", strings.Join(parts, "; "))
}

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
)

// run is the course of one decision.
type run struct {
	chain   *Chain
	budget  budget
	problem *solver.Problem
	options solver.SolveOptions
	greedy  answer
	noBound bool
	hurry   context.Context
	// verification is the prover's own answer, once a claim made it necessary.
	verification *answer
}

// result is what a run came to.
type result struct {
	*run
	answer   answer
	attempts []solver.Attempt
	proof    proof
}

// decide asks the backends and proves a bound. What they answered is in hand before the
// bound is there.
func (r *run) decide(ctx context.Context, backends []solver.Backend, inHand func(result)) (last result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	last.run = r
	if last.answer, last.attempts, err = r.ask(ctx, backends); err != nil {
		return last, err
	}
	inHand(last)
	last.proof, err = r.bound(ctx, last.answer)
	return last, err
}

// decideInTime is decide, but when the time to answer has come it returns what is in hand,
// greedy's plan if nothing else, with a bound that takes no time. What is still being
// computed ends soon after, as its time is up too.
func (r *run) decideInTime(ctx context.Context, backends []solver.Backend) (result, error) {
	search, release := hurried(ctx, r.hurry)
	cutoff := r.budget.cutoff
	if cutoff.IsZero() || !time.Now().Before(cutoff) || r.greedy.Outcome != solver.OutcomeAnswered {
		defer release()
		search, cancel := until(search, cutoff)
		defer cancel()
		return r.decide(search, backends, func(result) {})
	}
	late := r.cut(backends)
	var inHand atomic.Pointer[result]
	type ended struct {
		last result
		err  error
	}
	done := make(chan ended, 1)
	go func() {
		defer release()
		ctx, cancel := until(search, cutoff)
		defer cancel()
		last, err := r.decide(ctx, backends, func(found result) { inHand.Store(&found) })
		done <- ended{last, err}
	}()
	select {
	case d := <-done:
		return d.last, d.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			d := <-done
			return d.last, d.err
		}
	case <-time.After(time.Until(cutoff)):
	}
	// It may have come at the last moment.
	select {
	case d := <-done:
		return d.last, d.err
	default:
	}
	if found := inHand.Load(); found != nil {
		late.answer, late.attempts = found.answer, found.attempts
	}
	expired, cancel := context.WithDeadline(ctx, time.Time{})
	defer cancel()
	var err error
	late.proof, err = late.bound(expired, late.answer)
	return late, err
}

// cut returns what a run comes to that is cut off before any backend has answered.
func (r *run) cut(backends []solver.Backend) result {
	late := result{run: &run{chain: r.chain, problem: r.problem, options: r.options, noBound: r.noBound}, answer: r.greedy}
	for _, backend := range backends[:min(1, len(backends))] {
		late.attempts = append(late.attempts, solver.Attempt{
			Backend: backend.Name(), Outcome: solver.OutcomeTimedOut, Detail: "it had not ended when the answer was due",
			Duration: max(0, time.Until(r.budget.cutoff)),
		})
	}
	late.attempts = append(late.attempts, r.greedy.Attempt)
	return late
}

// ask asks one backend after the other, then greedy, and returns the first answer
// with a legal plan that nothing refutes, or the prover's where its verification found a
// better plan, and the attempts up to it. The contradictions of all of them are the answer's.
func (r *run) ask(ctx context.Context, backends []solver.Backend) (chosen answer, attempts []solver.Attempt, err error) {
	contradiction := ""
	defer func() { chosen.result.Contradiction = cmp.Or(chosen.result.Contradiction, contradiction) }()
	for _, backend := range backends {
		a := r.try(ctx, backend)
		attempts = append(attempts, a.Attempt)
		contradiction = cmp.Or(contradiction, a.result.Contradiction)
		if own := r.verification; own != nil {
			contradiction = cmp.Or(contradiction, own.result.Contradiction)
		}
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
	a, err := breaker.guard(ctx, end, func() answer { return r.tryAndVerify(ctx, end, breaker.Backend) })
	if err != nil {
		a.Attempt = solver.Attempt{Backend: breaker.Name(), Outcome: solver.OutcomeUnavailable, Detail: legible(err.Error(), longestDetail)}
	}
	return a
}

// tryAndVerify is tryWithin and verifies what the backend claims.
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

func noAnswerError(attempts []solver.Attempt) error {
	parts := make([]string, len(attempts))
	for i, a := range attempts {
		parts[i] = fmt.Sprintf("%s %s: %s", a.Backend, a.Outcome, a.Detail)
	}
	return fmt.Errorf("no backend answered: %s", strings.Join(parts, "; "))
}

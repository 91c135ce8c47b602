package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// deliberation is the course of one decision.
type deliberation struct {
	chain   *Chain
	budget  budget
	problem *solver.Problem
	options solver.SolveOptions
	greedy  answer
	// judgement is the judge's answer, once it was asked.
	judgement *answer
}

// ask asks one backend after the other, then greedy, and returns the first answer
// with a legal plan that nothing refutes, and the attempts up to it.
func (d *deliberation) ask(ctx context.Context, backends []solver.Backend) (answer, []solver.Attempt, error) {
	var attempts []solver.Attempt
	for i, backend := range backends {
		a := d.try(ctx, backend, i == len(backends)-1)
		attempts = append(attempts, a.Attempt)
		if a.Outcome == solver.OutcomeAnswered {
			return a, attempts, nil
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return answer{}, nil, ctx.Err()
		}
	}
	// A judge who refuted a claim has a better plan, whether it was to be asked or
	// not.
	last := d.greedy
	if d.judgement != nil && d.judgement.Outcome == solver.OutcomeAnswered {
		last = *d.judgement
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

// try asks a backend within its part of the budget and has what it claims judged.
// Its breaker, if it has one, learns what became of it.
func (d *deliberation) try(ctx context.Context, backend solver.Backend, last bool) answer {
	if d.isJudge(backend) && d.judgement != nil {
		return *d.judgement
	}
	// The judge comes after whoever may have to be judged.
	last = last && (d.chain.config.Judge == nil || d.isJudge(backend))
	end := d.budget.slice(time.Now(), last)
	breaker, guarded := backend.(*Breaker)
	if !guarded {
		return d.tryAndJudge(ctx, end, backend)
	}
	a, err := breaker.guard(ctx, end, func() answer { return d.tryAndJudge(ctx, end, breaker.backend) })
	if err != nil {
		return failure(breaker.Name(), err)
	}
	return a
}

// tryAndJudge asks a backend that must be done by a time and has what it claims
// judged.
func (d *deliberation) tryAndJudge(ctx context.Context, end time.Time, backend solver.Backend) answer {
	a := tryWithin(ctx, end, backend, d.problem, d.options)
	if a.Outcome == solver.OutcomeAnswered && a.result.Claim != nil {
		d.judge(ctx, &a)
	}
	return a
}

// isJudge reports whether a backend is the judge, whose answer is the same whatever
// it is asked for.
func (d *deliberation) isJudge(backend solver.Backend) bool {
	return d.chain.config.Judge != nil && d.chain.config.Judge.Name() == backend.Name()
}

// noAnswerError says why not even greedy answered.
func noAnswerError(attempts []solver.Attempt) error {
	parts := make([]string, len(attempts))
	for i, a := range attempts {
		parts[i] = fmt.Sprintf("%s %s: %s", a.Backend, a.Outcome, a.Detail)
	}
	return fmt.Errorf("no backend answered: %s", strings.Join(parts, "; "))
}

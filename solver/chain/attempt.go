package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// attempt is the call of one backend. If its outcome is solver.OutcomeAnswered, result has a legal
// plan and objective is the objective of that plan. Otherwise result has at most a contradiction.
type attempt struct {
	solver.Attempt
	result    problem.Result
	objective float64
	// unsuited reports that the call failed because the backend does not support the problem.
	unsuited bool
}

// callUntil calls a backend with a deadline. The zero time sets no deadline. The backend is not
// called if the deadline has passed.
func callUntil(
	ctx context.Context, deadline time.Time, backend problem.Backend, p *problem.Problem, options problem.SolveOptions,
) attempt {
	ctx, cancel := withDeadline(ctx, deadline)
	defer cancel()
	if ctx.Err() != nil {
		return attempt{Attempt: solver.Attempt{
			Backend: backend.Name(), Outcome: solver.OutcomeTimedOut, Detail: "the time budget expired before the call",
		}}
	}
	return call(ctx, backend, p, options)
}

// call calls a backend, checks its plan, releases the nodes of completed jobs, and computes the
// objective. The chain may modify the plan afterwards.
func call(ctx context.Context, backend problem.Backend, p *problem.Problem, options problem.SolveOptions) attempt {
	start := time.Now()
	result, err := solve(ctx, backend, p, options)
	a := attempt{
		Attempt:  solver.Attempt{Backend: backend.Name(), Duration: time.Since(start)},
		unsuited: errors.Is(err, solver.ErrUnsuited),
	}
	if a.Outcome, a.Detail = Classify(p, result, err); a.Outcome != solver.OutcomeAnswered {
		a.result.Contradiction = result.Contradiction
		return a
	}
	p.ReleaseFinished(result.Plan)
	a.result, a.objective = result, p.Objective(result.Plan)
	return a
}

// maxDetailBytes is the maximum length of Attempt.Detail, without the ellipsis.
const maxDetailBytes = 1000

// sanitize returns text as one line of printable UTF-8, truncated to maxBytes bytes.
func sanitize(text string, maxBytes int) string {
	if len(text) > maxBytes {
		text = strings.ToValidUTF8(text[:maxBytes], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return unicode.ReplacementChar
		}
	}, text)
}

// solve calls backend.Solve and converts a panic into an error, so that a bug of one backend does not
// fail the decision.
func solve(
	ctx context.Context, backend problem.Backend, p *problem.Problem, options problem.SolveOptions,
) (result problem.Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return backend.Solve(ctx, p, options)
}

// Classify returns the outcome of a call of a backend's Solve for p and a description of it for people.
// It checks the plan, but does not verify claims: the chain may still refute the result.
func Classify(p *problem.Problem, result problem.Result, err error) (outcome solver.Outcome, detail string) {
	if err != nil {
		return classifyError(err), sanitize(err.Error(), maxDetailBytes)
	}
	check := p.Check
	if result.Heuristic {
		check = p.CheckWaiting
	}
	if err := check(result.Plan); err != nil {
		return solver.OutcomeInvalidPlan, sanitize(err.Error(), maxDetailBytes)
	}
	return solver.OutcomeAnswered, sanitize(result.Detail, maxDetailBytes)
}

// classifyError returns the outcome of a call that returned an error.
func classifyError(err error) solver.Outcome {
	switch {
	case errors.Is(err, solver.ErrUnavailable):
		return solver.OutcomeUnavailable
	case errors.Is(err, solver.ErrTimedOut), errors.Is(err, context.DeadlineExceeded):
		return solver.OutcomeTimedOut
	case errors.Is(err, solver.ErrInvalidPlan):
		return solver.OutcomeInvalidPlan
	default:
		return solver.OutcomeCrashed
	}
}

package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/elastalloc/elastalloc/solver"
)

// answer is one backend's try at a decision and, if its outcome is
// solver.OutcomeAnswered, a result whose plan is legal, else only its contradiction.
type answer struct {
	solver.Attempt
	result    solver.Result
	objective float64
	// unsuited says that the fault is the problem's and not the backend's.
	unsuited bool
}

// tryWithin asks a backend that must be done by a time; the zero time sets none.
// If that time has come, the backend is not asked.
func tryWithin(
	ctx context.Context, end time.Time, backend solver.Backend, p *solver.Problem, options solver.SolveOptions,
) answer {
	ctx, cancel := until(ctx, end)
	defer cancel()
	if ctx.Err() != nil {
		return answer{Attempt: solver.Attempt{
			Backend: backend.Name(), Outcome: solver.OutcomeTimedOut, Detail: "the time budget left it no time",
		}}
	}
	return try(ctx, backend, p, options)
}

// try asks a backend, checks its plan, brings it to the convention that finished
// jobs release their nodes, and works out the objective. The plan is then ours.
func try(ctx context.Context, backend solver.Backend, p *solver.Problem, options solver.SolveOptions) answer {
	start := time.Now()
	result, err := solve(ctx, backend, p, options)
	a := answer{
		Attempt:  solver.Attempt{Backend: backend.Name(), Duration: time.Since(start)},
		unsuited: errors.Is(err, solver.ErrUnsuited),
	}
	if a.Outcome, a.Detail = Outcome(p, result, err); a.Outcome != solver.OutcomeAnswered {
		a.result.Contradiction = result.Contradiction
		return a
	}
	p.ReleaseFinished(result.Plan)
	a.result, a.objective = result, p.Objective(result.Plan)
	return a
}

// longestDetail is how many bytes of what a backend says of its attempt are kept.
const longestDetail = 1000

// legible returns text fit for a report: UTF-8, on one line, and cut after most bytes.
func legible(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
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

// solve asks a backend and turns a panic into an error, so that a backend with a
// defect takes no decision down.
func solve(
	ctx context.Context, backend solver.Backend, p *solver.Problem, options solver.SolveOptions,
) (result solver.Result, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return backend.Solve(ctx, p, options)
}

// Outcome returns how a backend's try at p ended, as far as its error and its plan
// tell, and describes it for people. Verification may still refute an answer.
func Outcome(p *solver.Problem, result solver.Result, err error) (outcome solver.Outcome, detail string) {
	if err != nil {
		return outcomeOf(err), legible(err.Error(), longestDetail)
	}
	check := p.Check
	if result.Heuristic {
		check = p.CheckWaiting
	}
	if err := check(result.Plan); err != nil {
		return solver.OutcomeInvalidPlan, legible(err.Error(), longestDetail)
	}
	return solver.OutcomeAnswered, legible(result.Detail, longestDetail)
}

// outcomeOf returns what an error of a backend means.
func outcomeOf(err error) solver.Outcome {
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

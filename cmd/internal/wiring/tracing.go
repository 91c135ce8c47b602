package wiring

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/otel/trace"

	"github.com/elastalloc/elastalloc/internal/tracing"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// stage is a backend whose every search is a span, within a call that is traced, and
// nothing but the backend elsewhere. It belongs directly around a backend: what decides
// whether the backend is asked at all goes around the stage.
type stage struct {
	solver.Backend
	name string
}

// traced makes a backend's tries stages of a trace.
func traced(backend solver.Backend) solver.Backend {
	return stage{backend, tracing.StageSolve + string(backend.Name())}
}

// tracedJudge makes the judge's searches stages that are told apart from its tries.
func tracedJudge(judge solver.Backend) solver.Backend {
	return stage{judge, tracing.StageJudge + string(judge.Name())}
}

// Solve returns what the backend returns.
func (s stage) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	ctx, span := tracing.Start(ctx, s.name)
	if !span.IsRecording() {
		return s.Backend.Solve(ctx, p, options)
	}
	defer span.End()
	span.SetAttributes(tracing.Backend.String(string(s.Name())))
	defer func() {
		// The chain deals with it; it only has to be seen here too.
		if cause := recover(); cause != nil {
			describeFailure(span, solver.OutcomeCrashed, fmt.Sprintf("panic: %v", cause))
			panic(cause)
		}
	}()
	result, err := s.Backend.Solve(ctx, p, options)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		// The caller has gone, which says nothing about the backend.
		span.SetAttributes(tracing.Text(tracing.Detail, err.Error()))
		return result, err
	}
	describe(span, p, result, err)
	return result, err
}

// describe tells a span how a try ended, as the chain will see it, and how good a legal
// plan is. A refutation by the judge comes later, and is an event of the call's span.
func describe(span trace.Span, p *solver.Problem, result solver.Result, err error) {
	outcome, detail := chain.Outcome(p, result, err)
	if outcome != solver.OutcomeAnswered {
		describeFailure(span, outcome, detail)
		return
	}
	objective := p.Objective(result.Plan)
	span.SetAttributes(
		tracing.Outcome.String(string(outcome)),
		tracing.Limit.String(string(result.Limit)),
		tracing.Objective.Float64(objective),
	)
	if detail != "" {
		span.SetAttributes(tracing.Text(tracing.Detail, detail))
	}
	// What proves no bound has an infinite one, and a gap of no meaning.
	if !math.IsInf(result.Bound, 0) && !math.IsNaN(result.Bound) {
		span.SetAttributes(
			tracing.Bound.Float64(result.Bound),
			tracing.RelativeGap.Float64(solver.RelativeGap(objective, result.Bound)),
		)
	}
}

// describeFailure tells a span that a try gave no answer, and why.
func describeFailure(span trace.Span, outcome solver.Outcome, detail string) {
	span.SetAttributes(tracing.Outcome.String(string(outcome)), tracing.Text(tracing.Detail, detail))
	tracing.Fail(span, detail)
}

// tracedBound makes every bound that is worked out a stage of a trace.
func tracedBound(bound func(context.Context, *solver.Problem) float64) func(context.Context, *solver.Problem) float64 {
	return func(ctx context.Context, p *solver.Problem) float64 {
		ctx, span := tracing.Start(ctx, tracing.StageBound)
		defer span.End()
		value := bound(ctx, p)
		span.SetAttributes(tracing.Bound.Float64(value))
		return value
	}
}

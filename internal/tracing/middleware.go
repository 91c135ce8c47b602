package tracing

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/otel/trace"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// TraceBackend is the middleware that makes every search of a backend a stage of the
// call that it belongs to.
func TraceBackend(b solver.Backend) solver.Backend { return stage{b, StageSolve + string(b.Name())} }

// TraceProver is the middleware that makes every verification and every bound of a
// prover a stage of the call that it belongs to.
func TraceProver(p solver.Prover) solver.Prover {
	return provingStage{stage{p, StageVerify + string(p.Name())}, p}
}

// stage is a backend whose every search is a span, within a call that is traced.
type stage struct {
	solver.Backend
	name string
}

// Solve returns what the backend returns.
func (s stage) Solve(ctx context.Context, p *solver.Problem, options solver.SolveOptions) (solver.Result, error) {
	ctx, span := Start(ctx, s.name)
	if !span.IsRecording() {
		return s.Backend.Solve(ctx, p, options)
	}
	defer span.End()
	span.SetAttributes(Backend.String(string(s.Name())))
	defer func() {
		// The chain handles it; it only has to be seen here too.
		if cause := recover(); cause != nil {
			describeFailure(span, solver.OutcomeCrashed, fmt.Sprintf("panic: %v", cause))
			panic(cause)
		}
	}()
	result, err := s.Backend.Solve(ctx, p, options)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		// The caller has gone, which says nothing about the backend.
		span.SetAttributes(Text(Detail, err.Error()))
		return result, err
	}
	describe(span, p, result, err)
	return result, err
}

// describe tells a span how a search ended, as the chain will see it, and how good a
// legal plan is. A refutation comes later, and is an event of the call's span.
func describe(span trace.Span, p *solver.Problem, result solver.Result, err error) {
	outcome, detail := chain.Classify(p, result, err)
	if outcome != solver.OutcomeAnswered {
		describeFailure(span, outcome, detail)
		return
	}
	objective := p.Objective(result.Plan)
	span.SetAttributes(
		Outcome.String(string(outcome)),
		Limit.String(string(result.Limit)),
		Objective.Float64(objective),
	)
	if detail != "" {
		span.SetAttributes(Text(Detail, detail))
	}
	// A backend that proves no bound has an infinite one, and a gap without meaning.
	if !math.IsInf(result.Bound, 0) && !math.IsNaN(result.Bound) {
		span.SetAttributes(
			Bound.Float64(result.Bound),
			RelativeGap.Float64(solver.RelativeGap(objective, result.Bound)),
		)
	}
}

// describeFailure tells a span that a search gave no answer, and why.
func describeFailure(span trace.Span, outcome solver.Outcome, detail string) {
	span.SetAttributes(Outcome.String(string(outcome)), Text(Detail, detail))
	Fail(span, detail)
}

// provingStage is a stage that proves bounds as well.
type provingStage struct {
	stage
	prover solver.Prover
}

// Bound returns what the prover returns.
func (s provingStage) Bound(ctx context.Context, p *solver.Problem) (bound float64, nodePrices []float64, contradiction string) {
	ctx, span := Start(ctx, StageBound)
	defer span.End()
	bound, nodePrices, contradiction = s.prover.Bound(ctx, p)
	span.SetAttributes(Bound.Float64(bound))
	return bound, nodePrices, contradiction
}

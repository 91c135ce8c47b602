package tracing

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.opentelemetry.io/otel/trace"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TraceBackend returns b with a stage for every search.
func TraceBackend(b problem.Backend) problem.Backend {
	return tracedBackend{b, StageSolve + string(b.Name())}
}

// TraceProver returns p with a stage for every verification and every bound.
func TraceProver(p problem.Prover) problem.Prover {
	return tracedProver{tracedBackend{p, StageVerify + string(p.Name())}, p}
}

// tracedBackend is a backend with a stage for every search.
type tracedBackend struct {
	problem.Backend
	name string
}

// Solve calls the backend.
func (t tracedBackend) Solve(ctx context.Context, p *problem.Problem, options problem.SolveOptions) (problem.Result, error) {
	ctx, span := Start(ctx, t.name)
	if !span.IsRecording() {
		return t.Backend.Solve(ctx, p, options)
	}
	defer span.End()
	span.SetAttributes(Backend.String(string(t.Name())))
	defer func() {
		// The chain recovers. The span must show the panic too.
		if cause := recover(); cause != nil {
			recordFailure(span, solver.OutcomeCrashed, fmt.Sprintf("panic: %v", cause))
			panic(cause)
		}
	}()
	result, err := t.Backend.Solve(ctx, p, options)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		// The caller has canceled the call, so that the backend has not failed.
		span.SetAttributes(Text(Detail, err.Error()))
		return result, err
	}
	recordResult(span, p, result, err)
	return result, err
}

// recordResult sets the attributes of a span: the outcome as the chain classifies it, and the objective and
// bound of a legal plan. A later refutation of a claim is an event in the span of the call.
func recordResult(span trace.Span, p *problem.Problem, result problem.Result, err error) {
	outcome, detail := chain.Classify(p, result, err)
	if outcome != solver.OutcomeAnswered {
		recordFailure(span, outcome, detail)
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
	// A backend that proves no bound returns an infinite one.
	if !math.IsInf(result.Bound, 0) && !math.IsNaN(result.Bound) {
		span.SetAttributes(
			Bound.Float64(result.Bound),
			RelativeGap.Float64(solver.RelativeGap(objective, result.Bound)),
		)
	}
}

// recordFailure marks a span as failed and sets its outcome and detail.
func recordFailure(span trace.Span, outcome solver.Outcome, detail string) {
	span.SetAttributes(Outcome.String(string(outcome)), Text(Detail, detail))
	Fail(span, detail)
}

// tracedProver is a prover with a stage for every search and every bound.
type tracedProver struct {
	tracedBackend
	prover problem.Prover
}

// Bound calls the prover.
func (t tracedProver) Bound(ctx context.Context, p *problem.Problem) (bound float64, nodePrices []float64, contradiction string) {
	ctx, span := Start(ctx, StageBound)
	defer span.End()
	bound, nodePrices, contradiction = t.prover.Bound(ctx, p)
	span.SetAttributes(Bound.Float64(bound))
	return bound, nodePrices, contradiction
}

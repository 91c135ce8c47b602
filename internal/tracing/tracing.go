// Package tracing defines the traces of decisions: the names of stages and attributes, and the
// middleware that creates spans. It uses the API of OpenTelemetry and not its SDK. In a call that is
// not traced, a stage costs one lookup in the context.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/elastalloc/elastalloc/internal/text"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/elastalloc/elastalloc"

// The stages of a decision, in order. The names of stages of a backend are prefixes of the name of the
// backend.
const (
	StageReceive = "receive request" // until the whole request has arrived
	StageSlot    = "await slot"      // until the call gets a slot or is rejected
	StageSolve   = "solve "          // the attempt of a backend
	StageVerify  = "verify with "    // the search of the prover, which verifies the claim of an external solver
	StageBound   = "bound"           // the bound of a plan whose backend proves none
)

// EventFallback is the event in the span of a call for an attempt without a plan.
const EventFallback = "elastalloc.fallback"

// The attributes of spans. They contain no data of the request except its sizes and the two ids.
const (
	RequestID       = attribute.Key("elastalloc.request.id")
	SnapshotID      = attribute.Key("elastalloc.snapshot.id")
	SnapshotJobs    = attribute.Key("elastalloc.snapshot.jobs")
	SnapshotNodes   = attribute.Key("elastalloc.snapshot.nodes")
	Backend         = attribute.Key("elastalloc.backend")
	Outcome         = attribute.Key("elastalloc.outcome")
	Detail          = attribute.Key("elastalloc.detail")
	Reason          = attribute.Key("elastalloc.reason")
	Limit           = attribute.Key("elastalloc.limit")
	Objective       = attribute.Key("elastalloc.objective")
	GreedyObjective = attribute.Key("elastalloc.greedy_objective")
	Bound           = attribute.Key("elastalloc.bound")
	RelativeGap     = attribute.Key("elastalloc.relative_gap")
)

// Start starts a stage as a child of the span in ctx. The caller must end the returned span. If the
// span in ctx is not recorded, the stage is not recorded either.
func Start(ctx context.Context, stage string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		// The parent must not be returned, because the caller ends the returned span.
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, stage)
}

// Fail marks a span as failed.
func Fail(span trace.Span, description string) {
	span.SetStatus(codes.Error, text.Shorten(description))
}

// Text returns an attribute with a value that is shortened by text.Shorten.
func Text(key attribute.Key, value string) attribute.KeyValue {
	return key.String(text.Shorten(value))
}

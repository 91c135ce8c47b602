// Package tracing defines what a trace of a decision looks like: the names of stages and
// attributes, and how a stage becomes a span. It uses the API of OpenTelemetry, not its
// SDK; outside of a traced call a stage costs one look into the context.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/elastalloc/elastalloc/internal/text"
)

// scope names the instrumentation in what it makes.
const scope = "github.com/elastalloc/elastalloc"

// The stages of a decision, in the order in which they come. Those of a backend are
// followed by its name.
const (
	StageReceive = "receive request" // until the whole request has arrived
	StageSlot    = "await slot"      // until the call gets a slot or is rejected
	StageSolve   = "solve "          // one backend's attempt
	StageVerify  = "verify with "    // the prover's own search, against an external solver's claim
	StageBound   = "bound"           // a bound where the backend brought none
)

// EventFallback is the event, on the span of a call, of an attempt that gave no answer.
const EventFallback = "elastalloc.fallback"

// The attributes of spans. Of what a caller sends only sizes and the two ids are among
// them.
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

// Start begins a stage of the call that ctx belongs to, a child of the span in ctx; who starts
// it must end it. Where that span is not recorded, neither is the stage.
func Start(ctx context.Context, stage string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		// Not the parent itself: the stage's end must not end the call.
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, stage)
}

// Fail marks a span as failed.
func Fail(span trace.Span, description string) {
	span.SetStatus(codes.Error, text.Shorten(description))
}

// Text returns an attribute with a value that text.Shorten makes fit for it.
func Text(key attribute.Key, value string) attribute.KeyValue {
	return key.String(text.Shorten(value))
}

// Package tracing says what a trace of a decision looks like: the names of the stages
// and of the attributes, and how a stage becomes a span. It knows the OpenTelemetry API
// only, not its SDK, and keeps no state: a stage belongs to the span in its context and
// goes wherever that one goes, so that nothing has to be handed down for it, and outside
// of a traced call a stage costs a look into the context.
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
	StageReceive         = "receive request"  // until the whole request has arrived
	StageAdmission       = "await admission"  // until it is the call's turn or it is turned away
	StageConvertRequest  = "convert request"  // from the API to the core, and validation
	StageFillIdle        = "fill idle"        // the whole of a FillIdle decision
	StageSolve           = "solve "           // one backend's try
	StageVerify          = "verify with "     // the prover's own search, against an external solver's claim
	StageBound           = "bound"            // a bound where the backend brought none
	StageConvertResponse = "convert response" // from the core to the API
)

// EventFallback is the event, on the span of a call, of a try that gave no answer.
const EventFallback = "elastalloc.fallback"

// The attributes of spans. Of what a caller sends only sizes and the two ids are among
// them.
const (
	RequestID       = attribute.Key("elastalloc.request.id")
	SnapshotID      = attribute.Key("elastalloc.snapshot.id")
	SnapshotJobs    = attribute.Key("elastalloc.snapshot.jobs")
	SnapshotNodes   = attribute.Key("elastalloc.snapshot.nodes")
	SnapshotSteps   = attribute.Key("elastalloc.snapshot.steps")
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

// Start begins a stage of the call that ctx belongs to; the caller that starts it ends it. The
// span is a child of the one in ctx and has its provider. Where that one is not
// recorded, neither is the stage, and ctx comes back as it is.
func Start(ctx context.Context, stage string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		// Not the parent itself: the stage's end must not end the call.
		return ctx, noop.Span{}
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, stage)
}

// Fail marks a span as failed, in words that text.Shorten makes fit for
// it.
func Fail(span trace.Span, description string) {
	span.SetStatus(codes.Error, text.Shorten(description))
}

// Text returns an attribute with a value that text.Shorten makes fit for it.
func Text(key attribute.Key, value string) attribute.KeyValue {
	return key.String(text.Shorten(value))
}

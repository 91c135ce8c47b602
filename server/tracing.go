package server

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// tracingOptions make a span of every Allocate call. Health checks come every few
// seconds, and reflection is a person at a terminal: neither is worth a trace. Without a
// provider there is nothing of OpenTelemetry on the path of a call.
func (c *Config) tracingOptions() []grpc.ServerOption {
	if c.TracerProvider == nil {
		return nil
	}
	propagator := c.Propagator
	if propagator == nil {
		propagator = propagation.NewCompositeTextMapPropagator()
	}
	// Whatever is not set here would come from a global. The metrics of gRPC are those
	// of the Prometheus provider.
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(c.TracerProvider),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool {
			return call.FullMethodName == elastallocv1.AllocatorService_Allocate_FullMethodName
		}),
	))}
}

// describeRequest tells the span of a call what is to be decided: its size and its id,
// and nothing else of the request.
func describeRequest(ctx context.Context, c call) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		tracing.Text(tracing.SnapshotID, c.snapshot.ID),
		tracing.SnapshotJobs.Int(len(c.snapshot.Jobs)),
		tracing.SnapshotNodes.Int(c.snapshot.TotalNodes),
		tracing.SnapshotSteps.Int(c.snapshot.Horizon.Steps),
	)
}

// describeDecision tells the span of a call what was decided. A try that gave no answer
// is an event: its own span ended before a judge could refute it, and a backend that was
// not asked at all has none.
func describeDecision(ctx context.Context, c call, r *solver.Report) {
	span := trace.SpanFromContext(ctx)
	if c.filling || !span.IsRecording() {
		return
	}
	span.SetAttributes(
		tracing.Backend.String(string(r.Backend)),
		tracing.Reason.String(string(r.Reason)),
		tracing.Limit.String(string(r.Limit)),
		tracing.Objective.Float64(r.Objective),
		tracing.GreedyObjective.Float64(r.GreedyObjective),
		tracing.Bound.Float64(r.Bound),
		tracing.RelativeGap.Float64(r.RelativeGap),
	)
	for _, attempt := range r.Attempts {
		if attempt.Outcome != solver.OutcomeAnswered {
			span.AddEvent(tracing.EventFallback, trace.WithAttributes(
				tracing.Backend.String(string(attempt.Backend)),
				tracing.Outcome.String(string(attempt.Outcome)),
				tracing.Text(tracing.Detail, attempt.Detail),
			))
		}
	}
}

// observeWithTrace observes a value, with the trace of a sampled span as exemplar.
func observeWithTrace(ctx context.Context, observer prometheus.Observer, value float64) {
	span := trace.SpanContextFromContext(ctx)
	if exemplars, ok := observer.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		exemplars.ObserveWithExemplar(value, prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	observer.Observe(value)
}

// spanHandler adds the ids of the span in the context to every log line.
type spanHandler struct{ slog.Handler }

// Handle handles a line.
func (h spanHandler) Handle(ctx context.Context, line slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs returns a handler that adds attributes to every line, beside the ids.
func (h spanHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return spanHandler{h.Handler.WithAttrs(attributes)}
}

// WithGroup returns a handler that groups what follows; the ids are in the group too.
func (h spanHandler) WithGroup(name string) slog.Handler {
	return spanHandler{h.Handler.WithGroup(name)}
}

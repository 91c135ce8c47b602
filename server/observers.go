package server

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/internal/tracing"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// logObserver logs a line per call. Of the request, the line has only the id and the size of the snapshot. For
// every backend that failed it logs a warning, because the call itself succeeds.
type logObserver struct {
	logger *slog.Logger
}

// Observe logs a call.
func (o logObserver) Observe(ctx context.Context, e *ingress.Event) {
	fields := []any{
		"method", e.Method, "code", e.Code().String(), "request_id", e.RequestID, callerKey, e.Caller,
		"duration_seconds", e.Total.Seconds(), "waited_seconds", e.Waited.Seconds(), "request_bytes", e.RequestBytes,
	}
	if e.HasSnapshot {
		fields = append(fields, "snapshot_id", text.Shorten(e.SnapshotID), "jobs", e.Jobs, "nodes", e.Nodes)
	}
	if r := e.Report; r != nil {
		fields = append(fields, "objective", e.Objective, "backend", r.Backend, "reason", r.Reason, "limit", r.Limit,
			"relative_gap", r.RelativeGap, "solve_seconds", r.SolveTime.Seconds())
		for _, attempt := range r.Attempts {
			if attempt.Outcome == solver.OutcomeCrashed || attempt.Outcome == solver.OutcomeInvalidPlan {
				o.logger.WarnContext(ctx, "backend is broken", "request_id", e.RequestID, "snapshot_id", text.Shorten(e.SnapshotID),
					"backend", attempt.Backend, "outcome", attempt.Outcome, "detail", attempt.Detail)
			}
		}
	}
	if e.Err != nil {
		fields = append(fields, "error", e.Err.Error())
	}
	o.logger.Log(ctx, levelOf(e.Code()), "call", fields...)
}

// levelOf returns the log level of a call: error for a bug, warning for conditions that an operator can
// correct, and otherwise info.
func levelOf(code codes.Code) slog.Level {
	switch code {
	case codes.Internal:
		return slog.LevelError
	case codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unavailable:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

// spanObserver sets attributes of the span of a call. It adds an event for each backend that returned no valid
// plan, because the span of the backend finished before its plan was verified.
type spanObserver struct{}

// Observe sets the attributes of the span.
func (spanObserver) Observe(ctx context.Context, e *ingress.Event) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if e.HasSnapshot {
		span.SetAttributes(
			tracing.Text(tracing.SnapshotID, e.SnapshotID),
			tracing.SnapshotJobs.Int(e.Jobs),
			tracing.SnapshotNodes.Int(e.Nodes),
		)
	}
	r := e.Report
	if r == nil {
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

// spanHandler adds the ids of the current span to every log line.
type spanHandler struct{ slog.Handler }

// Handle handles a line.
func (h spanHandler) Handle(ctx context.Context, line slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, line)
}

// WithAttrs returns a handler that adds attributes to every line, in addition to the ids.
func (h spanHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return spanHandler{h.Handler.WithAttrs(attributes)}
}

// WithGroup returns a handler with a group. The ids are in the group, too.
func (h spanHandler) WithGroup(name string) slog.Handler {
	return spanHandler{h.Handler.WithGroup(name)}
}

package telemetry

import (
	"context"
	"log/slog"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// watched is an exporter whose failures end here, in the log of the server. The SDK
// would hand them to a handler that is global to the process; and a collector that is
// away would be a line per batch there.
type watched struct {
	sdktrace.SpanExporter
	// lifetime ends an export on its way when it ends.
	lifetime context.Context
	logger   *slog.Logger
	// failing and lost are of the exports since the last one that succeeded. The
	// SDK makes one export at a time.
	failing bool
	lost    int
}

func newWatched(lifetime context.Context, exporter sdktrace.SpanExporter, logger *slog.Logger) *watched {
	return &watched{SpanExporter: exporter, lifetime: lifetime, logger: logger}
}

// ExportSpans exports spans. It logs the first failure of a row and the success after
// it, and returns nil.
func (w *watched) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.lifetime, cancel)()

	err := w.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		w.lost += len(spans)
		if !w.failing {
			w.logger.WarnContext(ctx, "spans cannot be exported", "error", err)
		}
	case w.failing:
		w.logger.InfoContext(ctx, "spans are exported again", "lost", w.lost)
		w.lost = 0
	}
	w.failing = err != nil
	return nil
}

// Shutdown ends the exporter, and logs how many spans it has lost since the last
// success.
func (w *watched) Shutdown(ctx context.Context) error {
	if w.lost > 0 {
		w.logger.WarnContext(ctx, "spans are lost", "lost", w.lost)
	}
	return w.SpanExporter.Shutdown(ctx)
}

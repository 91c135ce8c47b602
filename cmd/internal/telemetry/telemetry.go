// Package telemetry turns the standard variables of OpenTelemetry into what a server
// needs to be traced. The SDK reads these variables itself but passes over what it does
// not understand; here a wrong value is an error, so that nobody looks for traces that a
// typing error has swallowed.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// FlushTimeout is how long the last spans have to be exported at the end.
const FlushTimeout = 3 * time.Second

// Config is what telemetry is set up with.
type Config struct {
	// Getenv returns the value of an environment variable, "" where it is not set. It
	// has to speak of the environment of this process, of which the SDK reads what is
	// not passed on.
	Getenv func(name string) string
	// Logger takes what goes wrong with exporting.
	Logger *slog.Logger
	// Console takes the spans of the exporter "console".
	Console io.Writer
	// Version is the version of the service.
	Version string
}

// Telemetry is what spans are made with. Where tracing is off, both of its fields are
// nil and nothing runs.
type Telemetry struct {
	TracerProvider trace.TracerProvider
	Propagator     propagation.TextMapPropagator

	logger *slog.Logger
	// shutdown exports what is left and ends the exporters, abandon ends those that do
	// not come to an end.
	shutdown func(context.Context) error
	abandon  context.CancelFunc
}

// New sets tracing up as the variables say: off, unless OTEL_TRACES_EXPORTER,
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. No global of
// OpenTelemetry is read or set. The error names every variable of a wrong value; it
// connects nowhere, so that a collector that is not there is none.
func New(ctx context.Context, config Config) (*Telemetry, error) {
	settings, err := read(config.Getenv)
	if err != nil {
		return nil, err
	}
	if len(settings.exporters) == 0 {
		return &Telemetry{}, nil
	}
	described, err := describe(ctx, config.Version)
	if err != nil {
		return nil, err
	}
	// The exporters outlive the context that they are built in.
	lifetime, abandon := context.WithCancel(context.WithoutCancel(ctx))
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(described)}
	for _, name := range settings.exporters {
		exporter, err := newExporter(ctx, name, settings, config.Console)
		if err != nil {
			abandon()
			return nil, fmt.Errorf("exporter %s of traces: %w", name, err)
		}
		// Spans wait in a bounded queue, and are dropped where it is full: nobody
		// waits for a collector.
		options = append(options, sdktrace.WithBatcher(newWatched(lifetime, exporter, config.Logger.With("exporter", name))))
	}
	provider := sdktrace.NewTracerProvider(options...)
	config.Logger.InfoContext(ctx, "tracing is on", "exporters", settings.exporters)
	return &Telemetry{
		TracerProvider: provider,
		Propagator:     settings.propagator,
		logger:         config.Logger,
		shutdown:       provider.Shutdown,
		abandon:        abandon,
	}, nil
}

// Shutdown exports the last spans and ends the exporters. It takes no longer than
// FlushTimeout; what is not exported by then is lost, and logged.
func (t *Telemetry) Shutdown() {
	if t.shutdown == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), FlushTimeout)
	defer cancel()
	// An export on its way ends with the time for it.
	defer context.AfterFunc(ctx, t.abandon)()
	defer t.abandon()
	if err := t.shutdown(ctx); err != nil {
		t.logger.Warn("the last spans may be lost", "error", err)
	}
}

// describe returns what the spans of this process have in common. The variables win
// over what is known otherwise.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "elastalloc"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describing the service for its traces: %w", err)
	}
	return described, nil
}

// newExporter returns an exporter of the given name. Headers, certificates and the like
// are for it to read. Where no endpoint is named, it is the one of the specification;
// the SDK's own would want TLS of it.
func newExporter(ctx context.Context, name string, s settings, console io.Writer) (sdktrace.SpanExporter, error) {
	if name == exporterConsole {
		return stdouttrace.New(stdouttrace.WithWriter(console))
	}
	if s.protocol == protocolGRPC {
		var options []otlptracegrpc.Option
		if !s.hasEndpoint {
			options = append(options, otlptracegrpc.WithEndpointURL("http://localhost:4317"))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	var options []otlptracehttp.Option
	if !s.hasEndpoint {
		options = append(options, otlptracehttp.WithEndpointURL("http://localhost:4318/v1/traces"))
	}
	return otlptracehttp.New(ctx, options...)
}

// Package telemetry configures tracing from the standard variables of OpenTelemetry. The SDK reads most of them
// itself and only logs invalid values. Here they are errors, so that no typing error silently disables traces.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

const (
	// The variables that enable tracing.
	exporters      = "OTEL_TRACES_EXPORTER"
	endpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"

	// The variables of the protocol. The second one precedes the first one.
	protocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// flushTimeout is the maximum time to export the last spans.
const flushTimeout = 3 * time.Second

// Config configures telemetry.
type Config struct {
	// Getenv returns the value of an environment variable, or "" if it is not set. It must read the
	// environment of this process, like the SDK.
	Getenv func(name string) string
	// Logger logs errors of exports.
	Logger *slog.Logger
	// Version is the version of the service.
	Version string
}

// Telemetry has the provider and the propagator of spans. If tracing is disabled, both are nil.
type Telemetry struct {
	TracerProvider trace.TracerProvider
	Propagator     propagation.TextMapPropagator

	logger   *slog.Logger
	shutdown func(context.Context) error
}

// New configures tracing from the variables. Tracing is disabled unless OTEL_TRACES_EXPORTER,
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set. New does not connect, so a missing
// collector is not an error. It sets the global error handler and logger of OpenTelemetry, so it must be called
// at most once.
func New(ctx context.Context, config Config) (*Telemetry, error) {
	get := func(name string) string { return strings.TrimSpace(config.Getenv(name)) }
	if !isOn(get) {
		return &Telemetry{}, nil
	}
	for _, name := range []string{endpoint, tracesEndpoint} {
		// The message does not quote the value, which may contain a password.
		if u, err := url.Parse(get(name)); get(name) != "" && (err != nil || u.Host == "") {
			return nil, fmt.Errorf("%s is not the URL of a collector (such as http://collector:4318)", name)
		}
	}
	propagator, err := newPropagator(get)
	if err != nil {
		return nil, err
	}
	var wrong strings.Builder // What OpenTelemetry logs about the variables that it reads.
	complaints := slog.NewTextHandler(&wrong, &slog.HandlerOptions{Level: slog.LevelError, ReplaceAttr: withoutValues})
	otel.SetLogger(logr.FromSlogHandler(complaints))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.New(complaints).Error("OpenTelemetry", "err", err) }))
	provider, err := newProvider(ctx, config, get)
	if err == nil && wrong.Len() > 0 {
		err = errors.New(strings.TrimSpace(wrong.String()))
	}
	if err != nil {
		if provider != nil {
			_ = provider.Shutdown(ctx) // Nothing has been traced.
		}
		return nil, fmt.Errorf("set up tracing from the OTEL_ environment variables: %w", err)
	}
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(occasionally(config.Logger))
	config.Logger.InfoContext(ctx, "tracing is on")
	return &Telemetry{TracerProvider: provider, Propagator: propagator, logger: config.Logger, shutdown: provider.Shutdown}, nil
}

// errorInterval is the minimum time between two lines about errors.
const errorInterval = time.Minute

// occasionally logs errors of exports, at most one per errorInterval, with the number of omitted errors. A missing
// collector causes an error every few seconds.
func occasionally(logger *slog.Logger) otel.ErrorHandlerFunc {
	every := rate.Sometimes{Interval: errorInterval}
	var since atomic.Int64
	return func(err error) {
		since.Add(1)
		every.Do(func() { logger.Warn("OpenTelemetry", "error", err, "lines_left_out", since.Swap(0)-1) })
	}
}

// Shutdown exports the last spans and stops the exporters. After flushTimeout it logs that the remaining spans are
// lost.
func (t *Telemetry) Shutdown() {
	if t.shutdown == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := t.shutdown(ctx); err != nil {
		t.logger.Warn("the last spans may be lost", "error", err)
	}
}

// isOn reports whether the variables enable tracing.
func isOn(get func(string) string) bool {
	name := get(exporters)
	return !strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") && name != "none" &&
		cmp.Or(name, get(endpoint), get(tracesEndpoint)) != ""
}

func list(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
}

// newPropagator returns the propagator of OTEL_PROPAGATORS, by default W3C trace context and baggage.
func newPropagator(get func(string) string) (propagation.TextMapPropagator, error) {
	names := list(get("OTEL_PROPAGATORS"))
	if len(names) == 0 {
		names = []string{"tracecontext", "baggage"}
	}
	var chosen []propagation.TextMapPropagator
	for _, name := range names {
		switch name {
		case "tracecontext":
			chosen = append(chosen, propagation.TraceContext{})
		case "baggage":
			chosen = append(chosen, propagation.Baggage{})
		case "none":
		default:
			return nil, fmt.Errorf("environment variable OTEL_PROPAGATORS: unknown "+
				"propagator %q (must be tracecontext, baggage or both, or none)", name)
		}
	}
	return propagation.NewCompositeTextMapPropagator(chosen...), nil
}

// newProvider returns a provider with a bounded queue of spans. If the queue is full, spans are dropped, so that no
// call waits for a collector.
func newProvider(ctx context.Context, config Config, get func(string) string) (*sdktrace.TracerProvider, error) {
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "elastalloc"), attribute.String("service.version", config.Version)),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx, get)
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithBatcher(exporter)), nil
}

// newExporter returns an OTLP exporter for the protocol of the variables, by default http/protobuf. Without an endpoint,
// it exports in plain text to a collector on this machine. The exporter reads all other variables itself. An unknown
// exporter or protocol is an error.
func newExporter(ctx context.Context, get func(string) string) (sdktrace.SpanExporter, error) {
	if name := get(exporters); name != "" && name != "otlp" {
		return nil, fmt.Errorf("%s is %q; must be otlp or none", exporters, name)
	}
	variable := protocol
	if get(tracesProtocol) != "" {
		variable = tracesProtocol
	}
	var exporter sdktrace.SpanExporter
	var err error
	switch name := get(variable); name {
	case "grpc":
		var options []otlptracegrpc.Option
		if isLocal(get) {
			options = append(options, otlptracegrpc.WithInsecure())
		}
		exporter, err = otlptracegrpc.New(ctx, options...)
	case "", "http/protobuf":
		var options []otlptracehttp.Option
		if isLocal(get) {
			options = append(options, otlptracehttp.WithInsecure())
		}
		exporter, err = otlptracehttp.New(ctx, options...)
	default:
		return nil, fmt.Errorf("%s is %q; must be grpc or http/protobuf", variable, name)
	}
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ variables: %w", err)
	}
	return exporter, nil
}

// isLocal reports whether the collector is the default one, http://localhost:4318 or, with gRPC, http://localhost:4317.
// The SDK would use TLS, which the specification of OTLP and collectors do not by default.
func isLocal(get func(string) string) bool {
	for _, name := range []string{
		endpoint, tracesEndpoint, "OTEL_EXPORTER_OTLP_INSECURE", "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
		"OTEL_EXPORTER_OTLP_CERTIFICATE", "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
	} {
		if get(name) != "" {
			return false
		}
	}
	return true
}

// withoutValues removes all attributes except the error from a log line of OpenTelemetry, because they may be
// secret values of variables.
func withoutValues(_ []string, a slog.Attr) slog.Attr {
	if a.Key != slog.MessageKey && a.Key != "err" {
		return slog.Attr{}
	}
	return a
}

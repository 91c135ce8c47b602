package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	grpcprometheus "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// interceptors are what the calls of all services go through, health and reflection
// included, outermost first. Metrics come first, so that everything counts.
func interceptors(m *grpcprometheus.ServerMetrics, logger *slog.Logger) []grpc.ServerOption {
	recoverPanic := recovery.WithRecoveryHandlerContext(func(ctx context.Context, cause any) error {
		logger.ErrorContext(ctx, "panic", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error")
	})
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(m.UnaryServerInterceptor(), recovery.UnaryServerInterceptor(recoverPanic)),
		grpc.ChainStreamInterceptor(m.StreamServerInterceptor(), recovery.StreamServerInterceptor(recoverPanic)),
	}
}

// tracingOptions make a span of every call but those of gRPC's own services. Without a
// provider there is nothing of OpenTelemetry on the path of a call.
func (c *Config) tracingOptions() []grpc.ServerOption {
	if c.TracerProvider == nil {
		return nil
	}
	propagator := c.Propagator
	if propagator == nil {
		propagator = propagation.NewCompositeTextMapPropagator()
	}
	// What is not set here would come from a global. Metrics of gRPC are those of the
	// Prometheus provider.
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(c.TracerProvider),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool { return !strings.HasPrefix(call.FullMethodName, "/grpc.") }),
	))}
}

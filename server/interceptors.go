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

// interceptors returns the interceptors of all services, including health and reflection, outermost first.
// The metrics interceptor is first, so that it counts every call.
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

// tracingOptions returns options that create a span for every call, except calls of gRPC's own services. It
// returns none without a TracerProvider.
func (c *Config) tracingOptions() []grpc.ServerOption {
	if c.TracerProvider == nil {
		return nil
	}
	propagator := c.Propagator
	if propagator == nil {
		propagator = propagation.NewCompositeTextMapPropagator()
	}
	// Options that are not set here have global defaults. The Prometheus interceptor exports the metrics
	// of gRPC.
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(c.TracerProvider),
		otelgrpc.WithPropagators(propagator),
		otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithFilter(func(call *stats.RPCTagInfo) bool { return !strings.HasPrefix(call.FullMethodName, "/grpc.") }),
	))}
}

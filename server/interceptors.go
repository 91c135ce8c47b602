package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/selector"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/elastalloc/elastalloc/internal/text"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// interceptorOptions returns what every call goes through, outermost first.
// Metrics come before all that refuses, so that refusals count, and the request
// id before all that logs. Only Allocate is ever refused: health must be told.
func interceptorOptions(m *Metrics, logger *slog.Logger, a *admission) []grpc.ServerOption {
	recoverPanic := recovery.WithRecoveryHandlerContext(panicError)
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(
			m.grpc.UnaryServerInterceptor(),
			identify,
			selector.UnaryServerInterceptor(
				logging.UnaryServerInterceptor(logTo(logger), loggingOptions()...), selector.MatchFunc(notHealth)),
			recovery.UnaryServerInterceptor(recoverPanic),
			onlyAllocate(a.enter),
		),
		grpc.ChainStreamInterceptor(
			m.grpc.StreamServerInterceptor(),
			selector.StreamServerInterceptor(
				logging.StreamServerInterceptor(logTo(logger), loggingOptions()...), selector.MatchFunc(notHealth)),
			recovery.StreamServerInterceptor(recoverPanic),
		),
	}
}

// logTo adapts a logger to the logging interceptor.
func logTo(logger *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		logger.Log(ctx, slog.Level(level), message, fields...)
	})
}

// loggingOptions make one line per call, at its end, with nothing of its content
// but the snapshot's id and, of a call that failed, the error: for INTERNAL the
// cause that the caller does not see.
func loggingOptions() []logging.Option {
	return []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(levelOf),
		logging.WithDisableLoggingFields(logging.SystemTag[0], logging.ComponentFieldKey, logging.MethodTypeFieldKey),
		logging.WithFieldsFromContextAndCallMeta(func(ctx context.Context, call interceptors.CallMeta) logging.Fields {
			fields := logging.Fields{"request_id", requestID(ctx)}
			if request, ok := call.ReqOrNil.(interface{ GetSnapshot() *elastallocv1.Snapshot }); ok {
				fields = append(fields, "snapshot_id", text.Shorten(request.GetSnapshot().GetId()))
			}
			return fields
		}),
		logging.WithDurationField(func(d time.Duration) logging.Fields { return logging.Fields{"duration_seconds", d.Seconds()} }),
	}
}

// levelOf returns at which level a call is logged. Nothing is unimplemented but what
// callers should not send, such as compressed messages.
func levelOf(code codes.Code) logging.Level {
	if code == codes.Unimplemented {
		return logging.LevelInfo
	}
	return logging.DefaultServerCodeToLevel(code)
}

// notHealth matches every call but health checks, which come every few seconds
// and would bury the others.
func notHealth(_ context.Context, call interceptors.CallMeta) bool {
	return call.Service != grpc_health_v1.Health_ServiceDesc.ServiceName
}

// panicError turns a panic into an error: INTERNAL for the caller, its value and
// stack for the log line of the call.
func panicError(ctx context.Context, value any) error {
	return toCallError(ctx, &recovery.PanicError{Panic: value, Stack: debug.Stack()})
}

// onlyAllocate applies an interceptor to the Allocate method alone.
func onlyAllocate(interceptor grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if info.FullMethod != elastallocv1.AllocatorService_Allocate_FullMethodName {
			return handler(ctx, request)
		}
		return interceptor(ctx, request, info, handler)
	}
}

package server

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthServer serves gRPC health. It closes its streams when the server drains, because draining waits for
// all streams.
type healthServer struct {
	*health.Server
	draining context.Context // closes the streams when it is done
	drain    context.CancelFunc
}

func newHealthServer() *healthServer {
	draining, drain := context.WithCancel(context.Background())
	return &healthServer{health.NewServer(), draining, drain}
}

// Watch sends the status of a service whenever it changes, until the server drains. The last status is then
// NOT_SERVING or SERVICE_UNKNOWN.
func (h *healthServer) Watch(request *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	stop := context.AfterFunc(h.draining, cancel)
	defer stop()
	w := &watch{Health_WatchServer: stream, ctx: ctx}
	err := h.Server.Watch(request, w)
	if h.draining.Err() == nil || stream.Context().Err() != nil {
		return err
	}
	// The last change of the status may not have been sent before the stream was closed.
	if w.last == grpc_health_v1.HealthCheckResponse_SERVING {
		if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "the server is draining")
}

// watch is a stream of Watch whose context is done when the server drains.
type watch struct {
	grpc_health_v1.Health_WatchServer
	ctx  context.Context
	last grpc_health_v1.HealthCheckResponse_ServingStatus
}

// Context returns the context of the stream.
func (w *watch) Context() context.Context { return w.ctx }

// Send sends a status.
func (w *watch) Send(response *grpc_health_v1.HealthCheckResponse) error {
	w.last = response.GetStatus()
	return w.Health_WatchServer.Send(response)
}

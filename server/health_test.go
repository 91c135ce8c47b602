package server

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestWatchersDoNotDelayDrain checks that clients that watch the health of a server are notified of its drain,
// and that the drain does not wait for them.
func TestWatchersDoNotDelayDrain(t *testing.T) {
	h := start(t, nil)
	var streams []grpc_health_v1.Health_WatchClient
	for service, want := range map[string]grpc_health_v1.HealthCheckResponse_ServingStatus{
		"": grpc_health_v1.HealthCheckResponse_SERVING,
		elastallocv1.AllocatorService_ServiceDesc.ServiceName: grpc_health_v1.HealthCheckResponse_SERVING,
		"unknown": grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN,
	} {
		stream, err := grpc_health_v1.NewHealthClient(h.conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if first, err := stream.Recv(); err != nil || first.GetStatus() != want {
			t.Fatalf("%q is %v at first, %v", service, first, err)
		}
		if want == grpc_health_v1.HealthCheckResponse_SERVING {
			streams = append(streams, stream)
		}
	}
	h.stop()
	for _, stream := range streams {
		if next, err := stream.Recv(); err != nil || next.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("next is %v, %v; want NOT_SERVING", next, err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ends with %v; want UNAVAILABLE", err)
		}
	}
	err := <-h.result
	if err != nil {
		t.Error(err)
	}
	h.result <- err // The cleanup reads it.
	if h.logs.Line(`"msg":"drained"`) == "" {
		t.Errorf("calls were cut off:\n%s", h.logs)
	}
}

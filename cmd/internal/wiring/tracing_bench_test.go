package wiring

import (
	"context"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
)

// BenchmarkTracing measures what tracing costs a call that crosses everything but the
// network, on a decision of two jobs, where it weighs most, and on a real-sized one. The
// servers are asked in turn, so that whatever else the machine does hits all of them. It
// reports the median of each, and how much longer than without tracing that is.
func BenchmarkTracing(b *testing.B) {
	text, err := os.ReadFile("../../../examples/snapshot.json")
	if err != nil {
		b.Fatal(err)
	}
	example := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal(text, example); err != nil {
		b.Fatal(err)
	}
	provider := func(sampler sdktrace.Sampler) trace.TracerProvider {
		p := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(tracetest.NewNoopExporter()))
		b.Cleanup(func() { _ = p.Shutdown(context.Background()) })
		return p
	}
	servers := []struct {
		name   string
		client elastallocv1.AllocatorServiceClient
	}{
		{"off", serveForBenchmark(b, nil)},
		{"unsampled", serveForBenchmark(b, provider(sdktrace.NeverSample()))},
		{"on", serveForBenchmark(b, provider(sdktrace.AlwaysSample()))},
	}
	for name, request := range map[string]*elastallocv1.AllocateRequest{"2 jobs": tracedRequest(), "40 jobs": example} {
		b.Run(name, func(b *testing.B) {
			took := make([][]time.Duration, len(servers))
			for b.Loop() {
				for i, s := range servers {
					start := time.Now()
					if _, err := s.client.Allocate(b.Context(), request); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
				}
			}
			var off float64
			for i, s := range servers {
				slices.Sort(took[i])
				median := float64(took[i][len(took[i])/2].Nanoseconds()) / 1e3
				b.ReportMetric(median, s.name+"-µs")
				if i == 0 {
					off = median
				} else {
					b.ReportMetric(median/off, s.name+"/off")
				}
			}
		})
	}
}

// serveForBenchmark starts a server with the default backends.
func serveForBenchmark(b *testing.B, provider trace.TracerProvider) elastallocv1.AllocatorServiceClient {
	b.Helper()
	backends, err := Backends(b.Context(), DefaultBackends(), nowhere())
	if err != nil {
		b.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	config := server.DefaultConfig()
	config.Listener, config.AdminListen, config.DrainDelay = listener, "127.0.0.1:0", 0
	config.Chain = Chain(backends, DefaultBudget)
	config.TracerProvider, config.Propagator = provider, propagation.TraceContext{}
	s, err := config.Complete()
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return elastallocv1.NewAllocatorServiceClient(conn)
}

package server

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// BenchmarkTracing measures the cost of tracing for a call without a network, with a decision on two jobs and
// one of realistic size. The calls alternate between the servers, so that other load on the machine affects
// all of them. It reports the median of each, and its ratio to the median without tracing.
func BenchmarkTracing(b *testing.B) {
	text, err := os.ReadFile("../examples/snapshot.json")
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
	serve := func(provider trace.TracerProvider) elastallocv1.AllocatorServiceClient {
		allocator, err := elastalloc.New(elastalloc.Options{Middleware: tracing.TraceBackend, ProverMiddleware: tracing.TraceProver})
		if err != nil {
			b.Fatal(err)
		}
		return start(b, func(c *Config) {
			c.Allocator, c.Logger, c.TracerProvider, c.Propagator = allocator, nil, provider, propagation.TraceContext{}
		}).client
	}
	servers := []struct {
		name   string
		client elastallocv1.AllocatorServiceClient
	}{
		{"off", serve(nil)},
		{"unsampled", serve(provider(sdktrace.NeverSample()))},
		{"on", serve(provider(sdktrace.AlwaysSample()))},
	}
	for name, request := range map[string]*elastallocv1.AllocateRequest{"2 jobs": smallRequest(), "40 jobs": example} {
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

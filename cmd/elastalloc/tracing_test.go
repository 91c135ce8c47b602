package main

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/clitest"

	"github.com/google/go-cmp/cmp"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/cli"
)

// collector is an OpenTelemetry collector that records its requests.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer
	requests chan received
}

// received is an export request with its metadata.
type received struct {
	*collectortrace.ExportTraceServiceRequest
	header map[string][]string
}

func newCollector() *collector { return &collector{requests: make(chan received, 100)} }

// Export receives spans over gRPC.
func (c *collector) Export(ctx context.Context, request *collectortrace.ExportTraceServiceRequest) (
	*collectortrace.ExportTraceServiceResponse, error,
) {
	header, _ := metadata.FromIncomingContext(ctx)
	return c.take(received{request, header})
}

// ServeHTTP receives spans over HTTP.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := new(collectortrace.ExportTraceServiceRequest)
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	header := make(map[string][]string)
	for name, values := range r.Header {
		header[strings.ToLower(name)] = values
	}
	_, _ = c.take(received{request, header})
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collector) take(r received) (*collectortrace.ExportTraceServiceResponse, error) {
	c.requests <- r
	return new(collectortrace.ExportTraceServiceResponse), nil
}

// serveGRPC serves the collector, and returns the value for OTEL_EXPORTER_OTLP_ENDPOINT.
func (c *collector) serveGRPC(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(s, c)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// serveHTTP does the same over HTTP.
func (c *collector) serveHTTP(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return s.URL
}

// spans returns the received spans by name, the attributes of their service, and the metadata of each request.
func (c *collector) spans() (spans map[string]*tracepb.Span, service map[string]string, headers []map[string][]string) {
	spans, service = make(map[string]*tracepb.Span), make(map[string]string)
	for {
		select {
		case r := <-c.requests:
			headers = append(headers, r.header)
			for _, resource := range r.GetResourceSpans() {
				for _, a := range resource.GetResource().GetAttributes() {
					service[a.GetKey()] = a.GetValue().GetStringValue()
				}
				for _, scope := range resource.GetScopeSpans() {
					for _, span := range scope.GetSpans() {
						spans[span.GetName()] = span
					}
				}
			}
		default:
			return spans, service, headers
		}
	}
}

// checkFallback checks the spans of a decision of exact after the failure of cbc.
func checkFallback(t *testing.T, spans map[string]*tracepb.Span) {
	t.Helper()
	want := []string{
		"await slot",
		"elastalloc.v1.AllocatorService/Allocate", "receive request", "solve cbc", "solve exact", "solve greedy",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(spans))); diff != "" {
		t.Fatalf("spans (-want +got):\n%s", diff)
	}
	call := spans["elastalloc.v1.AllocatorService/Allocate"]
	for name, span := range spans {
		if span != call && string(span.GetParentSpanId()) != string(call.GetSpanId()) {
			t.Errorf("%s is not a child of the call", name)
		}
	}
	if failed := spans["solve cbc"].GetStatus(); failed.GetCode() != tracepb.Status_STATUS_CODE_ERROR ||
		!strings.Contains(failed.GetMessage(), "no license") {
		t.Errorf("the span of cbc has the status %v", failed)
	}
}

// TestServerExportsSpans checks with the real binary that the spans of a decision with a
// fallback are exported to a collector, at the latest when the server stops.
func TestServerExportsSpans(t *testing.T) {
	// The program only prints its version.
	failing := filepath.Join(t.TempDir(), "cbc")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\necho 'Version: 2.10.8'\necho 'no license'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for protocol, serve := range map[string]func(*collector, *testing.T) string{
		"grpc": (*collector).serveGRPC, "http/protobuf": (*collector).serveHTTP,
	} {
		t.Run(protocol, func(t *testing.T) {
			c := newCollector()
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", serve(c, t))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20team")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			server := startServer(t, "--backends=cbc,exact", "--cbc="+failing)
			_, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json", "--budget=1m", "--backend=cbc", "--server", server.Addr)
			if status != cli.ExitDone {
				t.Fatalf("exit status %d, stderr %q", status, stderr)
			}
			if err := server.Stop(); err != nil {
				t.Fatalf("Stop returned %v; log:\n%s", err, server.Logs())
			}

			spans, service, headers := c.spans()
			checkFallback(t, spans)
			if service["service.name"] != "elastalloc" || service["deployment.environment.name"] != "test" {
				t.Errorf("the service of the spans is %v", service)
			}
			for _, header := range headers {
				if got := header["x-tenant"]; !slices.Equal(got, []string{"a team"}) {
					t.Errorf("the request has x-tenant %q", got)
				}
			}
		})
	}
}

// TestServerWithoutCollector checks that a missing collector does not affect calls, the start or the stop of the
// server.
func TestServerWithoutCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // Spans are exported continuously.
	server := startServer(t)
	for range 20 {
		stdout, stderr, status := runBinary(t, "allocate", "-f", "testdata/queue.json", "--budget=1m", "--server", server.Addr)
		if status != cli.ExitDone || !strings.Contains(stdout, "proven optimal") {
			t.Fatalf("exit status %d, stderr %q, stdout %s", status, stderr, stdout)
		}
	}
	if err := server.Stop(); err != nil {
		t.Errorf("Stop returned %v", err)
	}
	clitest.CheckContains(t, "the log", server.Logs(), `"msg":"drained"`, `"msg":"the last spans may be lost"`)
}

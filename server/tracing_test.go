package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/tracing"
)

// The span of a caller, as W3C trace context in metadata.
const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
)

// collected contains the spans of a server. The span of a call ends shortly after the caller has the
// response.
type collected struct {
	mutex sync.Mutex
	spans []sdktrace.ReadOnlySpan
	ended chan struct{}
}

// OnStart is called by the SDK.
func (*collected) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd is called by the SDK.
func (c *collected) OnEnd(span sdktrace.ReadOnlySpan) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.spans = append(c.spans, span)
	if span.SpanKind() == trace.SpanKindServer {
		c.ended <- struct{}{}
	}
}

// Shutdown is called by the SDK.
func (*collected) Shutdown(context.Context) error { return nil }

// ForceFlush is called by the SDK.
func (*collected) ForceFlush(context.Context) error { return nil }

// next waits until a call has completed, and returns its span and the spans of its stages.
func (c *collected) next() (call sdktrace.ReadOnlySpan, stages []sdktrace.ReadOnlySpan) {
	<-c.ended
	c.mutex.Lock()
	defer c.mutex.Unlock()
	last := len(c.spans) - 1
	call, stages, c.spans = c.spans[last], c.spans[:last], nil
	return call, stages
}

// startTraced starts a server with tracing and a sampler.
func startTraced(t *testing.T, sampler sdktrace.Sampler, change func(*Config)) (*harness, *collected) {
	t.Helper()
	spans := &collected{ended: make(chan struct{}, 100)}
	return start(t, func(c *Config) {
		c.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sampler))
		c.Propagator = propagation.TraceContext{}
		if change != nil {
			change(c)
		}
	}), spans
}

// names returns the names of spans.
func names(spans []sdktrace.ReadOnlySpan) []string {
	var names []string
	for _, span := range spans {
		names = append(names, span.Name())
	}
	return names
}

// TestTracedCall checks the parent, the children and the attributes of the span of a call, and that the log and
// the metrics refer to it.
func TestTracedCall(t *testing.T) {
	t.Parallel()
	h, spans := startTraced(t, sdktrace.ParentBased(sdktrace.NeverSample()), nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(),
		"traceparent", "00-"+callerTrace+"-"+callerSpan+"-01", "x-request-id", "request-7")
	if _, err := h.client.Allocate(ctx, smallRequest()); err != nil {
		t.Fatal(err)
	}
	call, stages := spans.next()
	if call.Name() != "elastalloc.v1.AllocatorService/Allocate" || call.Status().Code != otelcodes.Unset ||
		call.SpanContext().TraceID().String() != callerTrace || call.Parent().SpanID().String() != callerSpan || !call.Parent().IsRemote() {
		t.Errorf("the call is %q of %v, status %v; want the caller's child", call.Name(), call.Parent(), call.Status())
	}
	// The fake backends have no stages.
	if diff := cmp.Diff([]string{"receive request", "await slot"}, names(stages)); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	for _, stage := range stages {
		if stage.Parent().SpanID() != call.SpanContext().SpanID() {
			t.Errorf("%s is not a child of the call", stage.Name())
		}
	}
	for _, want := range []attribute.KeyValue{
		tracing.RequestID.String("request-7"), tracing.SnapshotID.String("small"), tracing.SnapshotJobs.Int(2), tracing.Backend.String("exact"),
	} {
		if !slices.Contains(call.Attributes(), want) {
			t.Errorf("attributes %v; want %v among them", call.Attributes(), want)
		}
	}
	line := h.logs.Line(`"trace_id":"`+callerTrace+`"`, `"span_id":"`+call.SpanContext().SpanID().String()+`"`)
	if !strings.Contains(line, `"request_id":"request-7"`) {
		t.Errorf("the log does not refer to the trace:\n%s", h.logs)
	}
	page := openMetrics(t, h)
	if !strings.Contains(page, `elastalloc_solve_duration_seconds_bucket{backend="exact",limit="none",objective="progress",le="`) ||
		!strings.Contains(page, `# {trace_id="`+callerTrace+`"}`) {
		t.Errorf("the metrics do not refer to the trace")
	}
}

// TestUnsampledCall checks that a call that is not sampled has no spans of stages and no exemplar, but the trace
// id in the log.
func TestUnsampledCall(t *testing.T) {
	t.Parallel()
	h, spans := startTraced(t, sdktrace.ParentBased(sdktrace.AlwaysSample()), nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+callerTrace+"-"+callerSpan+"-00")
	if _, err := h.client.Allocate(ctx, smallRequest()); err != nil {
		t.Fatal(err)
	}
	if page := openMetrics(t, h); strings.Contains(page, callerTrace) {
		t.Error("the metrics refer to a trace that does not exist")
	}
	// The log line is written before the response is sent.
	if h.logs.Line(`"trace_id":"`+callerTrace+`"`) == "" {
		t.Errorf("the log does not name the trace:\n%s", h.logs)
	}
	if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil { // It is sampled, because it has no parent.
		t.Fatal(err)
	}
	if call, stages := spans.next(); call.Parent().IsValid() || len(stages) != 2 {
		t.Errorf("the first spans are %q, parent %v; want the spans of the second call", names(stages), call.Parent())
	}
}

// TestSpansOfFailedCalls checks the traces of an invalid request, a rejected call and a bug, and that they do not
// quote the request.
func TestSpansOfFailedCalls(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	h, spans := startTraced(t, sdktrace.AlwaysSample(), func(c *Config) {
		c.MaxInflight, c.MaxQueue, c.Allocator = 1, 0, fakeAllocator(g.solveWithoutContext)
	})

	bad := smallRequest()
	bad.Snapshot.Jobs[0].Id, bad.Snapshot.Jobs[1].Id = "twice", "twice"
	bad.Options.Backend = 99
	if _, err := h.client.Allocate(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
		t.Fatal(err)
	}
	call, stages := spans.next()
	if len(stages) != 2 {
		t.Errorf("stages %q of a bad request", names(stages))
	}
	for _, span := range append(stages, call) {
		if strings.Contains(span.Status().Description, "twice") {
			t.Errorf("%s quotes the request: %v", span.Name(), span.Status())
		}
	}

	first := h.occupyAnalysis(t, g)
	if _, err := h.client.WhatIf(t.Context(), searchRequest()); status.Code(err) != codes.ResourceExhausted {
		t.Fatal(err)
	}
	call, stages = spans.next()
	// The first call has started, and its first stages are complete.
	if rejected := stages[len(stages)-1]; rejected.Status().Code != otelcodes.Error || rejected.Name() != "await slot" ||
		rejected.Parent().SpanID() != call.SpanContext().SpanID() {
		t.Errorf("the last stage of a rejected call is %v, status %v", rejected.Name(), rejected.Status())
	}
	close(g.open)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
}

// TestNoSpansOfOtherCalls checks that health and reflection are not traced.
func TestNoSpansOfOtherCalls(t *testing.T) {
	t.Parallel()
	h, spans := startTraced(t, sdktrace.AlwaysSample(), nil)
	if _, err := grpc_health_v1.NewHealthClient(h.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := grpc_reflection_v1.NewServerReflectionClient(h.conn).ServerReflectionInfo(ctx)
	if err == nil {
		err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.client.Allocate(t.Context(), smallRequest()); err != nil {
		t.Fatal(err)
	}
	if call, stages := spans.next(); !strings.HasSuffix(call.Name(), "/Allocate") || len(stages) != 2 {
		t.Errorf("the first spans are %q and %q", names(stages), call.Name())
	}
}

// TestUntracedCall checks that without a provider there is no trace, even if a caller sends a trace context.
func TestUntracedCall(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.Propagator = propagation.TraceContext{} })
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+callerTrace+"-"+callerSpan+"-01")
	if _, err := h.client.Allocate(ctx, smallRequest()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(h.logs.String(), "trace_id") || strings.Contains(openMetrics(t, h), "trace_id") {
		t.Errorf("there is a trace:\n%s", h.logs)
	}
}

// TestSpanHandler checks that lines keep their attributes and groups in addition to the ids.
func TestSpanHandler(t *testing.T) {
	t.Parallel()
	var logs syncbuffer.Buffer
	logger := slog.New(spanHandler{slog.NewJSONHandler(&logs, nil)}).With("a", 1).WithGroup("g")
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "call")
	defer span.End()
	logger.InfoContext(ctx, "inside", "b", 2)
	logger.InfoContext(t.Context(), "outside", "b", 2)
	ids := `,"trace_id":"` + span.SpanContext().TraceID().String() + `","span_id":"` + span.SpanContext().SpanID().String() + `"`
	for _, want := range []string{`"msg":"inside","a":1,"g":{"b":2` + ids + `}}`, `"msg":"outside","a":1,"g":{"b":2}}`} {
		if !strings.Contains(logs.String(), want) {
			t.Errorf("the log does not contain %s:\n%s", want, logs.String())
		}
	}
}

// openMetrics returns /metrics in the OpenMetrics format, which has exemplars.
func openMetrics(t *testing.T, h *harness) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.AdminAddr().String()+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "application/openmetrics-text") {
		t.Fatalf("/metrics has the type %s", response.Header.Get("Content-Type"))
	}
	return string(page)
}

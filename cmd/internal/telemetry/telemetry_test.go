package telemetry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/elastalloc/elastalloc/internal/testing/syncbuffer"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
)

// setUp sets telemetry up with the given environment variables. It fails the test if a goroutine
// still runs at the end.
func setUp(t *testing.T, variables map[string]string) (telemetry *Telemetry, logs *syncbuffer.Buffer, err error) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		wait.For(t, "the end of what was started", func() (bool, string) {
			err := goleak.Find(before)
			return err == nil, fmt.Sprint(err)
		})
	})
	for name, value := range variables {
		t.Setenv(name, value)
	}
	logs = new(syncbuffer.Buffer)
	telemetry, err = New(t.Context(), Config{
		Getenv: os.Getenv, Logger: slog.New(slog.NewJSONHandler(logs, nil)), Version: "v1.2.3",
	})
	return telemetry, logs, err
}

// TestOff checks that nothing is set up and nothing runs by default.
func TestOff(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"no variables":       {},
		"empty variables":    {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": " "},
		"no exporter":        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"},
		"disabled":           {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"},
		"disabled loudly":    {"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"},
		"metrics alone":      {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://localhost:4318"},
		"wrong but not read": {"OTEL_TRACES_SAMPLER": "sometimes", "OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon"},
	} {
		t.Run(name, func(t *testing.T) {
			running := goleak.IgnoreCurrent()
			telemetry, logs, err := setUp(t, variables)
			if err != nil {
				t.Fatal(err)
			}
			goleak.VerifyNone(t, running)
			if telemetry.TracerProvider != nil || telemetry.Propagator != nil || logs.String() != "" {
				t.Errorf("tracing is on: %+v, the log is %s", telemetry, logs)
			}
			telemetry.Shutdown()
		})
	}
}

// TestWrongVariables checks that an invalid value is an error that names what is valid, and
// does not quote what may be a secret.
func TestWrongVariables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "s3cr3t"
	for name, test := range map[string]struct{ name, value, want string }{
		"exporter":          {"OTEL_TRACES_EXPORTER", "console", `OTEL_TRACES_EXPORTER is "console"; must be otlp or none`},
		"exporter and none": {"OTEL_TRACES_EXPORTER", "otlp,none", `OTEL_TRACES_EXPORTER is "otlp,none"; must be otlp or none`},
		"propagator": {
			"OTEL_PROPAGATORS", "tracecontext,b3", `OTEL_PROPAGATORS: unknown propagator "b3" (must be tracecontext, baggage`,
		},
		"protocol": {
			"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json", `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"; must be grpc or http/protobuf`,
		},
		"protocol of traces": {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "udp", `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "udp"; must be`},
		"endpoint":           {"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL of a collector"},
		"endpoint of traces": {
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://u:" + secret + "@:%zz", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not the URL",
		},
		"timeout":             {"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "parse duration"},
		"headers":             {"OTEL_EXPORTER_OTLP_HEADERS", "ok=1,authorization:" + secret, "parse headers"},
		"headers' encoding":   {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=%zz" + secret, "escape header value"},
		"certificate missing": {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent.pem", "/nonexistent.pem: no such file"},
		"no certificate":      {"OTEL_EXPORTER_OTLP_CERTIFICATE", file, "cert pool"},
		"sampler":             {"OTEL_TRACES_SAMPLER", "sometimes", "unsupported sampler: sometimes"},
		"ratio":               {"OTEL_TRACES_SAMPLER_ARG", "2", "trace ID ratio"},
		"resource attributes": {"OTEL_RESOURCE_ATTRIBUTES", "deployment.environment", "resource"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			_, _, err := setUp(t, map[string]string{test.name: test.value})
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error does not contain %q: %v", test.want, err)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}

// TestExport checks that the collector has received the spans at the end, and that they describe the service.
func TestExport(t *testing.T) {
	exported := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		exported <- string(body)
	}))
	defer collector.Close()
	telemetry, logs, err := setUp(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL,
		"OTEL_SERVICE_NAME":           "allocator-of-team-a",
		"OTEL_RESOURCE_ATTRIBUTES":    "deployment.environment.name=test%20bed",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, span := telemetry.TracerProvider.Tracer("test").Start(t.Context(), "a stage")
	span.End()
	telemetry.Shutdown()
	select {
	case spans := <-exported:
		for _, want := range []string{"a stage", "allocator-of-team-a", "v1.2.3", "test bed", "host.name"} {
			if !strings.Contains(spans, want) {
				t.Errorf("the spans do not contain %s: %q", want, spans)
			}
		}
	default:
		t.Errorf("no spans were received; the log:\n%s", logs)
	}
}

func TestSampler(t *testing.T) {
	for name, test := range map[string]struct {
		sampler, argument string
		sampled           bool
	}{
		"by default": {"", "", true},
		"all":        {"always_on", "not read", true},
		"none":       {"always_off", "", false},
		"ratio 0":    {"parentbased_traceidratio", "0", false},
		"ratio 1":    {"TraceIDRatio", " 1.0 ", true},
	} {
		t.Run(name, func(t *testing.T) {
			telemetry, _, err := setUp(t, map[string]string{
				"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": test.sampler, "OTEL_TRACES_SAMPLER_ARG": test.argument,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer telemetry.Shutdown()
			_, span := telemetry.TracerProvider.Tracer("test").Start(t.Context(), "a call")
			if span.SpanContext().IsSampled() != test.sampled {
				t.Errorf("sampled is %v; want %v", !test.sampled, test.sampled)
			}
		})
	}
}

func TestPropagators(t *testing.T) {
	for name, test := range map[string]struct {
		value  string
		fields []string
	}{
		"by default":        {"", []string{"baggage", "traceparent", "tracestate"}},
		"the trace alone":   {"tracecontext", []string{"traceparent", "tracestate"}},
		"the two, spaced":   {" baggage , tracecontext", []string{"baggage", "traceparent", "tracestate"}},
		"nothing of others": {"none", nil},
	} {
		t.Run(name, func(t *testing.T) {
			telemetry, _, err := setUp(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_PROPAGATORS": test.value})
			if err != nil {
				t.Fatal(err)
			}
			defer telemetry.Shutdown()
			if got := slices.Sorted(slices.Values(telemetry.Propagator.Fields())); !slices.Equal(got, test.fields) {
				t.Errorf("the metadata read is %q; want %q", got, test.fields)
			}
		})
	}
}

// TestTLS checks that a collector is trusted by the certificate of the variable, and by
// nothing without it, which is not an error before there are spans.
func TestTLS(t *testing.T) {
	for name, trusted := range map[string]bool{"trusted": true, "not trusted": false} {
		t.Run(name, func(t *testing.T) {
			exported := make(chan string, 1)
			collector := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				exported <- r.URL.Path
			}))
			defer collector.Close()
			collector.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
			variables := map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.URL + "/spans"}
			if trusted {
				file := filepath.Join(t.TempDir(), "ca.pem")
				certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw})
				if err := os.WriteFile(file, certificate, 0o600); err != nil {
					t.Fatal(err)
				}
				variables["OTEL_EXPORTER_OTLP_CERTIFICATE"] = file
			}
			telemetry, logs, err := setUp(t, variables)
			if err != nil {
				t.Fatal(err)
			}
			_, span := telemetry.TracerProvider.Tracer("test").Start(t.Context(), "a call")
			span.End()
			telemetry.Shutdown()
			if !trusted {
				if len(exported) > 0 || !strings.Contains(logs.String(), "certificate") {
					t.Errorf("the spans went to a stranger; the log:\n%s", logs)
				}
				return
			}
			select {
			case path := <-exported:
				if path != "/spans" {
					t.Errorf("the spans went to %s", path)
				}
			default:
				t.Errorf("no spans were received; the log:\n%s", logs)
			}
		})
	}
}

// hanging is a collector that accepts spans and does not respond before it is
// released.
type hanging struct {
	collectortrace.UnimplementedTraceServiceServer
	entered, released chan struct{}
}

func (h hanging) Export(
	ctx context.Context, _ *collectortrace.ExportTraceServiceRequest,
) (*collectortrace.ExportTraceServiceResponse, error) {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	select {
	case <-h.released:
		return &collectortrace.ExportTraceServiceResponse{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestHangingCollector checks that spans are dropped, that the end of a span does not
// block, and that Shutdown returns and reports lost spans.
func TestHangingCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	collector, entered, released := grpc.NewServer(), make(chan struct{}, 1), make(chan struct{})
	collectortrace.RegisterTraceServiceServer(collector, hanging{entered: entered, released: released})
	served := make(chan error, 1)
	go func() { served <- collector.Serve(listener) }()
	t.Cleanup(func() {
		collector.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})

	telemetry, logs, err := setUp(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + listener.Addr().String(),
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_BSP_SCHEDULE_DELAY":     "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer close(released) // What Shutdown has left behind ends.
	end := func(n int) {
		for range n {
			_, span := telemetry.TracerProvider.Tracer("test").Start(t.Context(), "a call", trace.WithNewRoot())
			span.End()
		}
	}
	end(1)
	<-entered
	end(10_000) // The queue has 2,048 places: this returns only if further spans are dropped.
	telemetry.Shutdown()
	if !strings.Contains(logs.String(), `"msg":"the last spans may be lost"`) {
		t.Errorf("the log does not mention lost spans:\n%s", logs)
	}
}

// TestErrorsAreBounded checks that a collector that is unavailable for hours does not fill the log.
func TestErrorsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs syncbuffer.Buffer
		handler := occasionally(slog.New(slog.NewJSONHandler(&logs, nil)))
		for range 3 * 60 {
			handler.Handle(errors.New("connection refused"))
			time.Sleep(time.Second)
		}
		if lines := strings.Count(logs.String(), "\n"); lines != 3 || logs.Line(`"error":"connection refused"`, `"lines_left_out":59`) == "" {
			t.Errorf("%d lines; want 3, with the number of omitted lines:\n%s", lines, logs.String())
		}
	})
}

// TestDefaultCollector checks that spans are exported in plain text to the ports of a collector on this machine if no
// endpoint is set, and with TLS if a variable requires it.
func TestDefaultCollector(t *testing.T) {
	for name, test := range map[string]struct {
		port      string
		variables map[string]string
		want      string // the first bytes that the collector receives
	}{
		"HTTP":     {"4318", nil, "POST"},
		"gRPC":     {"4317", map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "PRI "},
		"with TLS": {"4317", map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_INSECURE": "false"}, "\x16\x03\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			collector, err := net.Listen("tcp", "localhost:"+test.port)
			if err != nil {
				t.Skip("the port is in use: ", err)
			}
			defer collector.Close()
			received := make(chan string, 1)
			go func() {
				conn, err := collector.Accept()
				if err != nil {
					return
				}
				first := make([]byte, 4)
				_, _ = io.ReadFull(conn, first)
				received <- string(first)
				conn.Close()
			}()
			variables := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_EXPORTER_OTLP_TIMEOUT": "1000"}
			maps.Copy(variables, test.variables)
			telemetry, _, err := setUp(t, variables)
			if err != nil {
				t.Fatal(err)
			}
			_, span := telemetry.TracerProvider.Tracer("test").Start(t.Context(), "span")
			span.End()
			select {
			case got := <-received:
				if !strings.HasPrefix(got, test.want) {
					t.Errorf("the collector received %q; want %q", got, test.want)
				}
			case <-time.After(wait.Timeout):
				t.Error("no connection")
			}
			telemetry.Shutdown()
		})
	}
}

package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/elastalloc/elastalloc/internal/testing/wait"
	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// testMethod is the method of a service that is unknown to the server.
const testMethod = "/test.Service/Echo"

// echo is an implementation of testMethod.
type echo func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error)

// respond returns the request.
func respond(_ context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	return in, nil
}

// testService returns a service description like those of protoc-gen-go-grpc.
func testService() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Service",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Echo",
			Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				in := new(wrapperspb.StringValue)
				if err := dec(in); err != nil {
					return nil, err
				}
				if interceptor == nil {
					return srv.(echo)(ctx, in)
				}
				info := &grpc.UnaryServerInfo{Server: srv, FullMethod: testMethod}
				return interceptor(ctx, in, info, func(ctx context.Context, request any) (any, error) {
					return srv.(echo)(ctx, request.(*wrapperspb.StringValue))
				})
			},
		}},
	}
}

// startEcho starts a traced server that also serves testMethod.
func startEcho(t *testing.T, method echo, change func(*Config)) (*harness, *collected) {
	t.Helper()
	spans := &collected{ended: make(chan struct{}, 1000)}
	return startWith(t, func(c *Config) {
		c.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		if change != nil {
			change(c)
		}
	}, func(s *Server) { s.grpc.RegisterService(s.ingress.Service(testService(), nil), method) }), spans
}

// rawCodec sends bytes unchanged.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

// openCall starts a call without sending a request.
func (h *harness) openCall(ctx context.Context, t *testing.T) grpc.ClientStream {
	t.Helper()
	stream, err := h.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, testMethod)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestEveryMethodIsCounted checks that every method has a row in methods. A method without a row would
// reserve no memory.
func TestEveryMethodIsCounted(t *testing.T) {
	t.Parallel()
	rows := methods(1)
	for _, method := range elastallocv1.AllocatorService_ServiceDesc.Methods {
		if rows[method.MethodName].Memory == nil {
			t.Errorf("methods has no row, or no need of memory, for %s", method.MethodName)
		}
	}
	if len(rows) != len(elastallocv1.AllocatorService_ServiceDesc.Methods) {
		t.Error("methods has a row without a method")
	}
}

// TestPath checks that a call of an unknown method is handled like any other call, with success and
// with each error: it is counted, logged, traced and shown on the status page, with an id that the
// caller receives, and rejected with errors of the API.
func TestPath(t *testing.T) {
	t.Parallel()
	hello := wrapperspb.String("hello")
	encoded, err := proto.Marshal(hello)
	if err != nil {
		t.Fatal(err)
	}
	send := func(message []byte) func(context.Context, *testing.T, *harness, ...grpc.CallOption) error {
		return func(ctx context.Context, _ *testing.T, h *harness, options ...grpc.CallOption) error {
			return h.conn.Invoke(ctx, testMethod, message, nil, append(options, grpc.ForceCodecV2(rawCodec{}))...)
		}
	}
	fail := func(err error) echo {
		return func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error) { return nil, err }
	}
	const limit = 1 << 20
	running := make(chan struct{}, 1)
	for name, test := range map[string]pathTest{
		"success": {code: codes.OK, level: "INFO"},
		"malformed": {
			call: send([]byte{0xff, 0xff, 0xff}), code: codes.InvalidArgument, message: "parse StringValue: proto:", level: "INFO",
		},
		"too large": {
			call: send(make([]byte, limit+1)), code: codes.ResourceExhausted, message: "larger than max", level: "WARN",
		},
		"received too slowly": {
			change: func(c *Config) { c.receiveTimeout = time.Millisecond },
			call: func(ctx context.Context, t *testing.T, h *harness, _ ...grpc.CallOption) error {
				t.Helper()
				return h.openCall(ctx, t).RecvMsg(new(wrapperspb.StringValue))
			},
			code: codes.Canceled, message: "the request did not arrive in time", level: "INFO",
		},
		"shed": {
			method: func(ctx context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
				running <- struct{}{}
				<-ctx.Done()
				return in, nil
			},
			change: func(c *Config) { c.MaxInflight, c.MaxQueue = 1, 0 },
			prepare: func(t *testing.T, h *harness) {
				t.Helper()
				go func() { _ = h.conn.Invoke(t.Context(), testMethod, hello, new(wrapperspb.StringValue)) }()
				<-running
			},
			code: codes.ResourceExhausted, message: "too many requests in flight; retry later", level: "WARN", retry: "100 to 300",
		},
		"draining": {
			prepare: func(_ *testing.T, h *harness) { h.ingress.Drain() },
			code:    codes.Unavailable, message: "server is draining; retry on another one", level: "WARN",
		},
		"panic": {
			method: func(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error) { panic("secret") },
			code:   codes.Internal, message: "internal error; request id ", level: "ERROR", logged: "panic: secret\\n",
		},
		"bug": {
			method: fail(errors.New("secret")), code: codes.Internal, message: "internal error; request id ", level: "ERROR", logged: "secret",
		},
		"bad fields": {
			method: fail(&solver.InvalidError{Violations: []solver.Violation{{Path: "a.b[1]", Description: "is secret"}, {Path: "c"}}}),
			code:   codes.InvalidArgument, message: "invalid request: a.b[1]: is secret", level: "INFO", logged: "bad fields: a.b[1], c",
		},
		"out of time": {
			method: fail(solver.ErrTimedOut), code: codes.DeadlineExceeded, message: "no backend had an allocation in time", level: "WARN",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.method == nil {
				test.method = respond
			}
			h, spans := startEcho(t, test.method, func(c *Config) {
				c.maxMessageBytes = limit
				if test.change != nil {
					test.change(c)
				}
			})
			if test.prepare != nil {
				test.prepare(t, h)
			}
			if test.call == nil {
				test.call = send(encoded)
			}
			if test.logged == "" {
				test.logged = test.message
			}
			test.checkCaller(t, h, name != "received too slowly")
			h.await(t, `grpc_server_handled_total{grpc_code="`+test.code.String()+
				`",grpc_method="Echo",grpc_service="test.Service",grpc_type="unary"}`, "1") // The first interceptor counts.
			line := test.checkLog(t, h)
			if name == "success" && !strings.Contains(line, fmt.Sprintf(`"request_bytes":%d`, len(encoded))) {
				t.Errorf("the log has no size of the request: %s", line)
			}
			if name == "bad fields" && strings.Contains(h.logs.String(), "secret") {
				t.Errorf("the log quotes the request:\n%s", h.logs)
			}
			test.checkStatusPage(t, h)
			test.checkTrace(t, spans)
		})
	}
}

// pathTest is a call of an unknown method, and how its end is reported.
type pathTest struct {
	method  echo
	change  func(*Config)
	prepare func(*testing.T, *harness)
	call    func(context.Context, *testing.T, *harness, ...grpc.CallOption) error
	code    codes.Code
	message string
	level   string
	logged  string // the logged error; "" means the message
	retry   string // the retry pushback
}

// pathID is the id of the call, which the caller chose.
const pathID = "request-7"

// checkCaller makes the call and checks what the caller receives; with metadata if it is not canceled.
func (test *pathTest) checkCaller(t *testing.T, h *harness, withMetadata bool) {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", pathID)
	var header, trailer metadata.MD
	err := test.call(ctx, t, h, grpc.Header(&header), grpc.Trailer(&trailer))
	if s := status.Convert(err); s.Code() != test.code || !strings.Contains(s.Message(), test.message) {
		t.Errorf("the caller sees %v; want %v: %s", err, test.code, test.message)
	}
	if withMetadata {
		if got := trailer.Get("x-request-id"); !slices.Equal(got, []string{pathID}) {
			t.Errorf("the request id returns as %v", got)
		}
		if len(header) > 0 != (test.code == codes.OK) {
			t.Errorf("the header is %v", header)
		}
	}
	checkPushback(t, trailer, test.retry)
}

// checkLog checks the line of the call in the log, and returns it.
func (test *pathTest) checkLog(t *testing.T, h *harness) string {
	t.Helper()
	line := h.logs.Line(`"msg":"call"`, `"method":"Echo"`, `"code":"`+test.code.String()+`"`, `"request_id":"`+pathID+`"`)
	if !strings.Contains(line, `"level":"`+test.level+`"`) || !strings.Contains(line, test.logged) {
		t.Errorf("the log does not contain %s, %q:\n%s", test.level, test.logged, h.logs)
	}
	return line
}

// checkStatusPage checks that the status page shows the call, and no cause or value.
func (test *pathTest) checkStatusPage(t *testing.T, h *harness) {
	t.Helper()
	_, page := h.get(t, "/")
	if test.code == codes.OK {
		checkPage(t, page, "Last failed calls", "None since the start.", "Last responses", ">Echo</td>")
	} else {
		checkPage(t, page, "Last failed calls", ">Echo</td>", ">"+test.code.String()+"<", pathID, "Last responses", "None since the start.")
	}
	if strings.Contains(page, "secret") {
		t.Error("the status page shows a cause or a value")
	}
}

// checkTrace checks the span of the call and the spans of its stages.
func (test *pathTest) checkTrace(t *testing.T, spans *collected) {
	t.Helper()
	call, stages := spans.next()
	if call.Name() != "test.Service/Echo" || !hasAttribute(call, tracing.RequestID.String(pathID)) {
		t.Errorf("the span is %q with %v", call.Name(), call.Attributes())
	}
	if got := names(stages); test.code == codes.OK && fmt.Sprint(got) != "[receive request await slot]" {
		t.Errorf("stages are %q", got)
	}
}

// hasAttribute reports whether a span has an attribute.
func hasAttribute(span sdktrace.ReadOnlySpan, want attribute.KeyValue) bool {
	return slices.Contains(span.Attributes(), want)
}

// checkPushback checks the retry pushback in the trailers of a call.
func checkPushback(t *testing.T, trailer metadata.MD, want string) {
	t.Helper()
	got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ",")
	if milliseconds, err := strconv.Atoi(got); want == "100 to 300" && err == nil && milliseconds >= 100 && milliseconds < 300 {
		return
	}
	if got != want {
		t.Errorf("the pushback is %q; want %q", got, want)
	}
}

// TestCallsWithoutOneRequest checks that a call with no request or with two requests is an error of the
// caller.
func TestCallsWithoutOneRequest(t *testing.T) {
	t.Parallel()
	h, _ := startEcho(t, respond, nil)
	for name, messages := range map[string]int{"no message": 0, "two messages": 2} {
		stream := h.openCall(t.Context(), t)
		for range messages {
			if err := stream.SendMsg(wrapperspb.String("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		// The code is chosen by gRPC.
		if err := stream.RecvMsg(new(wrapperspb.StringValue)); err == nil {
			t.Errorf("%s: the call succeeds", name)
		}
	}
	wait.Until(t, "both are logged", func() bool { return strings.Count(h.logs.String(), `"code":"InvalidArgument"`) == 2 })
	if h.logs.Line(`"level":"ERROR"`) != "" {
		t.Errorf("an error of the caller is logged as an error of the server:\n%s", h.logs)
	}
}

// TestCompressedRequestsAreRejected checks that compressed requests are rejected for any service, as an
// error of the caller, and not decompressed.
func TestCompressedRequestsAreRejected(t *testing.T) {
	t.Parallel()
	h, _ := startEcho(t, respond, nil)
	err := h.conn.Invoke(t.Context(), testMethod, wrapperspb.String("x"), new(wrapperspb.StringValue), grpc.UseCompressor(gzip.Name))
	_, ofHealth := grpc_health_v1.NewHealthClient(h.conn).Check(t.Context(),
		&grpc_health_v1.HealthCheckRequest{Service: "x"}, grpc.UseCompressor(gzip.Name))
	for _, err := range []error{err, ofHealth} {
		if !strings.Contains(status.Convert(err).Message(), "this server accepts no compressed requests") {
			t.Errorf("error is %v", err)
		}
	}
	wait.Until(t, "the call is logged", func() bool {
		return h.logs.Line(`"level":"INFO"`, `"code":"InvalidArgument"`, "no compressed requests") != ""
	})
}

// TestIncompleteCallsAreLimited checks that the number of calls without a request is limited, and that
// the server rejects those calls and not others.
func TestIncompleteCallsAreLimited(t *testing.T) {
	t.Parallel()
	h, _ := startEcho(t, respond, func(c *Config) { c.maxReceiving, c.receiveTimeout = 2, time.Hour })
	started := `grpc_server_started_total{grpc_method="Echo",grpc_service="test.Service",grpc_type="unary"}`
	first := h.openCall(t.Context(), t)
	h.await(t, started, "1")
	second := h.openCall(t.Context(), t)
	h.await(t, started, "2")
	third := h.openCall(t.Context(), t)
	if err := first.RecvMsg(new(wrapperspb.StringValue)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the error of the first call is %v", err)
	}
	h.await(t, "elastalloc_shed_total", "1")
	// A late request is processed.
	for _, late := range []grpc.ClientStream{third, second} {
		if err := late.SendMsg(wrapperspb.String("x")); err != nil {
			t.Fatal(err)
		}
		if err := late.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := late.RecvMsg(new(wrapperspb.StringValue)); err != nil {
			t.Errorf("the error of a late request is %v", err)
		}
	}
}

// TestNoRetryAfterDeadline checks that a call has no retry delay beyond its deadline, so that the
// client sees the overload immediately.
func TestNoRetryAfterDeadline(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	h, _ := startEcho(t, func(ctx context.Context, in *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		running <- struct{}{}
		<-ctx.Done()
		return in, nil
	}, func(c *Config) { c.MaxInflight, c.MaxQueue = 1, 10 })
	go func() {
		_ = h.conn.Invoke(t.Context(), testMethod, wrapperspb.String("x"), new(wrapperspb.StringValue))
	}()
	<-running
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		// It waits for half of its time. The remaining time is too short for a retry.
		ctx, cancel := context.WithTimeout(t.Context(), 190*time.Millisecond)
		var trailer metadata.MD
		err := h.conn.Invoke(ctx, testMethod, wrapperspb.String("x"), new(wrapperspb.StringValue), grpc.Trailer(&trailer))
		cancel()
		if status.Code(err) == codes.DeadlineExceeded {
			continue // The machine is busy.
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Errorf("error is %v", err)
		}
		checkPushback(t, trailer, "-1")
		return
	}
	t.Error("no call was rejected in time")
}

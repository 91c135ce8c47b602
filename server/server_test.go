package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// mask removes the times of a response, because they differ between calls.
func mask(response *elastallocv1.AllocateResponse) *elastallocv1.AllocateResponse {
	response.GetReport().SolveTime = nil
	for _, attempt := range response.GetReport().GetAttempts() {
		attempt.Duration = nil
	}
	return response
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	got, err := h.client.Allocate(t.Context(), smallRequest())
	if err != nil {
		t.Fatal(err)
	}
	running, queued := got.GetAllocations()[0], got.GetAllocations()[1]
	if running.GetChange() != elastallocv1.Change_CHANGE_SCALE_DOWN || running.GetNodes() != 1 ||
		queued.GetChange() != elastallocv1.Change_CHANGE_START || queued.GetNodes() != 1 {
		t.Errorf("allocations are %v", got.GetAllocations())
	}
	if diff := cmp.Diff([]int32{1, 1, 1, 1, 1}, running.GetPlannedNodes()); diff != "" {
		t.Errorf("wrong plan (-want +got):\n%s", diff)
	}
	if got.GetSnapshotId() != "small" || got.GetReport().GetIdleNodes() != 6 ||
		got.GetReport().GetBackend() != elastallocv1.Backend_BACKEND_EXACT || got.GetReport().GetObjective() <= 0 {
		t.Errorf("response is %v", got)
	}

	again, err := h.client.Allocate(t.Context(), smallRequest())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mask(got), mask(again), protocmp.Transform()); diff != "" {
		t.Errorf("responses to the same request differ:\n%s", diff)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	tests := map[string]struct {
		sent string
		kept bool
	}{
		"accepted":    {"caller-4711", true},
		"none":        {"", false},
		"too long":    {strings.Repeat("x", 129), false},
		"with spaces": {"two words", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, r := range []*elastallocv1.AllocateRequest{smallRequest(), {}} { // A success and an error.
				ctx := t.Context()
				if test.sent != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "x-request-id", test.sent)
				}
				var header, trailer metadata.MD
				_, err := h.client.Allocate(ctx, r, grpc.Header(&header), grpc.Trailer(&trailer))
				echoed := header.Get("x-request-id")
				if err != nil {
					echoed = trailer.Get("x-request-id")
				}
				if len(echoed) != 1 || echoed[0] == "" || (echoed[0] == test.sent) != test.kept {
					t.Fatalf("%q is echoed as %q", test.sent, echoed)
				}
				if h.logs.Line(`"request_id":"`+echoed[0]+`"`, `"code"`) == "" {
					t.Errorf("no log line has request id %s:\n%s", echoed[0], h.logs)
				}
			}
		})
	}
}

// TestErrorsCanBeRetried checks that an error has no header, because gRPC does not retry a call after a header.
func TestErrorsCanBeRetried(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	h.ingress.Drain()
	var header metadata.MD
	_, err := h.client.Allocate(t.Context(), smallRequest(), grpc.Header(&header))
	if status.Code(err) != codes.Unavailable || len(header) > 0 {
		t.Errorf("error is %v, header is %v; want UNAVAILABLE and none", err, header)
	}
}

func TestBadFieldsOverGRPC(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	r := smallRequest()
	r.Snapshot.TotalNodes = -1
	r.Snapshot.Jobs[1].MaxNodes = proto.Int32(0)
	_, err := h.client.Allocate(t.Context(), r)
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument {
		t.Fatalf("error is %v", err)
	}
	var fields []string
	for _, field := range badRequest(t, s).GetFieldViolations() {
		fields = append(fields, field.GetField())
		if !strings.Contains(s.Message(), field.GetField()) {
			t.Errorf("message %q does not name %s", s.Message(), field.GetField())
		}
	}
	if diff := cmp.Diff([]string{"snapshot.total_nodes", "snapshot.jobs[1].max_nodes"}, fields); diff != "" {
		t.Errorf("wrong fields (-want +got):\n%s", diff)
	}
}

func TestBugBecomesInternal(t *testing.T) {
	t.Parallel()
	broken := func(context.Context, *problem.Problem) (problem.Result, error) {
		return problem.Result{}, errors.New("secret of the house")
	}
	config := fakeChainConfig(broken)
	config.Greedy = fakeBackend{name: solver.BackendGreedy, solve: broken}
	h := start(t, func(c *Config) { c.Allocator = decider{chain: chain.New(config)} })

	for _, name := range []string{"error", "panic"} {
		r := smallRequest()
		r.Snapshot.Id = name
		var err error
		if name == "error" {
			_, err = h.client.Allocate(t.Context(), r)
		} else {
			_, err = h.client.FillIdle(t.Context(), &elastallocv1.FillIdleRequest{Snapshot: r.Snapshot})
		}
		if s := status.Convert(err); s.Code() != codes.Internal || strings.Contains(s.Message(), "secret") ||
			!strings.HasPrefix(s.Message(), "internal error; request id ") {
			t.Errorf("%s: error is %v", name, err)
		}
		line := h.logs.Line(`"level":"ERROR"`, `"snapshot_id":"`+name+`"`, "secret of the house")
		if line == "" {
			t.Errorf("%s: the cause is not logged:\n%s", name, h.logs)
		}
		if name == "panic" && !strings.Contains(line, "server.decider.FillIdle") {
			t.Errorf("the stack is not logged: %s", line)
		}
	}
	// The server continues. It rejects an invalid request, which reaches no backend.
	if _, err := h.client.Allocate(t.Context(), nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("after a panic the error is %v", err)
	}
}

func TestNoReflection(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.NoReflection = true })
	stream, err := grpc_reflection_v1.NewServerReflectionClient(h.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("the error of disabled reflection is %v", err)
	}
}

func TestReflection(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(h.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, service := range response.GetListServicesResponse().GetService() {
		services = append(services, service.GetName())
	}
	want := []string{"elastalloc.v1.AllocatorService", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"}
	if diff := cmp.Diff(want, services); diff != "" {
		t.Errorf("wrong services (-want +got):\n%s", diff)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("stream ends with %v", err)
	}
}

// badRequest returns the BadRequest among the details of a status.
func badRequest(t *testing.T, s *status.Status) *errdetails.BadRequest {
	t.Helper()
	for _, detail := range s.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			return bad
		}
	}
	t.Fatalf("status %v has no BadRequest", s)
	return nil
}

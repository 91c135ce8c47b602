package ingress

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// observed records the last event.
type observed struct{ event *Event }

// Observe records an event.
func (o *observed) Observe(_ context.Context, event *Event) { o.event = event }

// arrives receives an empty request.
func arrives(any) error { return nil }

// TestOrder checks the order of the stages.
func TestOrder(t *testing.T) {
	t.Parallel()
	var names []string
	for _, run := range New(Config{}).stages() {
		name := runtime.FuncForPC(reflect.ValueOf(run).Pointer()).Name()
		names = append(names, strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm"))
	}
	// A call gets its id first, so that its event has it. All later stages may reject it or panic, and are observed. A
	// draining server does not wait for requests. A slot is free while a request arrives and its response is encoded.
	want := []string{"identify", "observe", "recoverPanic", "refuseWhileDraining", "receive", "respond", "awaitSlot"}
	if !slices.Equal(names, want) {
		t.Errorf("the stages are %q; want %q", names, want)
	}
}

// TestEveryStageIsObserved checks that the observers get an event with the id of the call if any stage rejects the
// call or panics. Metrics are before all stages, because the handlers of Service run the interceptors first.
func TestEveryStageIsObserved(t *testing.T) {
	t.Parallel()
	const outer = 3 // outer stages, which reject nothing
	refuse := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		return nil, errors.New("no")
	}
	fall := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) { panic("no") }
	for i := outer; i < len(New(Config{}).stages()); i++ {
		for name, replacement := range map[string]grpc.UnaryServerInterceptor{"refuses": refuse, "panics": fall} {
			var o observed
			in := New(Config{MaxInflight: 1, MaxReceiving: 1, MaxMemory: 1 << 20, ReceiveTimeout: 1e9, MaxSlotTime: 1e9, Observers: []Observer{&o}})
			stages := in.stages()
			stages[i] = replacement
			c := &call{receive: arrives}
			_, err := chain(stages, nil, func(context.Context, any) (any, error) { return nil, nil })(t.Context(), c)
			if err == nil || o.event == nil || o.event.RequestID == "" || o.event.Code() != codes.Internal {
				t.Errorf("stage %d %s: error %v, event %+v", i, name, err, o.event)
			}
		}
	}
}

// TestResetBeforeStart checks that a call that was reset before its handler runs only reaches the interceptors,
// which count it.
func TestResetBeforeStart(t *testing.T) {
	t.Parallel()
	var o observed
	in := New(Config{MaxInflight: 1, MaxReceiving: 1, MaxMemory: 1 << 20, Observers: []Observer{&o}})
	service := in.Service(&grpc.ServiceDesc{ServiceName: "S", Methods: []grpc.MethodDesc{{
		MethodName: "M",
		Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			t.Error("the method runs")
			return nil, nil
		},
	}}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	counted := ""
	_, err := service.Methods[0].Handler(nil, ctx, nil,
		func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			counted = info.FullMethod
			return next(ctx, request)
		})
	if status.Code(err) != codes.Canceled || counted != "/S/M" || o.event != nil {
		t.Errorf("the error is %v; counted as %q, observed as %+v", err, counted, o.event)
	}
}

package ingress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// observed records the last event.
type observed struct{ event *Event }

// Observe records an event.
func (o *observed) Observe(_ context.Context, event *Event) { o.event = event }

// message is the stream of a call whose request has a length.
type message struct {
	length int
	read   bool
}

// ReadMessageHeader reads the length, and then the end.
func (m *message) ReadMessageHeader(header []byte) error {
	if m.read {
		return io.EOF
	}
	m.read = true
	binary.BigEndian.PutUint32(header[1:], uint32(m.length))
	return nil
}

// Read reads zeros.
func (*message) Read(n int) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(make([]byte, n))}, nil
}

// TestOrder checks the order of the stages. If any stage rejects a call or panics, the observers get an event with
// the id of the call. Metrics are before all stages, because the handlers of Service run the interceptors first.
func TestOrder(t *testing.T) {
	t.Parallel()
	const outer = 3 // outer stages, which reject nothing
	refuse := func(context.Context, *call, handler) (any, error) { return nil, errors.New("no") }
	fall := func(context.Context, *call, handler) (any, error) { panic("no") }
	for i := outer; i < len(New(Config{}).stages()); i++ {
		for name, replacement := range map[string]stage{"refuses": refuse, "panics": fall} {
			var o observed
			in := New(Config{MaxInflight: 1, MaxReceiving: 1, MaxMemory: 1 << 20, ReceiveTimeout: 1e9, MaxSlotTime: 1e9, Observers: []Observer{&o}})
			stages := in.stages()
			stages[i] = replacement
			c := &call{stream: &message{}}
			_, err := chain(stages, func(context.Context, *call) (any, error) { return nil, nil })(t.Context(), c)
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
	_, err := service.Methods[0].Handler(nil, ctx, nil, func(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		counted = info.FullMethod
		return next(ctx, request)
	})
	if status.Code(err) != codes.Canceled || counted != "/S/M" || o.event != nil {
		t.Errorf("the error is %v; counted as %q, observed as %+v", err, counted, o.event)
	}
}

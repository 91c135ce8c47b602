// Package ingress is the path that every unary call takes to its method: it gets an
// id, is observed, refused while the server drains, received within limits, waits for
// its turn and is decoded. No method is named here: a service that is described by
// Service has all of this.
package ingress

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/elastalloc/elastalloc/internal/tracing"
)

// Config limits the calls of a server.
type Config struct {
	// MaxInflight is the maximum number of calls whose methods run at once.
	MaxInflight int
	// MaxQueue is the maximum number of calls that wait for their turn.
	MaxQueue int
	// MaxReceiving is the maximum number of calls whose requests are arriving.
	MaxReceiving int
	// ReceiveTimeout is how long a request may take to arrive.
	ReceiveTimeout time.Duration
	// Observers are told of every call when it ends, in this order.
	Observers []Observer
}

// Ingress is the path of the calls of one server. It is safe for concurrent use.
type Ingress struct {
	config    Config
	receiving receiving
	turns     turns
	draining  atomic.Bool
	shed      atomic.Int64
}

// New returns the path that a configuration describes.
func New(config Config) *Ingress {
	return &Ingress{
		config:    config,
		receiving: receiving{limit: config.MaxReceiving},
		turns:     newTurns(config.MaxInflight, config.MaxQueue),
	}
}

// Drain makes all calls from now on fail with UNAVAILABLE; those that have been let in
// go on.
func (in *Ingress) Drain() { in.draining.Store(true) }

// Load is how busy a server is.
type Load struct {
	// Inflight is the number of calls whose methods run, and MaxInflight its limit.
	Inflight, MaxInflight int
	// Queued is the number of calls that wait for their turn, and MaxQueue its limit.
	Queued, MaxQueue int
	// Shed is the number of calls turned away since the start.
	Shed int64
}

// Load returns how busy the server is now.
func (in *Ingress) Load() Load {
	return Load{
		Inflight: len(in.turns.taken), MaxInflight: cap(in.turns.taken),
		Queued: in.turns.queued(), MaxQueue: in.turns.maxQueue,
		Shed: in.shed.Load(),
	}
}

// ServerOptions make a gRPC server hand over requests as they arrived, which the methods
// described by Service need, and refuse compressed ones.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(newCodec()), refuseCompression()}
}

// Service returns a service description whose unary methods take the path. gRPC's
// generated handlers receive and decode a request before they run the interceptors; here
// the interceptors run first, so that they see every call, also one whose request is too
// large, malformed or never arrives.
func (in *Ingress) Service(service *grpc.ServiceDesc) *grpc.ServiceDesc {
	wrapped := *service
	wrapped.Methods = slices.Clone(service.Methods)
	for i := range wrapped.Methods {
		wrapped.Methods[i].Handler = in.handler(service.ServiceName, service.Methods[i])
	}
	return &wrapped
}

// handler returns the handler of a method: the interceptors, the stages, and at the end
// the generated handler, which decodes what was received and calls the method.
func (in *Ingress) handler(service string, method grpc.MethodDesc) grpc.MethodHandler {
	stages := in.stages()
	return func(server any, ctx context.Context, receive func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		c := &call{receive: receive, event: Event{Method: method.MethodName}}
		run := join(stages, c, func(ctx context.Context) (any, error) { return method.Handler(server, ctx, c.decode, nil) })
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: "/" + service + "/" + method.MethodName}
		return intercept(ctx, nil, info, func(ctx context.Context, _ any) (any, error) { return run(ctx) })
	}
}

// call is a call on its way.
type call struct {
	receive func(any) error
	message frame
	event   Event
}

// stage is a part of the path. It calls next, or refuses the call.
type stage struct {
	name string
	run  func(ctx context.Context, c *call, next func(context.Context) (any, error)) (any, error)
}

// join returns what runs the stages, outermost first, and at the end last.
func join(stages []stage, c *call, last func(context.Context) (any, error)) func(context.Context) (any, error) {
	for _, s := range slices.Backward(stages) {
		next := last
		last = func(ctx context.Context) (any, error) { return s.run(ctx, c, next) }
	}
	return last
}

// stages are the path, outermost first. What refuses a call comes after what observes it.
func (in *Ingress) stages() []stage {
	return []stage{
		{"identify", identify},
		{"observe", in.observe},
		{"recover", recoverPanic},
		{"drain", in.refuseWhileDraining},
		{"receive", in.receive},
		{"turn", in.awaitTurn},
	}
}

// recoverPanic makes an error of a panic.
func recoverPanic(ctx context.Context, _ *call, next func(context.Context) (any, error)) (_ any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return next(ctx)
}

// refuseWhileDraining refuses calls over connections that are still open.
func (in *Ingress) refuseWhileDraining(ctx context.Context, _ *call, next func(context.Context) (any, error)) (any, error) {
	if in.draining.Load() {
		return nil, errDraining
	}
	return next(ctx)
}

// receive waits for the request.
func (in *Ingress) receive(ctx context.Context, c *call, next func(context.Context) (any, error)) (any, error) {
	_, span := tracing.Start(ctx, tracing.StageReceive)
	err := in.receiving.receive(c, in.config.ReceiveTimeout)
	c.event.Received = time.Since(c.event.Began)
	span.End()
	if err != nil {
		return nil, err
	}
	c.event.RequestBytes = c.message.data.Len()
	defer c.message.free()
	return next(ctx)
}

// awaitTurn waits until the method may run.
func (in *Ingress) awaitTurn(ctx context.Context, c *call, next func(context.Context) (any, error)) (any, error) {
	_, span := tracing.Start(ctx, tracing.StageTurn)
	began := time.Now()
	err := in.turns.take(ctx)
	c.event.Waited = time.Since(began)
	if err != nil {
		tracing.Fail(span, err.Error())
		span.End()
		return nil, err
	}
	span.End()
	defer in.turns.release()
	return next(ctx)
}

// Package ingress processes unary calls before and after their methods, as a list of interceptors (stages). They
// assign request ids, report calls to observers, reject calls while the server drains, receive requests within
// limits, encode responses and wait for a slot. The package is independent of the methods of a service.
//
// These parts of the queue protect an honest caller in TestOverload of cmd/elastalloc/faults. Without one of them, no
// honest call fails, but greedy decides more of its 20 calls instead of a search. With all parts, greedy decides at
// most 2 of them in these cases.
//
//	part                                     attack                                      calls decided by greedy
//	connections alternate (compareShares)    many small calls, budgets of an hour        5 to 7
//	searches are interrupted (interruptFor)  budgets of an hour, over TLS                18
//	slots of their own for analyses          explanations, forecasts and audits          6 to 10
//
// No attack of TestOverload needs the order of callers, small calls before large ones, slots of their own for large
// short calls, and the rejection of the largest queue. TestSlotsAreFair, TestSmallWorkDoesNotWaitForLarge and
// TestTooManyWait check them.
package ingress

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/solver"
)

// Config limits the calls of a server.
type Config struct {
	// MaxInflight is the number of slots of each class of work, MaxQueue the maximum number of calls
	// that wait for a slot, and MaxReceiving the maximum number of requests that are being received.
	MaxInflight, MaxQueue, MaxReceiving int
	// MaxSlotTime is the time after which a call has to stop its search.
	MaxSlotTime time.Duration
	// ReceiveTimeout is the maximum time to receive a request, and ReadTimeout the maximum time
	// until the caller has read the response.
	ReceiveTimeout, ReadTimeout time.Duration
	// MaxMemory is the maximum memory of all calls, in bytes.
	MaxMemory int
	// Observers observe every completed call, in this order.
	Observers []Observer
}

// Ingress processes the calls of one server. It is safe for concurrent use.
type Ingress struct {
	config   Config
	memory   *guard.Memory
	receiver *guard.Receiver
	slots    *slots
	draining atomic.Bool
	rejected atomic.Int64
}

// New returns an Ingress with a configuration.
func New(config Config) *Ingress {
	in := &Ingress{
		config: config,
		memory: guard.NewMemory(config.MaxMemory),
		slots:  newSlots(config.MaxInflight, config.MaxQueue),
	}
	in.memory.OnFreed = in.slots.onMemoryFreed
	in.receiver = &guard.Receiver{
		Memory: in.memory, MaxCalls: config.MaxReceiving, Timeout: config.ReceiveTimeout,
		Reclaim: in.slots.reclaimAll,
	}
	return in
}

// Receiver returns the receiver of requests, for the connections and the other services of the server.
func (in *Ingress) Receiver() *guard.Receiver { return in.receiver }

// Drain rejects all new calls with UNAVAILABLE.
func (in *Ingress) Drain() { in.draining.Store(true) }

// Load is the load of a server: the calls in a slot, the calls that wait for a slot, and the memory of
// all calls in bytes, each with its limit.
type Load struct {
	Inflight, MaxInflight int
	Queued, MaxQueue      int
	Memory, MaxMemory     int
	// Rejected is the number of calls rejected for load since the start.
	Rejected int64
}

// Load returns the current load.
func (in *Ingress) Load() Load {
	used, limit := in.memory.Usage()
	return Load{
		Inflight: in.slots.inflight(), MaxInflight: in.config.MaxInflight,
		Queued: int(in.slots.waiting.Load()), MaxQueue: in.config.MaxQueue,
		Memory: used, MaxMemory: limit,
		Rejected: in.rejected.Load(),
	}
}

// Method describes a method.
type Method struct {
	Work Work
	// Memory estimates the memory of a call. If it is nil, a call needs memory only for its messages.
	Memory *guard.Estimator
}

// PerCall is a service that needs the slot of each call and reports the outcome.
type PerCall interface {
	// ForCall returns a service for one call, and the outcome, which the service writes until its
	// method returns.
	ForCall(Slot) (service any, outcome *Outcome)
}

// Service returns a service description whose unary methods are called through in. methods describes
// them by name. Unlike in gRPC's generated handlers, the interceptors run first. So they observe every
// call, including calls whose requests never arrive.
func (in *Ingress) Service(service *grpc.ServiceDesc, methods map[string]Method) *grpc.ServiceDesc {
	wrapped := *service
	wrapped.Methods = slices.Clone(service.Methods)
	for i, method := range service.Methods {
		wrapped.Methods[i].Handler = in.handler(service.ServiceName, method, methods[method.MethodName])
	}
	return &wrapped
}

// handler returns a handler that runs the interceptors, the stages and the generated handler, which
// decodes the request and calls the method.
func (in *Ingress) handler(service string, method grpc.MethodDesc, properties Method) grpc.MethodHandler {
	name := "/" + service + "/" + method.MethodName
	return func(server any, ctx context.Context, receive func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: name}
		if errors.Is(ctx.Err(), context.Canceled) {
			// The caller reset the call before it began, as floods of calls do. It is only counted.
			// Otherwise calls of closed connections would accumulate.
			guard.Canceled(ctx)
			return intercept(ctx, nil, info, func(ctx context.Context, _ any) (any, error) {
				return nil, status.FromContextError(ctx.Err()).Err()
			})
		}
		c := &call{method: properties, receive: receive, event: Event{Method: method.MethodName}}
		defer func() {
			if c.memory != nil {
				c.memory.Release()
			}
		}()
		return intercept(ctx, c, info, chain(in.stages(), info, func(ctx context.Context, _ any) (any, error) {
			if service, ok := server.(PerCall); ok {
				perCall, outcome := service.ForCall(c.slot)
				defer func() { c.event.Outcome = *outcome }()
				return method.Handler(perCall, ctx, c.decode, nil)
			}
			return method.Handler(server, ctx, c.decode, nil)
		}))
	}
}

// call is the state of a call. It is the request of the interceptors, because they run before the request has
// arrived.
type call struct {
	method  Method
	receive func(any) error    // receives the request
	memory  *guard.Reservation // nil until the request has arrived, and after the response took it over
	message []byte             // the encoded request
	slot    Slot               // zero until it is granted
	event   Event
}

// chain returns a handler that runs stages, outermost first, and then last.
func chain(stages []grpc.UnaryServerInterceptor, info *grpc.UnaryServerInfo, last grpc.UnaryHandler) grpc.UnaryHandler {
	for _, run := range slices.Backward(stages) {
		next := last
		last = func(ctx context.Context, request any) (any, error) { return run(ctx, request, info, next) }
	}
	return last
}

// stages returns the stages, outermost first. Their request is a *call.
func (in *Ingress) stages() []grpc.UnaryServerInterceptor {
	return []grpc.UnaryServerInterceptor{identify, in.observe, recoverPanic, in.refuseWhileDraining, in.receive, in.respond, in.awaitSlot}
}

// recoverPanic converts a panic to an error.
func recoverPanic(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return next(ctx, request)
}

// refuseWhileDraining rejects calls while the server drains.
func (in *Ingress) refuseWhileDraining(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if in.draining.Load() {
		return nil, guard.Refuse(codes.Unavailable, "server is draining; retry on another one")
	}
	return next(ctx, request)
}

// receive receives the request.
func (in *Ingress) receive(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c := request.(*call)
	_, span := tracing.Start(ctx, tracing.StageReceive)
	var err error
	c.message, c.memory, err = in.receiver.Receive(ctx, c.receive)
	span.End()
	if err != nil {
		return nil, err
	}
	c.event.RequestBytes = len(c.message)
	return next(ctx, request)
}

// respond encodes the response. It rejects a call whose response is larger than estimated and exceeds the free
// memory.
func (in *Ingress) respond(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c := request.(*call)
	response, err := next(ctx, request)
	message, ok := response.(proto.Message)
	if err != nil || !ok {
		return response, err
	}
	bytes := guard.CallBytes + proto.Size(message)
	if bytes > c.memory.Bytes() && !c.memory.Set(bytes) {
		return nil, guard.TooLarge(bytes, in.memory.MaxCall(), "the response")
	}
	encoded, err := guard.Response(ctx, message, c.memory, in.config.ReadTimeout)
	if err != nil {
		return nil, err
	}
	c.event.Response, c.memory = message, nil
	return encoded, nil
}

// awaitSlot waits for a slot and for the memory of the call.
func (in *Ingress) awaitSlot(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c := request.(*call)
	_, span := tracing.Start(ctx, tracing.StageSlot)
	began := time.Now()
	t, err := in.acquireSlot(ctx, c)
	c.event.Waited = time.Since(began)
	if err != nil {
		tracing.Fail(span, err.Error())
		span.End()
		return nil, err
	}
	span.End()
	defer in.slots.release(t)
	defer time.AfterFunc(in.config.MaxSlotTime, t.interrupt).Stop()
	c.slot = Slot{NoSearch: t.noSearch, Interrupted: t.interrupted, Extra: in.extraSlots(t)}
	return next(ctx, request)
}

// extraSlots returns a function that grants additional slots to a call. Each has as much memory as the
// call itself.
func (in *Ingress) extraSlots(own *ticket) solver.AcquireWorker {
	return func(ctx context.Context) (context.Context, func(), bool) {
		memory := in.memory.NewReservation(own.caller)
		extra, ok := in.slots.extra(own, func() bool { return memory.Set(own.bytes) })
		if !ok {
			return nil, nil, false
		}
		ctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(extra.interrupted, cancel)
		return ctx, func() {
			stop()
			cancel()
			in.slots.release(extra)
			memory.Release()
		}, true
	}
}

// IdleSlot returns a slot for background work that needs this memory, and a function that releases it.
// It returns false if no slot is free. The slot is interrupted as soon as a call waits.
func (in *Ingress) IdleSlot(ctx context.Context, worker string, bytes int) (slot Slot, release func(), ok bool) {
	extra := in.extraSlots(&ticket{caller: worker, connection: worker, bytes: guard.CallBytes + bytes})
	interrupted, release, ok := extra(ctx)
	if !ok {
		return Slot{}, nil, false
	}
	return Slot{Interrupted: interrupted, Extra: extra}, release, true
}

// acquireSlot waits for a slot and for the estimated memory of a call.
func (in *Ingress) acquireSlot(ctx context.Context, c *call) (*ticket, error) {
	bytes := guard.CallBytes + 2*len(c.message)
	if c.method.Memory != nil {
		c.event.Size = c.method.Memory.Size(c.message)
		estimate, err := c.method.Memory.Bytes(c.event.Size, in.memory.MaxCall()-bytes)
		if err != nil {
			return nil, err
		}
		bytes += estimate
	}
	if bytes > in.memory.MaxCall() {
		return nil, guard.TooLarge(bytes, in.memory.MaxCall(), "the request")
	}
	bytes = max(bytes, c.memory.Bytes()) // Freeing memory would lock in.slots, which calls reserve while locked.
	t := &ticket{
		caller: c.event.Caller, connection: address(ctx),
		bytes: bytes, reserve: func() bool { return c.memory.Set(bytes) },
	}
	return t, in.slots.acquire(ctx, c.method.Work, t)
}

// decode decodes the request, for a generated handler.
func (c *call) decode(request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("request: is a %T; must be a protobuf message", request)
	}
	err := proto.Unmarshal(c.message, message)
	c.message = nil
	if err != nil {
		return guard.Refuse(codes.InvalidArgument, "parse %s: %v", message.ProtoReflect().Descriptor().Name(), err)
	}
	c.event.Request = message
	if r, ok := request.(interface{ GetSnapshot() *elastallocv1.Snapshot }); ok && r.GetSnapshot() != nil {
		snapshot := r.GetSnapshot()
		c.event.HasSnapshot, c.event.SnapshotID = true, snapshot.GetId()
		types := 0
		for _, t := range snapshot.GetNodeTypes() {
			types += int(t.GetNodes())
		}
		c.event.Jobs, c.event.Nodes = len(snapshot.GetJobs()), max(int(snapshot.GetTotalNodes()), types)
	}
	return nil
}

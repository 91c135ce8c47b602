// Package ingress is the path that every unary call takes to its method: it gets an
// id, is observed, refused while the server drains, received within limits, waits for
// its turn and is decoded. No method is named here: a service that is described by
// Service has all of this.
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
	// At most MaxInflight methods of each kind of work run at once, each for LongestTurn until it
	// is asked to end its search; MaxQueue calls wait for their turn, and the requests of
	// MaxReceiving are arriving.
	MaxInflight, MaxQueue, MaxReceiving int
	LongestTurn                         time.Duration
	// ReceiveTimeout is how long a request may take to arrive, and ReadTimeout how long
	// its caller may take to read the answer.
	ReceiveTimeout, ReadTimeout time.Duration
	// MaxMemory is how many bytes all calls hold together, MaxMessageBytes how many a
	// request has, at most.
	MaxMemory, MaxMessageBytes int
	// Observers are told of every call when it ends, in this order.
	Observers []Observer
}

// Ingress is the path of the calls of one server. It is safe for concurrent use.
type Ingress struct {
	config   Config
	memory   *guard.Memory
	receiver *guard.Receiver
	turns    *turns
	draining atomic.Bool
	shed     atomic.Int64
}

// New returns the path that a configuration describes.
func New(config Config) *Ingress {
	in := &Ingress{
		config: config,
		memory: guard.NewMemory(config.MaxMemory),
		turns:  newTurns(config.MaxInflight, config.MaxQueue),
	}
	in.memory.OnFreed = in.turns.memoryFreed
	in.receiver = &guard.Receiver{
		Memory: in.memory, MaxCalls: config.MaxReceiving, MaxBytes: config.MaxMessageBytes, Timeout: config.ReceiveTimeout,
		Reclaim: in.turns.reclaimAll,
	}
	return in
}

// Drain makes all calls from now on fail with UNAVAILABLE.
func (in *Ingress) Drain() { in.draining.Store(true) }

// Load is how busy a server is: calls whose methods run, calls that wait for their turn, and
// the bytes that all hold, each with its limit.
type Load struct {
	Inflight, MaxInflight int
	Queued, MaxQueue      int
	Memory, MaxMemory     int
	// Shed is the number of calls turned away since the start.
	Shed int64
}

// Load returns how busy the server is now.
func (in *Ingress) Load() Load {
	held, limit := in.memory.State()
	return Load{
		Inflight: in.turns.inflight(), MaxInflight: in.config.MaxInflight,
		Queued: int(in.turns.waiting.Load()), MaxQueue: in.config.MaxQueue,
		Memory: held, MaxMemory: limit,
		Shed: in.shed.Load(),
	}
}

// Method is what the path has to know of a method.
type Method struct {
	Work Work        // whose turn it waits for
	Need *guard.Need // what its calls hold while it runs; nil for no more than the message
}

// PerCall is a service that needs the slot of each call and reports the outcome.
type PerCall interface {
	// ForCall returns a service for one call, and the outcome, which the service writes until its
	// method returns.
	ForCall(Turn) (service any, outcome *Outcome)
}

// Service returns a service description whose unary methods take the path; methods says
// by name what is to be known of them. The interceptors run first, unlike in gRPC's generated
// handlers, so that they see every call, also one whose request never arrives.
func (in *Ingress) Service(service *grpc.ServiceDesc, methods map[string]Method) *grpc.ServiceDesc {
	wrapped := *service
	wrapped.Methods = slices.Clone(service.Methods)
	for i, method := range service.Methods {
		wrapped.Methods[i].Handler = in.handler(service.ServiceName, method, methods[method.MethodName])
	}
	return &wrapped
}

// handler returns the handler of a method: the interceptors, the stages, and the generated
// handler, which decodes what was received and calls the method.
func (in *Ingress) handler(service string, method grpc.MethodDesc, about Method) grpc.MethodHandler {
	run := join(in.stages(), func(ctx context.Context, c *call) (any, error) {
		server := c.server
		if service, ok := server.(PerCall); ok {
			var outcome *Outcome
			server, outcome = service.ForCall(c.turn)
			defer func() { c.event.Outcome = *outcome }()
		}
		return method.Handler(server, ctx, c.decode, nil)
	})
	name := "/" + service + "/" + method.MethodName
	return func(server any, ctx context.Context, _ func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: name}
		if errors.Is(ctx.Err(), context.Canceled) {
			// Reset before it was begun, as all calls of a flood: it is counted, and no more.
			// Else the calls of connections that are gone pile up.
			guard.Cancelled(ctx)
			return intercept(ctx, nil, info, func(ctx context.Context, _ any) (any, error) {
				return nil, status.FromContextError(ctx.Err()).Err()
			})
		}
		c := &call{server: server, method: about, event: Event{Method: method.MethodName}}
		var err error
		if c.stream, err = guard.StreamOf(ctx); err != nil {
			return nil, err
		}
		defer func() {
			if c.memory != nil {
				c.memory.Release()
			}
		}()
		response, err := intercept(ctx, nil, info, func(ctx context.Context, _ any) (any, error) { return run(ctx, c) })
		message, ok := response.(proto.Message)
		if err != nil || !ok {
			return response, err
		}
		memory := c.memory
		c.memory = nil
		return guard.Answer(ctx, message, memory, in.config.ReadTimeout), nil
	}
}

// call is a call on its way.
type call struct {
	server  any // the service
	method  Method
	stream  guard.Stream
	memory  *guard.Reservation // nil before the request has arrived, and when it is the answer's
	message []byte             // as it arrived
	turn    Turn               // zero before it is granted
	event   Event
}

// rest is the part of a path that is still to run.
type rest = func(context.Context, *call) (any, error)

// stage is a part of the path. It calls next, or refuses the call.
type stage func(ctx context.Context, c *call, next rest) (any, error)

// join returns what runs the stages, outermost first, and at the end last.
func join(stages []stage, last rest) rest {
	for _, run := range slices.Backward(stages) {
		next := last
		last = func(ctx context.Context, c *call) (any, error) { return run(ctx, c, next) }
	}
	return last
}

// stages are the path, outermost first. What refuses a call comes after what observes it.
func (in *Ingress) stages() []stage {
	return []stage{identify, in.observe, recoverPanic, in.refuseWhileDraining, in.receive, in.awaitTurn, in.fitAnswer}
}

// recoverPanic makes an error of a panic.
func recoverPanic(ctx context.Context, c *call, next rest) (_ any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return next(ctx, c)
}

// refuseWhileDraining refuses calls over connections that are still open.
func (in *Ingress) refuseWhileDraining(ctx context.Context, c *call, next rest) (any, error) {
	if in.draining.Load() {
		return nil, guard.Refuse(codes.Unavailable, "server is draining; retry on another one")
	}
	return next(ctx, c)
}

// receive waits for the request.
func (in *Ingress) receive(ctx context.Context, c *call, next rest) (any, error) {
	_, span := tracing.Start(ctx, tracing.StageReceive)
	var err error
	c.message, c.memory, err = in.receiver.Receive(ctx, c.stream, c.event.Caller)
	span.End()
	if err != nil {
		return nil, err
	}
	c.event.RequestBytes = len(c.message)
	return next(ctx, c)
}

// awaitTurn waits for the method's turn, and for the memory that it needs.
func (in *Ingress) awaitTurn(ctx context.Context, c *call, next rest) (any, error) {
	_, span := tracing.Start(ctx, tracing.StageTurn)
	began := time.Now()
	turn, err := in.takeTurn(ctx, c)
	c.event.Waited = time.Since(began)
	if err != nil {
		tracing.Fail(span, err.Error())
		span.End()
		return nil, err
	}
	span.End()
	defer in.turns.release(turn)
	defer time.AfterFunc(in.config.LongestTurn, turn.hurry).Stop()
	c.turn = Turn{Shed: turn.shed, Hurry: turn.hurried, Lend: in.lender(turn)}
	return next(ctx, c)
}

// fitAnswer refuses a call whose answer is larger than its method said: it is not encoded.
func (in *Ingress) fitAnswer(ctx context.Context, c *call, next rest) (any, error) {
	response, err := next(ctx, c)
	if message, ok := response.(proto.Message); ok && err == nil {
		bytes := guard.CallBytes + proto.Size(message)
		if bytes > c.memory.Held() && !c.memory.Set(bytes) {
			return nil, guard.TooLarge(bytes, in.memory.Most(), "the answer")
		}
	}
	return response, err
}

// lender returns what lends further turns to the call of a turn, each with the memory that
// the call itself needs.
func (in *Ingress) lender(own *turn) solver.AcquireWorker {
	return func(ctx context.Context) (context.Context, func(), bool) {
		memory := in.memory.Reservation(own.caller)
		lent, ok := in.turns.lend(own, func() bool { return memory.Set(own.bytes) })
		if !ok {
			return nil, nil, false
		}
		ctx, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(lent.hurried, cancel)
		return ctx, func() {
			stop()
			cancel()
			in.turns.release(lent)
			memory.Release()
		}, true
	}
}

// Lend grants a turn for work that no call asked for and that needs these bytes, if one is
// free, and what gives it back. It is hurried as soon as a call waits.
func (in *Ingress) Lend(ctx context.Context, worker string, bytes int) (Turn, func(), bool) {
	lend := in.lender(&turn{caller: worker, connection: worker, bytes: guard.CallBytes + bytes})
	own, release, ok := lend(ctx)
	if !ok {
		return Turn{}, nil, false
	}
	return Turn{Hurry: own, Lend: lend}, release, true
}

func (in *Ingress) takeTurn(ctx context.Context, c *call) (*turn, error) {
	bytes := guard.CallBytes + 2*len(c.message)
	if c.method.Need != nil {
		c.event.Size = c.method.Need.Size(c.message)
		need, err := c.method.Need.Bytes(c.event.Size, in.memory.Most()-bytes)
		if err != nil {
			return nil, err
		}
		bytes += need
	}
	if bytes > in.memory.Most() {
		return nil, guard.TooLarge(bytes, in.memory.Most(), "the request")
	}
	bytes = max(bytes, c.memory.Held()) // To give any back would lock the turns, which are locked then.
	turn := &turn{
		caller: c.event.Caller, connection: address(ctx),
		bytes: bytes, reserve: func() bool { return c.memory.Set(bytes) },
	}
	return turn, in.turns.take(ctx, c.method.Work, turn)
}

// decode is what a generated handler decodes its request with.
func (c *call) decode(request any) error {
	message, ok := request.(proto.Message)
	if !ok {
		return fmt.Errorf("request is a %T; want a protobuf message", request)
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

//go:build unix

package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	"github.com/elastalloc/elastalloc/internal/testing/wait"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// mix is a mixed load of correct and faulty callers.
type mix struct {
	server     *servertest.Server
	allocator  *client.Client   // of the correct callers, with retries
	connection *grpc.ClientConn // without retries
	http       *http.Client

	mutex    sync.Mutex
	seen     map[string]map[codes.Code]int // by action and code
	failures []error
}

func newMix(server *servertest.Server) (*mix, error) {
	// The budget limits the time of a decision, not the deadline.
	allocator, err := client.New(server.Addr, client.WithTimeout(wait.Timeout))
	if err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, errors.Join(err, allocator.Close())
	}
	return &mix{
		server: server, allocator: allocator, connection: connection,
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Timeout},
		seen: map[string]map[codes.Code]int{},
	}, nil
}

func (m *mix) close() error { return errors.Join(m.allocator.Close(), m.connection.Close()) }

// action is an action of a caller. It returns its status code, and an error if the code is not expected.
type action struct {
	name   string
	weight int
	do     func(*mix, *rand.Rand) (codes.Code, error)
}

// actions returns the actions of callers with their weights.
func actions() []action {
	return []action{
		{"small decision", 60, (*mix).decideSmall},
		{"large decision", 5, (*mix).decideLarge},
		{"bad request", 8, (*mix).sendInvalid},
		{"hang-up", 8, (*mix).hangUp},
		{"short deadline", 4, (*mix).hurry},
		{"connection of one call", 8, (*mix).callOnce},
		{"connection of garbage", 4, (*mix).sendGarbage},
		{"message that is too large", 1, (*mix).sendTooMuch},
		{"burst", 1, (*mix).burst},
		{"health, probes", 4, (*mix).probe},
	}
}

// act runs a random action, by weight, and records its status code.
func (m *mix) act(r *rand.Rand) {
	total := 0
	for _, a := range actions() {
		total += a.weight
	}
	draw := r.IntN(total)
	for _, a := range actions() {
		if draw -= a.weight; draw >= 0 {
			continue
		}
		code, err := a.do(m, r)
		m.mutex.Lock()
		defer m.mutex.Unlock()
		if m.seen[a.name] == nil {
			m.seen[a.name] = map[codes.Code]int{}
		}
		m.seen[a.name][code]++
		if err != nil {
			m.failures = append(m.failures, fmt.Errorf("%s: %w", a.name, err))
		}
		return
	}
}

// oneOf returns a random one of the given values.
func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// randomOptions returns random options.
func randomOptions(r *rand.Rand, budget time.Duration) *elastallocv1.AllocateOptions {
	return &elastallocv1.AllocateOptions{
		Objective:   elastallocv1.Objective_OBJECTIVE_PROGRESS,
		Backend:     oneOf(r, elastallocv1.Backend(r.IntN(5)), elastallocv1.Backend_BACKEND_EXACT),
		Formulation: elastallocv1.Formulation(r.IntN(3)),
		TimeBudget:  durationpb.New(budget),
		RelativeGap: oneOf(r, 0, 0, 0.01),
		Admission:   elastallocv1.Admission(r.IntN(4)),
		IncludePlan: r.IntN(2) == 0,
	}
}

// decide makes a call that must succeed, and checks its response.
func (m *mix) decide(request *elastallocv1.AllocateRequest) (codes.Code, error) {
	response, err := allocateWhenNotBusy(context.Background(), m.allocator, request)
	if err != nil {
		return status.Code(err), err
	}
	return codes.OK, checkResponse(request, response)
}

func (m *mix) decideSmall(r *rand.Rand) (codes.Code, error) {
	request := randomRequest(1+r.IntN(60), r.IntN(110), r.Uint64())
	request.Options = randomOptions(r, 300*time.Millisecond)
	return m.decide(request)
}

func (m *mix) decideLarge(r *rand.Rand) (codes.Code, error) {
	request := randomRequest(300+r.IntN(700), 500+r.IntN(1000), r.Uint64())
	request.Options = randomOptions(r, 500*time.Millisecond)
	return m.decide(request)
}

// sendInvalid sends a request that must be rejected.
func (m *mix) sendInvalid(r *rand.Rand) (codes.Code, error) {
	request := randomRequest(1+r.IntN(40), 70, r.Uint64())
	request.Options = randomOptions(r, time.Second)
	job := oneOf(r, request.Snapshot.Jobs...)
	oneOf(r,
		func() { job.Id = "" },
		func() { job.RemainingEta = nil },
		func() { job.AllowedNodes = []int32{2, 1} },
		func() { job.MinNodes, job.MaxNodes = new(int32(8)), new(int32(4)) },
		func() { request.Snapshot.TotalNodes = -1 },
		func() { request.Snapshot.Horizon = &elastallocv1.Horizon{Steps: new(int32(25))} },
		func() { request.Options.Backend = 99 },
		func() { request.Snapshot = nil },
	)()
	_, err := allocateWhenNotBusy(context.Background(), m.allocator, request)
	if status.Code(err) != codes.InvalidArgument {
		return status.Code(err), fmt.Errorf("want INVALID_ARGUMENT, not %w", errOf(err))
	}
	return status.Code(err), nil
}

// errOf returns an error for an unexpected success, too.
func errOf(err error) error {
	if err == nil {
		return errors.New("success")
	}
	return err
}

// hangUp cancels a call in progress, unless it is rejected because of a burst of other calls.
func (m *mix) hangUp(r *rand.Rand) (codes.Code, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(time.Duration(r.Int64N(int64(50*time.Millisecond))), cancel)
	request := randomRequest(100+r.IntN(200), 300, r.Uint64())
	request.Options = randomOptions(r, time.Second)
	return expect(m.allocate(ctx, request))(codes.OK, codes.Canceled, codes.ResourceExhausted)
}

// hurry makes a call with a short deadline, half of which it may wait for a slot.
func (m *mix) hurry(r *rand.Rand) (codes.Code, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Int64N(int64(20*time.Millisecond))))
	defer cancel()
	request := randomRequest(100, 150, r.Uint64())
	request.Options = randomOptions(r, time.Second)
	return expect(m.allocate(ctx, request))(codes.OK, codes.DeadlineExceeded, codes.ResourceExhausted)
}

// allocate makes a call without retries.
func (m *mix) allocate(ctx context.Context, request *elastallocv1.AllocateRequest) error {
	_, err := elastallocv1.NewAllocatorServiceClient(m.connection).Allocate(ctx, request)
	return err
}

// expect returns a function that checks that the status of a call is one of the given codes.
func expect(err error) func(expected ...codes.Code) (codes.Code, error) {
	return func(expected ...codes.Code) (codes.Code, error) {
		for _, code := range expected {
			if status.Code(err) == code {
				return code, nil
			}
		}
		return status.Code(err), fmt.Errorf("want one of %v, not %w", expected, errOf(err))
	}
}

// callOnce opens a connection for a single call.
func (m *mix) callOnce(r *rand.Rand) (code codes.Code, err error) {
	allocator, err := client.New(m.server.Addr, client.WithTimeout(wait.Timeout))
	if err != nil {
		return codes.Unknown, err
	}
	defer func() { err = errors.Join(err, allocator.Close()) }()
	request := randomRequest(10, 16, r.Uint64())
	response, err := allocateWhenNotBusy(context.Background(), allocator, request)
	if err != nil {
		return status.Code(err), err
	}
	return codes.OK, checkResponse(request, response)
}

// sendGarbage sends bytes other than HTTP/2, or only its preface, and hangs up.
func (m *mix) sendGarbage(r *rand.Rand) (codes.Code, error) {
	connection, err := net.Dial("tcp", m.server.Addr)
	if err != nil {
		return codes.Unavailable, err
	}
	defer connection.Close()
	garbage := make([]byte, r.IntN(2000))
	for i := range garbage {
		garbage[i] = byte(r.Uint32())
	}
	// The server may close the connection before all is sent.
	_, _ = connection.Write(oneOf(r, garbage, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), []byte("GET / HTTP/1.1\r\n\r\n"),
		append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"), garbage...)))
	if r.IntN(2) == 0 {
		_ = connection.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = io.CopyN(io.Discard, connection, 1<<10)
	}
	return codes.OK, nil
}

// sendTooMuch sends a message that exceeds the limit of the server.
func (m *mix) sendTooMuch(*rand.Rand) (codes.Code, error) {
	return expect(sendRaw(context.Background(), m.connection, tooMuch()))(codes.ResourceExhausted)
}

// tooMuch returns 200 MB, of which only the first part is sent.
var tooMuch = sync.OnceValue(func() []byte { return make([]byte, 200<<20) })

// burst makes many concurrent calls, of which the server may reject some.
func (m *mix) burst(r *rand.Rand) (codes.Code, error) {
	request := randomRequest(40, 70, r.Uint64())
	errs := make([]error, 100)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			_, errs[i] = expect(m.allocate(context.Background(), request))(codes.OK, codes.ResourceExhausted)
		})
	}
	group.Wait()
	return codes.OK, errors.Join(errs...)
}

// probe makes the requests of kubelet and Prometheus.
func (m *mix) probe(*rand.Rand) (codes.Code, error) {
	health, err := grpc_health_v1.NewHealthClient(m.connection).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return status.Code(err), fmt.Errorf("health is %v: %w", health, errOf(err))
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/nothing"} {
		response, err := m.http.Get("http://" + m.server.AdminAddr + path)
		if err != nil {
			return codes.Unavailable, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if ok := response.StatusCode == http.StatusOK; err != nil || ok == (path == "/nothing") {
			return codes.Unknown, fmt.Errorf("%s: %s, %w", path, response.Status, errOf(err))
		}
	}
	return codes.OK, nil
}

// sendRaw sends bytes instead of a request.
func sendRaw(ctx context.Context, connection *grpc.ClientConn, message []byte) error {
	var response []byte
	return connection.Invoke(ctx, elastallocv1.AllocatorService_Allocate_FullMethodName, message, &response,
		grpc.ForceCodec(rawCodec{}), grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30))
}

// rawCodec sends bytes unchanged, with the name of the protobuf codec.
type rawCodec struct{}

var _ encoding.Codec = rawCodec{}

// Marshal returns the bytes.
func (rawCodec) Marshal(message any) ([]byte, error) { return message.([]byte), nil }

// Unmarshal copies the bytes.
func (rawCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = bytes.Clone(data)
	return nil
}

// Name returns the name of the protobuf codec.
func (rawCodec) Name() string { return "proto" }

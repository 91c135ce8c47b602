//go:build unix

package faults

import (
	"context"
	"math"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/testing/servertest"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// hostileDeadlines returns the deadlines of a call of the fuzz test. The next one is used if the server
// does not respond on a busy machine. A request may have a budget of years and use all of the deadline,
// and the fuzzing engine treats an input of more than ten seconds as a deadlock.
func hostileDeadlines() []time.Duration {
	return []time.Duration{1500 * time.Millisecond, 15 * time.Second, generous}
}

// inTime makes a call with the first deadline by which the server responds.
func inTime(ctx context.Context, call func(context.Context) error) (err error) {
	for _, deadline := range hostileDeadlines() {
		limited, cancel := context.WithTimeout(ctx, deadline)
		err = call(limited)
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			break
		}
	}
	return err
}

// FuzzRunningServer sends messages of random bytes and random requests to a running server. The server
// must reject them with an error of the API or return a legal response, the same one each time, and
// continue to run.
func FuzzRunningServer(f *testing.F) {
	for _, request := range []*elastallocv1.AllocateRequest{
		{}, randomRequest(3, 4, 1), randomRequest(40, 70, 1),
		{Snapshot: &elastallocv1.Snapshot{TotalNodes: math.MaxInt32, Jobs: []*elastallocv1.Job{{Id: "a", MaxNodes: new(int32(math.MaxInt32))}}}},
	} {
		message, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
		f.Add(message[:len(message)/2])
	}
	f.Add([]byte("\x0a\x04\x0a\x02\xff\xfe")) // an id that is not valid UTF-8
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	for seed := range 40 { // bytes that determine a request
		bytes := make([]byte, 40*(seed+1))
		for i := range bytes {
			bytes[i] = byte((i + 1) * (2*seed + 1) * 37 >> 3)
		}
		f.Add(bytes)
	}

	server := startServerToFuzz(f)
	connection, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { connection.Close() })
	allocator := elastallocv1.NewAllocatorServiceClient(connection)

	f.Fuzz(func(t *testing.T, bytes []byte) {
		request := &elastallocv1.AllocateRequest{}
		malformed := proto.Unmarshal(bytes, request) != nil
		err := inTime(t.Context(), func(ctx context.Context) error { return sendRaw(ctx, connection, bytes) })
		switch {
		case !malformed:
			checkError(t, err)
			callTwice(t, allocator, request)
		case status.Code(err) != codes.InvalidArgument: // The error names no field.
			t.Errorf("the error of bytes that cannot be parsed is %v; want INVALID_ARGUMENT", err)
		}
		callTwice(t, allocator, hostileRequest(bytes))
	})
}

// startServerToFuzz starts a server with small limits, so that they are reached often. The server is
// killed when this process exits, because the fuzzing engine kills its workers.
func startServerToFuzz(f *testing.F) *servertest.Server {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	flags := []string{"--drain-delay=0s", "--max-jobs=2000", "--default-budget=200ms"}
	server, err := servertest.New(ctx, binary, nil, flags...)
	if err != nil {
		cancel()
		f.Fatal(err)
	}
	watchdog := exec.Command("/bin/sh", "-c", "while kill -0 $0 2>&-; do sleep 1; done; kill -9 $1 2>&-",
		strconv.Itoa(os.Getpid()), strconv.Itoa(server.PID()))
	if err := watchdog.Start(); err != nil {
		f.Error(err)
	}
	f.Cleanup(func() {
		defer cancel()
		if err := server.Stop(); err != nil {
			f.Errorf("Stop returned %v; log:\n%s", err, server.Logs())
		}
		_ = watchdog.Process.Kill()
		_ = watchdog.Wait()
	})
	return server
}

// callTwice makes the same call twice. The server may reject it. Otherwise the responses must be legal,
// and equal unless a time limit applied.
func callTwice(t *testing.T, allocator elastallocv1.AllocatorServiceClient, request *elastallocv1.AllocateRequest) {
	t.Helper()
	var responses [2]*elastallocv1.AllocateResponse
	for i := range responses {
		var response *elastallocv1.AllocateResponse
		err := inTime(t.Context(), func(ctx context.Context) (err error) {
			response, err = allocator.Allocate(ctx, request)
			return err
		})
		if checkError(t, err); err != nil {
			return
		}
		if err := checkResponse(request, response); err != nil {
			t.Errorf("%v\nrequest: %v\nresponse: %v", err, request, response)
		}
		responses[i] = response
	}
	for _, response := range responses {
		if response.GetReport().GetLimit() == elastallocv1.Limit_LIMIT_TIME {
			return
		}
	}
	if diff := cmp.Diff(nodesOf(responses[0]), nodesOf(responses[1])); diff != "" {
		t.Errorf("two calls (-first +second):\n%s\n%v\n%v\noptions: %v\nrequest: %v",
			diff, responses[0].GetReport(), responses[1].GetReport(), request.GetOptions(), request)
	}
}

func nodesOf(response *elastallocv1.AllocateResponse) (nodes []int32) {
	for _, allocation := range response.GetAllocations() {
		nodes = append(append(nodes, allocation.GetNodes()), allocation.GetPlannedNodes()...)
	}
	return nodes
}

// checkError checks that the error of a call is one that the API allows, if no server is draining and
// greedy has enough time.
func checkError(t *testing.T, err error) {
	t.Helper()
	s := status.Convert(err)
	switch s.Code() {
	case codes.OK:
	case codes.InvalidArgument:
		for _, detail := range s.Details() {
			if bad, ok := detail.(*errdetails.BadRequest); ok && len(bad.GetFieldViolations()) > 0 {
				return
			}
		}
		t.Errorf("%v names no invalid field", err)
	default:
		t.Errorf("the error of the call is %v", err)
	}
}

// hostileRequest returns a request that is derived from bytes: valid with boundary values or, with a
// probability of 1/4, with invalid values.
func hostileRequest(bytes []byte) *elastallocv1.AllocateRequest {
	d := &byteSource{bytes: bytes}
	d.wild = d.below(4) == 3
	request := &elastallocv1.AllocateRequest{Options: &elastallocv1.AllocateOptions{
		Objective:   elastallocv1.Objective_OBJECTIVE_PROGRESS,
		Backend:     elastallocv1.Backend(d.enum(5)),
		Formulation: elastallocv1.Formulation(d.enum(3)),
		RelativeGap: orInvalid(d, choose(d, 0, 0, 0.01, 0.999), -1, 1, math.NaN(), math.Inf(1)),
		Admission:   elastallocv1.Admission(d.enum(4)),
		IncludePlan: d.below(2) == 0,
	}}
	if d.below(2) == 0 {
		request.Options.TimeBudget = choose(d, durationpb.New(100*time.Millisecond), durationpb.New(time.Nanosecond),
			durationpb.New(300*time.Millisecond), d.duration())
	}
	snapshot := &elastallocv1.Snapshot{
		Id: d.text(),
		TotalNodes: orInvalid(d,
			choose(d, int32(d.below(100)), int32(d.below(250)), int32(d.below(20)), 0, 1<<20, math.MaxInt32), -1, math.MinInt32),
	}
	if d.below(3) == 0 {
		snapshot.Horizon = &elastallocv1.Horizon{Steps: new(orInvalid(d, choose(d, 1, 2, 24, 1+int32(d.below(24))), 25, 0, -1, math.MaxInt32))}
		if d.below(2) == 0 {
			snapshot.Horizon.Step = d.duration()
		}
	}
	for i := range orInvalid(d, choose(d, d.below(8), d.below(60), d.below(20), 1, 0, d.below(256), d.below(8), 2000), 2001) {
		job := d.job()
		job.Id = orInvalid(d, strconv.Itoa(i), d.text(), "")
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	request.Snapshot = orInvalid(d, snapshot, nil)
	return request
}

// byteSource derives decisions from bytes. It starts again when it has used all of them.
type byteSource struct {
	bytes []byte
	used  int
	// wild allows invalid values.
	wild bool
}

// below returns a number below n, which is at most 256.
func (d *byteSource) below(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	// Each round through the bytes decides differently.
	value := int(d.bytes[d.used%len(d.bytes)]) + d.used/len(d.bytes)*31
	d.used++
	return value % 256 % n
}

// choose returns one of the given values.
func choose[T any](d *byteSource, values ...T) T { return values[d.below(len(values))] }

// orInvalid returns the value or, rarely and only if wild is set, one of some invalid values.
func orInvalid[T any](d *byteSource, value T, bad ...T) T {
	if d.wild && d.below(64) == 63 {
		return choose(d, bad...)
	}
	return value
}

// enum returns a number of an enum with the given number of values.
func (d *byteSource) enum(values int) int32 {
	return orInvalid(d, int32(d.below(values)), int32(values), -1, 99, math.MaxInt32)
}

// text returns an id.
func (d *byteSource) text() string {
	return choose(d, "id", "", "\u202e\u0000", "日本語 🚂", "job", "a\nb", "%s%n", string(make([]byte, 5000)))
}

// duration returns a duration.
func (d *byteSource) duration() *durationpb.Duration {
	short := int64(1 + d.below(256))
	seconds := choose(d, short, 60*short, short*short, 3600*short*short, math.MaxInt64/int64(time.Second))
	return orInvalid(d, choose(d, &durationpb.Duration{Seconds: seconds}, durationpb.New(time.Duration(seconds))),
		nil, &durationpb.Duration{}, durationpb.New(-time.Second), durationpb.New(math.MinInt64), &durationpb.Duration{Seconds: math.MaxInt64},
		&durationpb.Duration{Seconds: 1, Nanos: -1}, &durationpb.Duration{Nanos: math.MaxInt32})
}

// job returns a job without an id.
func (d *byteSource) job() *elastallocv1.Job {
	job := &elastallocv1.Job{
		RemainingEta: d.duration(),
		CurrentNodes: orInvalid(d, choose(d, 0, 0, int32(d.below(16)), 1<<d.below(5), 0, int32(d.below(256)), 1, 3), -1, math.MinInt32),
	}
	if d.below(16) == 15 {
		job.CurrentNodes = math.MaxInt32
	}
	if d.below(3) == 0 {
		job.TrainingTime = d.duration()
	}
	if d.below(4) == 0 {
		job.ResizeDelay = d.duration()
	}
	switch d.below(6) {
	case 0:
		job.MinNodes = new(orInvalid(d, choose(d, 1, 2, 4, 1+int32(d.below(8))), 0, -1, math.MaxInt32))
		job.MaxNodes = new(orInvalid(d, choose(d, job.GetMinNodes()*2, 16, 1<<20, math.MaxInt32), 0, math.MinInt32))
	case 1:
		for size := int32(0); len(job.AllowedNodes) < 1+d.below(6); {
			size += 1 + int32(d.below(5))
			job.AllowedNodes = append(job.AllowedNodes, orInvalid(d, size, math.MaxInt32, 0, -1, 1))
		}
		job.MaxNodes = new(int32(64))
	}
	switch d.below(6) {
	case 0:
		job.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{
			DoublingEfficiency: orInvalid(d,
				choose(d, 1, 0.5+float64(d.below(128))/256, 0.9, 1e-9, math.SmallestNonzeroFloat64), 0, 1.5, math.NaN()),
		}}
	case 1:
		table := &elastallocv1.SpeedTable{}
		for range job.GetAllowedNodes() {
			table.Speeds = append(table.Speeds, orInvalid(d, choose(d, float64(1+d.below(64))/8, 1, 1e9, 1e-300), 0, -1, math.Inf(1)))
		}
		if len(table.Speeds) > 0 {
			job.Scaling = &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
		}
	}
	if d.below(4) == 0 {
		job.Weight = new(orInvalid(d, choose(d, float64(d.below(16)), 1e-3, 0, 1e12, 1e-300, math.Copysign(0, -1)),
			1e13, -1, math.NaN(), math.Inf(1)))
	}
	return job
}

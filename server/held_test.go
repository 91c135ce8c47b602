package server

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/recording"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
)

// ask answers a request of any method in process.
func ask(ctx context.Context, in apiconv.InProcess, request proto.Message) (proto.Message, error) {
	switch r := request.(type) {
	case *elastallocv1.AllocateRequest:
		return in.Allocate(ctx, r)
	case *elastallocv1.FillIdleRequest:
		return in.FillIdle(ctx, r)
	case *elastallocv1.ExplainRequest:
		return in.Explain(ctx, r)
	case *elastallocv1.WhatIfRequest:
		return in.WhatIf(ctx, r)
	case *elastallocv1.ForecastRequest:
		return in.Forecast(ctx, r)
	default:
		return nil, fmt.Errorf("unknown request %T", request)
	}
}

// drawRequest draws a request of any method, of the kinds whose answers are many times as
// large: long ids that are echoed, quoted or waited for, scenarios, plans, groups, sizes.
func drawRequest(t *rapid.T) (method string, request proto.Message) {
	jobs := rapid.IntRange(1, 300).Draw(t, "jobs")
	id := strings.Repeat(rapid.SampledFrom([]string{"x", "\x01", "\u202e"}).Draw(t, "letter"), rapid.IntRange(0, 80).Draw(t, "length"))
	s := &elastallocv1.Snapshot{Id: id, TotalNodes: rapid.SampledFrom([]int32{0, 8, int32(2 * jobs), 1 << 30}).Draw(t, "nodes")}
	s.Horizon = &elastallocv1.Horizon{Steps: new(rapid.SampledFrom([]int32{1, 5, 24}).Draw(t, "steps"))}
	kind := rapid.SampledFrom([]string{"usual", "never fit", "behind", "wide", "groups", "held"}).Draw(t, "kind")
	options := &elastallocv1.AllocateOptions{
		IncludePlan: rapid.Bool().Draw(t, "plan"), TimeBudget: durationpb.New(20 * time.Millisecond),
		Backend:   rapid.SampledFrom([]elastallocv1.Backend{elastallocv1.Backend_BACKEND_EXACT, elastallocv1.Backend_BACKEND_GREEDY}).Draw(t, "backend"),
		Objective: rapid.SampledFrom([]elastallocv1.Objective{elastallocv1.Objective_OBJECTIVE_PROGRESS, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}).Draw(t, "objective"),
	}
	for i := range jobs {
		job := &elastallocv1.Job{Id: fmt.Sprint(id, i), RemainingEta: durationpb.New(time.Duration(100+i*7919%36000) * time.Second)}
		switch kind {
		case "never fit":
			job.MinNodes, job.MaxNodes = new(int32(1<<30)), new(int32(1<<30))
		case "behind":
			job.CurrentNodes = int32(i % 2 * 4)
			job.MinNodes = new(int32(4))
		case "wide":
			job.MaxNodes = new(int32(1 << 30))
		case "groups":
			s.Groups = append(s.Groups, &elastallocv1.Group{Id: fmt.Sprint(id, i)})
			job.GroupId, options.Objective = fmt.Sprint(id, i), elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		case "held":
			job.MinNodes, options.BadJobs = new(int32(0)), elastallocv1.BadJobs_BAD_JOBS_HOLD
		}
		s.Jobs = append(s.Jobs, job)
	}
	switch method = rapid.SampledFrom([]string{"Allocate", "FillIdle", "Explain", "WhatIf", "Forecast"}).Draw(t, "method"); method {
	case "Allocate":
		request = &elastallocv1.AllocateRequest{Snapshot: s, Options: options}
	case "FillIdle":
		request = &elastallocv1.FillIdleRequest{Snapshot: s}
	case "Explain":
		options.TimeBudget = durationpb.New(200 * time.Millisecond)
		request = &elastallocv1.ExplainRequest{Snapshot: s, Options: options}
	case "Forecast":
		options.TimeBudget, options.Backend = durationpb.New(200*time.Millisecond), elastallocv1.Backend_BACKEND_GREEDY
		request = &elastallocv1.ForecastRequest{Snapshot: s, Options: options, EtaError: 0.2, Samples: rapid.Int32Range(1, 100).Draw(t, "samples")}
	case "WhatIf":
		r := &elastallocv1.WhatIfRequest{Snapshot: s, Options: options}
		options.Backend = elastallocv1.Backend_BACKEND_GREEDY
		for range rapid.IntRange(0, 64).Draw(t, "scenarios") {
			r.Scenarios = append(r.Scenarios, &elastallocv1.Scenario{Name: id, TotalNodes: new(rapid.Int32Range(0, 100).Draw(t, "total"))})
		}
		request = r
	}
	return method, request
}

// live returns the bytes of the heap that are reachable.
func live() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// TestHeld checks that a call holds no more than it is said to need: the request, the answer
// and the bytes of both.
func TestHeld(t *testing.T) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, needs := apiconv.InProcess{Allocator: allocator}, methods(allocator.MaxJobs())
	rapid.Check(t, func(t *rapid.T) {
		method, request := drawRequest(t)
		wire, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		need, err := needs[method].Need.Bytes(needs[method].Need.Size(wire), 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		before := live()
		decoded := request.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(wire, decoded); err != nil {
			t.Fatal(err)
		}
		response, err := ask(context.Background(), in, decoded)
		if err != nil {
			t.Skip(err)
		}
		encoded, err := proto.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		const others = 128 << 10 // what the allocator keeps for the next call, and tests
		held := live() - before
		if held > need+need/5+others {
			t.Errorf("%s: %d bytes are held, %d were said to be needed; the answer has %d", method, held, need, len(encoded))
		}
		runtime.KeepAlive(wire)
		runtime.KeepAlive(decoded)
		runtime.KeepAlive(response)
	})
}

// sized keeps what a call is said to take.
type sized struct{ bytes int }

func (s *sized) Record(_ recording.Entry, bytes int) { s.bytes = bytes }
func (*sized) Stats() recording.Stats                { return recording.Stats{} }

// TestRecordedBytes checks that a recorder is told no less than what the messages of a call
// take in memory.
func TestRecordedBytes(t *testing.T) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, needs := apiconv.InProcess{Allocator: allocator}, methods(allocator.MaxJobs())
	rapid.Check(t, func(t *rapid.T) {
		method, request := drawRequest(t)
		wire, err := proto.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		response, err := ask(context.Background(), in, request)
		if err != nil {
			t.Skip(err)
		}
		told := new(sized)
		recordObserver{told}.Observe(context.Background(), &ingress.Event{
			Request: request, Response: response, RequestBytes: len(wire), Size: needs[method].Need.Size(wire),
		})
		before := live()
		copies := []proto.Message{proto.Clone(request), proto.Clone(response)}
		const others = 64 << 10
		if held := live() - before; held > told.bytes+told.bytes/5+others {
			t.Errorf("%s: the messages take %d bytes; the recorder is told %d", method, held, told.bytes)
		}
		runtime.KeepAlive(copies)
		runtime.KeepAlive(request)
		runtime.KeepAlive(response)
	})
}

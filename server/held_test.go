package server

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/internal/testtier"
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

// drawRequest draws a request of any method, of the kinds whose answers or searches are many
// times as large: long ids that are echoed, quoted or waited for, scenarios, plans, groups, sizes,
// node types, and sizes that add up to any number.
func drawRequest(t *rapid.T) (method string, request proto.Message) {
	jobs := rapid.IntRange(1, 300).Draw(t, "jobs")
	id := strings.Repeat(rapid.SampledFrom([]string{"x", "\x01", "\u202e"}).Draw(t, "letter"), rapid.IntRange(0, 80).Draw(t, "length"))
	s := &elastallocv1.Snapshot{Id: id, TotalNodes: rapid.SampledFrom([]int32{0, 8, int32(2 * jobs), 1 << 30}).Draw(t, "nodes")}
	s.Horizon = &elastallocv1.Horizon{Steps: new(rapid.SampledFrom([]int32{1, 5, 24}).Draw(t, "steps"))}
	kind := rapid.SampledFrom([]string{"usual", "never fit", "behind", "wide", "hard", "groups", "held", "uneven", "uneven teams", "uneven types"}).Draw(t, "kind")
	options := &elastallocv1.AllocateOptions{
		IncludePlan: rapid.Bool().Draw(t, "plan"), Certificate: rapid.Bool().Draw(t, "certificate"), TimeBudget: durationpb.New(20 * time.Millisecond),
		Backend:   rapid.SampledFrom([]elastallocv1.Backend{elastallocv1.Backend_BACKEND_EXACT, elastallocv1.Backend_BACKEND_GREEDY}).Draw(t, "backend"),
		Objective: rapid.SampledFrom([]elastallocv1.Objective{elastallocv1.Objective_OBJECTIVE_PROGRESS, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}).Draw(t, "objective"),
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	sums := rapid.SampledFrom([]int{1, 10, 1000, 100_000}).Draw(t, "sums")
	if strings.HasPrefix(kind, "uneven") {
		jobs = min(jobs, 100)
		s.TotalNodes, options.TimeBudget = int32(1+2*sums*jobs), durationpb.New(700*time.Millisecond)
		options.Backend, options.Admission = elastallocv1.Backend_BACKEND_EXACT, elastallocv1.Admission(1+r.IntN(4))
	}
	switch kind {
	case "uneven teams":
		options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		for n := range int32(4) {
			s.Groups = append(s.Groups, &elastallocv1.Group{Id: fmt.Sprint(n), Quota: s.GetTotalNodes() * n / 5, Limit: new(s.GetTotalNodes() * (1 + n) / 7)})
		}
	case "uneven types":
		options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		for n := range rapid.IntRange(2, 8).Draw(t, "types") {
			s.NodeTypes = append(s.NodeTypes, &elastallocv1.NodeType{Id: fmt.Sprint(id, n), Nodes: int32(1 + r.IntN(1+sums*jobs/2)), Speed: new(0.5 + r.Float64())})
		}
		s.TotalNodes = 0
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
		case "hard": // Few jobs, so that its search is much of what it holds.
			if i >= 12 {
				continue
			}
			job.CurrentNodes, job.Weight = int32(1<<(i%3)), new(1+float64(i*31%17)/17)
			s.TotalNodes, s.Horizon.Steps, options.TimeBudget = 30, new(int32(24)), durationpb.New(300*time.Millisecond)
		case "groups":
			s.Groups = append(s.Groups, &elastallocv1.Group{Id: fmt.Sprint(id, i)})
			job.GroupId, options.Objective = fmt.Sprint(id, i), elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		case "held":
			job.MinNodes, options.BadJobs = new(int32(0)), elastallocv1.BadJobs_BAD_JOBS_HOLD
		case "uneven", "uneven teams", "uneven types":
			job.AllowedNodes, job.Scaling = uneven(r, sums)
			job.MinNodes, job.MaxNodes, job.Weight = new(int32(1)), new(int32(1<<30)), new(0.5+r.Float64())
			if len(s.GetGroups()) > 0 {
				job.GroupId = fmt.Sprint(i % 4)
			}
			for _, kind := range s.GetNodeTypes() {
				sizes, scaling := uneven(r, sums)
				job.Speeds = append(job.Speeds, &elastallocv1.TypeSpeed{NodeType: kind.GetId(), Scaling: scaling, AllowedNodes: sizes})
			}
		}
		s.Jobs = append(s.Jobs, job)
	}
	all := []string{"Allocate", "FillIdle", "Explain", "WhatIf", "Forecast"}
	if strings.HasPrefix(kind, "uneven") {
		all = append(all, all[0], all[0], all[0])
	}
	switch method = rapid.SampledFrom(all).Draw(t, "method"); method {
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

// uneven returns sizes of a job that add up to all kinds of numbers, and a speed for each.
func uneven(r *rand.Rand, most int) ([]int32, *elastallocv1.Scaling) {
	var sizes []int32
	table, size, speed := &elastallocv1.SpeedTable{}, 0, 0.0
	for range 2 + r.IntN(31) {
		size, speed = size+1+r.IntN(most), speed+r.Float64()
		sizes, table.Speeds = append(sizes, int32(size)), append(table.Speeds, speed)
	}
	return sizes, &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
}

// live returns the bytes of the heap that are reachable. What a sync.Pool keeps goes with the
// second collection.
func live() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// heldBy returns the answer to a request, and the most bytes that its call holds, with the request,
// the answer and the bytes of both: garbage is collected each time that the heap has grown by a twentieth.
// Only where a collection stops the world, as in stopping, is it exact: what is made meanwhile
// counts.
func heldBy(in apiconv.InProcess, request proto.Message) (response proto.Message, held int, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	wire, err := proto.Marshal(request)
	if err != nil {
		return nil, 0, err
	}
	before := live()
	stop, most := make(chan struct{}), make(chan int)
	go func() {
		sample, seen := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}, 0
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true
			case <-time.After(200 * time.Microsecond):
			}
			runtimemetrics.Read(sample)
			seen = max(seen, int(sample[0].Value.Uint64()))
		}
		most <- seen
	}()
	decoded := request.ProtoReflect().New().Interface()
	err = proto.Unmarshal(wire, decoded)
	if err == nil {
		response, err = ask(context.Background(), in, decoded)
	}
	var encoded []byte
	if err == nil {
		encoded, err = proto.Marshal(response)
	}
	live()
	close(stop)
	held = <-most - before
	runtime.KeepAlive(wire)
	runtime.KeepAlive(decoded)
	runtime.KeepAlive(response)
	runtime.KeepAlive(encoded)
	return response, held, err
}

// stopping runs a test again in a process whose garbage collector stops the world, and reports
// whether this is that process. Each draw collects garbage many times, so there are few.
func stopping(t *testing.T) bool {
	t.Helper()
	const setting = "gcstoptheworld=1"
	if strings.Contains(os.Getenv("GODEBUG"), setting) {
		return true
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", fmt.Sprintf("-rapid.checks=%d", testtier.Conformance.Draws(60, 300)))
	command.Env = append(os.Environ(), "GODEBUG="+setting)
	output, err := command.CombinedOutput()
	if t.Logf("%s", output); err != nil {
		t.Error(err)
	}
	return false
}

// needOf returns the message of a request, and what its call is said to need beside it.
func needOf(tb testing.TB, methods map[string]ingress.Method, method string, request proto.Message) (wire []byte, bytes int) {
	tb.Helper()
	wire, err := proto.Marshal(request)
	if err != nil {
		tb.Fatal(err)
	}
	bytes, err = methods[method].Need.Bytes(methods[method].Need.Size(wire), 1<<40)
	if err != nil {
		tb.Fatal(err)
	}
	return wire, bytes
}

// TestHeld checks that a call holds at no time more than a fifth beyond what it is said to need,
// but for what each turn of an exact search is said to; and that a recorder is told no less than
// what the messages of the call take.
func TestHeld(t *testing.T) {
	if !stopping(t) {
		return
	}
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, needs := apiconv.InProcess{Allocator: allocator}, methods(allocator.MaxJobs())
	most := make(map[string]float64)
	rapid.Check(t, func(r *rapid.T) {
		method, request := drawRequest(r)
		wire, need := needOf(t, needs, method, request)
		response, held, err := heldBy(in, request)
		if err != nil {
			r.Skip(err)
		}
		checkRecorded(r, &ingress.Event{Request: request, Response: response, RequestBytes: len(wire), Size: needs[method].Need.Size(wire)})
		const others = 1 << 20 // the tables of a bound, what the allocator keeps for the next call, and tests
		beside := others
		options, ok := request.(interface {
			GetOptions() *elastallocv1.AllocateOptions
		})
		switch {
		case method == "Explain": // It rests on the bounds of exact searches, and here takes a turn per processor.
			beside += runtime.GOMAXPROCS(0) * TurnMemory
		case ok && options.GetOptions().GetBackend() == elastallocv1.Backend_BACKEND_EXACT:
			method += ", exact"
			beside += TurnMemory
		case ok:
			beside += boundMemory
		}
		most[method] = max(most[method], float64(held-need-need/5)/(1<<20))
		if held > need+need/5+beside {
			r.Errorf("%s: %d bytes are held, %d were said to be needed", method, held, need)
		}
	})
	for method, beyond := range most {
		t.Logf("%s: at most %.1f MiB beyond 1.2 times what is said to be needed", method, beyond)
	}
}

// sized keeps what a call is said to take.
type sized struct{ bytes int }

func (s *sized) Record(_ recording.Entry, bytes int) { s.bytes = bytes }
func (*sized) Stats() recording.Stats                { return recording.Stats{} }

// checkRecorded checks that a recorder is told no less than what copies of the messages take.
func checkRecorded(t *rapid.T, e *ingress.Event) {
	told := new(sized)
	recordObserver{told}.Observe(context.Background(), e)
	before := live()
	copies := []proto.Message{proto.Clone(e.Request), proto.Clone(e.Response)}
	const others = 64 << 10
	if held := live() - before; held > told.bytes+told.bytes/5+others {
		t.Errorf("the messages take %d bytes; the recorder is told %d", held, told.bytes)
	}
	runtime.KeepAlive(copies)
	runtime.KeepAlive(e)
}

// BenchmarkNeed measures what the constants of guard.Need estimate: what each of something holds,
// beside what it is said to need.
func BenchmarkNeed(b *testing.B) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	in, needs := apiconv.InProcess{Allocator: allocator}, methods(allocator.MaxJobs())
	options := func() *elastallocv1.AllocateOptions {
		return &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(time.Second), Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME}
	}
	for _, row := range []struct {
		each, method string
		few, many    int
		request      func(n int) proto.Message
	}{
		{"job", "Allocate", 2000, 4000, func(n int) proto.Message {
			return &elastallocv1.AllocateRequest{Snapshot: queue(n, 2*n), Options: options()}
		}},
		{"job filled", "FillIdle", 2000, 4000, func(n int) proto.Message { return &elastallocv1.FillIdleRequest{Snapshot: queue(n, 2*n)} }},
		{"job that never fits", "Allocate", 2000, 4000, func(n int) proto.Message {
			s := queue(n, 2*n)
			for _, job := range s.GetJobs() {
				job.MinNodes, job.MaxNodes = new(int32(1<<30)), new(int32(1<<30))
			}
			return &elastallocv1.AllocateRequest{Snapshot: s, Options: options()}
		}},
		{"legal size of 1,000 jobs", "Allocate", 8, 32, func(n int) proto.Message {
			s := queue(1000, 4000)
			for _, job := range s.GetJobs() {
				for size := range n {
					job.AllowedNodes = append(job.AllowedNodes, int32(size+1))
				}
				job.MaxNodes = new(int32(n))
			}
			return &elastallocv1.AllocateRequest{Snapshot: s, Options: options()}
		}},
		{"step of 2,000 plans", "Allocate", 6, 24, func(n int) proto.Message {
			s := queue(2000, 4000)
			s.Horizon = &elastallocv1.Horizon{Steps: new(int32(n))}
			return &elastallocv1.AllocateRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{
				Backend: elastallocv1.Backend_BACKEND_GREEDY, IncludePlan: true,
			}}
		}},
		{"group", "Allocate", 1000, 4000, func(n int) proto.Message {
			s := queue(10, 20)
			for _, job := range s.GetJobs() {
				job.GroupId = "group-0"
			}
			for i := range n {
				s.Groups = append(s.Groups, &elastallocv1.Group{Id: fmt.Sprint("group-", i)})
			}
			return &elastallocv1.AllocateRequest{Snapshot: s, Options: options()}
		}},
		{"scenario of 300 jobs", "WhatIf", 8, 64, func(n int) proto.Message {
			r := &elastallocv1.WhatIfRequest{Snapshot: queue(300, 600), Options: &elastallocv1.AllocateOptions{Backend: elastallocv1.Backend_BACKEND_GREEDY}}
			for i := range n {
				r.Scenarios = append(r.Scenarios, &elastallocv1.Scenario{TotalNodes: new(int32(600 + i))})
			}
			return r
		}},
		{"job explained", "Explain", 100, 400, func(n int) proto.Message {
			return &elastallocv1.ExplainRequest{Snapshot: queue(n, 2*n), Options: options()}
		}},
		{"job explained, of any size", "Explain", 100, 300, func(n int) proto.Message {
			s := queue(n, 1<<30)
			s.Horizon = &elastallocv1.Horizon{Steps: new(int32(24))}
			for i, job := range s.GetJobs() {
				job.Id, job.MinNodes, job.CurrentNodes = strings.Repeat("x", 70)+job.GetId(), new(int32(4)), int32(i%2*4)
			}
			return &elastallocv1.ExplainRequest{Snapshot: s, Options: &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(200 * time.Millisecond)}}
		}},
		{"sample of 500 jobs", "Forecast", 10, 100, func(n int) proto.Message {
			return &elastallocv1.ForecastRequest{
				Snapshot: queue(500, 1000), EtaError: 0.2, Samples: int32(n), Options: &elastallocv1.AllocateOptions{Backend: elastallocv1.Backend_BACKEND_GREEDY},
			}
		}},
	} {
		b.Run(row.each, func(b *testing.B) {
			few, many := math.MaxInt, math.MaxInt // The least: what else the machine does adds to it.
			for b.Loop() {
				for n, least := range map[int]*int{row.few: &few, row.many: &many} {
					_, held, err := heldBy(in, row.request(n))
					if err != nil {
						b.Fatal(err)
					}
					*least = min(*least, held)
				}
			}
			_, fewSaid := needOf(b, needs, row.method, row.request(row.few))
			_, said := needOf(b, needs, row.method, row.request(row.many))
			b.ReportMetric(float64(many-few)/float64(row.many-row.few), "held-B")
			b.ReportMetric(float64(said-fewSaid)/float64(row.many-row.few), "said-B")
		})
	}
}

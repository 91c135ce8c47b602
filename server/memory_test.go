package server

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// callInProcess makes a call of any method in process.
func callInProcess(ctx context.Context, in apiconv.InProcess, request proto.Message) (proto.Message, error) {
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
		panic(fmt.Sprintf("callInProcess has no case for %T", request))
	}
}

// requestKinds are kinds of requests whose responses or searches need much more memory than the
// request: long ids that are repeated in responses, plans, groups, sizes, node types, and sizes with
// many different sums.
var requestKinds = []string{
	"usual", "plans", "never fit", "behind", "wide", "hard", "groups", "used", "uneven", "uneven teams", "uneven types",
}

// randomRequest returns a random request of a method and kind.
func randomRequest(r *rand.Rand, method, kind string) proto.Message {
	jobs := 1 + r.IntN(2000)
	id := strings.Repeat(oneOf(r, "x", "\x01", "\u202e"), r.IntN(80))
	s := &elastallocv1.Snapshot{Id: id, TotalNodes: oneOf(r, 0, 8, int32(2*jobs), 1<<30)}
	s.Horizon = &elastallocv1.Horizon{Steps: new(oneOf[int32](r, 1, 5, 24))}
	options := &elastallocv1.AllocateOptions{
		IncludePlan: r.IntN(2) == 0, Certificate: r.IntN(2) == 0, TimeBudget: durationpb.New(20 * time.Millisecond),
		Backend:   oneOf(r, elastallocv1.Backend_BACKEND_EXACT, elastallocv1.Backend_BACKEND_GREEDY),
		Objective: oneOf(r, elastallocv1.Objective_OBJECTIVE_PROGRESS, elastallocv1.Objective_OBJECTIVE_TOTAL_TIME),
	}
	sums := oneOf(r, 1, 10, 1000, 100_000)
	if strings.HasPrefix(kind, "uneven") {
		jobs = 1 + jobs/20
		s.TotalNodes, options.TimeBudget = int32(1+2*sums*jobs), durationpb.New(700*time.Millisecond)
		options.Backend, options.Admission = elastallocv1.Backend_BACKEND_EXACT, elastallocv1.Admission(1+r.IntN(4))
	}
	switch kind {
	case "plans":
		jobs, id = 2000, strings.Repeat("x", 80)
		s.Horizon.Steps, options.IncludePlan, options.Backend = new(int32(24)), true, elastallocv1.Backend_BACKEND_GREEDY
	case "hard": // There are few jobs, so that the search needs much of the memory.
		jobs = min(jobs, 12)
		s.TotalNodes, s.Horizon.Steps, options.TimeBudget = 30, new(int32(24)), durationpb.New(300*time.Millisecond)
	case "groups":
		options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
	case "used":
		options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_HOLD
	case "uneven teams":
		options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		for n := range int32(4) {
			s.Groups = append(s.Groups, &elastallocv1.Group{
				Id: fmt.Sprint(n), Quota: s.GetTotalNodes() * n / 5, Limit: new(s.GetTotalNodes() * (1 + n) / 7),
			})
		}
	case "uneven types":
		options.Objective = elastallocv1.Objective_OBJECTIVE_TOTAL_TIME
		for n := range 2 + r.IntN(7) {
			s.NodeTypes = append(s.NodeTypes, &elastallocv1.NodeType{
				Id: fmt.Sprint(id, n), Nodes: int32(1 + r.IntN(1+sums*jobs/2)), Speed: new(0.5 + r.Float64()),
			})
		}
		s.TotalNodes = 0
	}
	for i := range jobs {
		s.Jobs = append(s.Jobs, randomJob(r, s, kind, id, i, sums))
	}
	switch method {
	case "Allocate":
		return &elastallocv1.AllocateRequest{Snapshot: s, Options: options}
	case "FillIdle":
		return &elastallocv1.FillIdleRequest{Snapshot: s}
	case "Explain":
		options.TimeBudget = durationpb.New(200 * time.Millisecond)
		return &elastallocv1.ExplainRequest{Snapshot: s, Options: options}
	case "Forecast":
		options.TimeBudget = durationpb.New(200 * time.Millisecond)
		return &elastallocv1.ForecastRequest{Snapshot: s, Options: options, EtaError: 0.2, Samples: 1 + r.Int32N(100)}
	case "WhatIf":
		request := &elastallocv1.WhatIfRequest{Snapshot: s, Options: options}
		for range oneOf(r, 1, 64) {
			request.Scenarios = append(request.Scenarios, &elastallocv1.Scenario{Name: id, TotalNodes: new(r.Int32N(100))})
		}
		return request
	default:
		panic("randomRequest has no case for " + method)
	}
}

// randomJob returns random job i of a snapshot, and adds its group to the snapshot.
func randomJob(r *rand.Rand, s *elastallocv1.Snapshot, kind, id string, i, sums int) *elastallocv1.Job {
	job := &elastallocv1.Job{Id: fmt.Sprint(id, i), RemainingEta: durationpb.New(time.Duration(100+i*7919%36000) * time.Second)}
	switch kind {
	case "never fit":
		job.MinNodes, job.MaxNodes = new(int32(1<<30)), new(int32(1<<30))
	case "behind":
		job.CurrentNodes = int32(i % 2 * 4)
		job.MinNodes = new(int32(4))
	case "wide":
		job.MaxNodes = new(int32(1 << 30))
	case "hard":
		job.CurrentNodes, job.Weight = int32(1<<(i%3)), new(1+float64(i*31%17)/17)
	case "groups":
		job.GroupId = fmt.Sprint(id, i)
		s.Groups = append(s.Groups, &elastallocv1.Group{Id: job.GetGroupId()})
	case "used":
		job.MinNodes = new(int32(0))
	case "uneven", "uneven teams", "uneven types":
		job.AllowedNodes, job.Scaling = unevenSizes(r, sums)
		job.MinNodes, job.MaxNodes, job.Weight = new(int32(1)), new(int32(1<<30)), new(0.5+r.Float64())
		if len(s.GetGroups()) > 0 {
			job.GroupId = fmt.Sprint(i % 4)
		}
		for _, nodes := range s.GetNodeTypes() {
			sizes, scaling := unevenSizes(r, sums)
			job.Speeds = append(job.Speeds, &elastallocv1.TypeSpeed{NodeType: nodes.GetId(), Scaling: scaling, AllowedNodes: sizes})
		}
	}
	return job
}

func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// unevenSizes returns sizes of a job with many different sums, and a speed for each.
func unevenSizes(r *rand.Rand, limit int) ([]int32, *elastallocv1.Scaling) {
	var sizes []int32
	table, size, speed := &elastallocv1.SpeedTable{}, 0, 0.0
	for range 2 + r.IntN(31) {
		size, speed = size+1+r.IntN(limit), speed+r.Float64()
		sizes, table.Speeds = append(sizes, int32(size)), append(table.Speeds, speed)
	}
	return sizes, &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: table}}
}

// reachableBytes returns the size of reachable objects on the heap. Two garbage collections are needed
// to empty each sync.Pool.
func reachableBytes() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// peakMemory returns the response of a call and the peak memory of request, response and their
// encodings. It collects garbage each time that the heap has grown by 5%. The result is exact only if
// the collector stops the world, as in inStopTheWorldProcess, because new objects count otherwise.
func peakMemory(in apiconv.InProcess, request proto.Message) (response proto.Message, used int, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	wire, err := proto.Marshal(request)
	if err != nil {
		return nil, 0, err
	}
	before := reachableBytes()
	stop, peak := make(chan struct{}), make(chan int)
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
		peak <- seen
	}()
	decoded := request.ProtoReflect().New().Interface()
	err = proto.Unmarshal(wire, decoded)
	if err == nil {
		response, err = callInProcess(context.Background(), in, decoded)
	}
	var encoded []byte
	if err == nil {
		encoded, err = proto.Marshal(response)
	}
	reachableBytes()
	close(stop)
	used = <-peak - before
	runtime.KeepAlive(wire)
	runtime.KeepAlive(decoded)
	runtime.KeepAlive(response)
	runtime.KeepAlive(encoded)
	return response, used, err
}

// inStopTheWorldProcess runs a test again in a process whose garbage collector stops the world, and
// reports whether this is that process.
func inStopTheWorldProcess(t *testing.T) bool {
	t.Helper()
	const setting = "gcstoptheworld=1"
	if strings.Contains(os.Getenv("GODEBUG"), setting) {
		return true
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), "GODEBUG="+setting)
	output, err := command.CombinedOutput()
	if t.Logf("%s", output); err != nil {
		t.Error(err)
	}
	return false
}

// reservation returns the message of a request, and the memory that is reserved for its call as a kind
// of work.
func reservation(tb testing.TB, method ingress.Method, as ingress.Work, request proto.Message) (wire []byte, bytes int) {
	tb.Helper()
	wire, err := proto.Marshal(request)
	if err != nil {
		tb.Fatal(err)
	}
	bytes, err = method.Memory.Bytes(method.Memory.Size(wire), 1<<40)
	if err != nil {
		tb.Fatal(err)
	}
	return wire, guard.CallBytes + 2*len(wire) + bytes + as.Memory()
}

// oneSlot is an allocator without additional slots, which would have their own reservations.
type oneSlot struct{ apiconv.Allocator }

func refuse(context.Context) (context.Context, func(), bool) { return nil, nil, false }

// Explain uses one slot.
func (a oneSlot) Explain(ctx context.Context, s *solver.Snapshot, o solver.Options, ids []string) (solver.Explanation, error) {
	o.AcquireWorker = refuse
	return a.Allocator.Explain(ctx, s, o, ids)
}

// Forecast uses one slot.
func (a oneSlot) Forecast(ctx context.Context, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions) (solver.Forecast, error) {
	o.AcquireWorker = refuse
	return a.Allocator.Forecast(ctx, s, o, f)
}

// TestMemoryInUse checks that no call uses more than 1.2 times its reservation, and that recorders get
// at least the memory of the messages.
func TestMemoryInUse(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector uses additional memory")
	}
	if !inStopTheWorldProcess(t) {
		return
	}
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in, needs := apiconv.InProcess{Allocator: oneSlot{allocator}}, methods(allocator.MaxJobs())
	checkRecorded(t, explainedInFull())
	shares := make(map[string]float64)
	// The quick tier uses one in five requests, which include every kind and every method.
	for n := 0; n < testtier.Conformance.Examples(1, 4)*len(requestKinds)*len(needs); n += testtier.Conformance.Examples(5, 1) {
		kind := requestKinds[n%len(requestKinds)]
		method := slices.Sorted(maps.Keys(needs))[n/len(requestKinds)%len(needs)]
		request := randomRequest(rand.New(rand.NewPCG(uint64(n), 1)), method, kind)
		as := needs[method].Work
		if r, ok := request.(*elastallocv1.AllocateRequest); ok && r.GetOptions().GetBackend() == elastallocv1.Backend_BACKEND_GREEDY {
			as = ingress.WorkShort // It has no slot for a search.
		}
		wire, reserved := reservation(t, needs[method], as, request)
		goroutines := runtime.NumGoroutine()
		response, used, err := peakMemory(in, request)
		for runtime.NumGoroutine() > goroutines { // A search may end after the response, and uses memory until then.
			time.Sleep(time.Millisecond)
		}
		if err == nil {
			checkRecorded(t, &ingress.Event{Request: request, Response: response, RequestBytes: len(wire), Size: needs[method].Memory.Size(wire)})
		}
		shares[method] = max(shares[method], float64(used)/float64(reserved))
		if float64(used) > 1.2*float64(reserved) {
			t.Errorf("%s, %s, request %d: %d bytes are in use, %d are reserved", method, kind, n, used, reserved)
		}
	}
	for method, share := range shares {
		t.Logf("%s: at most %.2f times what is reserved", method, share)
	}
}

// checkRecorded checks that a recorder gets at least the memory of copies of the messages.
func checkRecorded(t *testing.T, e *ingress.Event) {
	t.Helper()
	recorded, before := recordedBytes(e), reachableBytes()
	copies := []proto.Message{proto.Clone(e.Request), proto.Clone(e.Response)}
	const others = 64 << 10
	if used := reachableBytes() - before; used > recorded+recorded/5+others {
		t.Errorf("the messages have %d bytes; the recorder gets %d", used, recorded)
	}
	runtime.KeepAlive(copies)
	runtime.KeepAlive(e)
}

// explainedInFull returns a call whose response has many small elements, the values of many sizes.
func explainedInFull() *ingress.Event {
	response := new(elastallocv1.ExplainResponse)
	for range 1000 {
		job := new(elastallocv1.JobExplanation)
		for n := range int32(31) {
			job.Sizes = append(job.Sizes, &elastallocv1.SizeOption{Nodes: 1 + n, Proven: true})
		}
		response.Jobs = append(response.Jobs, job)
	}
	return &ingress.Event{Request: new(elastallocv1.ExplainRequest), Response: response}
}

// BenchmarkEstimator measures the memory that the constants of guard.Estimator estimate.
func BenchmarkEstimator(b *testing.B) {
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
				Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS,
				Backend:   elastallocv1.Backend_BACKEND_GREEDY, IncludePlan: true,
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
			r := &elastallocv1.WhatIfRequest{
				Snapshot: queue(300, 600),
				Options: &elastallocv1.AllocateOptions{
					Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY,
				},
			}
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
			return &elastallocv1.ExplainRequest{
				Snapshot: s, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS,
					TimeBudget: durationpb.New(200 * time.Millisecond)},
			}
		}},
		{"sample of 500 jobs", "Forecast", 10, 100, func(n int) proto.Message {
			return &elastallocv1.ForecastRequest{
				Snapshot: queue(500, 1000), EtaError: 0.2, Samples: int32(n),
				Options: &elastallocv1.AllocateOptions{
					Objective: elastallocv1.Objective_OBJECTIVE_PROGRESS, Backend: elastallocv1.Backend_BACKEND_GREEDY,
				},
			}
		}},
	} {
		b.Run(row.each, func(b *testing.B) {
			few, many := math.MaxInt, math.MaxInt // The minimum, because other load on the machine increases the time.
			for b.Loop() {
				for n, smallest := range map[int]*int{row.few: &few, row.many: &many} {
					_, used, err := peakMemory(in, row.request(n))
					if err != nil {
						b.Fatal(err)
					}
					*smallest = min(*smallest, used)
				}
			}
			_, fewSaid := reservation(b, needs[row.method], needs[row.method].Work, row.request(row.few))
			_, said := reservation(b, needs[row.method], needs[row.method].Work, row.request(row.many))
			b.ReportMetric(float64(many-few)/float64(row.many-row.few), "used-B")
			b.ReportMetric(float64(said-fewSaid)/float64(row.many-row.few), "said-B")
		})
	}
}

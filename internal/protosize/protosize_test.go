package protosize

import (
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// allocated returns the bytes that decoding a request allocates.
func allocated(wire []byte) uint64 {
	var before, after runtime.MemStats
	smallest := ^uint64(0)
	for range 3 { // Other goroutines may allocate too.
		request := new(elastallocv1.AllocateRequest)
		runtime.ReadMemStats(&before)
		_ = proto.Unmarshal(wire, request)
		runtime.ReadMemStats(&after)
		smallest = min(smallest, after.TotalAlloc-before.TotalAlloc)
		runtime.KeepAlive(request)
	}
	return smallest
}

// requests returns requests whose objects take much more memory than their wire format.
func requests() map[string][]byte {
	request := func(jobs int, one *elastallocv1.Job) []byte {
		snapshot := &elastallocv1.Snapshot{Id: "s"}
		for range jobs {
			snapshot.Jobs = append(snapshot.Jobs, one)
		}
		wire, err := proto.Marshal(&elastallocv1.AllocateRequest{Snapshot: snapshot})
		if err != nil {
			panic(err)
		}
		return wire
	}
	table := func(n int) *elastallocv1.Job {
		return &elastallocv1.Job{
			Id: "job", RemainingEta: durationpb.New(1e9), AllowedNodes: make([]int32, n),
			Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: make([]float64, n)}}},
		}
	}
	return map[string][]byte{
		"empty":      nil,
		"empty jobs": request(100_000, &elastallocv1.Job{}),
		"typical jobs": request(1000, &elastallocv1.Job{
			Id: "some-job-00001", RemainingEta: durationpb.New(1e12), MaxNodes: proto.Int32(8), CurrentNodes: 3, Weight: proto.Float64(2),
		}),
		"tables":          request(1000, table(32)),
		"one large table": request(1, table(100_000)),
		"empty messages": request(10_000, &elastallocv1.Job{
			RemainingEta: &durationpb.Duration{}, TrainingTime: &durationpb.Duration{}, ResizeDelay: &durationpb.Duration{},
			Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{}}},
		}),
		"a long id":      request(1, &elastallocv1.Job{Id: strings.Repeat("x", 1<<20)}),
		"unknown fields": []byte(strings.Repeat("\xf8\x3f\x01", 100_000)),
		// Old clients send lists that are not packed.
		"unpacked": append([]byte("\x0a\xc4\x9a\x0c\x22\xc0\x9a\x0c"), []byte(strings.Repeat("\x38\x01", 100_000))...),
		"a oneof that is set repeatedly": append([]byte("\x0a\xc8\x9a\x0c\x22\xc4\x9a\x0c\x42\xc0\x9a\x0c"),
			[]byte(strings.Repeat("\x12\x00", 100_000))...),
	}
}

// TestSizeIsAnUpperBound checks that the estimate is between the allocation of the decoder and eight times as
// much. The exception is a oneof that is set repeatedly, because the decoder merges the values into one
// object.
func TestSizeIsAnUpperBound(t *testing.T) {
	estimator := New(&elastallocv1.AllocateRequest{}, map[protoreflect.FullName]int{"elastalloc.v1.Job": 1})
	for name, wire := range requests() {
		size, took := estimator.Size(wire), allocated(wire)
		t.Logf("%s: %d bytes, estimated %d, allocated %d", name, len(wire), size.Bytes, took)
		if uint64(size.Bytes) < took-min(took, 512) {
			t.Errorf("%s: estimated %d bytes, but decoding allocates %d", name, size.Bytes, took)
		}
		if uint64(size.Bytes) > 8*took+4096 && name != "a oneof that is set repeatedly" {
			t.Errorf("%s: estimated %d bytes, but decoding allocates only %d", name, size.Bytes, took)
		}
	}
}

// TestCounters checks that the number of messages is the number that the decoder creates.
func TestCounters(t *testing.T) {
	t.Parallel()
	estimator := New(&elastallocv1.AllocateRequest{}, map[protoreflect.FullName]int{"elastalloc.v1.Job": 1})
	rapid.Check(t, func(t *rapid.T) {
		wire := rapid.SliceOfN(rapid.SampledFrom([]byte{0x0a, 0x22, 0x02, 0x04, 0x00, 0x06, 0x12, 0x08, 0x38, 0x3a, 0x42, 0x80}),
			0, 40).Draw(t, "wire")
		request := new(elastallocv1.AllocateRequest)
		if proto.Unmarshal(wire, request) != nil {
			estimator.Size(wire) // It must not panic.
			return
		}
		if got, want := estimator.Size(wire).Counters[1], len(request.GetSnapshot().GetJobs()); got != want {
			t.Fatalf("counted %d jobs in %x; the decoder creates %d", got, wire, want)
		}
	})
}

// FuzzSize checks the counters for random bytes.
func FuzzSize(f *testing.F) {
	for _, wire := range requests() {
		if len(wire) < 1<<16 {
			f.Add(wire)
		}
	}
	estimator := New(&elastallocv1.AllocateRequest{}, map[protoreflect.FullName]int{"elastalloc.v1.Job": 1})
	f.Fuzz(func(t *testing.T, wire []byte) {
		size := estimator.Size(wire)
		if request := new(elastallocv1.AllocateRequest); proto.Unmarshal(wire, request) == nil &&
			size.Counters[1] != len(request.GetSnapshot().GetJobs()) {
			t.Errorf("counted %d jobs; the decoder creates %d", size.Counters[1], len(request.GetSnapshot().GetJobs()))
		}
	})
}

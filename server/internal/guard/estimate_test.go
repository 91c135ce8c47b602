package guard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// usualRequest returns a request with typical jobs.
func usualRequest(jobs int) *elastallocv1.AllocateRequest {
	s := &elastallocv1.Snapshot{Id: "usual", TotalNodes: int32(jobs * 7 / 4)}
	for i := range jobs {
		s.Jobs = append(s.Jobs, &elastallocv1.Job{
			Id: fmt.Sprintf("team-%d/job-%d", i%7, i), RemainingEta: durationpb.New(time.Duration(100+i*7919%36000) * time.Second),
			MaxNodes: proto.Int32(8), CurrentNodes: int32(i % 3), TrainingTime: durationpb.New(time.Duration(i%5000) * time.Second),
			Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_DoublingEfficiency{DoublingEfficiency: 0.7 + float64(i%30)/100}},
		})
	}
	return &elastallocv1.AllocateRequest{Snapshot: s}
}

// BenchmarkEstimator measures the cost of counting the elements of a request, compared with decoding, decision and
// encoding in process. The measurements alternate, so that other load on the machine affects both.
func BenchmarkEstimator(b *testing.B) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, jobs := range []int{40, 10_000} {
		b.Run(fmt.Sprintf("%d jobs", jobs), func(b *testing.B) {
			message, err := proto.Marshal(usualRequest(jobs))
			if err != nil {
				b.Fatal(err)
			}
			need := NewEstimator(&elastallocv1.AllocateRequest{}, jobs)
			var counting, deciding []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := need.Bytes(need.Size(message), 1<<40); err != nil {
					b.Fatal(err)
				}
				counted := time.Now()
				request := new(elastallocv1.AllocateRequest)
				if err := proto.Unmarshal(message, request); err != nil {
					b.Fatal(err)
				}
				response, err := apiconv.InProcess{Allocator: allocator}.Allocate(b.Context(), request)
				if err == nil {
					_, err = proto.Marshal(response)
				}
				if err != nil {
					b.Fatal(err)
				}
				counting, deciding = append(counting, counted.Sub(start)), append(deciding, time.Since(counted))
			}
			median := func(took []time.Duration) float64 {
				slices.Sort(took)
				return float64(took[len(took)/2].Nanoseconds()) / 1e3
			}
			b.ReportMetric(median(counting), "counting-µs")
			b.ReportMetric(median(deciding), "deciding-µs")
			b.ReportMetric(100*median(counting)/median(deciding), "%")
		})
	}
}

// TestEstimator checks that the estimated memory of a request is at least the memory of the decoded request, that
// the largest snapshots of the default limits fit, and that a request with too many jobs is rejected before it is
// decoded.
func TestEstimator(t *testing.T) {
	t.Parallel()
	const limit = 224 << 20 // for one call, of 256 MiB
	need := NewEstimator(&elastallocv1.AllocateRequest{}, 100_000)
	for jobs, atMost := range map[int]int{0: 1 << 10, 40: 200 << 10, 10_000: 32 << 20, 100_000: limit} {
		message, err := proto.Marshal(usualRequest(jobs))
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := need.Bytes(need.Size(message), limit)
		t.Logf("%d jobs, %d bytes: %d bytes, %d per job", jobs, len(message), bytes, bytes/max(1, jobs))
		if err != nil || bytes > atMost || bytes < 1500*jobs {
			t.Errorf("the estimate for %d jobs is %d bytes: %v", jobs, bytes, err)
		}
	}
	empty := append([]byte("\x0a\x80\x92\xf4\x01"), strings.Repeat("\x22\x00", 2_000_000)...)
	if _, err := need.Bytes(need.Size(empty), limit); err == nil ||
		!strings.Contains(err.Error(), "snapshot.jobs: has 2000000 jobs; must have at most 100000") {
		t.Errorf("2,000,000 empty jobs: %v", err)
	}
}

package recording

import (
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// BenchmarkRecording compares the cost of recording a call with the cost of its decision: the time of
// Record, and the time of writing JSON and of compressing it. The share of recording is largest for the
// snapshot of two jobs. The parts are measured alternately on one goroutine, so that other load affects
// all of them. The benchmark reports the median of each part and its share of the median decision.
func BenchmarkRecording(b *testing.B) {
	allocator, err := elastalloc.New(elastalloc.Options{})
	if err != nil {
		b.Fatal(err)
	}
	decide := apiconv.InProcess{Allocator: allocator}
	requests := map[string]*elastallocv1.AllocateRequest{
		"2 jobs": {Snapshot: &elastallocv1.Snapshot{Id: "small", TotalNodes: 4, Jobs: []*elastallocv1.Job{
			{Id: "a", RemainingEta: durationpb.New(time.Hour), CurrentNodes: 2},
			{Id: "b", RemainingEta: durationpb.New(2 * time.Hour)},
		}}},
		"40 jobs": example(b, "../../examples/snapshot.json"),
		"busy":    example(b, "../../examples/busy.json"),
	}
	for name, request := range requests {
		b.Run(name, func(b *testing.B) {
			w := &Writer{queue: make(chan queuedCall, 1)}
			f, err := create(b.TempDir(), time.Now())
			if err != nil {
				b.Fatal(err)
			}
			defer f.close()
			var entry Entry
			var text []byte
			parts := []struct {
				name string
				run  func() error
			}{
				{"decide", func() error {
					// A copy, because each call has its own request.
					response, err := decide.Allocate(b.Context(), proto.CloneOf(request))
					entry = Entry{Time: time.Now(), Method: "Allocate", Caller: "10.0.0.1", Request: request, Response: response}
					return err
				}},
				{"path", func() error {
					w.Record(entry, 1000)
					q := <-w.queue
					w.queuedBytes.Add(-q.bytes)
					return nil
				}},
				{"json", func() (err error) {
					text, err = entry.line()
					return err
				}},
				{"zstd", func() error {
					_, err := f.encoder.Write(text)
					return err
				}},
			}
			times := make([][]time.Duration, len(parts))
			for b.Loop() {
				for i, part := range parts {
					start := time.Now()
					if err := part.run(); err != nil {
						b.Fatal(err)
					}
					times[i] = append(times[i], time.Since(start))
				}
			}
			median := func(i int) float64 {
				slices.Sort(times[i])
				return float64(times[i][len(times[i])/2].Nanoseconds()) / 1e3
			}
			for i, part := range parts {
				b.ReportMetric(median(i), part.name+"-µs")
				if i > 0 {
					b.ReportMetric(100*median(i)/median(0), part.name+"-%")
				}
			}
		})
	}
}

func example(b *testing.B, path string) *elastallocv1.AllocateRequest {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	request := new(elastallocv1.AllocateRequest)
	if err := protojson.Unmarshal(text, request); err != nil {
		b.Fatal(err)
	}
	return request
}

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

// BenchmarkRecording sets what recording a call costs beside deciding it, on a snapshot of
// two jobs, where it weighs most, and on larger ones: on the path of the call, and in the
// goroutine that writes JSON and compresses it. They take turns on one goroutine, so that whatever else the
// machine does hits all of them; it reports the median of each and its share of the
// decision's.
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
			w := &Writer{queue: make(chan queued, 1)}
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
					// As over the network, where a call brings a request of its own.
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
			took := make([][]time.Duration, len(parts))
			for b.Loop() {
				for i, part := range parts {
					began := time.Now()
					if err := part.run(); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			median := func(i int) float64 {
				slices.Sort(took[i])
				return float64(took[i][len(took[i])/2].Nanoseconds()) / 1e3
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

package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestWriteTrace checks that a trace is read as it was written.
func TestWriteTrace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var trace Trace
		at := time.Duration(0)
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z",;\-0-9]{1,8}`), 1, 10, rapid.ID[string]).Draw(t, "ids")
		for _, id := range ids {
			at += time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "pause")) * time.Millisecond
			job := TraceJob{
				ID: id, Submit: at, GPUs: rapid.IntRange(1, 500).Draw(t, "gpus"),
				Duration: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "duration")) * time.Millisecond,
				User:     rapid.SampledFrom([]string{"", "a user"}).Draw(t, "user"), Group: rapid.SampledFrom([]string{"", "g"}).Draw(t, "group"),
			}
			if rapid.Bool().Draw(t, "started") {
				job.Start = new(at + time.Minute)
			}
			if rapid.Bool().Draw(t, "shaped") {
				job.Shape = Shape{MinNodes: 2, MaxNodes: 32, DoublingEfficiency: rapid.Float64Range(0.5, 1).Draw(t, "efficiency"), Weight: 2.5}
			}
			trace = append(trace, job)
		}
		var written strings.Builder
		if err := trace.Write(&written); err != nil {
			t.Fatal(err)
		}
		read, err := ReadTrace(strings.NewReader(written.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, written.String())
		}
		if diff := cmp.Diff(trace, read); diff != "" {
			t.Errorf("the trace that is read is another:\n%s\n%s", diff, written.String())
		}
	})
}

func TestWindow(t *testing.T) {
	t.Parallel()
	trace := Trace{
		{ID: "a", Submit: 0}, {ID: "b", Submit: time.Hour, Start: new(90 * time.Minute)},
		{ID: "c", Submit: 2 * time.Hour}, {ID: "d", Submit: 3 * time.Hour},
	}
	for name, test := range map[string]struct {
		from, length time.Duration
		want         Trace
	}{
		"all":  {0, 0, trace},
		"rest": {2 * time.Hour, 0, Trace{{ID: "c"}, {ID: "d", Submit: time.Hour}}},
		"some": {time.Hour, 2 * time.Hour, Trace{{ID: "b", Start: new(30 * time.Minute)}, {ID: "c", Submit: time.Hour}}},
		"none": {4 * time.Hour, time.Hour, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, trace.Window(test.from, test.length)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

package sim

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestWriteTrace checks that a trace is the same after it is written and read.
func TestWriteTrace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var trace Trace
		at := time.Duration(0)
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z",;\-0-9]{1,8}`), 1, 10, rapid.ID[string]).Draw(t, "ids")
		for _, id := range ids {
			at += time.Duration(rapid.Int64Range(0, 1e16).Draw(t, "pause"))
			job := TraceJob{
				ID: id, Submit: at, GPUs: rapid.IntRange(1, 500).Draw(t, "gpus"),
				Duration: time.Duration(rapid.Int64Range(0, 1e16).Draw(t, "duration")),
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
			t.Errorf("the trace differs after a round trip:\n%s\n%s", diff, written.String())
		}
	})
}

// TestWriteTraceErrors checks that a trace is not written if ReadTrace would reject it or read another one.
func TestWriteTraceErrors(t *testing.T) {
	valid := TraceJob{ID: "a", Submit: time.Second, GPUs: 1}
	for want, change := range map[string]func(*TraceJob){
		"job_id is empty": func(j *TraceJob) { j.ID = "" },
		"job_id has 257 bytes; must have at most 256":          func(j *TraceJob) { j.ID = strings.Repeat("x", 257) },
		`user is "\xff"; must be valid UTF-8`:                  func(j *TraceJob) { j.User = "\xff" },
		`group is "a\r\n"; must not contain a carriage return`: func(j *TraceJob) { j.Group = "a\r\n" },
		"submit_s is 576460752.303423489; must be from 0":      func(j *TraceJob) { j.Submit = MaxTraceTime + 2 },
		"duration_s is -0.5; must be from 0":                   func(j *TraceJob) { j.Duration = -time.Second / 2 },
		"work_s is -1; must be from 0":                         func(j *TraceJob) { j.Work = -time.Second },
		"gpus is 0; must be from 1 to 2147483647":              func(j *TraceJob) { j.GPUs = 0 },
		"start_s is 0; must be at least submit_s (1)":          func(j *TraceJob) { j.Start = new(time.Duration) },
		"submit_s is 0 after 1; must be in the order":          func(j *TraceJob) { j.Submit = 0 },
		`job_id is "first" twice; must be unique`:              func(j *TraceJob) { j.ID = "first" },
		"duration_s is 60; must be at most 4 if max_nodes is 2147483647": func(j *TraceJob) {
			j.Duration, j.MaxNodes = time.Minute, math.MaxInt32
		},
	} {
		first, job := valid, valid
		first.ID = "first"
		change(&job)
		var written strings.Builder
		err := Trace{first, job}.Write(&written)
		if err == nil || !strings.Contains(err.Error(), "job 2 of the trace: "+want) || written.Len() > 0 {
			t.Errorf("the error is %v, and %q is written; want %q", err, written.String(), want)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1.5": 1500 * time.Millisecond, ".5": time.Second / 2,
		"1e3": 1000 * time.Second, "268435456.001": 268435456001 * time.Millisecond,
		"19.4999999999999": 19500 * time.Millisecond, "576460752.303423487": MaxTraceTime, "1777885200": 1777885200 * time.Second,
	} {
		if got, err := ParseSeconds(text); err != nil || got != want {
			t.Errorf("ParseSeconds(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "-1", "NaN", "Inf", "1e10", "99999999999", "1h3", "1 ", "1.2.3", "0x", "one"} {
		if got, err := ParseSeconds(text); err == nil {
			t.Errorf("ParseSeconds(%q) = %v; want an error", text, got)
		}
	}
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

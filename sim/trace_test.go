package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
)

func TestReadTrace(t *testing.T) {
	const text = "\ufeffuser,gpus,submit_s,job_id,duration_s\n" +
		"ann,8,0,a,60\n" +
		"bob,1,0,\"b,\nc\",0\n" +
		",128,2.5,d,1e3\n"
	got, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := Trace{
		{ID: "a", Submit: 0, Duration: time.Minute, GPUs: 8, User: "ann"},
		{ID: "b,\nc", Submit: 0, Duration: 0, GPUs: 1, User: "bob"},
		{ID: "d", Submit: 2500 * time.Millisecond, Duration: 1000 * time.Second, GPUs: 128},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

func TestReadTraceOptionalColumns(t *testing.T) {
	const text = "job_id,submit_s,duration_s,gpus,start_s,min_nodes,max_nodes,doubling_efficiency,weight,user,group\n" +
		"all,5,60,8,7.5,2,32,0.9,4,ann,vision\n" +
		"none,5,60,8,,,,,,,\n" +
		"one size,5,60,8,,3,3,,,,\n"
	got, err := ReadTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := TraceJob{
		ID: "all", Submit: 5 * time.Second, Duration: time.Minute, GPUs: 8, Start: new(7500 * time.Millisecond),
		Shape: Shape{MinNodes: 2, MaxNodes: 32, DoublingEfficiency: 0.9, Weight: 4}, User: "ann", Group: "vision",
	}
	none := all
	none.ID, none.Start, none.Shape, none.User, none.Group = "none", nil, Shape{}, "", ""
	oneSize := none
	oneSize.ID, oneSize.Shape = "one size", Shape{MinNodes: 3, MaxNodes: 3}
	if diff := cmp.Diff(Trace{all, none, oneSize}, got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

func TestReadTraceOptionalColumnErrors(t *testing.T) {
	for line, want := range map[string]string{
		"4.9,,,,":        "start_s is 4.9; must be at least submit_s (5) and at most 576460752",
		",0,,,":          `min_nodes is "0"`,
		",,1.5,,":        `max_nodes is "1.5"`,
		",32,,,":         "min_nodes is 32 and max_nodes is 16; must be a range",
		",5,7,,":         "min_nodes is 5 and max_nodes is 7; must be a range",
		",,,0,":          `doubling_efficiency is "0"`,
		",,,1.1,":        `doubling_efficiency is "1.1"`,
		",,,,0":          `weight is "0"`,
		",,,,NaN":        `weight is "NaN"`,
		",,2000000000,,": "duration_s is 60; must be at most 5 if max_nodes is 2000000000",
	} {
		_, err := ReadTrace(strings.NewReader(
			"job_id,submit_s,duration_s,gpus,start_s,min_nodes,max_nodes,doubling_efficiency,weight\na,5,60,8," + line + "\n"))
		if err == nil || !strings.Contains(err.Error(), "trace line 2: "+want) {
			t.Errorf("%s: the error is %v; want %q", line, err, want)
		}
	}
}

func TestReadTraceErrors(t *testing.T) {
	const header = "job_id,submit_s,duration_s,gpus\n"
	for name, test := range map[string]struct{ text, want string }{
		"nothing": {"", "trace line 1: must be the names of the columns, at least job_id, submit_s, duration_s, gpus"},
		"semicolons": {
			"job_id;submit_s\na;0\n", `line 1: column gpus is missing; the line has ["job_id;submit_s"], and commas separate columns`,
		},
		"an epoch": {
			"job_id,submit_s,gpus,duration_s\na,1700000000,8,60\n",
			"must be seconds, a number from 0 to 576460752, since the first submission (convert dates",
		},
		"a missing column": {"job_id,submit_s,gpus\na,0,1\n", "line 1: column duration_s is missing"},
		"a column twice":   {"job_id,submit_s,duration_s,gpus,gpus\n", "line 1: column gpus is repeated"},
		"an empty id":      {header + ",0,1,1\n", "line 2: job_id is empty"},
		"an id too long": {
			header + "a,0,1,1\n" + strings.Repeat("x", 257) + ",0,1,1\n", "line 3: job_id has 257 bytes; must have at most 256",
		},
		"an id not in UTF-8": {header + "a\xff,0,1,1\n", `line 2: job_id is "a\xff"; must be valid UTF-8`},
		"a group too long": {
			"job_id,submit_s,duration_s,gpus,group\na,0,1,1," + strings.Repeat("x", 257) + "\n", "line 2: group has 257 bytes",
		},
		"a user not in UTF-8": {"job_id,submit_s,duration_s,gpus,user\na,0,1,1,\xc3\n", `line 2: user is "\xc3"; must be valid UTF-8`},
		"a duplicate id":      {header + "a,0,1,1\nb,0,1,1\na,0,1,1\n", `line 4: job_id is "a" as in line 2; must be unique`},
		"text for a number":   {header + "a,soon,1,1\n", `line 2: submit_s is "soon"`},
		"a negative time":     {header + "a,-1,1,1\n", `line 2: submit_s is "-1"`},
		"a negative duration": {header + "a,0,-0.1,1\n", `line 2: duration_s is "-0.1"`},
		"not a number":        {header + "a,0,NaN,1\n", `line 2: duration_s is "NaN"`},
		"infinity":            {header + "a,Inf,1,1\n", `line 2: submit_s is "Inf"`},
		"an overflowing time": {header + "a,0,1e10,1\n", `line 2: duration_s is "1e10"`},
		"unsorted times":      {header + "a,5,1,1\nb,4,1,1\n", "line 3: submit_s is 4 after 5"},
		"zero GPUs":           {header + "a,0,1,0\n", `line 2: gpus is "0"`},
		"negative GPUs":       {header + "a,0,1,-8\n", `line 2: gpus is "-8"`},
		"half a GPU":          {header + "a,0,1,0.5\n", `line 2: gpus is "0.5"`},
		"more GPUs than fit":  {header + "a,0,1,99999999999999999999\n", "line 2: gpus is"},
		"a short line":        {header + "a,0,1\n", "line 2: wrong number of fields"},
		"lists of different lengths": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,1,1,1 2,1\n",
			"line 2: speeds has 1 numbers; must have as many as allowed_nodes, 2",
		},
		"speeds alone": {
			"job_id,submit_s,duration_s,gpus,speeds\na,0,1,1,1 2\n", "line 2: speeds has 2 numbers; must have as many as allowed_nodes, 0",
		},
		"unsorted sizes": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes\na,0,1,1,2 1\n", `line 2: allowed_nodes is "2 1"; must be ascending`,
		},
		"no number": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes\na,0,1,1,1;2\n", `line 2: allowed_nodes is "1;2"; must be numbers`,
		},
		"no size": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes\na,0,1,1,0\n", `line 2: allowed_nodes is "0"; must be ascending whole numbers from 1`,
		},
		"no speed": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,1,1,1,NaN\n", `line 2: speeds is "NaN"; must be numbers from 0.0001`,
		},
		"too many sizes": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes\na,0,1,1," + strings.TrimSpace(strings.Repeat("1 ", 33)) + "\n",
			"line 2: allowed_nodes has 33 sizes; must have at most 32",
		},
		"too much work": {
			"job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,1e8,1,1,1e5\n", "line 2: duration_s is 100000000; must be at most 92234",
		},
		"a quote that is open": {header + "\"a,0,1,1\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			trace, err := ReadTrace(strings.NewReader(test.text))
			if err == nil {
				t.Fatalf("read %v; want an error", trace)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %q; want it to contain %q", err, test.want)
			}
		})
	}
}

func TestRequestedNodes(t *testing.T) {
	for _, test := range []struct{ gpus, gpusPerNode, want int }{
		{1, 8, 1}, {8, 8, 1}, {9, 8, 2}, {16, 8, 2}, {17, 8, 3}, {24, 8, 3}, {64, 8, 8},
		{65, 8, 9}, {96, 8, 12}, {129, 8, 17}, {1 << 62, 8, math.MaxInt32}, {3, 1, 3}, {6, 1, 6}, {96, 1, 96}, {1, 1 << 62, 1},
		{129, 1, 129}, {4096, 1, 4096}, {math.MaxInt32, 1, math.MaxInt32},
	} {
		if got := new(Shape).RequestedNodes(test.gpus, test.gpusPerNode); got != test.want {
			t.Errorf("RequestedNodes(%d, %d) = %d; want %d", test.gpus, test.gpusPerNode, got, test.want)
		}
	}
}

func TestRequestedNodesOfShapes(t *testing.T) {
	for _, test := range []struct {
		shape Shape
		gpus  int
		want  int
	}{
		{Shape{MaxNodes: 64}, 500, 63}, {Shape{MaxNodes: 64}, 100, 13}, {Shape{MaxNodes: 4}, 64, 8},
		{Shape{MinNodes: 3, MaxNodes: 3}, 64, 3}, {Shape{MaxNodes: 50}, 500, 63},
		{Shape{AllowedNodes: []int{3, 6, 12}}, 8, 3}, {Shape{AllowedNodes: []int{3, 6, 12}}, 25, 6},
		{Shape{AllowedNodes: []int{3, 6, 12}}, 48, 6}, {Shape{AllowedNodes: []int{3, 6, 12}, MaxNodes: 64}, 500, 12},
	} {
		if got := test.shape.RequestedNodes(test.gpus, 8); got != test.want {
			t.Errorf("a job of %+v with %d GPUs requests %d nodes; want %d", test.shape, test.gpus, got, test.want)
		}
	}
}

// TestRequestedSizesAreLegal checks that the requested nodes are a legal size, unless the trace sets the sizes, and
// that no other size changes.
func TestRequestedSizesAreLegal(t *testing.T) {
	for _, test := range []struct {
		job         TraceJob
		gpusPerNode int
		want        []int
	}{
		{TraceJob{GPUs: 24}, 8, []int{1, 2, 3, 4, 8, 16}},
		{TraceJob{GPUs: 32}, 8, []int{1, 2, 4, 8, 16}},
		{TraceJob{GPUs: 96}, 1, []int{1, 2, 4, 8, 16, 32, 64, 96}},
		{TraceJob{GPUs: 256}, 8, []int{1, 2, 4, 8, 16, 32}},
		{TraceJob{GPUs: 6, Shape: Shape{MinNodes: 4}}, 1, []int{4, 6, 8, 16}},
		{TraceJob{GPUs: 3, Shape: Shape{MinNodes: 4}}, 1, []int{4, 8, 16}},
		{TraceJob{GPUs: 12, Shape: Shape{MaxNodes: 8}}, 1, []int{1, 2, 4, 8}},
		{TraceJob{GPUs: 5, Shape: Shape{MinNodes: 3, MaxNodes: 3}}, 1, []int{3}},
		{TraceJob{GPUs: 5, Shape: Shape{AllowedNodes: []int{4, 8}}}, 1, []int{4, 8}},
	} {
		shape := test.job.shapeOn(test.gpusPerNode)
		if diff := cmp.Diff(test.want, shape.job("").LegalSizes()); diff != "" {
			t.Errorf("sizes of %+v (-want +got):\n%s", test.job, diff)
		}
	}
}

// TestMaxGrowth checks the sizes under a growth limit against the rule: no size above the limit, except the smallest,
// and all others as without a limit. The work does not change.
func TestMaxGrowth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := randomTrace(t)
		for i := range trace {
			trace[i].MinNodes = rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(t, "min_nodes")
			if trace[i].MinNodes == 0 && rapid.Bool().Draw(t, "speeds") {
				trace[i].AllowedNodes, trace[i].Speeds = []int{2, 3, 12}, []float64{1.5, 2, 4}
			}
		}
		options := WorkloadOptions{GPUsPerNode: rapid.SampledFrom([]int{1, 8}).Draw(t, "GPUs per node")}
		free := NewWorkload("w", trace, options)
		options.MaxGrowth = rapid.SampledFrom([]float64{1, 1.5, 2, 3}).Draw(t, "growth")
		limited := NewWorkload("w", trace, options)
		for i := range limited.Jobs {
			before, after := free.Jobs[i].SnapshotJob(), limited.Jobs[i].SnapshotJob()
			sizes := before.LegalSizes()
			want := sizes[:1]
			for _, size := range sizes[1:] {
				if float64(size) <= options.MaxGrowth*float64(free.Jobs[i].RequestedNodes) {
					want = append(want[:len(want):len(want)], size)
				}
			}
			if diff := cmp.Diff(want, after.LegalSizes()); diff != "" {
				t.Errorf("%+v, %v times (-want +got):\n%s", trace[i], options.MaxGrowth, diff)
			}
			for _, size := range want {
				if before.Speed(size) != after.Speed(size) {
					t.Errorf("the speed on %d nodes is %v; without a limit %v", size, after.Speed(size), before.Speed(size))
				}
			}
			if free.Jobs[i].Demand != limited.Jobs[i].Demand {
				t.Errorf("the limit changes the work of %+v", trace[i])
			}
		}
	})
}

func TestRemainingDemand(t *testing.T) {
	job := TraceJob{ID: "a", Duration: 1000 * time.Second, GPUs: 32}
	for _, test := range []struct{ ran, want time.Duration }{
		{0, 2560 * time.Second},
		{250 * time.Second, 1920 * time.Second},
		{1000*time.Second - 1, 3},
	} {
		if got := job.RemainingDemand(test.ran, DefaultGPUsPerNode); got != test.want {
			t.Errorf("RemainingDemand(%v) on 4 nodes = %v; want %v", test.ran, got, test.want)
		}
	}
}

// checkDemand checks that the requested size of a job is legal, that it is the number of its GPUs if a node
// is a GPU and this size is legal, and that its demand is the work on this size.
func checkDemand(t *testing.T, job *TraceJob, gpusPerNode int) {
	t.Helper()
	requested, shape := job.Nodes(gpusPerNode), job.shapeOn(gpusPerNode)
	spec := shape.job(job.ID)
	spec.RemainingETA = time.Second
	if gpusPerNode == 1 && job.MaxNodes == 0 && len(job.AllowedNodes) == 0 && requested != job.GPUs {
		t.Errorf("%+v has %d nodes of one GPU", job, requested)
	}
	if size := shape.atMost(requested); job.MaxNodes == 0 && !slices.Contains(spec.LegalSizes(), size) {
		t.Errorf("%+v requests %d nodes of %v", job, size, spec.LegalSizes())
	}
	snapshot := solver.Snapshot{TotalNodes: 1, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{*spec}}
	if bad := snapshot.Validate(1); len(bad) > 0 {
		t.Errorf("%+v is %v in a request", job, bad)
	}
	if d := job.RemainingDemand(0, gpusPerNode); d < 0 || job.Work == 0 && len(job.Speeds) == 0 && d < job.Duration {
		t.Errorf("%+v has the demand %v after a duration of %v", job, d, job.Duration)
	}
}

// checkRoundTrip checks that a trace is the same after it is written and read.
func checkRoundTrip(t *testing.T, trace Trace) {
	t.Helper()
	var written strings.Builder
	if err := trace.Write(&written); err != nil {
		t.Fatalf("cannot be written: %v", err)
	}
	again, err := ReadTrace(strings.NewReader(written.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, written.String())
	}
	if diff := cmp.Diff(trace, again, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the trace differs after a round trip:\n%s", diff)
	}
}

// FuzzReadTrace checks that the result has valid jobs with unique ids in the order of submission, which are
// valid in requests, and which are the same after they are written and read.
func FuzzReadTrace(f *testing.F) {
	for _, seed := range []string{
		"job_id,submit_s,duration_s,gpus\na,0,60,8\nb,0.5,1e3,1\n",
		"job_id,submit_s,duration_s,gpus,user,status\na,0,1,1,u1,Pass\n",
		"gpus,duration_s,submit_s,job_id\n8,NaN,-1,\"a\n",
		"\ufeffjob_id,submit_s,duration_s,gpus\r\na,0,9223372036,1\r\n",
		"job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,60,8,1 2 6,1 1.9 4e0\nb,1,60,24,3,\nc,2,6,1,,\n",
		"job_id,submit_s,duration_s,gpus,max_nodes,allowed_nodes,speeds,weight\na,0,60,2147483647,7,2147483647,100000,2\n",
		"job_id,submit_s,duration_s,gpus,allowed_nodes,speeds\na,0,60,8,2 1,NaN -1\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			if trace != nil {
				t.Errorf("a trace is returned with the error %q", err)
			}
			return
		}
		seen := make(map[string]bool)
		for i, job := range trace {
			if job.ID == "" || seen[job.ID] {
				t.Errorf("job %d has the id %q", i, job.ID)
			}
			seen[job.ID] = true
			if len(job.ID) > solver.MaxIDBytes || !utf8.ValidString(job.ID) {
				t.Errorf("job %d has the id %q", i, job.ID)
			}
			if job.GPUs < 1 || job.Duration < 0 || job.Submit < 0 {
				t.Errorf("job %d is %+v", i, job)
			}
			if i > 0 && job.Submit < trace[i-1].Submit {
				t.Errorf("job %d was submitted before the one above it", i)
			}
			for _, gpusPerNode := range []int{1, DefaultGPUsPerNode} {
				checkDemand(t, &job, gpusPerNode)
			}
		}
		checkRoundTrip(t, trace)
	})
}

package workloads

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

const speedsHeader = "application,node_type,nodes,speed,until,restart_s\n"

func TestReadSpeeds(t *testing.T) {
	_, err := ReadSpeeds(strings.NewReader("node_type,application,nodes,speed,until,restart_s,remark\n" +
		"fast,bert,4,12,,90,measured\n" +
		"fast,bert,2,8,0.5,,\n" +
		"slow,bert,1,1,0.25,89.5,\n" +
		"fast,bert,2,6,1,,\n" +
		"slow,bert,1,2,,,\n" +
		"slow,gpt,8,4,,,\n"))
	if err == nil || !strings.Contains(err.Error(), "line 4: restart_s is 89.5 after 90 in line 2") {
		t.Fatalf("the error is %v", err)
	}
	got, err := ReadSpeeds(strings.NewReader("\ufeffnode_type,application,nodes,speed,until,restart_s\n" +
		"fast,bert,4,12,,89.5\nfast,bert,2,8,0.5,\nslow,bert,1,1,0.25,\nfast,bert,2,6,1,89.5\nslow,bert,1,2,,\nslow,gpt,8,4,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	phase := func(until, two, one float64) sim.Phase {
		return sim.Phase{Until: until, Speeds: []solver.TypeSpeed{
			{NodeType: "fast", Factor: two / 2, AllowedNodes: []int{2, 4}, Scaling: solver.Scaling{Speeds: []float64{2, 24 / two}}},
			{NodeType: "slow", Factor: one, AllowedNodes: []int{1}, Scaling: solver.Scaling{Speeds: []float64{1}}},
		}}
	}
	want := sim.Speeds{
		"bert": {RestartTime: 90 * time.Second, Phases: []sim.Phase{phase(0.25, 8, 1), phase(0.5, 8, 2), phase(1, 6, 2)}},
		"gpt": {Phases: []sim.Phase{{Until: 1, Speeds: []solver.TypeSpeed{
			{NodeType: "slow", Factor: 0.5, AllowedNodes: []int{8}, Scaling: solver.Scaling{Speeds: []float64{8}}},
		}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("speeds (-want +got):\n%s", diff)
	}
}

// TestApplySpeeds applies speeds of one node type: half the speed of the reference node on one node, twice
// its speed on four.
func TestApplySpeeds(t *testing.T) {
	speeds, err := ReadSpeeds(strings.NewReader(speedsHeader + "bert,a,1,0.5,,90\nbert,a,2,0.9,,\nbert,a,4,2,,\ngpt,a,8,4,,\n"))
	if err != nil {
		t.Fatal(err)
	}
	jobOf := func(app string, work time.Duration, shape sim.Shape) sim.TraceJob {
		return sim.TraceJob{ID: app, GPUs: 2, Duration: time.Minute, Application: app, Work: work, Shape: shape}
	}
	for _, test := range []struct{ job, want sim.TraceJob }{
		{jobOf("bert", time.Hour, sim.Shape{}),
			jobOf("bert", 2*time.Hour, sim.Shape{AllowedNodes: []int{1, 2, 4}, Speeds: []float64{1, 1.8, 4}})},
		{jobOf("bert", 0, sim.Shape{MinNodes: 2}), jobOf("bert", 0, sim.Shape{AllowedNodes: []int{2, 4}, Speeds: []float64{1.8, 4}})},
		{jobOf("bert", 0, sim.Shape{MaxNodes: 2}), jobOf("bert", 0, sim.Shape{AllowedNodes: []int{1, 2}, Speeds: []float64{1, 1.8}})},
		{jobOf("bert", 0, sim.Shape{AllowedNodes: []int{1, 3, 4}}),
			jobOf("bert", 0, sim.Shape{AllowedNodes: []int{1, 4}, Speeds: []float64{1, 4}})},
		{jobOf("gpt", time.Hour, sim.Shape{}), jobOf("gpt", 2*time.Hour, sim.Shape{AllowedNodes: []int{8}, Speeds: []float64{8}})},
		{jobOf("", time.Hour, sim.Shape{MinNodes: 2}), jobOf("", time.Hour, sim.Shape{MinNodes: 2})},
	} {
		if test.job.Application == "bert" {
			test.want.RestartTime = 90 * time.Second
		}
		got, err := ApplySpeeds(speeds, sim.Trace{test.job})
		if diff := cmp.Diff(sim.Trace{test.want}, got); diff != "" || err != nil {
			t.Errorf("%+v: %v (-want +got):\n%s", test.job, err, diff)
		}
	}
	workload := sim.NewWorkload("w", sim.Trace{{ID: "a", GPUs: 1, RestartTime: time.Minute}}, sim.WorkloadOptions{GPUsPerNode: 1})
	if workload.Jobs[0].RestartTime != time.Minute {
		t.Error("the workload has no restart time")
	}
	for _, job := range []sim.TraceJob{
		jobOf("gpt", 0, sim.Shape{MaxNodes: 4}), jobOf("bert", sim.MaxTraceTime, sim.Shape{}), jobOf("gpt", 0, sim.Shape{AllowedNodes: []int{4}}),
	} {
		if got, err := ApplySpeeds(speeds, sim.Trace{job}); err == nil {
			t.Errorf("%+v becomes %+v", job, got)
		}
	}
}

func TestReadSpeedsErrors(t *testing.T) {
	many := ""
	for n := range solver.MaxSizes + 1 {
		many += "a,x," + strings.Repeat("1", 1+n/9) + string(rune('1'+n%9)) + ",1,,\n"
	}
	for text, want := range map[string]string{
		"":                               "speeds line 1: must be the names of the columns, at least application, node_type, nodes, speed",
		"application,nodes,speed\n":      "speeds line 1: column node_type is missing",
		speedsHeader:                     "speeds have no line below the header; must have at least one application",
		speedsHeader + ",x,1,1,,\n":      `speeds line 2: application is "" and node_type "x"; must not be empty`,
		speedsHeader + "a,x,0,1,,\n":     `speeds line 2: nodes is "0"; must be a whole number of at least 1`,
		speedsHeader + "a,x,1,-1,,\n":    `speeds line 2: speed is "-1"; must be a number from 0.0001 to 100000`,
		speedsHeader + "a,x,1,NaN,,\n":   `speeds line 2: speed is "NaN"; must be a number`,
		speedsHeader + "a,x,1,1,1.5,\n":  `speeds line 2: until is "1.5"; must be a number greater than 0 and at most 1`,
		speedsHeader + "a,x,1,1,,soon\n": `speeds line 2: restart_s is "soon"; must be seconds, a number from 0 to`,
		speedsHeader +
			"a,x,1,1,,\na,x,1,2,,\n": `speeds line 3: until is 1 after 1 in line 2; must increase for "a" on 1 nodes of "x" (an empty value is 1)`,
		speedsHeader +
			"a,x,1,1,0.5,\n": `speeds line 2: until is 0.5, and no later line follows; must be empty in the last line of 1 nodes of "x"`,
		speedsHeader + "a,x,1\n": "speeds: record on line 2: wrong number of fields",
		speedsHeader + many:      `one size too many for "a" on "x"; must be at most 32 sizes`,
	} {
		if _, err := ReadSpeeds(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v; want %q", text, err, want)
		}
	}
}

// checkTable checks that an application has a legal speed on each size of a node type.
func checkTable(t *testing.T, name string, speed solver.TypeSpeed) {
	t.Helper()
	if len(speed.AllowedNodes) == 0 || len(speed.AllowedNodes) != len(speed.Scaling.Speeds) || !slices.IsSorted(speed.AllowedNodes) {
		t.Fatalf("%q: %+v is not a table", name, speed)
	}
	job := solver.Job{AllowedNodes: speed.AllowedNodes, Scaling: speed.Scaling}
	for _, nodes := range speed.AllowedNodes {
		if s := speed.Factor * job.Speed(nodes); !(s > 0 && s <= solver.MaxSpeed*(1+1e-9)) {
			t.Fatalf("%q on %d of %s: speed %v", name, nodes, speed.NodeType, s)
		}
	}
}

// FuzzReadSpeeds checks that the result has complete phases of legal speeds, and that every line of the
// file applies in the phase that it ends.
func FuzzReadSpeeds(f *testing.F) {
	f.Add(speedsHeader + "a,x,1,1,0.5,30\na,x,1,2,,\na,x,4,3.5,,30\na,y,2,5,0.25,\na,y,2,4,,\nb,y,8,1,,\n")
	f.Add(speedsHeader + "a,x,1,1e-4,,\na,x,2,1e5,1,\n")
	if text, err := os.ReadFile("../../../shared/gavel/speeds.csv"); err == nil {
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		speeds, err := ReadSpeeds(strings.NewReader(text))
		if err != nil {
			if len(speeds) > 0 || strings.Contains(err.Error(), "\n") && !strings.HasPrefix(err.Error(), "speeds line 1:") {
				t.Fatalf("speeds are returned with an error, or there is more than one error: %v", err)
			}
			return
		}
		for name, app := range speeds {
			before := 0.0
			for _, phase := range app.Phases {
				if phase.Until <= before {
					t.Fatalf("%q: a phase ends at %v after %v", name, phase.Until, before)
				}
				before = phase.Until
				for _, speed := range phase.Speeds {
					checkTable(t, name, speed)
				}
			}
			if before != 1 || app.RestartTime < 0 || app.RestartTime%time.Second != 0 {
				t.Fatalf("%q ends at %v, restarts in %v", name, before, app.RestartTime)
			}
		}
	})
}

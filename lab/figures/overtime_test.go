package figures

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/sim"
)

// TestUsageOverTime checks the nodes in use and the waiting jobs of two jobs on 10 nodes, computed by hand.
func TestUsageOverTime(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	run := &sim.Result{Policy: "fifo", Nodes: 10, Jobs: []sim.JobResult{
		// In the queue for 10 min, on 4 nodes until 30, paused until 40, on 10 nodes until 60.
		{Submit: 0, End: 60 * minute,
			Nodes: []sim.NodesAt{{At: 10 * minute, Nodes: 4}, {At: 30 * minute}, {At: 40 * minute, Nodes: 10}, {At: 60 * minute}}},
		// On 5 nodes from 20 min and 30 s to 30.
		{Submit: 20 * minute, End: 30 * minute, Nodes: []sim.NodesAt{{At: 20*minute + 30*time.Second, Nodes: 5}, {At: 30 * minute}}},
	}}
	used, waiting := usageOverTime(run, 60*minute) // Parts of a minute.
	for bin, want := range map[int][2]float64{
		0: {0, 1}, 9: {0, 1}, 10: {40, 0}, 19: {40, 0}, 20: {65, 0.5}, 21: {90, 0},
		29: {90, 0}, 30: {0, 1}, 39: {0, 1}, 40: {100, 0}, 59: {100, 0},
	} {
		if math.Abs(used[bin]-want[0]) > 1e-9 || math.Abs(waiting[bin]-want[1]) > 1e-9 {
			t.Errorf("in minute %d, %v%% of the nodes are in use and %v jobs wait; want %v", bin, used[bin], waiting[bin], want)
		}
	}
	drawnUsed, drawnWaiting := OverTime([]string{"fifo"}, "node", run)
	for name, figure := range map[string]*Figure{"used": drawnUsed, "waiting": drawnWaiting} {
		if _, err := figure.SVG(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBusiest checks that the busiest tenth has most jobs, and which jobs a chart of it shows.
func TestBusiest(t *testing.T) {
	t.Parallel()
	run := &sim.Result{Policy: "fifo", Nodes: 1}
	add := func(submit, end time.Duration) { run.Jobs = append(run.Jobs, sim.JobResult{Submit: submit, End: end}) }
	add(0, 100*time.Hour)
	for range 5 {
		add(40*time.Hour, 50*time.Hour)
	}
	add(20*time.Hour, 21*time.Hour)
	from, until := busiest(run, lastEnd([]*sim.Result{run}))
	if from != 40*time.Hour || until != 50*time.Hour {
		t.Errorf("the busiest tenth is from %v to %v; want 40 h to 50 h", from, until)
	}
	if got := len(presentJobs(run, from, until)); got != 6 {
		t.Errorf("%d jobs are present; want 6", got)
	}
}

// TestColorsOfPolicies checks that a policy has the same color in the figures of jobs whatever the runs are.
func TestColorsOfPolicies(t *testing.T) {
	t.Parallel()
	policies := []string{"total-time", "max-min", "fifo"}
	run := &sim.Result{
		Policy: "fifo", Nodes: 1, Jobs: []sim.JobResult{{End: time.Hour, Alone: time.Minute, Nodes: []sim.NodesAt{{Nodes: 1}, {At: time.Hour}}}},
	}
	median, tail, err := SlowdownByLength(policies, run)
	if err != nil {
		t.Fatal(err)
	}
	used, waiting := OverTime(policies, "node", run)
	for name, figure := range map[string]*Figure{"median": median, "tail": tail, "used": used, "waiting": waiting} {
		svg, err := figure.SVG()
		if err != nil {
			t.Fatal(err)
		}
		// The third style is dark blue, the first one black.
		if !containsColor(svg, styleOf(2)) || containsColor(svg, styleOf(1)) {
			t.Errorf("%s has another color than that of the third policy", name)
		}
	}
}

// containsColor reports whether an SVG has the color of a style.
func containsColor(svg []byte, s style) bool {
	r, g, b, _ := s.line.Color.RGBA()
	return strings.Contains(strings.ToUpper(string(svg)), fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8))
}

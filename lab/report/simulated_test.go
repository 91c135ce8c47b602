package report

import (
	"strings"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/sim"
)

// simulated returns runs of two jobs on pools of 70 and 90 nodes, each of which takes as many
// minutes as the table has for its policy and pool; total-time pauses every job once.
func simulated(policies ...string) *Simulated {
	minutes := map[string][2]int{
		"total-time": {80, 90}, "total-time-waiting": {95, 96}, "max-min": {100, 100}, "fifo": {300, 85}, "greedy": {120, 120},
	}
	f := &Simulated{GPUsPerNode: 8, Workload: sim.Workload{Jobs: make([]sim.WorkloadJob, 2), Cut: sim.Cuts{BelowNode: 1}}}
	for n, nodes := range []int{70, 90} {
		for _, policy := range policies {
			end := time.Duration(minutes[policy][n]) * time.Minute
			run := &sim.Result{Policy: policy, Nodes: nodes}
			for range f.Workload.Jobs {
				job := sim.JobResult{End: end, Rescales: 2, Nodes: []sim.NodesAt{{Nodes: 1}, {At: end}}}
				if policy == "total-time" {
					job.Nodes = []sim.NodesAt{{Nodes: 1}, {At: time.Minute}, {At: 2 * time.Minute, Nodes: 1}, {At: end}}
				}
				run.Jobs = append(run.Jobs, job)
			}
			f.Runs = append(f.Runs, run)
		}
	}
	f.Summary = results.Summarize(f.Runs, policies[0], 1, f.Workload.Cut)
	return f
}

// TestLead: the verdict is of all pools, a rule is no optimiser, and who loses is named.
func TestLead(t *testing.T) {
	const assumed = "Assumed: 2 of 2 jobs may change nodes and train on up to 16 (128 GPUs), although 1 asked for less than a node of 8 GPUs; " +
		"their ETAs are known exactly."
	for policies, want := range map[string]string{
		"total-time total-time-waiting max-min fifo": "total-time against equal shares (max-min): the mean total time is 10 to 20 % shorter; " +
			"under total-time-waiting, which pauses no job, 4 to 5 % shorter (fifo is lower on 90 nodes).|" +
			"Who loses: 0 % of the jobs end later, one takes 0.9 times as long; the longest time is 10 to 20 % shorter; " +
			"nodes change 2.00 times per job instead of 2.00, 1.00 of those pauses.",
		"fifo total-time": "total-time against fifo: the mean total time is 73 % shorter to 6 % longer (fifo is lower on 90 nodes).|" +
			"Who loses: the longest time is 73 % shorter to 6 % longer; nodes change 2.00 times per job instead of 2.00, 1.00 of those pauses.",
		"max-min greedy": "greedy against equal shares (max-min): the mean total time is 20 % longer (max-min is lower on 70 and 90 nodes).|" +
			"Who loses: 100 % of the jobs end later, one takes 1.2 times as long; the longest time is 20 % longer; " +
			"nodes change 2.00 times per job instead of 2.00, 0.00 of those pauses.",
		"total-time total-time-waiting": "total-time-waiting against total-time: the mean total time is 7 to 19 % longer (total-time is lower on 70 and 90 nodes).|" +
			"Who loses: the longest time is 7 to 19 % longer; nodes change 2.00 times per job instead of 2.00, 0.00 of those pauses.",
		"total-time": "",
	} {
		want := "2 jobs on pools of 70 and 90 nodes.|" + want + "|" + assumed
		if got := strings.Join(simulated(strings.Fields(policies)...).Lead(), "|"); got != strings.ReplaceAll(want, "||", "|") {
			t.Errorf("of %s:\n%s\nwant\n%s", policies, got, want)
		}
	}
}

func TestChange(t *testing.T) {
	for want, shares := range map[string][]float64{
		"as long": {0.0004, -0.0004}, "0.3 % longer": {0.003}, "13 to 31 % shorter": {-0.31, -0.13, -0.2}, "2 % longer": {0.02, 0.021},
		"3 % shorter to 5 % longer": {-0.03, 0.05}, "0 to 31 % shorter": {-0.31, 0},
	} {
		if got := change(shares...); got != want {
			t.Errorf("%v is %q; want %q", shares, got, want)
		}
	}
}

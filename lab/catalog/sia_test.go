package catalog

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// TestSiaOptions compares the values of options with values computed by hand.
func TestSiaOptions(t *testing.T) {
	types := []solver.NodeType{{ID: "slow", Nodes: 2, Speed: 1}, {ID: "fast", Nodes: 4, Speed: 4}}
	job := func(nodes int, nodeType string, trained time.Duration) *solver.Job {
		job := solver.NewJob("a", time.Hour)
		job.Scaling.DoublingEfficiency = 0.5 // A second node does not increase the speed.
		job.CurrentNodes, job.CurrentNodeType, job.TrainingTime = nodes, nodeType, trained
		job.RestartTime = 100 * time.Second
		return &job
	}
	none := siaOption{value: -1.1}
	option := func(nodes int, nodeType string, value float64) siaOption {
		return siaOption{nodes, nodeType, value}
	}
	for name, test := range map[string]struct {
		job     *solver.Job
		history sim.JobState
		ramps   bool
		want    []siaOption
	}{
		"new": {
			job(0, "", 0), sim.JobState{}, false,
			[]siaOption{
				none, option(1, "slow", -1), option(2, "slow", -1), option(1, "fast", -0.5), option(2, "fast", -0.5), option(4, "fast", -0.5),
			},
		},
		"new, ramping": {job(0, "", 0), sim.JobState{}, true, []siaOption{none, option(1, "slow", -1), option(1, "fast", -0.5)}},
		// (400 - 1 * 100) / (400 + 100) = 0.6, and 0.6^-0.5 = 1.29, 2.4^-0.5 = 0.65.
		"running, ramping": {job(1, "slow", 400*time.Second), sim.JobState{Restarts: 1, LargestNodes: 1}, true, []siaOption{
			none, option(1, "slow", -1), option(2, "slow", -1.29), option(1, "fast", -0.65), option(2, "fast", -0.65),
		}},
		"restarted": {
			job(1, "slow", 400*time.Second), sim.JobState{Restarts: 4, LargestNodes: 1}, true,
			[]siaOption{none, option(1, "slow", -1), option(2, "slow", -100), option(1, "fast", -100), option(2, "fast", -100)},
		},
		"young": {
			job(1, "slow", 50*time.Second), sim.JobState{LargestNodes: 1}, true,
			[]siaOption{none, option(1, "slow", -1), option(2, "slow", -1), option(1, "fast", -0.5), option(2, "fast", -0.5)},
		},
		"restarting": {
			job(1, "fast", 50*time.Second), sim.JobState{LargestNodes: 1, Restarting: true}, false, []siaOption{option(1, "fast", -0.5)},
		},
	} {
		if got := siaOptions(test.job, types, test.history, test.ramps); !slices.Equal(got, test.want) {
			t.Errorf("%s: the options are %v; want %v", name, got, test.want)
		}
	}
}

// TestSiaIsExact compares the value of the chosen options with the maximum, computed by dynamic programming
// over the free nodes of all types.
func TestSiaIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &solver.Snapshot{}
		for n := range rapid.IntRange(1, 3).Draw(t, "types") {
			s.NodeTypes = append(s.NodeTypes, solver.NodeType{ID: fmt.Sprint(n), Nodes: rapid.IntRange(1, 9).Draw(t, "nodes"), Speed: 1})
		}
		options := make([][]siaOption, rapid.IntRange(1, 12).Draw(t, "jobs"))
		s.Jobs = make([]solver.Job, len(options))
		for i := range options {
			options[i] = []siaOption{{value: siaQueuedValue}}
			s.Jobs[i] = solver.NewJob(fmt.Sprint(i), time.Hour)
			for _, option := range optionsOf(s.Jobs[i], s.NodeTypes) {
				option.value = -float64(rapid.IntRange(1, 300).Draw(t, "worth")) / 100 // Ties are many.
				options[i] = append(options[i], option)
			}
		}
		decision, err := bestOptions(t.Context(), s, options)
		if err != nil {
			t.Fatal(err)
		}
		checkLegal(t, s, decision)
		got := 0.0
		for i, h := range decision.Allocations {
			got += options[i][slices.IndexFunc(options[i], func(o siaOption) bool { return o.is(h.Nodes, h.NodeType) })].value
		}
		if want := bestOfAll(s.NodeTypes, options); math.Abs(got-want) > 1e-9 || decision.Report.Reason != solver.ReasonOptimal {
			t.Fatalf("the value of the choice is %v, %s; the maximum is %v", got, decision.Report.Reason, want)
		}
	})
}

// bestOfAll returns the maximum value of a choice of options, by dynamic programming over the numbers of
// free nodes of each type.
func bestOfAll(types []solver.NodeType, options [][]siaOption) float64 {
	states, stride, nodes := 1, make(map[string]int), make(map[string]int)
	for _, t := range types {
		stride[t.ID], nodes[t.ID] = states, t.Nodes
		states *= t.Nodes + 1
	}
	best := make([]float64, states)
	for job := range options {
		next := make([]float64, states)
		for free := range next {
			next[free] = math.Inf(-1)
			for _, o := range options[job] {
				if o.nodes == 0 || free/stride[o.nodeType]%(nodes[o.nodeType]+1) >= o.nodes {
					next[free] = max(next[free], o.value+best[free-o.nodes*stride[o.nodeType]])
				}
			}
		}
		best = next
	}
	return best[states-1]
}

package greedy

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// typed returns a snapshot with two node types of the speeds 4 and 1.
func typed(fast, slow int, jobs ...solver.Job) *solver.Snapshot {
	s := snapshotOf(0, jobs...)
	s.NodeTypes = []solver.NodeType{{ID: "slow", Nodes: slow}, {ID: "fast", Nodes: fast, Speed: 4}}
	return s.WithDefaults()
}

// on sets the node type of a running job.
func on(nodeType string, job solver.Job) solver.Job {
	job.CurrentNodeType = nodeType
	return job
}

func fast(nodes int) solver.Option { return solver.NewOption(1, nodes) }
func slow(nodes int) solver.Option { return solver.NewOption(0, nodes) }

func TestNodeTypes(t *testing.T) {
	slowOnly := queued()
	none := solver.Option{}
	slowOnly.Speeds = []solver.TypeSpeed{{NodeType: "slow"}}
	tests := []struct {
		name         string
		s            *solver.Snapshot
		filled, want []solver.Option
	}{
		{
			"the first job gets the fastest idle nodes", typed(2, 16, queued(), queued()),
			[]solver.Option{slow(16), fast(2)}, // 6.6 and 6.4 times as fast as a slow node
			[]solver.Option{slow(16), fast(2)},
		},
		{
			"a job whose only type is full blocks the queue", typed(2, 4, on("slow", running(4, time.Hour)), slowOnly, queued()),
			[]solver.Option{slow(4), none, none}, []solver.Option{slow(4), none, none},
		},
		{
			"a type that shrank", typed(8, 2, on("slow", running(4, time.Hour)), on("fast", running(2, time.Hour)), queued()),
			[]solver.Option{none, fast(2), none}, []solver.Option{slow(2), fast(4), fast(4)},
		},
		{
			"a type without nodes", typed(8, 0, on("slow", sized(running(4, time.Hour), 4)), on("fast", sized(running(8, time.Hour), 4, 8))),
			[]solver.Option{none, fast(8)}, []solver.Option{fast(4), fast(4)},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			options := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionFIFO}.WithDefaults()
			if bad := solver.Validate(test.s, options, 10, []solver.BackendName{solver.BackendExact}); len(bad) > 0 {
				t.Fatal(bad)
			}
			if got := FillIdle(test.s); !slices.Equal(got, test.filled) {
				t.Errorf("filled %v; want %v", got, test.filled)
			}
			p := problem.NewProblemFor(test.s, options)
			result, err := New().Solve(context.Background(), p, problem.SolveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.WithWaiting().Check(result.Plan); err != nil {
				t.Error(err)
			}
			if got := firstStep(test.s, p, result.Plan); !slices.Equal(got, test.want) {
				t.Errorf("allocated %v; want %v", got, test.want)
			}
		})
	}
}

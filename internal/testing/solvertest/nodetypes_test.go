package solvertest_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// twoTypes are the jobs and the pool that the gradient of node types was first worked out for.
func twoTypes() *solver.Snapshot {
	job := func(id string, eta time.Duration, fast float64) solver.Job {
		return solver.Job{
			ID: id, RemainingETA: eta, AllowedNodes: []int{1, 2, 4}, FreeResizes: true,
			Speeds: []solver.TypeSpeed{{NodeType: "fast", Factor: fast}, {NodeType: "slow", Factor: 1}},
		}
	}
	s := &solver.Snapshot{
		NodeTypes: []solver.NodeType{{ID: "fast", Nodes: 2}, {ID: "slow", Nodes: 4}},
		Jobs:      []solver.Job{job("bert", 4*time.Hour, 4), job("resnet", 4*time.Hour, 1.5), job("short", 30*time.Minute, 2)},
	}
	return s
}

func TestNodeTypes(t *testing.T) {
	hold := func(s *solver.Snapshot, i int, on string, nodes int, restart time.Duration) {
		job := &s.Jobs[i]
		job.CurrentNodes, job.CurrentNodeType, job.RestartTime, job.TrainingTime = nodes, on, restart, time.Minute
		job.FreeResizes = false
	}
	tests := []struct {
		name      string
		change    func(*solver.Snapshot)
		objective float64
		want      []string
	}{
		{"all new", func(*solver.Snapshot) {}, 5.151235, []string{"fast 2", "slow 2", "slow 2"}},
		{"a move", func(s *solver.Snapshot) { hold(s, 0, "slow", 4, time.Minute) }, 4.875191, []string{"fast 2 move", "slow 2", "slow 2"}},
		{"a swap", func(s *solver.Snapshot) {
			hold(s, 0, "slow", 2, time.Minute)
			hold(s, 1, "fast", 2, time.Minute)
		}, 4.728831, []string{"fast 2 move", "slow 2 move", "slow 2"}},
		{"a swap with long restarts", func(s *solver.Snapshot) {
			hold(s, 0, "slow", 2, 10*time.Minute)
			hold(s, 1, "fast", 2, 10*time.Minute)
		}, 4.079524, []string{"fast 2 move", "slow 2 move", "slow 2"}},
		{"a swap that does not pay", func(s *solver.Snapshot) {
			hold(s, 0, "slow", 2, 30*time.Minute)
			hold(s, 1, "fast", 2, 30*time.Minute)
		}, 4.002723, []string{"slow 2 keep", "slow 2 move", "fast 2"}},
		{"a job that does not run on one type", func(s *solver.Snapshot) { s.Jobs[1].Speeds = s.Jobs[1].Speeds[1:] },
			5.308749, []string{"fast 2", "slow 2", "slow 2"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := twoTypes()
			test.change(s)
			s = s.WithDefaults()
			options := solver.Options{
				Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionStartFirst,
				TotalTime: solver.TotalTimeOptions{SharePrice: new(0.0)},
			}.WithDefaults()
			if bad := solver.Validate(s, options, 10, []solver.BackendName{solver.BackendExact}); len(bad) > 0 {
				t.Fatal(bad)
			}
			p := problem.NewProblemFor(s, options)
			best, _ := solvertest.Exhaustive(p)
			if math.Abs(best.Objective-test.objective) > 1e-6 {
				t.Errorf("objective %.6f; want %.6f", best.Objective, test.objective)
			}
			d := report.Decide(s, p, problem.Result{Plan: best.Plan})
			var got []string
			for _, a := range d.Allocations {
				text := fmt.Sprintf("%s %d", a.NodeType, a.Nodes)
				if a.Current > 0 {
					text += " " + string(a.Change)
				}
				got = append(got, text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("allocations %v; want %v", got, test.want)
			}
		})
	}
}

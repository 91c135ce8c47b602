package exact_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// TestNothingToGain: where no plan is worth more than nothing, the search ends with the
// objective 0, the bound 0 and a gap of 0.
func TestNothingToGain(t *testing.T) {
	job := func(id string, weight float64, sizes ...int) solver.Job {
		j := solver.NewJob(id, time.Hour)
		j.Weight, j.AllowedNodes, j.MinNodes, j.MaxNodes = &weight, sizes, sizes[0], sizes[len(sizes)-1]
		return j
	}
	limited := func(limit, quota int, jobs ...solver.Job) *solver.Snapshot {
		s := &solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: jobs, Groups: []solver.Group{{ID: "g", Limit: &limit, Quota: quota}}}
		for i := range s.Jobs {
			s.Jobs[i].GroupID = "g"
		}
		return s
	}
	for name, s := range map[string]*solver.Snapshot{
		"no weight":               {TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{job("a", 0, 2, 4)}},
		"no nodes":                {Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{job("a", 1, 1, 2)}},
		"no jobs":                 {TotalNodes: 8, Horizon: solver.DefaultHorizon()},
		"a limit below all sizes": limited(1, 0, job("a", 12.4, 2, 5), job("b", 0.69, 3)),
		"a quota without weight":  limited(8, 3, job("a", 0, 2, 4)),
	} {
		for _, objective := range []solver.Objective{solver.ObjectiveProgress, solver.ObjectiveTotalTime} {
			if s.Groups != nil && objective == solver.ObjectiveProgress {
				continue
			}
			for _, admission := range solver.Admissions() {
				p := solver.NewProblemFor(s, solver.Options{Objective: objective, Admission: admission}.WithDefaults())
				result, err := exact.New().Solve(t.Context(), p, solver.SolveOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Objective(result.Plan); got != 0 || result.Bound != 0 || result.Limit != solver.LimitNone {
					t.Errorf("%s, %s, %s: objective %g, bound %g, limit %s; want 0, 0 and none", name, objective, admission, got, result.Bound, result.Limit)
				}
			}
		}
	}
}

// TestMoreJobsNeverLowerTheOptimum compares snapshots with those that have one job more, which
// may wait for ever.
func TestMoreJobsNeverLowerTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := solvertest.SnapshotsWithin(solvertest.Limits{Jobs: 8, Steps: 5, Sizes: 5, Nodes: 40}).Draw(t, "snapshot")
		if len(s.Jobs) == 0 {
			return
		}
		more, after := solve(t, solver.NewProblem(s, solver.AdmissionPreemptive), solver.SolveOptions{})
		s.Jobs = s.Jobs[:len(s.Jobs)-1]
		less, before := solve(t, solver.NewProblem(s, solver.AdmissionPreemptive), solver.SolveOptions{})
		rounding := 2e-9 * max(math.Abs(before), 1e-6)
		if after < before-rounding || more.Bound < less.Bound-rounding {
			t.Fatalf("optimum %.12g, bound %.12g; with a job less %.12g and %.12g", after, more.Bound, before, less.Bound)
		}
	})
}

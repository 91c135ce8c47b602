package exact_test

import (
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestNothingToGain checks that if no plan has a positive value, the search completes with the
// objective 0, the bound 0 and a gap of 0.
func TestNothingToGain(t *testing.T) {
	job := func(id string, weight float64, sizes ...int) solver.Job {
		j := solver.NewJob(id, time.Hour)
		j.Weight, j.AllowedNodes, j.MinNodes, j.MaxNodes = &weight, sizes, sizes[0], sizes[len(sizes)-1]
		return j
	}
	limited := func(limit, quota int, jobs ...solver.Job) *solver.Snapshot {
		s := &solver.Snapshot{
			TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: jobs, Groups: []solver.Group{{ID: "g", Limit: &limit, Quota: quota}},
		}
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
				p := problem.NewProblemFor(s, solver.Options{Objective: objective, Admission: admission}.WithDefaults())
				result, err := exact.New().Solve(t.Context(), p, problem.SolveOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Objective(result.Plan); got != 0 || result.Bound != 0 || result.Limit != solver.LimitNone {
					t.Errorf("%s, %s, %s: objective %g, bound %g, limit %s; want 0, 0 and none",
						name, objective, admission, got, result.Bound, result.Limit)
				}
			}
		}
	}
}

// TestLossesOfLargeNumbers: of a bound that is thousands of times the optimum all but that is
// lost, and with it as many digits. That is no contradiction.
func TestLossesOfLargeNumbers(t *testing.T) {
	job := func(id string, eta time.Duration, current int, sizes []int, speeds ...float64) solver.Job {
		j := solver.NewJob(id, eta)
		j.AllowedNodes, j.MinNodes, j.MaxNodes, j.CurrentNodes, j.GroupID = sizes, sizes[0], sizes[len(sizes)-1], current, "g"
		j.Scaling = solver.Scaling{Speeds: speeds}
		return j
	}
	never := job("d", 358741729267, 0, []int{1, 3, 5, 6}, 0.6611621893748383, 0.45322673849288225, 0.282353057238424, 0.22989554293380304)
	never.ETANodes = 5
	again := job("c", 411285217941, 0, []int{3, 4, 6}, 1.8001105722558226, 2.6001105722558226, 3.400110572255823)
	again.Weight, again.TrainingTime, again.RestartTime = new(0.936677548687127), 15499721546664, 10021111040
	slow := job("a", 2171784520373, 2, []int{1, 3, 4, 5}, 0.540972361666365, 1.3409723616663651, 2.140972361666365, 2.9409723616663648)
	slow.ResizeDelay = 3008513648
	running := job("b", 646076858518, 2, []int{3, 4, 5}, 0.2595558969504106, 3.718816851929781, 0.8619529767281682)
	running.TrainingTime = 6001704162
	s := &solver.Snapshot{
		TotalNodes: 3, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{slow, running, again, never},
		Groups: []solver.Group{{ID: "g", Limit: new(4), Quota: 3}},
	}
	o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionOptimized}.WithDefaults()
	o.TotalTime.Fairness, o.TotalTime.PausePriceFactor = new(0.0), new(0.0)
	o.TotalTime.ResizePrice, o.TotalTime.StartBonus, o.TotalTime.QuotaPrice = new(time.Duration(0)), new(365*24*time.Hour), new(1e6)
	p := problem.NewProblemFor(s, o)
	want, _ := solvertest.Exhaustive(p)
	result, err := exact.New().WithWitness(want.Plan).Solve(t.Context(), p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Objective(result.Plan); result.Contradiction != "" || result.Limit != solver.LimitNone || got < want.Objective-1e-9 {
		t.Errorf("objective %.17g of %.17g, limit %s, contradiction %q", got, want.Objective, result.Limit, result.Contradiction)
	}
}

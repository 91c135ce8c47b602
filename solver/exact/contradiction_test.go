package exact_test

import (
	"context"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/exact"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// meddler changes a problem while it is being solved, at a question about time.
type meddler struct {
	context.Context
	checks, at int
	meddle     func()
}

func (m *meddler) Err() error {
	if m.checks++; m.checks == m.at {
		m.meddle()
	}
	return m.Context.Err()
}

// TestContradictionOfPlan checks that a plan whose value exceeds the bound is a contradiction even if no lemma detected
// it. Only the trivial bound remains.
func TestContradictionOfPlan(t *testing.T) {
	t.Parallel()
	p := problem.NewProblem(&solver.Snapshot{TotalNodes: 8, Horizon: solver.DefaultHorizon(), Jobs: []solver.Job{
		solver.NewJob("a", 20*time.Minute), solver.NewJob("b", 10*time.Hour), solver.NewJob("c", 7*time.Hour),
	}}, solver.AdmissionPreemptive)
	m := &meddler{Context: t.Context(), at: 50, meddle: func() {
		for i := range p.Jobs { // Double the values.
			for step := range p.Jobs[i].Gain {
				p.Jobs[i].Gain[step] *= 2
			}
		}
	}}
	result, err := exact.NewWithQuantum(1).Solve(m, p, problem.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if result.Contradiction == "" || result.Limit != solver.LimitWork || result.Bound != p.TrivialBound() || p.Check(result.Plan) != nil {
		t.Errorf("after %d checks: contradiction %q, limit %v, bound %v; want one, %v and %v",
			m.checks, result.Contradiction, result.Limit, result.Bound, solver.LimitWork, p.TrivialBound())
	}
}

// TestContradictionOnTheWay checks that if a plan found during the search refutes a bound, only the trivial bound
// remains and the contradiction is reported, also if the search is repeated because of tiny values. In this test an
// expensive quota is removed after it was included in the bound.
func TestContradictionOnTheWay(t *testing.T) {
	t.Parallel()
	found := 0
	for at := range 100 {
		snapshot := &solver.Snapshot{TotalNodes: 5, Groups: []solver.Group{{ID: "g", Quota: 5}}, Jobs: []solver.Job{
			solver.NewJob("a", 20*time.Minute), solver.NewJob("b", 10*time.Hour),
		}}
		for i := range snapshot.Jobs {
			snapshot.Jobs[i].GroupID, snapshot.Jobs[i].AllowedNodes = "g", []int{3}
		}
		o := solver.Options{Objective: solver.ObjectiveTotalTime, Admission: solver.AdmissionPreemptive}.WithDefaults()
		o.TotalTime.QuotaPrice = new(1e6)
		meddled := func() (*problem.Problem, *meddler) {
			p := problem.NewProblemFor(snapshot, o)
			return p, &meddler{Context: t.Context(), at: at, meddle: func() { p.Groups[0].Floor = 0 }}
		}
		p, m := meddled()
		bound, _, contradiction := exact.NewWithQuantum(1).Bound(m, p)
		if contradiction == "" {
			continue
		}
		if found++; bound != p.TrivialBound() {
			t.Errorf("question %d: bound %v with %q; want %v", at, bound, contradiction, p.TrivialBound())
		}
		p, m = meddled()
		result, err := exact.NewWithQuantum(1).Solve(m, p, problem.SolveOptions{})
		if err != nil || result.Contradiction != contradiction || result.Limit != solver.LimitWork || result.Bound != p.TrivialBound() {
			t.Errorf("question %d: result %+v, %v; want contradiction %q and bound %v", at, result, err, contradiction, p.TrivialBound())
		}
	}
	if found == 0 {
		t.Error("no bound was contradicted")
	}
}

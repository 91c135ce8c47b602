package chain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// TestAnswersBeforeTheDeadline checks that the caller gets what is in hand before its
// deadline, whatever goes on beyond its time: a search, or the proof of a bound.
func TestAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	deaf := func(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
		time.Sleep(time.Hour)
		return solver.Result{}, solver.ErrTimedOut
	}
	late := bounds(func(ctx context.Context, _ *solver.Problem) float64 {
		if ctx.Err() == nil {
			time.Sleep(time.Hour)
		}
		return ownBound
	})
	for name, test := range map[string]struct {
		backend solver.Backend
		prover  solver.Prover
		asked   solver.BackendName
		want    solver.BackendName
		limit   solver.Limit
	}{
		"a search that goes on":            {backend: fake{solver.BackendExact, deaf}, prover: proves(fails("prover", solver.ErrUnavailable)), asked: solver.BackendExact, want: solver.BackendGreedy, limit: solver.LimitTime},
		"a bound that goes on":             {backend: exact(), prover: late, asked: solver.BackendGreedy, want: solver.BackendGreedy, limit: solver.LimitNone},
		"a bound for an answer in hand":    {backend: gives(solver.BackendCBC, solver.Result{Plan: bestPlan(), Bound: ownBound * 2, Limit: solver.LimitNone}), prover: late, asked: solver.BackendCBC, want: solver.BackendCBC, limit: solver.LimitNone},
		"neither a search nor a bound end": {backend: fake{solver.BackendExact, deaf}, prover: late, asked: solver.BackendExact, want: solver.BackendGreedy, limit: solver.LimitTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newChain(greedy(), test.backend)
				c.config.Prover = test.prover
				ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
				defer cancel()
				d, err := c.Allocate(ctx, twoJobs(), options(func(o *solver.Options) { o.Backend, o.TimeBudget = test.asked, time.Hour }))
				if err != nil || ctx.Err() != nil {
					t.Fatalf("error %v, context %v", err, ctx.Err())
				}
				if r := d.Report; r.Backend != test.want || r.Limit != test.limit || r.Bound < r.Objective {
					t.Errorf("the report is %+v", r)
				}
				time.Sleep(2 * time.Hour) // What goes on ends.
			})
		})
	}
}

// TestHurriedDecisions checks that a decision that is hurried ends with what its search
// has, as if its time were up.
func TestHurriedDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hurried, hurry := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, hurry)
		c := newChain(greedy(), fake{solver.BackendExact, func(ctx context.Context, _ *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
			<-ctx.Done()
			if ctx.Err() != context.DeadlineExceeded {
				t.Errorf("the search ends with %v", ctx.Err())
			}
			return solver.Result{Plan: bestPlan(), Bound: 3, Limit: solver.LimitTime}, nil
		}})
		start := time.Now()
		d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) { o.TimeBudget, o.Interrupt = time.Hour, hurried }))
		if err != nil || time.Since(start) != time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if d.Report.Backend != solver.BackendExact || d.Report.Limit != solver.LimitTime {
			t.Errorf("the report is %+v", d.Report)
		}
	})
}

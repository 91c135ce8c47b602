package chain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// TestResponseBeforeTheDeadline checks that the caller gets the best plan so far before its deadline if a
// search or the computation of a bound ignores its context.
func TestResponseBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	ignoresContext := func(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
		time.Sleep(time.Hour)
		return problem.Result{}, solver.ErrTimedOut
	}
	late := boundProver(func(ctx context.Context, _ *problem.Problem) float64 {
		if ctx.Err() == nil {
			time.Sleep(time.Hour)
		}
		return proverBound
	})
	for name, test := range map[string]struct {
		backend   problem.Backend
		prover    problem.Prover
		requested solver.BackendName
		want      solver.BackendName
		limit     solver.Limit
	}{
		"a search": {
			backend: fake{solver.BackendExact, ignoresContext}, prover: proverOf(failing("prover", solver.ErrUnavailable)),
			requested: solver.BackendExact, want: solver.BackendGreedy, limit: solver.LimitTime,
		},
		"a bound": {
			backend: exact(), prover: late, requested: solver.BackendGreedy, want: solver.BackendGreedy, limit: solver.LimitNone,
		},
		"a bound after a plan was found": {
			backend: returning(solver.BackendCBC, problem.Result{Plan: bestPlan(), Bound: proverBound * 2, Limit: solver.LimitNone}),
			prover:  late, requested: solver.BackendCBC, want: solver.BackendCBC, limit: solver.LimitNone,
		},
		"a search and a bound": {
			backend: fake{solver.BackendExact, ignoresContext}, prover: late,
			requested: solver.BackendExact, want: solver.BackendGreedy, limit: solver.LimitTime,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newChain(greedy(), test.backend)
				c.config.Prover = test.prover
				ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
				defer cancel()
				d, err := c.Allocate(ctx, twoJobs(), options(func(o *solver.Options) { o.Backend, o.TimeBudget = test.requested, time.Hour }))
				if err != nil || ctx.Err() != nil {
					t.Fatalf("error %v, context %v", err, ctx.Err())
				}
				if r := d.Report; r.Backend != test.want || r.Limit != test.limit || r.Bound < r.Objective {
					t.Errorf("the report is %+v", r)
				}
				time.Sleep(2 * time.Hour) // Until all goroutines have returned.
			})
		})
	}
}

// TestInterrupt checks that Options.Interrupt stops a search as its deadline does.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		interrupted, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, interrupt)
		c := newChain(greedy(),
			fake{solver.BackendExact, func(ctx context.Context, _ *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
				<-ctx.Done()
				if ctx.Err() != context.DeadlineExceeded {
					t.Errorf("the error of the context is %v; must be context.DeadlineExceeded", ctx.Err())
				}
				return problem.Result{Plan: bestPlan(), Bound: 3, Limit: solver.LimitTime}, nil
			}})
		start := time.Now()
		d, err := c.Allocate(t.Context(), twoJobs(), options(func(o *solver.Options) { o.TimeBudget, o.Interrupt = time.Hour, interrupted }))
		if err != nil || time.Since(start) != time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		if d.Report.Backend != solver.BackendExact || d.Report.Limit != solver.LimitTime {
			t.Errorf("the report is %+v", d.Report)
		}
	})
}

package elastalloc_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/testing/solvertest"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// contradictingProver reports a contradiction in all searches after the first valid ones. It then calls
// after and returns its error.
type contradictingProver struct {
	problem.Prover
	valid *atomic.Int64
	after func() error
}

func (c contradictingProver) Solve(ctx context.Context, p *problem.Problem, o problem.SolveOptions) (problem.Result, error) {
	result, err := c.Prover.Solve(ctx, p, o)
	if c.valid.Add(-1) < 0 {
		result.Contradiction = "2 above 1"
		err = c.after()
	}
	return result, err
}

// failingBackend is a backend that always fails.
type failingBackend struct{ problem.Backend }

func (failingBackend) Solve(context.Context, *problem.Problem, problem.SolveOptions) (problem.Result, error) {
	return problem.Result{}, errBackend
}

var errBackend = errors.New("backend failed")

// TestContradictionsAreReported checks that a contradiction in any search of a call is reported in the
// response. If the call is canceled afterwards, or if all backends fail including greedy, it is
// returned with the error.
func TestContradictionsAreReported(t *testing.T) {
	s, o := solvertest.BusySnapshot(3, 4), solver.Options{TimeBudget: time.Minute}
	for name, test := range map[string]struct {
		valid int64
		call  func(context.Context, *elastalloc.Allocator) (string, error)
	}{
		"Allocate": {0, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			d, err := a.Allocate(ctx, s, o)
			return d.Report.Contradiction, err
		}},
		"Explain": {1, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			e, err := a.Explain(ctx, s, o, nil)
			return e.Decision.Report.Contradiction, err
		}},
		"Forecast": {1, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			f, err := a.Forecast(ctx, s, o, solver.ForecastOptions{Samples: 1})
			return f.Contradiction, err
		}},
		"WhatIf": {1, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			w, err := a.WhatIf(ctx, s, o, []solver.Scenario{{TotalNodes: new(5)}, {TotalNodes: new(6)}})
			return w.Results[0].Decision.Report.Contradiction, err
		}},
	} {
		for _, outcome := range []string{"success", "canceled", "failure"} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				var valid atomic.Int64
				valid.Store(test.valid)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				contradict := func(p problem.Prover) problem.Prover {
					return contradictingProver{p, &valid, func() error {
						switch outcome {
						case "canceled":
							cancel()
						case "failure":
							return errBackend
						}
						return nil
					}}
				}
				a, err := elastalloc.New(elastalloc.Options{
					ProverMiddleware: contradict,
					Middleware: func(b problem.Backend) problem.Backend {
						if p, ok := b.(problem.Prover); ok {
							return contradict(p)
						}
						if outcome == "failure" {
							return failingBackend{b}
						}
						return b
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := test.call(ctx, a); got == "" || err != nil && outcome == "success" {
					t.Errorf("contradiction %q, error %v", got, err)
				}
			})
		}
	}
}

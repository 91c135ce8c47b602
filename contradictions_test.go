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
)

// doubter contradicts itself in all but its first searches, and calls after, whose error it returns then.
type doubter struct {
	solver.Prover
	honest *atomic.Int64
	after  func() error
}

func (l doubter) Solve(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
	result, err := l.Prover.Solve(ctx, p, o)
	if l.honest.Add(-1) < 0 {
		result.Contradiction = "2 above 1"
		err = l.after()
	}
	return result, err
}

// broken is a backend that has no answer.
type broken struct{ solver.Backend }

func (broken) Solve(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
	return solver.Result{}, errBroken
}

var errBroken = errors.New("broken")

// TestContradictionsAreCarriedUp: a contradiction in any search that an answer rests on is in
// the answer, whichever search it was, or beside the error of a call that is cancelled after it or
// that nothing answers, greedy included.
func TestContradictionsAreCarriedUp(t *testing.T) {
	s, o := solvertest.BusySnapshot(3, 4), solver.Options{TimeBudget: time.Minute}
	for name, test := range map[string]struct {
		honest int64
		ask    func(context.Context, *elastalloc.Allocator) (string, error)
	}{
		"a decision": {0, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			d, err := a.Allocate(ctx, s, o)
			return d.Report.Contradiction, err
		}},
		"a size to explain": {1, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			e, err := a.Explain(ctx, s, o, nil)
			return e.Decision.Report.Contradiction, err
		}},
		"a simulated decision": {1, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			f, err := a.Forecast(ctx, s, o, solver.ForecastOptions{Samples: 1})
			return f.Contradiction, err
		}},
		"a scenario": {1, func(ctx context.Context, a *elastalloc.Allocator) (string, error) {
			w, err := a.WhatIf(ctx, s, o, []solver.Scenario{{TotalNodes: new(5)}, {TotalNodes: new(6)}})
			return w.Results[0].Decision.Report.Contradiction, err
		}},
	} {
		for _, then := range []string{"answered", "cancelled", "not answered"} {
			t.Run(name+", "+then, func(t *testing.T) {
				var honest atomic.Int64
				honest.Store(test.honest)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				lie := func(p solver.Prover) solver.Prover {
					return doubter{p, &honest, func() error {
						switch then {
						case "cancelled":
							cancel()
						case "not answered":
							return errBroken
						}
						return nil
					}}
				}
				a, err := elastalloc.New(elastalloc.Options{
					ProverMiddleware: lie,
					Middleware: func(b solver.Backend) solver.Backend {
						if p, ok := b.(solver.Prover); ok {
							return lie(p)
						}
						if then == "not answered" {
							return broken{b}
						}
						return b
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := test.ask(ctx, a); got == "" || err != nil && then == "answered" {
					t.Errorf("contradiction %q, error %v", got, err)
				}
			})
		}
	}
}

package elastalloc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// doubter contradicts itself in all but its first searches, and calls cancel then.
type doubter struct {
	solver.Prover
	honest *atomic.Int64
	cancel func()
}

func (l doubter) Solve(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
	result, err := l.Prover.Solve(ctx, p, o)
	if l.honest.Add(-1) < 0 {
		result.Contradiction = "2 above 1"
		l.cancel()
	}
	return result, err
}

// TestContradictionsAreCarriedUp: a contradiction in any search that an answer rests on is in
// the answer, whichever search it was, or beside the error of a call that is cancelled after it.
func TestContradictionsAreCarriedUp(t *testing.T) {
	s, o := solvertest.Busy(3, 4), solver.Options{TimeBudget: time.Minute}
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
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled after it: %v", name, cancelled), func(t *testing.T) {
				var honest atomic.Int64
				honest.Store(test.honest)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if !cancelled {
					cancel = func() {}
				}
				lie := func(p solver.Prover) solver.Prover { return doubter{p, &honest, cancel} }
				a, err := elastalloc.New(elastalloc.Options{
					ProverMiddleware: lie,
					Middleware: func(b solver.Backend) solver.Backend {
						if p, ok := b.(solver.Prover); ok {
							return lie(p)
						}
						return b
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if got, err := test.ask(ctx, a); got == "" || err != nil && !cancelled {
					t.Errorf("contradiction %q, error %v", got, err)
				}
			})
		}
	}
}

package elastalloc_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/solvertest"
)

// doubter contradicts itself in all but its first searches.
type doubter struct {
	solver.Prover
	honest *atomic.Int64
}

func (l doubter) Solve(ctx context.Context, p *solver.Problem, o solver.SolveOptions) (solver.Result, error) {
	result, err := l.Prover.Solve(ctx, p, o)
	if l.honest.Add(-1) < 0 {
		result.Contradiction = "2 above 1"
	}
	return result, err
}

// TestContradictionsAreCarriedUp: a contradiction in any search that an answer rests on is in
// the answer, whichever search it was.
func TestContradictionsAreCarriedUp(t *testing.T) {
	s, o := solvertest.Busy(3, 4), solver.Options{TimeBudget: time.Minute}
	for name, test := range map[string]struct {
		honest int64
		ask    func(*elastalloc.Allocator) (string, error)
	}{
		"a decision": {0, func(a *elastalloc.Allocator) (string, error) {
			d, err := a.Allocate(t.Context(), s, o)
			return d.Report.Contradiction, err
		}},
		"a size to explain": {1, func(a *elastalloc.Allocator) (string, error) {
			e, err := a.Explain(t.Context(), s, o, nil)
			return e.Decision.Report.Contradiction, err
		}},
		"a simulated decision": {1, func(a *elastalloc.Allocator) (string, error) {
			f, err := a.Forecast(t.Context(), s, o, solver.ForecastOptions{Samples: 1})
			return f.Contradiction, err
		}},
		"a scenario": {1, func(a *elastalloc.Allocator) (string, error) {
			w, err := a.WhatIf(t.Context(), s, o, []solver.Scenario{{TotalNodes: new(5)}})
			return w.Results[0].Decision.Report.Contradiction, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var honest atomic.Int64
			honest.Store(test.honest)
			lie := func(p solver.Prover) solver.Prover { return doubter{p, &honest} }
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
			if got, err := test.ask(a); got == "" || err != nil {
				t.Errorf("contradiction %q, error %v", got, err)
			}
		})
	}
}

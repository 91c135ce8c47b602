package tracing_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/tracing"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// fake is a backend cbc with the given function Solve.
type fake func(*problem.Problem) (problem.Result, error)

func (fake) Name() solver.BackendName { return solver.BackendCBC }

func (f fake) Solve(_ context.Context, p *problem.Problem, _ problem.SolveOptions) (problem.Result, error) {
	return f(p)
}

// constantPlan returns a plan with the same number of nodes for every job in every step.
func constantPlan(p *problem.Problem, nodes int) problem.Plan {
	plan := problem.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for t := range plan[i] {
			plan[i][t] = solver.NewOption(0, nodes)
		}
	}
	return plan
}

// spanSummary has the attributes of a span that the tests compare.
type spanSummary struct {
	Name, Outcome string
	Status        codes.Code
}

// TestStages checks the spans of decisions: the stages in the order in which they start, each a child of the
// call.
func TestStages(t *testing.T) {
	answered := func(name string) spanSummary { return spanSummary{name, "answered", codes.Unset} }
	failed := func(name, outcome string) spanSummary { return spanSummary{name, outcome, codes.Error} }
	for name, test := range map[string]struct {
		cbc     fake // none if nil
		backend solver.BackendName
		want    []spanSummary
	}{
		"exact": {
			want: []spanSummary{answered("solve greedy"), answered("solve exact")},
		},
		"a crash": {
			cbc: func(*problem.Problem) (problem.Result, error) {
				return problem.Result{}, errors.New("signal: aborted \xff")
			},
			want: []spanSummary{answered("solve greedy"), failed("solve cbc", "crashed"), answered("solve exact")},
		},
		"a panic": {
			cbc:  func(*problem.Problem) (problem.Result, error) { panic("a step of -1") },
			want: []spanSummary{answered("solve greedy"), failed("solve cbc", "crashed"), answered("solve exact")},
		},
		"a missing program": {
			cbc:  func(*problem.Problem) (problem.Result, error) { return problem.Result{}, solver.ErrUnavailable },
			want: []spanSummary{answered("solve greedy"), failed("solve cbc", "unavailable"), answered("solve exact")},
		},
		"an illegal plan": {
			cbc: func(p *problem.Problem) (problem.Result, error) {
				return problem.Result{Plan: constantPlan(p, 16)}, nil
			},
			want: []spanSummary{answered("solve greedy"), failed("solve cbc", "invalid-plan"), answered("solve exact")},
		},
		"a refuted claim": {
			cbc: func(p *problem.Problem) (problem.Result, error) {
				claim := &problem.Claim{Optimal: true, Objective: 1, Bound: 1}
				return problem.Result{Plan: constantPlan(p, 1), Bound: math.Inf(1), Claim: claim, Detail: "Optimal"}, nil
			},
			want: []spanSummary{answered("solve greedy"), answered("solve cbc"), answered("verify with exact")},
		},
		"greedy only": {
			backend: solver.BackendGreedy,
			want:    []spanSummary{answered("solve greedy"), {Name: "bound"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			backends := []solver.BackendName{solver.BackendExact}
			if test.cbc != nil {
				backends, test.backend = []solver.BackendName{solver.BackendCBC, solver.BackendExact}, solver.BackendCBC
			}
			call, stages := decide(t, test.cbc, backends, test.backend)
			var got []spanSummary
			for _, stage := range stages {
				if stage.Parent().SpanID() != call.SpanContext().SpanID() {
					t.Errorf("%s is not a child of the call", stage.Name())
				}
				for _, a := range stage.Attributes() {
					if strings.Contains(a.Value.String(), "secret-job") {
						t.Errorf("%s contains the id of a job: %v", stage.Name(), a)
					}
				}
				got = append(got, spanSummary{stage.Name(), valueOf(stage.Attributes(), tracing.Outcome).AsString(), stage.Status().Code})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

// decide makes a decision within a span, and returns the span and its stages in the order in which they
// started.
func decide(t *testing.T, cbc fake, backends []solver.BackendName, requested solver.BackendName) (
	call sdktrace.ReadOnlySpan, stages []sdktrace.ReadOnlySpan,
) {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{
		Backends: backends, DefaultBudget: elastalloc.NoBudget, NoBreakers: true,
		Middleware: func(b problem.Backend) problem.Backend {
			if b.Name() == solver.BackendCBC {
				b = cbc
			}
			return tracing.TraceBackend(b)
		},
		ProverMiddleware: tracing.TraceProver,
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, span := provider.Tracer("test").Start(t.Context(), "call")
	_, err = allocator.Allocate(ctx, &solver.Snapshot{TotalNodes: 8, Jobs: []solver.Job{
		{ID: "secret-job-a", RemainingETA: time.Hour, CurrentNodes: 2},
		{ID: "secret-job-b", RemainingETA: 3 * time.Hour},
	}}, solver.Options{Backend: requested})
	if err != nil {
		t.Fatal(err)
	}
	span.End()
	ended := recorder.Ended()
	// Two spans can have the same start time, but the recorder keeps their order.
	for _, started := range recorder.Started()[1:] {
		for _, stage := range ended {
			if stage.SpanContext().SpanID() == started.SpanContext().SpanID() {
				stages = append(stages, stage)
			}
		}
	}
	if len(stages)+1 != len(ended) || len(recorder.Started()) != len(ended) {
		t.Errorf("%d spans started and %d completed", len(recorder.Started()), len(ended))
	}
	return ended[len(ended)-1], stages
}

// valueOf returns the value of an attribute, or an empty value if it is missing.
func valueOf(attributes []attribute.KeyValue, key attribute.Key) attribute.Value {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

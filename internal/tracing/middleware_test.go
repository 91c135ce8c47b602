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
)

// fake is the backend cbc, which does as a test wants it to.
type fake func(*solver.Problem) (solver.Result, error)

func (fake) Name() solver.BackendName { return solver.BackendCBC }

func (f fake) Solve(_ context.Context, p *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
	return f(p)
}

// everywhere returns a plan of the same nodes for every job in every step.
func everywhere(p *solver.Problem, nodes int) solver.Plan {
	plan := solver.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for t := range plan[i] {
			plan[i][t] = solver.NewOption(0, nodes)
		}
	}
	return plan
}

// seen is what a test compares of a span: outcomes are "" where a stage has none.
type seen struct {
	Name, Outcome string
	Status        codes.Code
}

// TestStages checks the spans of whole decisions: the stages in the order in which they
// begin, all of them children of the call.
func TestStages(t *testing.T) {
	answered := func(name string) seen { return seen{name, "answered", codes.Unset} }
	failed := func(name, outcome string) seen { return seen{name, outcome, codes.Error} }
	for name, test := range map[string]struct {
		cbc  fake // none if nil
		ask  solver.BackendName
		want []seen
	}{
		"exact": {
			want: []seen{answered("solve greedy"), answered("solve exact")},
		},
		"a crash": {
			cbc: func(*solver.Problem) (solver.Result, error) {
				return solver.Result{}, errors.New("signal: aborted \xff")
			},
			want: []seen{answered("solve greedy"), failed("solve cbc", "crashed"), answered("solve exact")},
		},
		"a panic": {
			cbc:  func(*solver.Problem) (solver.Result, error) { panic("a step of -1") },
			want: []seen{answered("solve greedy"), failed("solve cbc", "crashed"), answered("solve exact")},
		},
		"a missing program": {
			cbc:  func(*solver.Problem) (solver.Result, error) { return solver.Result{}, solver.ErrUnavailable },
			want: []seen{answered("solve greedy"), failed("solve cbc", "unavailable"), answered("solve exact")},
		},
		"an illegal plan": {
			cbc:  func(p *solver.Problem) (solver.Result, error) { return solver.Result{Plan: everywhere(p, 16)}, nil },
			want: []seen{answered("solve greedy"), failed("solve cbc", "invalid-plan"), answered("solve exact")},
		},
		"a claim that is refuted": {
			cbc: func(p *solver.Problem) (solver.Result, error) {
				claim := &solver.Claim{Optimal: true, Objective: 1, Bound: 1}
				return solver.Result{Plan: everywhere(p, 1), Bound: math.Inf(1), Claim: claim, Detail: "Optimal"}, nil
			},
			want: []seen{answered("solve greedy"), answered("solve cbc"), answered("verify with exact")},
		},
		"greedy alone": {
			ask:  solver.BackendGreedy,
			want: []seen{answered("solve greedy"), {Name: "bound"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			backends := []solver.BackendName{solver.BackendExact}
			if test.cbc != nil {
				backends, test.ask = []solver.BackendName{solver.BackendCBC, solver.BackendExact}, solver.BackendCBC
			}
			call, stages := decide(t, test.cbc, backends, test.ask)
			var got []seen
			for _, stage := range stages {
				if stage.Parent().SpanID() != call.SpanContext().SpanID() {
					t.Errorf("%s is not a child of the call", stage.Name())
				}
				for _, a := range stage.Attributes() {
					if strings.Contains(a.Value.String(), "secret-job") {
						t.Errorf("%s tells the name of a job: %v", stage.Name(), a)
					}
				}
				got = append(got, seen{stage.Name(), valueOf(stage.Attributes(), tracing.Outcome).AsString(), stage.Status().Code})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

// decide decides within a span, and returns that and its stages in the order in which
// they began.
func decide(t *testing.T, cbc fake, backends []solver.BackendName, ask solver.BackendName) (
	call sdktrace.ReadOnlySpan, stages []sdktrace.ReadOnlySpan,
) {
	t.Helper()
	allocator, err := elastalloc.New(elastalloc.Options{
		Backends: backends, DefaultBudget: elastalloc.NoBudget, NoBreakers: true,
		Middleware: func(b solver.Backend) solver.Backend {
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
	}}, solver.Options{Backend: ask})
	if err != nil {
		t.Fatal(err)
	}
	span.End()
	ended := recorder.Ended()
	// The clock may not tell two beginnings apart; the recorder keeps their order.
	for _, started := range recorder.Started()[1:] {
		for _, stage := range ended {
			if stage.SpanContext().SpanID() == started.SpanContext().SpanID() {
				stages = append(stages, stage)
			}
		}
	}
	if len(stages)+1 != len(ended) || len(recorder.Started()) != len(ended) {
		t.Errorf("%d spans began and %d ended", len(recorder.Started()), len(ended))
	}
	return ended[len(ended)-1], stages
}

// valueOf returns the value of an attribute, an empty one where it is missing.
func valueOf(attributes []attribute.KeyValue, key attribute.Key) attribute.Value {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

package wiring

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server"
	"github.com/elastalloc/elastalloc/solver"
)

// failing is the backend cbc, which fails as a test wants it to.
type failing struct{ fail func() error }

func (failing) Name() solver.BackendName { return solver.BackendCBC }

func (f failing) Solve(context.Context, *solver.Problem, solver.SolveOptions) (solver.Result, error) {
	return solver.Result{}, f.fail()
}

// illegal is the backend cbc, which plans more nodes than there are.
type illegal struct{}

func (illegal) Name() solver.BackendName { return solver.BackendCBC }

func (illegal) Solve(_ context.Context, p *solver.Problem, _ solver.SolveOptions) (solver.Result, error) {
	plan := solver.NewPlan(len(p.Jobs), p.Steps)
	for i := range plan {
		for t := range plan[i] {
			plan[i][t] = 16
		}
	}
	return solver.Result{Plan: plan}, nil
}

// seen is what a test compares of a span: outcomes are "" where a stage has none.
type seen struct {
	Name, Outcome string
	Status        codes.Code
}

// TestSpansOfADecision checks the spans of whole decisions: the stages in the order in
// which they begin, all of them children of the call, and the fallbacks on the call.
func TestSpansOfADecision(t *testing.T) {
	fine := func(name string) seen { return seen{Name: name} }
	answered := func(name string) seen { return seen{name, "answered", codes.Unset} }
	failed := func(name, outcome string) seen { return seen{name, outcome, codes.Error} }
	request, response := fine("convert request"), fine("convert response")

	for name, test := range map[string]struct {
		backends  []solver.Backend
		change    func(*elastallocv1.AllocateOptions)
		want      []seen
		fallbacks []string
	}{
		"exact": {
			want: []seen{request, answered("solve greedy"), answered("solve exact"), response},
		},
		"a crash": {
			backends:  []solver.Backend{failing{func() error { return errors.New("signal: aborted \xff") }}},
			want:      []seen{request, answered("solve greedy"), failed("solve cbc", "crashed"), answered("solve exact"), response},
			fallbacks: []string{"cbc crashed signal: aborted \uFFFD"},
		},
		"a panic": {
			backends:  []solver.Backend{failing{func() error { panic("a step of -1") }}},
			want:      []seen{request, answered("solve greedy"), failed("solve cbc", "crashed"), answered("solve exact"), response},
			fallbacks: []string{"cbc crashed panic: a step of -1"},
		},
		"a missing program": {
			backends:  []solver.Backend{missing{solver.BackendCBC, solver.ErrUnavailable}},
			want:      []seen{request, answered("solve greedy"), failed("solve cbc", "unavailable"), answered("solve exact"), response},
			fallbacks: []string{"cbc unavailable backend is unavailable"},
		},
		"an illegal plan": {
			backends:  []solver.Backend{illegal{}},
			want:      []seen{request, answered("solve greedy"), failed("solve cbc", "invalid-plan"), answered("solve exact"), response},
			fallbacks: []string{"cbc invalid-plan "},
		},
		"a claim that is refuted": {
			backends: []solver.Backend{liar{}},
			want: []seen{
				request, answered("solve greedy"), answered("solve cbc"), answered("judge with exact"), response,
			},
			fallbacks: []string{"cbc invalid-plan Optimal; refuted: "},
		},
		"greedy alone": {
			change: func(o *elastallocv1.AllocateOptions) { o.Backend = elastallocv1.Backend_BACKEND_GREEDY },
			want:   []seen{request, answered("solve greedy"), fine("bound"), response},
		},
		"filling": {
			change: func(o *elastallocv1.AllocateOptions) { o.Mode = elastallocv1.Mode_MODE_FILL_IDLE },
			want:   []seen{request, fine("fill idle"), response},
		},
		"a bad request": {
			change: func(o *elastallocv1.AllocateOptions) { o.RelativeGap = -1 },
			want:   []seen{failed("convert request", "")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			backends, err := Contenders(t.Context(), []string{"exact"}, nowhere())
			if err != nil {
				t.Fatal(err)
			}
			for _, backend := range test.backends {
				backends = slices.Insert(backends, 0, Backend{Backend: traced(backend)})
			}
			request := tracedRequest()
			if len(test.backends) > 0 {
				request.Options.Backend = elastallocv1.Backend_BACKEND_CBC
			}
			if test.change != nil {
				test.change(request.Options)
			}
			call, stages := decideTraced(t, backends, request)

			var got []seen
			for _, stage := range stages {
				if stage.Parent().SpanID() != call.SpanContext().SpanID() {
					t.Errorf("%s is no child of the call", stage.Name())
				}
				got = append(got, seen{stage.Name(), valueOf(stage.Attributes(), tracing.Outcome).AsString(), stage.Status().Code})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
			var fallbacks []string
			for _, event := range call.Events() {
				fallbacks = append(fallbacks, strings.Join([]string{
					valueOf(event.Attributes, tracing.Backend).AsString(), valueOf(event.Attributes, tracing.Outcome).AsString(),
					valueOf(event.Attributes, tracing.Detail).AsString(),
				}, " "))
			}
			if !slices.EqualFunc(fallbacks, test.fallbacks, strings.HasPrefix) {
				t.Errorf("fallbacks %q; want %q", fallbacks, test.fallbacks)
			}
		})
	}
}

// TestAttributes checks what the spans of a decision say, and that nothing of the jobs is
// among it.
func TestAttributes(t *testing.T) {
	backends, err := Contenders(t.Context(), []string{"exact"}, nowhere())
	if err != nil {
		t.Fatal(err)
	}
	call, stages := decideTraced(t, backends, tracedRequest())
	objective := valueOf(call.Attributes(), tracing.Objective).AsFloat64()
	want := []attribute.KeyValue{
		tracing.SnapshotID.String("monday"), tracing.SnapshotJobs.Int(2), tracing.SnapshotNodes.Int(8), tracing.SnapshotSteps.Int(5),
		tracing.Mode.String("rebalance"), tracing.Backend.String("exact"), tracing.Reason.String("optimal"), tracing.Limit.String("none"),
		tracing.Objective.Float64(objective), tracing.Bound.Float64(objective), tracing.RelativeGap.Float64(0),
		tracing.GreedyObjective.Float64(valueOf(call.Attributes(), tracing.GreedyObjective).AsFloat64()),
	}
	byKey := func(a, b attribute.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) }
	slices.SortFunc(want, byKey)
	if diff := cmp.Diff(want, slices.SortedFunc(slices.Values(call.Attributes()), byKey), cmp.AllowUnexported(attribute.Value{})); diff != "" || objective <= 0 {
		t.Errorf("attributes of the call (-want +got):\n%s", diff)
	}
	exact := stages[2]
	if got := valueOf(exact.Attributes(), tracing.Objective).AsFloat64(); got != objective || exact.Name() != "solve exact" {
		t.Errorf("%s has objective %v; want %v", exact.Name(), got, objective)
	}
	for _, span := range append(stages, call) {
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.String(), "secret-job") {
				t.Errorf("%s tells the name of a job: %v", span.Name(), a)
			}
		}
	}
}

// tracedRequest is a request for a decision with jobs whose names nobody may see.
func tracedRequest() *elastallocv1.AllocateRequest {
	return &elastallocv1.AllocateRequest{
		Snapshot: &elastallocv1.Snapshot{Id: "monday", TotalNodes: 8, Jobs: []*elastallocv1.Job{
			{Id: "secret-job-a", RemainingEta: durationpb.New(time.Hour), CurrentNodes: 2},
			{Id: "secret-job-b", RemainingEta: durationpb.New(3 * time.Hour)},
		}},
		Options: &elastallocv1.AllocateOptions{TimeBudget: durationpb.New(time.Minute)},
	}
}

// decideTraced decides within a span, and returns that and its stages in the order in
// which they began.
func decideTraced(t *testing.T, backends []Backend, request *elastallocv1.AllocateRequest) (
	call sdktrace.ReadOnlySpan, stages []sdktrace.ReadOnlySpan,
) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	ctx, span := provider.Tracer("test").Start(t.Context(), "call")
	_, err := server.NewAllocator(server.AllocatorConfig{Chain: Chain(backends, time.Minute)}).Allocate(ctx, request)
	if bad := request.GetOptions().GetRelativeGap() < 0; (err != nil) != bad {
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

package tracing

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestStart checks that a stage is a child of the span in its context, and is not recorded if that span is
// missing or not sampled.
func TestStart(t *testing.T) {
	for name, test := range map[string]struct {
		sampler sdktrace.Sampler // nil for no span
		stages  int
	}{
		"no call":       {},
		"not sampled":   {sampler: sdktrace.NeverSample()},
		"a traced call": {sampler: sdktrace.AlwaysSample(), stages: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			recorder := tracetest.NewSpanRecorder()
			if test.sampler != nil {
				provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(test.sampler))
				t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
				spanCtx, call := provider.Tracer("test").Start(ctx, "call")
				ctx = spanCtx
				defer func() {
					if ended := recorder.Ended(); len(ended) != test.stages {
						t.Errorf("%d spans completed with the stage; want %d", len(ended), test.stages)
					}
					call.End()
				}()
			}
			inner, stage := Start(ctx, StageBound)
			if test.stages == 0 && inner != ctx {
				t.Error("a stage without a span changes its context")
			}
			stage.SetAttributes(Text(SnapshotID, "a"))
			Fail(stage, "it failed")
			stage.End()
			for _, span := range recorder.Ended() {
				if span.Name() != StageBound || !span.Parent().IsValid() || span.Status().Code != codes.Error ||
					len(span.Attributes()) != 1 || span.Attributes()[0] != SnapshotID.String("a") {
					t.Errorf("the stage is %v", span)
				}
			}
		})
	}
}

// TestStartAllocations checks that a stage of a call without a span allocates no memory.
func TestStartAllocations(t *testing.T) {
	ctx := t.Context()
	if allocations := testing.AllocsPerRun(100, func() {
		_, stage := Start(ctx, StageBound)
		stage.End()
	}); allocations != 0 {
		t.Errorf("%v allocations; want none", allocations)
	}
}

// BenchmarkStart measures a stage of a call that is not traced.
func BenchmarkStart(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		_, stage := Start(ctx, StageBound)
		stage.End()
	}
}

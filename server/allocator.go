package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// AllocatorConfig is what an Allocator is made of.
type AllocatorConfig struct {
	// Allocator decides.
	Allocator apiconv.Allocator
	// Metrics observes the decisions; it may be nil.
	Metrics *Metrics
	// Logger takes a line per decision at debug level and warnings of broken
	// backends; nil discards them.
	Logger *slog.Logger

	// history remembers decisions for the status page; nil for nobody.
	history *history
}

// Allocator implements the AllocatorService. It knows no transport, so it can be
// called in process as well: its errors carry a gRPC status, and errors.As still
// finds the cause, such as *solver.InvalidError.
type Allocator struct {
	elastallocv1.UnimplementedAllocatorServiceServer
	config AllocatorConfig
}

// NewAllocator returns an allocator. It is safe for concurrent use.
func NewAllocator(config AllocatorConfig) *Allocator {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Allocator{config: config}
}

// Allocate decides one snapshot.
func (a *Allocator) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	_, stage := tracing.Start(ctx, tracing.StageConvertRequest)
	converted, err := apiconv.FromAllocateRequest(request, a.config.Allocator.MaxJobs())
	if err != nil {
		return nil, a.refuse(ctx, stage, err)
	}
	stage.End()
	call := call{snapshot: converted.Snapshot}
	describeRequest(ctx, call)
	began := time.Now()
	decision, err := a.config.Allocator.Allocate(ctx, converted.Snapshot, converted.Options)
	if err := a.observe(ctx, began, call, &decision, err); err != nil {
		return nil, err
	}
	_, stage = tracing.Start(ctx, tracing.StageConvertResponse)
	defer stage.End()
	return apiconv.ToAllocateResponse(converted.Snapshot.ID, decision, converted.IncludePlan), nil
}

// FillIdle gives the idle nodes of one snapshot to its queue.
func (a *Allocator) FillIdle(ctx context.Context, request *elastallocv1.FillIdleRequest) (*elastallocv1.FillIdleResponse, error) {
	_, stage := tracing.Start(ctx, tracing.StageConvertRequest)
	snapshot, err := apiconv.FromSnapshot(request.GetSnapshot(), a.config.Allocator.MaxJobs())
	if err != nil {
		return nil, a.refuse(ctx, stage, err)
	}
	stage.End()
	call := call{snapshot: snapshot, filling: true}
	describeRequest(ctx, call)
	began := time.Now()
	fillCtx, stage := tracing.Start(ctx, tracing.StageFillIdle)
	decision, err := a.config.Allocator.FillIdle(fillCtx, snapshot)
	stage.End()
	if err := a.observe(ctx, began, call, &decision, err); err != nil {
		return nil, err
	}
	_, stage = tracing.Start(ctx, tracing.StageConvertResponse)
	defer stage.End()
	return apiconv.ToFillIdleResponse(snapshot.ID, decision), nil
}

// call is what is decided: a snapshot, or only what its queue takes of the idle nodes.
type call struct {
	snapshot *solver.Snapshot
	filling  bool
}

// refuse ends the conversion of a request that is invalid and returns its error.
func (a *Allocator) refuse(ctx context.Context, stage trace.Span, err error) error {
	// The error itself quotes the request.
	tracing.Fail(stage, "the request is invalid")
	stage.End()
	return a.badRequest(ctx, toCallError(ctx, err))
}

// badRequest logs an error of a request with bad fields and returns it.
func (a *Allocator) badRequest(ctx context.Context, err error) error {
	a.config.Logger.DebugContext(ctx, "bad request", "request_id", requestID(ctx), "error", status.Convert(err).Message())
	return err
}

// observe tells everything that observes decisions how one ended and returns the error
// of the call.
func (a *Allocator) observe(ctx context.Context, began time.Time, c call, decision *solver.Decision, err error) error {
	if errors.As(err, new(*solver.InvalidError)) {
		return a.badRequest(ctx, toCallError(ctx, err))
	}
	if err != nil {
		err = toCallError(ctx, err)
		a.config.history.remember(ctx, began, c, nil, err)
		return err
	}
	a.config.history.remember(ctx, began, c, &decision.Report, nil)
	a.config.Metrics.observe(ctx, c, &decision.Report)
	a.log(ctx, c.snapshot, &decision.Report)
	describeDecision(ctx, c, &decision.Report)
	return nil
}

// log writes a line about a decision and, since the caller gets an answer all the
// same, a warning about every backend that is broken.
func (a *Allocator) log(ctx context.Context, s *solver.Snapshot, r *solver.Report) {
	logger := a.config.Logger.With("request_id", requestID(ctx), "snapshot_id", text.Shorten(s.ID))
	logger.DebugContext(ctx, "decided", "jobs", len(s.Jobs), "nodes", s.TotalNodes,
		"backend", r.Backend, "reason", r.Reason, "limit", r.Limit,
		"relative_gap", r.RelativeGap, "solve_seconds", r.SolveTime.Seconds())
	for _, attempt := range r.Attempts {
		if attempt.Outcome == solver.OutcomeCrashed || attempt.Outcome == solver.OutcomeInvalidPlan {
			logger.WarnContext(ctx, "backend is broken",
				"backend", attempt.Backend, "outcome", attempt.Outcome, "detail", attempt.Detail)
		}
	}
}

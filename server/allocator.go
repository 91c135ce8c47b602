package server

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/status"

	"github.com/elastalloc/elastalloc/internal/text"
	"github.com/elastalloc/elastalloc/internal/tracing"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/chain"
)

// AllocatorConfig is what an Allocator is made of.
type AllocatorConfig struct {
	// Chain decides.
	Chain *chain.Chain
	// MaxJobs is the most jobs a snapshot may hold; 0 means solver.DefaultMaxJobs.
	MaxJobs int
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
	if config.MaxJobs == 0 {
		config.MaxJobs = solver.DefaultMaxJobs
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Allocator{config: config}
}

// Allocate decides one snapshot.
func (a *Allocator) Allocate(ctx context.Context, request *elastallocv1.AllocateRequest) (*elastallocv1.AllocateResponse, error) {
	converted, err := a.convert(ctx, request)
	if err != nil {
		err = toCallError(ctx, err)
		a.config.Logger.DebugContext(ctx, "bad request", "request_id", requestID(ctx), "error", status.Convert(err).Message())
		return nil, err
	}
	snapshot := converted.Snapshot
	began := time.Now()
	decision, err := a.decide(ctx, converted)
	if err != nil {
		err = toCallError(ctx, err)
		a.config.history.remember(ctx, began, converted, nil, err)
		return nil, err
	}
	a.config.history.remember(ctx, began, converted, &decision.Report, nil)
	a.config.Metrics.observe(ctx, snapshot, converted.Options.Mode, &decision.Report)
	a.log(ctx, snapshot, &decision.Report)
	describeDecision(ctx, &decision.Report)
	_, stage := tracing.Start(ctx, tracing.StageConvertResponse)
	defer stage.End()
	return ConvertDecision(snapshot.ID, decision, converted.IncludePlan), nil
}

// convert converts and validates a request, as a stage of the call.
func (a *Allocator) convert(ctx context.Context, request *elastallocv1.AllocateRequest) (Request, error) {
	_, stage := tracing.Start(ctx, tracing.StageConvertRequest)
	defer stage.End()
	converted, err := ConvertRequest(request, a.config.MaxJobs)
	if err != nil {
		// The error itself quotes the request.
		tracing.Fail(stage, "the request is invalid")
		return Request{}, err
	}
	describeRequest(ctx, converted)
	return converted, nil
}

// decide has the chain decide. Its backends are stages of their own, and where idle
// nodes are filled, the decision is the stage.
func (a *Allocator) decide(ctx context.Context, request Request) (solver.Decision, error) {
	if request.Options.Mode == solver.ModeFillIdle {
		stageCtx, stage := tracing.Start(ctx, tracing.StageFillIdle)
		defer stage.End()
		ctx = stageCtx
	}
	return a.config.Chain.Allocate(ctx, request.Snapshot, request.Options)
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

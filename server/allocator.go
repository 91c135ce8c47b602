package server

import (
	"context"
	"log/slog"
	"time"

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
	converted, err := ConvertRequest(request, a.config.MaxJobs)
	if err != nil {
		return nil, toCallError(ctx, err)
	}
	snapshot := converted.Snapshot
	began := time.Now()
	decision, err := a.config.Chain.Allocate(ctx, snapshot, converted.Options)
	if err != nil {
		err = toCallError(ctx, err)
		a.config.history.remember(ctx, began, converted, nil, err)
		return nil, err
	}
	a.config.history.remember(ctx, began, converted, &decision.Report, nil)
	a.config.Metrics.observe(snapshot, converted.Options.Mode, &decision.Report)
	a.log(ctx, snapshot, &decision.Report)
	return ConvertDecision(snapshot.ID, decision, converted.IncludePlan), nil
}

// log writes a line about a decision and, since the caller gets an answer all the
// same, a warning about every backend that is broken.
func (a *Allocator) log(ctx context.Context, s *solver.Snapshot, r *solver.Report) {
	logger := a.config.Logger.With("request_id", requestID(ctx), "snapshot_id", shorten(s.ID))
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

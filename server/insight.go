package server

import (
	"context"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/server/internal/status"
	"github.com/elastalloc/elastalloc/solver"
)

// insightBudget is the time budget of the status page for explanations, and again for a forecast.
const insightBudget = 500 * time.Millisecond

// insight explains the allocations of jobs and forecasts when jobs start and complete, for the status page. It
// repeats the decision in an idle slot. It returns false if no slot is idle or ctx is done.
func (s *Server) insight(ctx context.Context, d status.Decided, ids []string) (status.Insight, bool) {
	var insight status.Insight
	allocator := s.config.Allocator
	maxBytes := 0
	for _, method := range []string{"Explain", "Forecast"} {
		bytes, err := s.methods[method].Memory.Bytes(d.Size, int(s.config.MaxMemory))
		if err != nil {
			return insight, true
		}
		maxBytes = max(maxBytes, bytes)
	}
	slot, release, ok := s.ingress.IdleSlot(ctx, "status page", maxBytes)
	if !ok {
		return insight, false
	}
	defer release()
	converted, err := apiconv.FromAllocateRequest(d.Request, allocator.MaxJobs())
	if err != nil {
		return insight, true
	}
	converted.Options.TimeBudget, converted.Options.NoRemedies = min(insightBudget, s.config.MaxBudget), true
	if d.Backend == solver.BackendGreedy {
		converted.Options.Backend = d.Backend // There was no time or no slot for the requested backend.
	}
	converted.Options.Interrupt, converted.Options.AcquireWorker = slot.Interrupted, slot.Extra
	explanation, err := allocator.Explain(ctx, converted.Snapshot, converted.Options, ids)
	if err != nil {
		return insight, ctx.Err() == nil
	}
	insight.Reasons = make(map[string]status.Reason)
	for i := range explanation.Jobs {
		job := &explanation.Jobs[i]
		reason := status.Reason{Nodes: job.Nodes, Why: job.Why, Text: job.Text}
		for _, size := range job.Sizes {
			reason.Estimated = reason.Estimated || !size.Proven
		}
		insight.Reasons[job.JobID] = reason
	}
	// The forecast of the same snapshot fails only without enough time. Then the page has none.
	if forecast, err := allocator.Forecast(ctx, converted.Snapshot, converted.Options, solver.ForecastOptions{}); err == nil {
		insight.Forecast = forecast.Jobs
	}
	return insight, true
}

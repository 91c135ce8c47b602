package server

import (
	"context"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/server/internal/status"
	"github.com/elastalloc/elastalloc/solver"
)

// reasonsBudget is the time that the status page takes to find reasons, and again for a forecast.
const reasonsBudget = 500 * time.Millisecond

// reasons says for the status page why jobs of a decision have their nodes, and when jobs start
// and end. It decides again, in a turn that no call needs; false where there is none, or where
// ctx ends.
func (s *Server) reasons(ctx context.Context, d status.Decided, ids []string) (status.Insight, bool) {
	var insight status.Insight
	allocator := s.config.Allocator
	most := 0
	for _, method := range []string{"Explain", "Forecast"} {
		bytes, err := s.methods[method].Need.Bytes(d.Size, int(s.config.MaxMemory))
		if err != nil {
			return insight, true
		}
		most = max(most, bytes)
	}
	lent, release, ok := s.ingress.Lend(ctx, "status page", most)
	if !ok {
		return insight, false
	}
	defer release()
	converted, err := apiconv.FromAllocateRequest(d.Request, allocator.MaxJobs())
	if err != nil {
		return insight, true
	}
	converted.Options.TimeBudget, converted.Options.NoRemedies = min(reasonsBudget, s.config.MaxBudget), true
	if d.Backend == solver.BackendGreedy {
		converted.Options.Backend = d.Backend // Whatever was asked for, there was no time or turn for it.
	}
	converted.Options.Interrupt, converted.Options.AcquireWorker = lent.Hurry, lent.Lend
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
	// It is of the same snapshot, so it fails only where there is no time; then there is none.
	if future, err := allocator.Forecast(ctx, converted.Snapshot, converted.Options, solver.ForecastOptions{}); err == nil {
		insight.Forecast = future.Jobs
	}
	return insight, true
}

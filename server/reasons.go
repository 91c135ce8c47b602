package server

import (
	"context"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/server/internal/status"
	"github.com/elastalloc/elastalloc/solver"
)

// reasonsBudget is the time that the status page takes to find reasons.
const reasonsBudget = 500 * time.Millisecond

// reasons says for the status page why jobs of a decision have their nodes. It decides again,
// in a turn that no call needs; false where there is none, or where ctx ends.
func (s *Server) reasons(ctx context.Context, d status.Decided, ids []string) (map[string]status.Reason, bool) {
	allocator := s.config.Allocator
	bytes, err := s.methods["Explain"].Need.Bytes(d.Size, int(s.config.MaxMemory))
	if err != nil {
		return nil, true
	}
	lent, release, ok := s.ingress.Lend(ctx, "status page", bytes)
	if !ok {
		return nil, false
	}
	defer release()
	converted, err := apiconv.FromAllocateRequest(d.Request, allocator.MaxJobs())
	if err != nil {
		return nil, true
	}
	converted.Options.TimeBudget, converted.Options.NoRemedies = min(reasonsBudget, s.config.MaxBudget), true
	if d.Backend == solver.BackendGreedy {
		converted.Options.Backend = d.Backend // Whatever was asked for, there was no time or turn for it.
	}
	converted.Options.Hurry, converted.Options.Lend = lent.Hurry, lent.Lend
	explanation, err := allocator.Explain(ctx, converted.Snapshot, converted.Options, ids)
	if err != nil {
		return nil, ctx.Err() == nil
	}
	reasons := make(map[string]status.Reason)
	for i := range explanation.Jobs {
		job := &explanation.Jobs[i]
		reason := status.Reason{Nodes: job.Nodes, Why: job.Why, Text: job.Text}
		for _, size := range job.Sizes {
			reason.Estimated = reason.Estimated || !size.Proven
		}
		reasons[job.JobID] = reason
	}
	return reasons, true
}

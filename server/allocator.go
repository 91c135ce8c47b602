package server

import (
	"cmp"
	"context"
	"time"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/server/internal/guard"
	"github.com/elastalloc/elastalloc/server/internal/ingress"
	"github.com/elastalloc/elastalloc/solver"
)

// service is the AllocatorService: apiconv answers, and the observers of a call hear of
// what was decided.
type service struct {
	elastallocv1.UnsafeAllocatorServiceServer
	apiconv.InProcess
}

func newService(allocator apiconv.Allocator, maxBudget time.Duration, audits *auditor) service {
	return service{InProcess: apiconv.InProcess{Allocator: reporting{allocator, maxBudget, audits}}}
}

// methods says what the ingress has to know of each method of the AllocatorService.
func methods(maxJobs int) map[string]ingress.Method {
	return map[string]ingress.Method{
		"Allocate": {Work: ingress.WorkDecision, Need: guard.NewNeed(&elastallocv1.AllocateRequest{}, maxJobs)},
		"FillIdle": {Work: ingress.WorkShort, Need: guard.NewNeed(&elastallocv1.FillIdleRequest{}, maxJobs)},
		"WhatIf":   {Work: ingress.WorkQuestion, Need: guard.NewNeed(&elastallocv1.WhatIfRequest{}, maxJobs)},
		"Explain":  {Work: ingress.WorkQuestion, Need: guard.NewNeed(&elastallocv1.ExplainRequest{}, maxJobs)},
		"Forecast": {Work: ingress.WorkQuestion, Need: guard.NewNeed(&elastallocv1.ForecastRequest{}, maxJobs)},
	}
}

// shedBudget is the time for the bound of an answer for which there is no turn.
const shedBudget = 50 * time.Millisecond

// reporting is an allocator that reports its decisions. It keeps them within the longest
// time budget, and makes them without a search where there is no turn for one.
type reporting struct {
	apiconv.Allocator
	maxBudget time.Duration
	audits    *auditor // nil audits nothing
}

// granted returns options within what the call's turn grants and the longest time budget.
func (r reporting) granted(ctx context.Context, o solver.Options) solver.Options {
	turn := ingress.EventOf(ctx).Turn
	o.Interrupt, o.AcquireWorker = turn.Hurry, turn.Lend
	o.TimeBudget = min(o.TimeBudget, r.maxBudget)
	return o
}

// Allocate decides a snapshot.
func (r reporting) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	event := ingress.EventOf(ctx)
	shed, certificate := event.Turn.Shed, o.Certificate
	o = r.granted(ctx, o)
	if shed {
		o.Backend, o.TimeBudget = solver.BackendGreedy, shedBudget
	}
	event.Audit = !shed && r.audits.draws()
	o.Certificate = certificate || event.Audit
	decision, err := r.Allocator.Allocate(ctx, s, o)
	event.Contradiction = decision.Report.Contradiction
	if err != nil {
		return decision, err
	}
	if shed {
		decision.Report.Warnings = append(decision.Report.Warnings, solver.Warning{
			Code:    solver.WarningLoadShedToGreedy,
			Message: "the server had no turn for a search in time, so this is greedy's allocation",
		})
	}
	decided := decision
	event.Decision, event.Report, event.Objective = &decided, &decided.Report, o.WithDefaults().Objective
	event.Resizes = countResizes(s, &decided)
	if !certificate {
		decision.Report.Certificate = nil
	}
	return decision, nil
}

// Explain decides a snapshot and says why.
func (r reporting) Explain(
	ctx context.Context, s *solver.Snapshot, o solver.Options, jobIDs []string,
) (solver.Explanation, error) {
	explanation, err := r.Allocator.Explain(ctx, s, r.granted(ctx, o), jobIDs)
	ingress.EventOf(ctx).Contradiction = explanation.Decision.Report.Contradiction
	return explanation, err
}

// Forecast simulates the cluster from a snapshot on.
func (r reporting) Forecast(
	ctx context.Context, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions,
) (solver.Forecast, error) {
	forecast, err := r.Allocator.Forecast(ctx, s, r.granted(ctx, o), f)
	ingress.EventOf(ctx).Contradiction = forecast.Contradiction
	return forecast, err
}

// WhatIf decides variations of a snapshot.
func (r reporting) WhatIf(
	ctx context.Context, s *solver.Snapshot, o solver.Options, scenarios []solver.Scenario,
) (solver.WhatIf, error) {
	for i := range scenarios {
		if own := scenarios[i].Options; own != nil {
			own.TimeBudget = min(own.TimeBudget, r.maxBudget)
		}
	}
	answer, err := r.Allocator.WhatIf(ctx, s, r.granted(ctx, o), scenarios)
	event := ingress.EventOf(ctx)
	event.Contradiction = answer.Base.Report.Contradiction
	for i := range answer.Results {
		event.Contradiction = cmp.Or(event.Contradiction, answer.Results[i].Decision.Report.Contradiction)
	}
	return answer, err
}

// FillIdle gives the idle nodes of a snapshot to its queue.
func (r reporting) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	decision, err := r.Allocator.FillIdle(ctx, s)
	if err == nil {
		event := ingress.EventOf(ctx)
		event.Decision, event.Resizes = &decision, countResizes(s, &decision)
	}
	return decision, err
}

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

// allocatorService is the AllocatorService. It limits time budgets to maxBudget and samples responses
// for audits.
type allocatorService struct {
	elastallocv1.UnsafeAllocatorServiceServer
	apiconv.InProcess
	maxBudget time.Duration
	audits    *auditor // nil if responses are not audited
}

// ForCall returns an AllocatorService for one call, with an allocator that reports the outcome.
func (s *allocatorService) ForCall(turn ingress.Turn) (any, *ingress.Outcome) {
	r := &reporting{Allocator: s.Allocator, service: s, turn: turn}
	return &allocatorService{InProcess: apiconv.InProcess{Allocator: r}}, &r.outcome
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

// reporting is the allocator of one call. It limits the call to its slot and to the maximum time
// budget, and decides without a search if the call has no slot for one. It keeps the outcome.
type reporting struct {
	apiconv.Allocator
	service *allocatorService
	turn    ingress.Turn
	outcome ingress.Outcome
}

// limit returns options within the limits of the slot and of the maximum time budget.
func (r *reporting) limit(o solver.Options) solver.Options {
	o.Interrupt, o.AcquireWorker = r.turn.Hurry, r.turn.Lend
	o.TimeBudget = min(o.TimeBudget, r.service.maxBudget)
	return o
}

// Allocate decides a snapshot.
func (r *reporting) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	shed, certificate := r.turn.Shed, o.Certificate
	o = r.limit(o)
	if shed {
		o.Backend, o.TimeBudget = solver.BackendGreedy, shedBudget
	}
	r.outcome.Audit = !shed && r.service.audits.draws()
	o.Certificate = certificate || r.outcome.Audit
	decision, err := r.Allocator.Allocate(ctx, s, o)
	r.outcome.Contradiction = decision.Report.Contradiction
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
	r.outcome.Decision, r.outcome.Report, r.outcome.Objective = &decided, &decided.Report, o.WithDefaults().Objective
	r.outcome.Resizes = countResizes(s, &decided)
	if !certificate {
		decision.Report.Certificate = nil
	}
	return decision, nil
}

// Explain decides a snapshot and explains the decision.
func (r *reporting) Explain(
	ctx context.Context, s *solver.Snapshot, o solver.Options, jobIDs []string,
) (solver.Explanation, error) {
	explanation, err := r.Allocator.Explain(ctx, s, r.limit(o), jobIDs)
	r.outcome.Contradiction = explanation.Decision.Report.Contradiction
	return explanation, err
}

// Forecast simulates the cluster from a snapshot on.
func (r *reporting) Forecast(
	ctx context.Context, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions,
) (solver.Forecast, error) {
	forecast, err := r.Allocator.Forecast(ctx, s, r.limit(o), f)
	r.outcome.Contradiction = forecast.Contradiction
	return forecast, err
}

// WhatIf decides variations of a snapshot.
func (r *reporting) WhatIf(
	ctx context.Context, s *solver.Snapshot, o solver.Options, scenarios []solver.Scenario,
) (solver.WhatIf, error) {
	for i := range scenarios {
		if own := scenarios[i].Options; own != nil {
			own.TimeBudget = min(own.TimeBudget, r.service.maxBudget)
		}
	}
	whatIf, err := r.Allocator.WhatIf(ctx, s, r.limit(o), scenarios)
	r.outcome.Contradiction = whatIf.Base.Report.Contradiction
	for i := range whatIf.Results {
		r.outcome.Contradiction = cmp.Or(r.outcome.Contradiction, whatIf.Results[i].Decision.Report.Contradiction)
	}
	return whatIf, err
}

// FillIdle allocates the idle nodes of a snapshot to queued jobs.
func (r *reporting) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	decision, err := r.Allocator.FillIdle(ctx, s)
	if err == nil {
		r.outcome.Decision, r.outcome.Resizes = &decision, countResizes(s, &decision)
	}
	return decision, err
}

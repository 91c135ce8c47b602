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
func (s *allocatorService) ForCall(slot ingress.Slot) (any, *ingress.Outcome) {
	r := &reporting{allocator: s.Allocator, service: s, slot: slot}
	return &allocatorService{InProcess: apiconv.InProcess{Allocator: r}}, &r.outcome
}

// methods returns the descriptions of the methods of the AllocatorService, by name.
func methods(maxJobs int) map[string]ingress.Method {
	return map[string]ingress.Method{
		"Allocate": {Work: ingress.WorkDecision, Memory: guard.NewEstimator(&elastallocv1.AllocateRequest{}, maxJobs)},
		"FillIdle": {Work: ingress.WorkShort, Memory: guard.NewEstimator(&elastallocv1.FillIdleRequest{}, maxJobs)},
		"WhatIf":   {Work: ingress.WorkAnalysis, Memory: guard.NewEstimator(&elastallocv1.WhatIfRequest{}, maxJobs)},
		"Explain":  {Work: ingress.WorkAnalysis, Memory: guard.NewEstimator(&elastallocv1.ExplainRequest{}, maxJobs)},
		"Forecast": {Work: ingress.WorkAnalysis, Memory: guard.NewEstimator(&elastallocv1.ForecastRequest{}, maxJobs)},
	}
}

// noSearchBudget is the time budget of a decision without a search. It suffices for a bound.
const noSearchBudget = 50 * time.Millisecond

// reporting is the allocator of one call. It limits the call to its slot and to the maximum time
// budget, and decides without a search if the call has no slot for one. It keeps the outcome. It does not
// embed the allocator, so that no new method is served without these limits.
type reporting struct {
	allocator apiconv.Allocator
	service   *allocatorService
	slot      ingress.Slot
	outcome   ingress.Outcome
}

// limit returns options within the limits of the slot and of the maximum time budget.
func (r *reporting) limit(o solver.Options) solver.Options {
	o.Interrupt, o.AcquireWorker = r.slot.Interrupted, r.slot.Extra
	o.TimeBudget = min(o.TimeBudget, r.service.maxBudget)
	return o
}

// MaxJobs returns the maximum number of jobs per snapshot.
func (r *reporting) MaxJobs() int { return r.allocator.MaxJobs() }

// Allocate decides a snapshot.
func (r *reporting) Allocate(ctx context.Context, s *solver.Snapshot, o solver.Options) (solver.Decision, error) {
	noSearch, certificate := r.slot.NoSearch, o.Certificate
	o = r.limit(o)
	if noSearch {
		o.Backend, o.TimeBudget = solver.BackendGreedy, noSearchBudget
	}
	r.outcome.Audit = !noSearch && r.service.audits.sample()
	o.Certificate = certificate || r.outcome.Audit
	decision, err := r.allocator.Allocate(ctx, s, o)
	r.outcome.Contradiction = decision.Report.Contradiction
	if err != nil {
		return decision, err
	}
	if noSearch {
		decision.Report.Warnings = append(decision.Report.Warnings, solver.Warning{
			Code:    solver.WarningLoadShedToGreedy,
			Message: "the server had no slot for a search in time; this is the allocation of the greedy baseline",
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
	explanation, err := r.allocator.Explain(ctx, s, r.limit(o), jobIDs)
	r.outcome.Contradiction = explanation.Decision.Report.Contradiction
	return explanation, err
}

// Forecast simulates the cluster from a snapshot on.
func (r *reporting) Forecast(
	ctx context.Context, s *solver.Snapshot, o solver.Options, f solver.ForecastOptions,
) (solver.Forecast, error) {
	forecast, err := r.allocator.Forecast(ctx, s, r.limit(o), f)
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
	whatIf, err := r.allocator.WhatIf(ctx, s, r.limit(o), scenarios)
	r.outcome.Contradiction = whatIf.Base.Report.Contradiction
	for i := range whatIf.Results {
		r.outcome.Contradiction = cmp.Or(r.outcome.Contradiction, whatIf.Results[i].Decision.Report.Contradiction)
	}
	return whatIf, err
}

// FillIdle allocates the idle nodes of a snapshot to queued jobs.
func (r *reporting) FillIdle(ctx context.Context, s *solver.Snapshot) (solver.Decision, error) {
	decision, err := r.allocator.FillIdle(ctx, s)
	if err == nil {
		r.outcome.Decision, r.outcome.Resizes = &decision, countResizes(s, &decision)
	}
	return decision, err
}

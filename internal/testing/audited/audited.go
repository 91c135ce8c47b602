// Package audited is for tests: it has decisions of the core audited. What a property test, a
// conformance test, a fuzzer or a simulation is told to be optimal goes through it, or through
// package audit itself, but for these:
//
//   - Problems that no request expresses, with drawn gains, values of sizes and capacities: those
//     that the tests of solver/... draw by solvertest. Their optimum is known by other means: all
//     plans, another solver.
//   - Problems that tests of solver/exact hand to it for the work of a search, for the same plan
//     twice, or for an answer when time ends, and those of TestInstances, for optima that package
//     audit confirms.
//   - Tests of server, client, kube and lab: they are about what is around a decision.
package audited

import (
	"context"
	"fmt"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/solver"
)

// work limits the check of one decision to a fraction of a second.
const work = 30_000_000

// Allocate decides with o.Certificate set and has the decision audited: of one that is
// refuted the error says why.
func Allocate(
	ctx context.Context, s *solver.Snapshot, o solver.Options,
	allocate func(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error),
) (solver.Decision, error) {
	o.Certificate = true
	d, err := allocate(ctx, s, o)
	if err != nil || o.CustomObjective != nil || o.NoBound { // These are not in the API.
		return d, err
	}
	return d, check(ctx, s, o, d)
}

// Result has the optimum audited that a backend found for the problem of a valid snapshot.
func Result(ctx context.Context, s *solver.Snapshot, o solver.Options, p *solver.Problem, result solver.Result) error {
	plan := result.Plan.Clone()
	p.ReleaseFinished(plan)
	result.Plan = plan
	d := solver.Decide(s, p, result)
	d.Report.Backend, d.Report.Reason, d.Report.Limit = solver.BackendExact, solver.ReasonOptimal, solver.LimitNone
	d.Report.Objective, d.Report.Bound = p.Objective(plan), result.Bound
	d.Report.SetPrices(p.Rows, result.NodePrices)
	d.Report.RelativeGap = solver.RelativeGap(d.Report.Objective, d.Report.Bound)
	return check(ctx, s, o, d)
}

func check(ctx context.Context, s *solver.Snapshot, o solver.Options, d solver.Decision) error {
	request := apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: o, IncludePlan: true})
	report := audit.Check(ctx, request, apiconv.ToAllocateResponse(s.ID, d, true), audit.Options{Work: work})
	if report.Verdict == audit.Refuted {
		return fmt.Errorf("audit: %s: %v", report.Reason, request)
	}
	return nil
}

// Package audittest verifies decisions in tests with package audit. Every result that a property test,
// a conformance test, a fuzz test or a simulation reports as optimal is verified by this package or by
// package audit, except for:
//
//   - Problems that no request can express, which the tests of solver/... generate with package solvertest: random
//     gains, values of sizes and capacities. Their optimum is known from exhaustive search or from another solver.
//   - Problems with which tests of solver/exact measure the work of a search, check that it is deterministic, or
//     interrupt it, and those of TestInstances, whose optima package audit confirms.
//   - Tests of server, client, kube and lab, which do not test the optimality of decisions.
package audittest

import (
	"context"
	"fmt"

	"github.com/elastalloc/elastalloc/audit"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/report"
)

// maxWork limits the verification of one decision to a fraction of a second.
const maxWork = 30_000_000

// Allocate makes a decision with o.Certificate set and verifies it. If the decision is refuted, the
// error has the reason.
func Allocate(
	ctx context.Context, s *solver.Snapshot, o solver.Options,
	allocate func(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error),
) (solver.Decision, error) {
	o.Certificate = true
	d, err := allocate(ctx, s, o)
	if err != nil || o.NoBound { // These options are not in the API.
		return d, err
	}
	return d, check(ctx, s, o, d)
}

// Result verifies the optimum that a backend found for the problem of a valid snapshot.
func Result(ctx context.Context, s *solver.Snapshot, o solver.Options, p *problem.Problem, result problem.Result) error {
	plan := result.Plan.Clone()
	p.ReleaseFinished(plan)
	result.Plan = plan
	d := report.Decide(s, p, result)
	d.Report.Backend, d.Report.Reason, d.Report.Limit = solver.BackendExact, solver.ReasonOptimal, solver.LimitNone
	d.Report.Objective, d.Report.Bound = p.Objective(plan), result.Bound
	d.Report.SetPrices(p.Rows, result.NodePrices)
	d.Report.RelativeGap = solver.RelativeGap(d.Report.Objective, d.Report.Bound)
	return check(ctx, s, o, d)
}

func check(ctx context.Context, s *solver.Snapshot, o solver.Options, d solver.Decision) error {
	request := apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: o, IncludePlan: true})
	checked := audit.Check(ctx, request, apiconv.ToAllocateResponse(s.ID, d, true), audit.Options{Work: maxWork})
	if checked.Verdict == audit.Refuted {
		return fmt.Errorf("audit: %s: %v", checked.Reason, request)
	}
	return nil
}

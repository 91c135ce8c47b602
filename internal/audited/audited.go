// Package audited is for tests: it has decisions of the core audited.
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
	if err != nil || o.OwnObjective != nil || o.NoBound { // These are not in the API.
		return d, err
	}
	request := apiconv.ToAllocateRequest(apiconv.Request{Snapshot: s, Options: o, IncludePlan: true})
	report := audit.Check(ctx, request, apiconv.ToAllocateResponse(s.ID, d, true), audit.Options{Work: work})
	if report.Verdict == audit.Refuted {
		return d, fmt.Errorf("audit: %s: %v", report.Reason, request)
	}
	return d, nil
}

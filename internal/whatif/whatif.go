// Package whatif makes the decisions on a snapshot and on scenarios, which are variations of it.
package whatif

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Allocator makes decisions. *elastalloc.Allocator implements it.
type Allocator interface {
	// Allocate returns the decision on a snapshot.
	Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	// MaxJobs returns the maximum number of jobs per snapshot.
	MaxJobs() int
}

// Decide returns the decisions on a snapshot and on scenarios, see elastalloc.Allocator.WhatIf. Errors
// that concern a single scenario are in its result.
func Decide(
	ctx context.Context, a Allocator, s *solver.Snapshot, o solver.Options, scenarios []solver.Scenario,
) (solver.WhatIf, error) {
	if len(scenarios) > solver.MaxScenarios {
		return solver.WhatIf{}, solver.Invalid("scenarios", "has %d scenarios; must have at most %d", len(scenarios), solver.MaxScenarios)
	}
	var w solver.WhatIf
	err := within(ctx, 1+len(scenarios), func(ctx context.Context) (err error) {
		w.Base, err = a.Allocate(ctx, s, o)
		return err
	})
	if err != nil {
		return w, err
	}
	jobs, values := 0, newYardsticks(s, o)
	for n := range scenarios {
		result := solver.ScenarioResult{Name: scenarios[n].Name}
		result.Err = within(ctx, len(scenarios)-n, func(ctx context.Context) (err error) {
			var varied *solver.Snapshot
			if result.Decision, varied, err = decideScenario(ctx, a, s, o, n, &scenarios[n], &jobs); err == nil {
				result.Benefit = values.benefit(ctx, varied, w.Base, result.Decision)
			}
			return err
		})
		if result.Err == nil {
			result.ChangedJobIDs = solver.ChangedJobIDs(w.Base, result.Decision)
		}
		w.Results = append(w.Results, result) // Callers read its contradiction even if the call fails.
		if err := result.Err; err != nil && !errors.As(err, new(*solver.InvalidError)) && !errors.Is(err, context.DeadlineExceeded) {
			return w, err
		}
	}
	return w, nil
}

// decideScenario returns the decision on scenario n and its snapshot. jobs is the number of jobs of all previous scenarios,
// which it updates.
func decideScenario(
	ctx context.Context, a Allocator, s *solver.Snapshot, o solver.Options, n int, scenario *solver.Scenario, jobs *int,
) (solver.Decision, *solver.Snapshot, error) {
	path := fmt.Sprintf("scenarios[%d]", n)
	varied, err := scenario.Apply(s)
	var bad *solver.InvalidError
	if errors.As(err, &bad) {
		return solver.Decision{}, nil, bad.WithPrefix(path)
	}
	if len(scenario.Bad) > 0 {
		return solver.Decision{}, nil, (&solver.InvalidError{Violations: scenario.Bad}).WithPrefix(path)
	}
	if all := *jobs + len(varied.Jobs); len(varied.Jobs) <= a.MaxJobs() && all > solver.ScenarioJobs*a.MaxJobs() {
		return solver.Decision{}, nil, solver.Invalid(path, "increases the number of jobs in all scenarios to %d; must be at most %d",
			all, solver.ScenarioJobs*a.MaxJobs())
	}
	if own := scenario.Options; own != nil {
		interrupt := o.Interrupt
		o = *own
		o.Interrupt = interrupt
	}
	d, err := a.Allocate(ctx, &varied.Snapshot, o)
	if errors.As(err, &bad) {
		return d, nil, &solver.InvalidError{Violations: varied.RequestPaths(bad.Violations, path)}
	}
	if err == nil {
		*jobs += len(varied.Jobs)
		if warning, kept := scenario.KeptLimits(s, varied); kept {
			d.Report.Warnings = append(d.Report.Warnings, warning)
		}
	}
	return d, &varied.Snapshot, err
}

// within calls work, the next of the given number of equal parts, with its share of the time until the
// deadline of ctx.
func within(ctx context.Context, parts int, work func(context.Context) error) error {
	if deadline, limited := ctx.Deadline(); limited && parts > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(parts))
		defer cancel()
	}
	return work(ctx)
}

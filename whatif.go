package elastalloc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// scenarioJobs is how many times as many jobs as one snapshot may have all scenarios of
// a request may have together: their decisions are held until the last is made.
const scenarioJobs = 2

// WhatIf decides a snapshot and variations of it, each as Allocate alone would; the searches
// of the variations start from the prices of the snapshot's own decision. The time budget is
// for each decision. What is left until the deadline of ctx is shared equally among the
// decisions that are still to make, so that one that takes long leaves time for the others.
//
// The error of one scenario is in its result and leaves the others alone. The errors of
// the call are those of Allocate on the snapshot itself.
func (a *Allocator) WhatIf(
	ctx context.Context, s *solver.Snapshot, o solver.Options, scenarios []solver.Scenario,
) (solver.WhatIf, error) {
	if len(scenarios) > solver.MaxScenarios {
		return solver.WhatIf{}, invalid("scenarios", "has %d scenarios; want at most %d", len(scenarios), solver.MaxScenarios)
	}
	var w solver.WhatIf
	err := within(ctx, 1+len(scenarios), func(ctx context.Context) (err error) {
		w.Base, err = a.Allocate(ctx, s, o)
		return err
	})
	if err != nil {
		return solver.WhatIf{}, err
	}
	jobs := 0
	for n := range scenarios {
		result := solver.ScenarioResult{Name: scenarios[n].Name}
		result.Err = within(ctx, len(scenarios)-n, func(ctx context.Context) (err error) {
			result.Decision, err = a.decideScenario(ctx, s, hinted(o, w.Base.Report.NodePrices), n, &scenarios[n], &jobs)
			return err
		})
		var bad *solver.InvalidError
		switch {
		case result.Err == nil:
			result.ChangedJobIDs = solver.ChangedJobIDs(w.Base, result.Decision)
		case !errors.As(result.Err, &bad) && !errors.Is(result.Err, context.DeadlineExceeded):
			return solver.WhatIf{}, result.Err
		}
		w.Results = append(w.Results, result)
	}
	return w, nil
}

// decideScenario decides scenario n; jobs counts those of all that have been decided.
func (a *Allocator) decideScenario(
	ctx context.Context, s *solver.Snapshot, o solver.Options, n int, scenario *solver.Scenario, jobs *int,
) (solver.Decision, error) {
	path := fmt.Sprintf("scenarios[%d]", n)
	varied, err := scenario.Apply(s)
	var bad *solver.InvalidError
	if errors.As(err, &bad) {
		return solver.Decision{}, bad.Within(path)
	}
	if len(scenario.Bad) > 0 {
		return solver.Decision{}, (&solver.InvalidError{Violations: scenario.Bad}).Within(path)
	}
	if all := *jobs + len(varied.Jobs); len(varied.Jobs) <= a.maxJobs && all > scenarioJobs*a.maxJobs {
		return solver.Decision{}, invalid(path, "is one too many: with it the scenarios have %d jobs; want at most %d in all",
			all, scenarioJobs*a.maxJobs)
	}
	if own := scenario.Options; own != nil {
		prices := o.PriceHint
		if own.WithDefaults().Objective != o.WithDefaults().Objective {
			prices = nil // They are of another unit.
		}
		hurry := o.Hurry
		o = hinted(*own, prices)
		o.Hurry = hurry
	}
	decision, err := a.Allocate(ctx, &varied.Snapshot, o)
	if errors.As(err, &bad) {
		return decision, &solver.InvalidError{Violations: varied.Rename(bad.Violations, path)}
	}
	if err == nil {
		*jobs += len(varied.Jobs)
	}
	return decision, err
}

// hinted returns options with prices of nodes to start from, unless they have some.
func hinted(o solver.Options, prices []float64) solver.Options {
	if o.PriceHint == nil {
		o.PriceHint = prices
	}
	return o
}

// within runs the first of some pieces of work with its share of the time until the
// deadline of ctx.
func within(ctx context.Context, pieces int, work func(context.Context) error) error {
	if deadline, limited := ctx.Deadline(); limited && pieces > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(pieces))
		defer cancel()
	}
	return work(ctx)
}

// invalid returns an error that names one bad field.
func invalid(path, format string, args ...any) error {
	return &solver.InvalidError{Violations: []solver.Violation{{Path: path, Description: fmt.Sprintf(format, args...)}}}
}

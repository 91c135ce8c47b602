package chain

import (
	"context"
	"fmt"
	"math"

	"github.com/elastalloc/elastalloc/solver"
)

// claimTolerance is how much better, relative to its objective, a plan must be to
// refute that another is optimal: a MILP solver works to tolerances.
const claimTolerance = 1e-6

// judge has the judge, if there is one, solve the problem in the time left for
// searching, once a decision, and refuses an answer whose claim does not hold.
func (d *deliberation) judge(ctx context.Context, a *answer) {
	if d.chain.config.Judge == nil {
		return
	}
	if d.judgement == nil {
		options := d.options
		options.Incumbent = a.result.Plan
		j := tryWithin(ctx, d.budget.searchEnd, d.chain.config.Judge, d.problem, options)
		d.judgement = &j
	}
	j := d.judgement
	if j.Outcome != solver.OutcomeAnswered || !a.result.Claim.Optimal {
		return
	}
	// A solver that works out a wrong objective is refuted as is one whose plan is
	// not the best. Within the gap asked for, it calls a plan optimal.
	claimed := a.objective
	if a.result.Claim.Objective < claimed {
		claimed = a.result.Claim.Objective
	}
	if claimed < j.objective-(d.options.RelativeGap+claimTolerance)*math.Abs(j.objective) {
		a.Outcome = solver.OutcomeInvalidPlan
		a.Detail = fmt.Sprintf("%s; refuted: it calls %.10g optimal, and %s has a plan worth %.10g",
			a.Detail, claimed, j.Backend, j.objective)
	}
}

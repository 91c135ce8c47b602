package chain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// claimTolerance is how much better, relative to its objective, a plan must be to
// refute that another is optimal: a MILP solver works to tolerances.
const claimTolerance = 1e-6

// verifiedBetter reports whether the verification of an answer found a plan that is
// better by more than rounding, or as good with fewer changes: MILP solvers take any optimum.
func (r *run) verifiedBetter(a answer) bool {
	own := r.verification
	if own == nil || own.Outcome != solver.OutcomeAnswered || own.Backend == a.Backend {
		return false
	}
	if solver.RelativeGap(a.objective, own.objective) > boundNoise {
		return true
	}
	return solver.RelativeGap(own.objective, a.objective) <= boundNoise &&
		slices.Compare(tie(r.problem, own.result.Plan), tie(r.problem, a.result.Plan)) < 0
}

// tie returns what tells a plan from others as good, the least first: jobs that change, those
// that move, nodes now and their types.
func tie(p *solver.Problem, plan solver.Plan) []int {
	changed, moved, nodes, types := 0, 0, 0, 0
	for i := range plan {
		option, current := plan[i][0], p.Jobs[i].Current
		if option != current {
			changed++
			if option.MovesFrom(current) {
				moved++
			}
		}
		nodes += int(option.Nodes)
		types += int(option.Type)
	}
	return []int{changed, moved, nodes, types}
}

// verify has the prover solve the problem in the time left for searching, once per
// decision, and refuses an answer whose claim does not hold.
func (r *run) verify(ctx context.Context, a *answer) {
	if r.verification == nil {
		options := r.options
		options.Incumbent = a.result.Plan
		own := tryWithin(ctx, r.budget.searchEnd, r.chain.config.Prover, r.problem, options)
		r.verification = &own
	}
	own := r.verification
	if own.Outcome != solver.OutcomeAnswered || !a.result.Claim.Optimal {
		return
	}
	// A solver that works out a wrong objective is refuted as is one whose plan is
	// not the best. Within the gap asked for, it calls a plan optimal.
	claimed := a.objective
	if a.result.Claim.Objective < claimed { // It may be NaN.
		claimed = a.result.Claim.Objective
	}
	if claimed < own.objective-(r.options.RelativeGap+claimTolerance)*math.Abs(own.objective) {
		a.Outcome = solver.OutcomeInvalidPlan
		a.Detail = fmt.Sprintf("%s; refuted: it calls %.10g optimal, and %s has a plan of %.10g",
			a.Detail, claimed, own.Backend, own.objective)
	}
}

package chain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// claimTolerance is the relative improvement from which a better plan refutes a claim of optimality. MILP
// solvers compute with tolerances, so smaller differences do not refute a claim.
const claimTolerance = 1e-6

// verificationIsBetter reports whether the plan of the verification has a larger objective than an attempt,
// beyond rounding, or the same objective with fewer changes. MILP solvers return any one of several optima.
func (r *run) verificationIsBetter(a attempt) bool {
	v := r.verification
	if v == nil || v.Outcome != solver.OutcomeAnswered || v.Backend == a.Backend {
		return false
	}
	if solver.RelativeGap(a.objective, v.objective) > roundingTolerance {
		return true
	}
	return solver.RelativeGap(v.objective, a.objective) <= roundingTolerance &&
		slices.Compare(tieBreakKey(r.problem, v.result.Plan), tieBreakKey(r.problem, a.result.Plan)) < 0
}

// tieBreakKey returns the key that orders plans with the same objective; smaller is better. It has the
// numbers of changed jobs, moved jobs and nodes, and the sum of the node types, in the first step.
func tieBreakKey(p *problem.Problem, plan problem.Plan) []int {
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

// verify verifies the claim of an attempt. The prover solves the problem in the remaining search time, once
// per decision. If its plan refutes the claim, verify sets the outcome of the attempt to OutcomeInvalidPlan.
func (r *run) verify(ctx context.Context, a *attempt) {
	if r.verification == nil {
		options := r.options
		options.Incumbent = a.result.Plan
		v := callUntil(ctx, r.budget.searchDeadline, r.chain.config.Prover, r.problem, options)
		r.verification = &v
	}
	v := r.verification
	if v.Outcome != solver.OutcomeAnswered || !a.result.Claim.Optimal {
		return
	}
	// A wrong objective of the best plan refutes the claim too. Within the requested gap, solvers report
	// every plan as optimal.
	claimed := a.objective
	if a.result.Claim.Objective < claimed { // The claimed objective may be NaN.
		claimed = a.result.Claim.Objective
	}
	if claimed < v.objective-(r.options.RelativeGap+claimTolerance)*math.Abs(v.objective) {
		a.Outcome = solver.OutcomeInvalidPlan
		a.Detail = fmt.Sprintf("%s; refuted: the claimed optimum is %.10g, but %s has a plan of %.10g",
			a.Detail, claimed, v.Backend, v.objective)
	}
}

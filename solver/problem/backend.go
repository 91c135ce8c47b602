package problem

import (
	"context"

	"github.com/elastalloc/elastalloc/solver"
)

// Backend solves problems. Implementations are safe for concurrent use. They keep no state between
// calls that could change a result.
type Backend interface {
	// Name returns the backend's name.
	Name() solver.BackendName
	// Solve returns the best plan for p that it finds until ctx is done. If ctx stopped the
	// search, the limit of the result is LimitTime. An error means that no plan was found. It
	// wraps ErrUnavailable, ErrTimedOut or ErrInvalidPlan if one of them is the cause.
	Solve(ctx context.Context, p *Problem, options SolveOptions) (Result, error)
}

// Prover is a backend that also proves bounds for the plans of other backends.
type Prover interface {
	Backend
	// Bound returns a proven upper bound on the optimum of p. The bound is finite for every
	// problem that has a plan, and more time makes it tighter. Bound also returns the node prices
	// and the contradiction as in Result. The prices are nil if ctx is done before they are known.
	Bound(ctx context.Context, p *Problem) (bound float64, nodePrices []float64, contradiction string)
}

// SolveOptions are the options of Backend.Solve.
type SolveOptions struct {
	// RelativeGap stops the search if the plan is proven within this share of the optimum. 0
	// means that the search has to prove optimality.
	RelativeGap float64
	// Formulation is the MILP that a backend passes to an external solver.
	Formulation solver.Formulation
	// Incumbent is an initial plan. It may be nil or illegal. Backends do not change it.
	Incumbent Plan
	// Certificate requests Result.Certificate.
	Certificate bool
}

// Result is the result of Backend.Solve.
type Result struct {
	// Plan is the best plan found. The caller checks it and computes its objective.
	Plan Plan
	// Bound is an upper bound on the optimum that this program has proven, +Inf if the backend
	// proves none. The claims of an external solver do not count; they are in Claim.
	Bound float64
	// NodePrices are the values of one more node, in units of the objective: per step, or per row of a
	// problem that has rows. Nil means
	// that the backend does not report them.
	NodePrices []float64
	// GroupPrices are the values of one more node in the limit of each group, in units of the
	// objective. Nil means that the backend does not report them or that there are no groups.
	GroupPrices []float64
	// GroupTypePrices are the values of one more node in the limits of each group per node type, by group and
	// type. Nil means the same, or that there are no such limits.
	GroupTypePrices [][]float64
	// Certificate is the data that a checker of the bound needs in addition to the plan and
	// NodePrices. It is nil if it was not requested, if the checker needs no further data, or if
	// the backend proves no bound.
	Certificate solver.Certificate
	// Limit is the reason why the search stopped.
	Limit solver.Limit
	// Heuristic reports that no search was made. Such a plan may leave an admitted queued job
	// waiting, so it is checked against Problem.WithWaiting.
	Heuristic bool
	// Claim is the claim of an external solver about the plan, nil for other backends.
	Claim *Claim
	// Contradiction describes a proof of the backend that a legal plan has refuted, which is a bug
	// of the backend. Bound then does not depend on the search. "" means that there is none.
	Contradiction string
	// Detail describes the search for people, such as its size or the output of the solver.
	Detail string
}

// Claim is the claim of an external solver about its plan. If it is refuted, the plan is rejected.
type Claim struct {
	// Optimal reports that the solver claims that the plan is optimal.
	Optimal bool
	// Objective and Bound are the values that the solver reports, NaN if it reports none.
	Objective, Bound float64
}

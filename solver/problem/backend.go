package problem

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// BackendName names a backend in options, reports, flags and metrics.
type BackendName string

// The backends.
const (
	BackendExact  BackendName = "exact"  // embedded, the default
	BackendCBC    BackendName = "cbc"    // the MILP on CBC
	BackendHiGHS  BackendName = "highs"  // the MILP on HiGHS
	BackendGreedy BackendName = "greedy" // the four rules of the paper
)

// Formulation is the MILP handed to an external solver.
type Formulation string

// The formulations. They have the same optimum.
const (
	FormulationOneHot Formulation = "one-hot" // one binary per job, step and size
	FormulationPaper  Formulation = "paper"   // the paper's final formulation, verbatim
)

// Backend finds plans. Implementations are safe for concurrent use and keep no
// state between calls that could change an answer.
type Backend interface {
	// Name returns the backend's name.
	Name() BackendName
	// Solve returns the best plan for p that it finds before ctx ends: where that cut it
	// short, with LimitTime. An error means that no plan was found; it wraps ErrUnavailable,
	// ErrTimedOut or ErrInvalidPlan where those say why.
	Solve(ctx context.Context, p *Problem, options SolveOptions) (Result, error)
}

// Prover is a backend that also proves bounds for plans that are not its own.
type Prover interface {
	Backend
	// Bound returns a proven upper bound on the optimum of p: finite for every
	// problem that has a plan, and the tighter the later ctx ends. With it come what
	// Result.NodePrices are, nil where ctx ends before they are known, and
	// Result.Contradiction.
	Bound(ctx context.Context, p *Problem) (bound float64, nodePrices []float64, contradiction string)
}

// SolveOptions is what a caller asks of a backend.
type SolveOptions struct {
	// RelativeGap ends the search once the plan is proven within this share of
	// the optimum. 0 means prove optimality.
	RelativeGap float64
	// Formulation is the model for a backend that hands one to a solver.
	Formulation Formulation
	// Incumbent is a plan to start from, which need not be legal; it may be nil. Backends do
	// not change it.
	Incumbent Plan
	// Certificate asks for Result.Certificate.
	Certificate bool
}

// Errors of Backend.Solve.
var (
	// ErrUnavailable means that the backend cannot be asked at all now.
	ErrUnavailable = errors.New("backend is unavailable")
	// ErrUnsuited means that the backend cannot be asked about this problem, such as one
	// that is too large for it. It wraps ErrUnavailable.
	ErrUnsuited = fmt.Errorf("%w for this problem", ErrUnavailable)
	// ErrTimedOut means that the backend had no plan when its time was up.
	ErrTimedOut = errors.New("backend has no plan in time")
	// ErrInvalidPlan means that the backend returned something that is not a plan of the
	// problem: fractional values, an illegal size, a claim of infeasibility.
	ErrInvalidPlan = errors.New("backend has no valid plan")
)

// Result is the answer of a backend.
type Result struct {
	// Plan is the plan. The caller checks it and computes its objective.
	Plan Plan
	// Bound is an upper bound on the optimum that this program has proven itself:
	// +Inf where the backend proves none. What a solver claims goes into Detail.
	Bound float64
	// NodePrices are what one more node is worth per step, in units of the objective;
	// nil where the backend does not know.
	NodePrices []float64
	// GroupPrices are what one more node of each group's limit is worth, in units of the
	// objective; nil where the backend does not know and where there are no groups.
	GroupPrices []float64
	// Certificate is what a checker of the bound needs beyond the plan and NodePrices, if
	// that was asked for; nil where it needs nothing or the backend proves nothing.
	Certificate Certificate
	// Limit is what ended the search.
	Limit Limit
	// Heuristic says that no search was made. Such a plan may leave an admitted
	// queued job waiting, so it is checked against Problem.WithWaiting.
	Heuristic bool
	// Claim is what an external solver says of the plan; nil of other backends.
	Claim *Claim
	// Contradiction, where it is not empty, says which proof of the backend a legal plan has
	// refuted: a defect. Bound is then one that does not rest on the search.
	Contradiction string
	// Detail is for a person: what the solver said, how large the search was.
	Detail string
}

// Claim is what an external solver says of its plan. One that is refuted discredits the plan.
type Claim struct {
	// Optimal says that the solver calls the plan optimal.
	Optimal bool
	// Objective and Bound are the solver's figures, NaN where it gives none.
	Objective, Bound float64
}

// Limit is what ended a search.
type Limit string

// The limits.
const (
	LimitNone Limit = "none" // the search ran to its end
	LimitGap  Limit = "gap"  // the gap asked for was reached
	LimitTime Limit = "time" // the time budget
	LimitWork Limit = "work" // the search used up its count of work; deterministic
)

// OptimalGap is the relative gap up to which a plan counts as proven optimal.
const OptimalGap = 1e-9

// tiny keeps the relative gap of an objective of 0 defined.
const tiny = 1e-12

// RelativeGap returns (bound - objective) / max(|bound|, |objective|, tiny), how
// much better than the objective a plan could be; it is never negative, and +Inf where
// the bound is.
func RelativeGap(objective, bound float64) float64 {
	if math.IsInf(bound, 1) {
		return bound
	}
	return max(0, bound-objective) / max(math.Abs(bound), math.Abs(objective), tiny)
}

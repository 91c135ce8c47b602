package solver

import (
	"time"
)

// Reason states how good a decision is known to be.
type Reason string

// The reasons.
const (
	ReasonOptimal   Reason = "optimal"   // proven: the relative gap is at most OptimalGap
	ReasonFeasible  Reason = "feasible"  // valid; the gap is open or within the requested gap
	ReasonHeuristic Reason = "heuristic" // no search was made, or none had a plan in time
)

// Report describes how a decision was made and how good it is.
type Report struct {
	Backend BackendName
	Reason  Reason
	Limit   Limit
	// Objective is the objective of the plan, computed from the plan.
	Objective float64
	// Bound is a proven upper bound on the optimum.
	Bound float64
	// RelativeGap is RelativeGap(Objective, Bound).
	RelativeGap float64
	// GreedyObjective is the objective of the plan of the greedy backend.
	GreedyObjective float64
	// SolveTime is the time in the backend whose plan was chosen.
	SolveTime time.Duration
	// Attempts are the attempts of all called backends, in order.
	Attempts []Attempt
	// NodePrices are the values of one more node, in units of the objective: the prices of the
	// Lagrangian bound. There is one price per step, or per node type if there are several. Nil means
	// that the time budget expired before they were known or that no bound was requested.
	NodePrices []float64
	// IdleNodes is the number of nodes that the decision does not allocate.
	IdleNodes int
	// Warnings are the warnings for operators.
	Warnings []Warning
	// Groups are in the order of Snapshot.Groups, one each.
	Groups []GroupReport
	// NodeTypes are in the order of Snapshot.NodeTypes, one each.
	NodeTypes []NodeTypeReport
	// SizeLimits are in the order of Snapshot.SizeLimits, one each.
	SizeLimits []SizeLimitReport
	// Contradiction describes a proof that a legal plan has refuted, which is a bug of this program.
	// Bound then does not depend on the search. "" means that there is none.
	Contradiction string
	// Certificate is the data that a checker of Bound needs in addition to the plan and NodePrices. Nil
	// means that it needs none or that the certificate was not requested.
	Certificate Certificate
}

// Attempt is the attempt of one backend to make a decision.
type Attempt struct {
	Backend  BackendName
	Outcome  Outcome
	Detail   string
	Duration time.Duration
}

// Outcome is the outcome of an attempt.
type Outcome string

// The outcomes.
const (
	OutcomeAnswered    Outcome = "answered"     // its plan was accepted
	OutcomeUnavailable Outcome = "unavailable"  // it could not be called
	OutcomeTimedOut    Outcome = "timed-out"    // it had no plan when its time budget expired
	OutcomeCrashed     Outcome = "crashed"      // it failed with another error or a panic
	OutcomeInvalidPlan Outcome = "invalid-plan" // its plan did not pass the check
)

// GroupReport describes the effect of a decision on a group.
type GroupReport struct {
	// ID is the id of the group.
	ID string
	// Nodes is the number of nodes that the jobs of the group and its descendants get.
	Nodes int
	// Short is the number of nodes that Nodes is below AdmittedGroup.Floor.
	Short int
	// Price is the value of one more node in the limit of the group, in units of the objective. It is 0
	// if the limit does not bind or if no search was made.
	Price float64
	// Types are in the order of Group.TypeLimits, one each.
	Types []GroupTypeReport
}

// GroupTypeReport describes the effect of a decision on the nodes of one type in a group.
type GroupTypeReport struct {
	GroupTypeLimit
	// Nodes is the number of nodes of the type that the jobs of the group and its descendants get.
	Nodes int
	// Price is the value of one more node in the limit, in units of the objective.
	Price float64
}

// NodeTypeReport describes the effect of a decision on a node type.
type NodeTypeReport struct {
	ID string
	// Nodes is the number of nodes of the type, and IdleNodes the number that is not allocated.
	Nodes, IdleNodes int
	// Price is the value of one more node, in units of the objective. It is 0 if no search was made.
	Price float64
}

// SizeLimitReport describes the effect of a decision on a size limit.
type SizeLimitReport struct {
	SizeLimit
	// Used is the number of nodes of the allocations that count.
	Used int
	// Price is the value of one more node in the limit, in units of the objective.
	Price float64
}

// SetPrices sets the prices of nodes: one per row of the problem if it has rows, otherwise one per step.
// Nil means that they are not known.
func (r *Report) SetPrices(rows Rows, prices []float64) {
	if r.NodePrices = prices; rows != nil && prices != nil {
		r.NodePrices = nil
		for n, row := range rows {
			if row.Limit >= 0 {
				r.SizeLimits[row.Limit].Price = prices[n]
			} else {
				r.NodePrices = append(r.NodePrices, prices[n])
			}
		}
	}
	for g := range min(len(r.NodeTypes), len(r.NodePrices)) {
		r.NodeTypes[g].Price = r.NodePrices[g]
	}
}

// Prices returns the prices that SetPrices has set.
func (r *Report) Prices(rows Rows) []float64 {
	if rows == nil || r.NodePrices == nil {
		return r.NodePrices
	}
	prices := make([]float64, len(rows))
	for n, row := range rows {
		if prices[n] = r.NodePrices[row.Type]; row.Limit >= 0 {
			prices[n] = r.SizeLimits[row.Limit].Price
		}
	}
	return prices
}

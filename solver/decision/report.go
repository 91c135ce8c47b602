package decision

import (
	"time"

	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

// Reason is what is known about an answer.
type Reason string

// The reasons.
const (
	ReasonOptimal   Reason = "optimal"   // proven: the relative gap is at most OptimalGap
	ReasonFeasible  Reason = "feasible"  // valid; the gap is open or within the gap asked for
	ReasonHeuristic Reason = "heuristic" // no search was made, or none had a plan in time
)

// Report says who decided, how good the decision is and how it came about.
type Report struct {
	Backend problem.BackendName
	Reason  Reason
	Limit   problem.Limit
	// Objective is that of the returned plan, recomputed from it.
	Objective float64
	// Bound is a proven upper bound on the optimum.
	Bound float64
	// RelativeGap is RelativeGap(Objective, Bound).
	RelativeGap float64
	// GreedyObjective is what the greedy allocator would have scored.
	GreedyObjective float64
	// SolveTime is the time inside the backend that answered.
	SolveTime time.Duration
	// Attempts are all backends tried, in order.
	Attempts []Attempt
	// NodePrices are what one more node would bring, per step of the objective or per node
	// type where there are several, in units of the objective: the prices of the Lagrangian
	// bound. Nil where time ended before they were known, or no bound was asked for.
	NodePrices []float64
	// IdleNodes is what the decision leaves unallocated.
	IdleNodes int
	// Warnings are what an operator should know.
	Warnings []Warning
	// Groups are in the order of Snapshot.Groups, one each.
	Groups []GroupReport
	// NodeTypes are in the order of Snapshot.NodeTypes, one each.
	NodeTypes []NodeTypeReport
	// SizeLimits are in the order of Snapshot.SizeLimits, one each.
	SizeLimits []SizeLimitReport
	// Contradiction, where it is not empty, says which proof a legal plan has refuted: a
	// defect of this program. Bound is then one that needs no search.
	Contradiction string
	// Certificate is what a checker of Bound needs beyond the plan and NodePrices; nil where
	// it needs nothing or was not asked for.
	Certificate problem.Certificate
}

// Attempt is one backend's try at a decision.
type Attempt struct {
	Backend  problem.BackendName
	Outcome  Outcome
	Detail   string
	Duration time.Duration
}

// Outcome is how a backend's try at a decision ended.
type Outcome string

// The outcomes.
const (
	OutcomeAnswered    Outcome = "answered"     // it gave the answer
	OutcomeUnavailable Outcome = "unavailable"  // it could not be asked
	OutcomeTimedOut    Outcome = "timed-out"    // it had no plan when its time was up
	OutcomeCrashed     Outcome = "crashed"      // it failed
	OutcomeInvalidPlan Outcome = "invalid-plan" // its plan did not pass the check
)

// GroupReport is what a decision means for a group.
type GroupReport struct {
	// ID is that of the group.
	ID string
	// Nodes are what its jobs and those of all groups within it hold from now on.
	Nodes int
	// Short is how many nodes that is below AdmittedGroup.Floor.
	Short int
	// Price is what one more node of the group's limit is worth, in units of the objective;
	// 0 where the limit does not bind and where no search was made.
	Price float64
}

// NodeTypeReport is what a decision means for a node type.
type NodeTypeReport struct {
	ID string
	// Nodes are those of the type in the pool, IdleNodes those of them left unallocated.
	Nodes, IdleNodes int
	// Price is what one more node is worth, in units of the objective; 0 where no search was
	// made.
	Price float64
}

// SizeLimitReport is what a decision means for a size limit.
type SizeLimitReport struct {
	snapshot.SizeLimit
	// Used is the number of nodes of the allocations that count.
	Used int
	// Price is what one more node in the limit is worth, in units of the objective.
	Price float64
}

// reportGroups returns the reports of the groups of p under a plan, prices aside.
func reportGroups(s *snapshot.Snapshot, p *problem.Problem, plan problem.Plan) []GroupReport {
	if len(p.Groups) == 0 {
		return nil
	}
	reports := make([]GroupReport, len(p.Groups))
	for g, nodes := range p.GroupNodes(plan) {
		reports[g] = GroupReport{ID: s.Groups[g].ID, Nodes: nodes, Short: max(0, p.Groups[g].Floor-nodes)}
	}
	return reports
}

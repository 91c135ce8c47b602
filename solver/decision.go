package solver

// Decision has the allocations of all jobs of a snapshot and a report about them.
type Decision struct {
	// Allocations are in the order of Snapshot.Jobs, one each.
	Allocations []Allocation
	// Report describes how the decision was made and how good it is.
	Report Report
}

// Allocation is the decision for one job.
type Allocation struct {
	JobID string
	// Current is the number of nodes before the decision, and Nodes the number after it.
	Current, Nodes int
	// NodeType is the type of the nodes. "" means no nodes or no node types.
	NodeType string
	// Change is the change from Current to Nodes.
	Change Change
	// WaitReason is the reason why the job gets no nodes. BehindJobID is the job that it waits for if
	// the reason is WaitBehind.
	WaitReason  WaitReason
	BehindJobID string
	// PlannedNodes are the planned numbers of nodes, one per step of the horizon.
	PlannedNodes []int
	// PlannedProgress is the share of the remaining work (0 to 1) that is done by the end of each
	// step.
	PlannedProgress []float64
}

// Steps returns the allocations that change nodes in the order in which to execute them: first the
// allocations that release nodes, then the allocations that add nodes. So the jobs never occupy more
// nodes than the pool has, or more than before if the pool shrank. A move consists of two steps. The
// first one releases all nodes. If a step fails, skip the remaining steps and make a new decision.
func (d *Decision) Steps() []Allocation {
	var releases, additions []Allocation
	for _, a := range d.Allocations {
		switch {
		case a.Change == ChangeMove:
			release := a
			release.Nodes, release.NodeType = 0, ""
			releases, additions = append(releases, release), append(additions, a)
		case a.Nodes < a.Current:
			releases = append(releases, a)
		case a.Nodes > a.Current:
			additions = append(additions, a)
		}
	}
	return append(releases, additions...)
}

// Change is the effect of a decision on a job.
type Change string

// The changes.
const (
	ChangeStart     Change = "start"
	ChangeScaleUp   Change = "scale-up"
	ChangeScaleDown Change = "scale-down"
	ChangeKeep      Change = "keep"
	ChangeWait      Change = "wait"
	ChangePreempt   Change = "preempt"
	ChangeMove      Change = "move" // to another node type, with any number of nodes
)

// ChangeOf returns the change of a job from current to nodes without a change of the node type.
func ChangeOf(current, nodes int) Change {
	switch {
	case current == 0 && nodes == 0:
		return ChangeWait
	case current == 0:
		return ChangeStart
	case nodes == 0:
		return ChangePreempt
	case nodes > current:
		return ChangeScaleUp
	case nodes < current:
		return ChangeScaleDown
	default:
		return ChangeKeep
	}
}

// WaitReason is the reason why a job gets no nodes. "" means that it gets nodes.
type WaitReason string

// The reasons.
const (
	// WaitNoRoom means that the smallest size of the job does not fit in addition to the jobs that
	// take precedence.
	WaitNoRoom WaitReason = "no-room"
	// WaitBehind means that the job is behind a job that does not fit, and jobs do not overtake each
	// other.
	WaitBehind WaitReason = "behind"
	// WaitNeverFits means that the job's smallest size exceeds the pool.
	WaitNeverFits WaitReason = "never-fits"
	// WaitGroupLimit means that the limit of the job's group leaves too few nodes.
	WaitGroupLimit WaitReason = "group-limit"
	// WaitNotWorthIt means that the nodes have a higher value for other jobs.
	WaitNotWorthIt WaitReason = "not-worth-it"
	// WaitSizeLimit means that a size limit, not the pool, leaves too few nodes.
	WaitSizeLimit WaitReason = "size-limit"
	// WaitRestartBudget means that the job never started and would fit without the jobs that have used
	// their restart budgets.
	WaitRestartBudget WaitReason = "restart-budget"
)

package solver

import "time"

// Decision is the nodes of every job of a snapshot and what is known about them.
type Decision struct {
	// Allocations are in the order of Snapshot.Jobs, one each.
	Allocations []Allocation
	// Report says who decided and how good the decision is.
	Report Report
}

// Allocation is the decision for one job.
type Allocation struct {
	JobID string
	// Current is the number of nodes held before, Nodes the number from now on.
	Current, Nodes int
	// Change is what that means for the job.
	Change Change
	// PlannedNodes are the nodes per step of the horizon.
	PlannedNodes []int
	// PlannedProgress is the share of the remaining work done by the end of each
	// step, 0 to 1.
	PlannedProgress []float64
}

// Change is what a decision means for a job.
type Change string

// The changes.
const (
	ChangeStart     Change = "start"
	ChangeScaleUp   Change = "scale-up"
	ChangeScaleDown Change = "scale-down"
	ChangeKeep      Change = "keep"
	ChangeWait      Change = "wait"
	ChangePreempt   Change = "preempt"
)

// ChangeOf returns what going from current to nodes means for a job.
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

// Report says who decided, how good the decision is and how it came about.
type Report struct {
	Backend BackendName
	Reason  Reason
	Limit   Limit
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
	// IdleNodes is what the decision leaves unallocated.
	IdleNodes int
}

// Attempt is one backend's try at a decision.
type Attempt struct {
	Backend  BackendName
	Outcome  Outcome
	Detail   string
	Duration time.Duration
}

// DecideNow turns the nodes of every job of the snapshot from now on, which together do
// not exceed the pool, into a decision without a plan. Of its report only IdleNodes is
// set.
func DecideNow(s *Snapshot, nodes []int) Decision {
	d := Decision{Allocations: make([]Allocation, len(s.Jobs))}
	d.Report.IdleNodes = s.TotalNodes
	for i := range s.Jobs {
		job := &s.Jobs[i]
		d.Allocations[i] = Allocation{
			JobID: job.ID, Current: job.CurrentNodes, Nodes: nodes[i], Change: ChangeOf(job.CurrentNodes, nodes[i]),
		}
		d.Report.IdleNodes -= nodes[i]
	}
	return d
}

// Decide turns a plan into the decision for every job of the snapshot p was built
// from; jobs that were not admitted get no nodes. The report holds only what
// follows from the allocations. The plan may hold sizes of jobs that p's relaxed
// model has, such as 0.
func Decide(s *Snapshot, p *Problem, plan Plan) Decision {
	d := Decision{Allocations: make([]Allocation, len(s.Jobs))}
	noNodes, noProgress := make([]int, p.Steps), make([]float64, p.Steps)
	for i := range s.Jobs {
		job := &s.Jobs[i]
		d.Allocations[i] = Allocation{
			JobID: job.ID, Current: job.CurrentNodes, Change: ChangeOf(job.CurrentNodes, 0),
			PlannedNodes: noNodes, PlannedProgress: noProgress,
		}
	}
	d.Report.IdleNodes = s.TotalNodes
	for n := range p.Jobs {
		job := &p.Jobs[n]
		a := &d.Allocations[job.Index]
		a.Nodes = plan[n][0]
		a.Change = ChangeOf(a.Current, a.Nodes)
		a.PlannedNodes = plan[n]
		a.PlannedProgress = job.Progress(plan[n])
		d.Report.IdleNodes -= a.Nodes
	}
	return d
}

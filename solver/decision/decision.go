package decision

import (
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

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
	// NodeType is the type of the nodes; "" where there are none of either.
	NodeType string
	// Change is what that means for the job.
	Change Change
	// WaitReason is why the job holds no nodes, and BehindJobID the job that it is
	// behind where that is why.
	WaitReason  WaitReason
	BehindJobID string
	// PlannedNodes are the nodes per step of the horizon.
	PlannedNodes []int
	// PlannedProgress is the share of the remaining work done by the end of each
	// step, 0 to 1.
	PlannedProgress []float64
}

// Steps returns the allocations that change a job's nodes in an order to carry them out in:
// first those that free nodes, then those that take some. So the jobs never hold more nodes
// than the pool has, or than they held before where it shrank. A move is two steps: the first,
// to 0 nodes, is among those that free. Where one fails, leave out the rest and decide anew.
func (d *Decision) Steps() []Allocation {
	var frees, takes []Allocation
	for _, a := range d.Allocations {
		switch {
		case a.Change == ChangeMove:
			freed := a
			freed.Nodes, freed.NodeType = 0, ""
			frees, takes = append(frees, freed), append(takes, a)
		case a.Nodes < a.Current:
			frees = append(frees, a)
		case a.Nodes > a.Current:
			takes = append(takes, a)
		}
	}
	return append(frees, takes...)
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
	ChangeMove      Change = "move" // to another node type, whatever the nodes
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

// DecideNow turns the options of every job of the snapshot from now on, which do not exceed
// the pool, into a decision without a plan. Of its report only IdleNodes, NodeTypes and Warnings
// are set.
func DecideNow(s *snapshot.Snapshot, options []snapshot.Option) Decision {
	d := Decision{Allocations: make([]Allocation, len(s.Jobs))}
	for i, option := range options {
		d.Allocations[i] = Allocation{Nodes: int(option.Nodes), NodeType: s.TypeOf(option)}
	}
	p := problem.GroupsOf(s)
	d.complete(s, p, d.reach(s, p))
	return d
}

// Decide turns a result into the decision for every job of the snapshot p was built
// from; jobs that were not admitted get no nodes. The report holds only what
// follows from the allocations. The plan is one of p.WithWaiting.
func Decide(s *snapshot.Snapshot, p *problem.Problem, result problem.Result) Decision {
	d := Decision{Allocations: make([]Allocation, len(s.Jobs))}
	noNodes, noProgress := make([]int, p.Steps), make([]float64, p.Steps)
	planned := make([]int, len(p.Jobs)*p.Steps)
	for i := range s.Jobs {
		d.Allocations[i] = Allocation{PlannedNodes: noNodes, PlannedProgress: noProgress}
	}
	for n := range p.Jobs {
		job := &p.Jobs[n]
		a := &d.Allocations[job.Index]
		a.Nodes, a.NodeType = int(result.Plan[n][0].Nodes), s.TypeOf(result.Plan[n][0])
		a.PlannedNodes, planned = planned[:p.Steps:p.Steps], planned[p.Steps:]
		for t, option := range result.Plan[n] {
			a.PlannedNodes[t] = int(option.Nodes)
		}
		a.PlannedProgress = job.Progress(result.Plan[n])
	}
	d.Report.Groups = reportGroups(s, p, result.Plan)
	d.Report.Certificate = result.Certificate.RemapJobs(func(job int) int { return p.Jobs[job].Index })
	for g, price := range result.GroupPrices {
		d.Report.Groups[g].Price = price
	}
	if result.Heuristic {
		d.complete(s, p, d.reach(s, p))
	} else {
		d.complete(s, p, reachOf(s, p))
	}
	return d
}

// complete fills in what follows from the nodes of every job; p has the groups, and reaches
// are those of explainWaits.
func (d *Decision) complete(s *snapshot.Snapshot, p *problem.Problem, reaches []reach) {
	d.Report.IdleNodes = s.TotalNodes
	for g := range s.NodeTypes {
		t := &s.NodeTypes[g]
		d.Report.NodeTypes = append(d.Report.NodeTypes, NodeTypeReport{ID: t.ID, Nodes: t.Nodes, IdleNodes: t.Nodes})
	}
	for i := range s.Jobs {
		job, a := &s.Jobs[i], &d.Allocations[i]
		a.JobID, a.Current = job.ID, job.CurrentNodes
		a.Change = ChangeOf(a.Current, a.Nodes)
		if a.Current > 0 && a.Nodes > 0 && a.NodeType != s.TypeOf(s.Current(i)) {
			a.Change = ChangeMove
		}
		d.Report.IdleNodes -= a.Nodes
		if a.Nodes > 0 && len(s.NodeTypes) > 0 {
			d.Report.NodeTypes[s.Option(a.NodeType, a.Nodes).Type].IdleNodes -= a.Nodes
		}
	}
	d.explainWaits(s, p, reaches)
	d.warn(s, p)
}

package decision

import (
	"github.com/elastalloc/elastalloc/solver/problem"
	"github.com/elastalloc/elastalloc/solver/snapshot"
)

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

// DecideNow returns the decision with the given options, one per job of the snapshot. The options must
// not exceed the pool or a size limit. The decision has no plan, and its report has only IdleNodes,
// NodeTypes, SizeLimits and Warnings.
func DecideNow(s *snapshot.Snapshot, options []snapshot.Option) Decision {
	d := Decision{Allocations: make([]Allocation, len(s.Jobs))}
	for i, option := range options {
		d.Allocations[i] = Allocation{Nodes: int(option.Nodes), NodeType: s.TypeOf(option)}
	}
	p := problem.GroupsOf(s)
	d.complete(s, p, d.availableNow(s, p))
	return d
}

// Decide converts the result of a backend to the decision for the snapshot of p. Jobs that are not
// admitted get no nodes. The report has only the fields that follow from the allocations. The plan must
// be legal for p.WithWaiting().
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
		d.complete(s, p, d.availableNow(s, p))
	} else {
		d.complete(s, p, availableTo(s, p))
	}
	return d
}

// complete sets all fields that follow from the numbers of nodes. p has the groups, and available is
// the argument of explainWaits.
func (d *Decision) complete(s *snapshot.Snapshot, p *problem.Problem, available []availability) {
	d.Report.IdleNodes = s.TotalNodes
	for g := range s.NodeTypes {
		t := &s.NodeTypes[g]
		d.Report.NodeTypes = append(d.Report.NodeTypes, NodeTypeReport{ID: t.ID, Nodes: t.Nodes, IdleNodes: t.Nodes})
	}
	for _, limit := range s.SizeLimits {
		d.Report.SizeLimits = append(d.Report.SizeLimits, SizeLimitReport{SizeLimit: limit})
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
		d.Report.use(s, i, a)
	}
	d.explainWaits(s, p, available)
	d.warn(s, p)
}

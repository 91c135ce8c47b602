package report

import (
	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// DecideNow returns the decision with the given options, one per job of the snapshot. The options must
// not exceed the pool or a size limit. The decision has no plan, and its report has only IdleNodes,
// NodeTypes, SizeLimits and Warnings.
func DecideNow(s *solver.Snapshot, options []solver.Option) solver.Decision {
	d := solver.Decision{Allocations: make([]solver.Allocation, len(s.Jobs))}
	for i, option := range options {
		d.Allocations[i] = solver.Allocation{Nodes: int(option.Nodes), NodeType: s.TypeOf(option)}
	}
	p := problem.GroupsOf(s)
	complete(&d, s, p, availableNow(&d, s, p))
	return d
}

// Decide converts the result of a backend to the decision for the snapshot of p. Jobs that are not
// admitted get no nodes. The report has only the fields that follow from the allocations. The plan must
// be legal for p.WithWaiting().
func Decide(s *solver.Snapshot, p *problem.Problem, result problem.Result) solver.Decision {
	d := solver.Decision{Allocations: make([]solver.Allocation, len(s.Jobs))}
	noNodes, noProgress := make([]int, p.Steps), make([]float64, p.Steps)
	planned, progress := make([]int, len(p.Jobs)*p.Steps), make([]float64, len(p.Jobs)*p.Steps)
	for i := range s.Jobs {
		d.Allocations[i] = solver.Allocation{PlannedNodes: noNodes, PlannedProgress: noProgress}
	}
	for n := range p.Jobs {
		job := &p.Jobs[n]
		a := &d.Allocations[job.Index]
		a.Nodes, a.NodeType = int(result.Plan[n][0].Nodes), s.TypeOf(result.Plan[n][0])
		a.PlannedNodes, planned = planned[:p.Steps:p.Steps], planned[p.Steps:]
		a.PlannedProgress, progress = progress[:0:p.Steps], progress[p.Steps:]
		for t, option := range result.Plan[n] {
			a.PlannedNodes[t] = int(option.Nodes)
		}
		a.PlannedProgress = job.AppendProgress(a.PlannedProgress, result.Plan[n])
	}
	d.Report.Groups = reportGroups(s, p, result.Plan)
	d.Report.Certificate = result.Certificate.RemapJobs(func(job int) int { return p.Jobs[job].Index })
	for g := range result.GroupPrices {
		setGroupPrices(&d.Report.Groups[g], s, g, &result)
	}
	if result.Heuristic {
		complete(&d, s, p, availableNow(&d, s, p))
	} else {
		complete(&d, s, p, availableTo(s, p))
	}
	return d
}

// complete sets all fields that follow from the numbers of nodes. p has the groups, and available is
// the argument of explainWaits.
func complete(d *solver.Decision, s *solver.Snapshot, p *problem.Problem, available []availability) {
	d.Report.IdleNodes = s.TotalNodes
	for g := range s.NodeTypes {
		t := &s.NodeTypes[g]
		d.Report.NodeTypes = append(d.Report.NodeTypes, solver.NodeTypeReport{ID: t.ID, Nodes: t.Nodes, IdleNodes: t.Nodes})
	}
	for _, limit := range s.SizeLimits {
		d.Report.SizeLimits = append(d.Report.SizeLimits, solver.SizeLimitReport{SizeLimit: limit})
	}
	for i := range s.Jobs {
		job, a := &s.Jobs[i], &d.Allocations[i]
		a.JobID, a.Current = job.ID, job.CurrentNodes
		a.Change = solver.ChangeOf(a.Current, a.Nodes)
		if a.Current > 0 && a.Nodes > 0 && a.NodeType != s.TypeOf(s.Current(i)) {
			a.Change = solver.ChangeMove
		}
		d.Report.IdleNodes -= a.Nodes
		if a.Nodes > 0 && len(s.NodeTypes) > 0 {
			d.Report.NodeTypes[s.Option(a.NodeType, a.Nodes).Type].IdleNodes -= a.Nodes
		}
		countInLimits(&d.Report, s, i, a)
	}
	explainWaits(d, s, p, available)
	warn(d, s, p)
}

// countInLimits adds the nodes of job i to the size limits that count them.
func countInLimits(r *solver.Report, s *solver.Snapshot, i int, a *solver.Allocation) {
	for n := range r.SizeLimits {
		r.SizeLimits[n].Used += s.CountedNodes(&r.SizeLimits[n].SizeLimit, i, a.NodeType, a.Nodes)
	}
}

// reportGroups returns the reports of the groups of p under a plan, without prices.
func reportGroups(s *solver.Snapshot, p *problem.Problem, plan problem.Plan) []solver.GroupReport {
	if len(p.Groups) == 0 {
		return nil
	}
	reports := make([]solver.GroupReport, len(p.Groups))
	for g, nodes := range p.GroupNodes(plan) {
		reports[g] = solver.GroupReport{ID: s.Groups[g].ID, Nodes: nodes, Short: max(0, p.Groups[g].Floor-nodes)}
		for _, limit := range s.Groups[g].TypeLimits {
			reports[g].Types = append(reports[g].Types, solver.GroupTypeReport{GroupTypeLimit: limit})
		}
	}
	for i := range plan {
		for g := p.Jobs[i].Group; g >= 0; g = p.Groups[g].Parent {
			countInTypes(&reports[g], s.TypeOf(plan[i][0]), int(plan[i][0].Nodes))
		}
	}
	return reports
}

// countInTypes adds the nodes of a job of the group to the types that they are of.
func countInTypes(r *solver.GroupReport, nodeType string, nodes int) {
	for n := range r.Types {
		if r.Types[n].NodeType == nodeType {
			r.Types[n].Nodes += nodes
		}
	}
}

// setGroupPrices sets the prices of the limits of group g. If there is one node type, its limit and that of the group
// are one, and the price is that of the smaller one.
func setGroupPrices(r *solver.GroupReport, s *solver.Snapshot, g int, result *problem.Result) {
	r.Price = result.GroupPrices[g]
	for n := range r.Types {
		switch t := &r.Types[n]; {
		case s.Typed() && result.GroupTypePrices != nil:
			t.Price = result.GroupTypePrices[g][s.TypeIndex(t.NodeType)]
		case !s.Typed() && t.Limit < solver.ValueOr(s.Groups[g].Limit, problem.NoLimit):
			t.Price, r.Price = r.Price, 0
		}
	}
}

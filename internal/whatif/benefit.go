package whatif

import (
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// benefit returns how much more the allocations of a scenario are worth than those of the base decision, to the jobs
// of both, in units of the objective. Both are valued by one rule: with the jobs of the snapshot, the larger of both
// numbers of nodes, and every job free to wait. The objectives of the two decisions have no common rule, because the
// value of work depends on the nodes and on the jobs. benefit returns nil if the objective looks ahead, because the
// allocations alone then have no value, or if the snapshot does not have a size that a job gets in the scenario.
func benefit(s, varied *solver.Snapshot, o solver.Options, base, other solver.Decision) *float64 {
	o = o.WithDefaults()
	if !o.Spec().OneStep {
		return nil
	}
	yardstick := *s.WithDefaults()
	changed := varied.WithDefaults()
	more := max(0, changed.TotalNodes-yardstick.TotalNodes)
	types := slices.Clone(yardstick.NodeTypes)
	if len(types) > 0 {
		more = 0
	}
	for t := range types {
		if n := changed.TypeIndex(types[t].ID); n >= 0 {
			added := max(0, changed.NodeTypes[n].Nodes-types[t].Nodes)
			types[t].Nodes += added
			more += added
		}
	}
	yardstick.NodeTypes, yardstick.TotalNodes = types, yardstick.TotalNodes+more
	yardstick.Groups, yardstick.SizeLimits = nil, nil
	yardstick.Jobs = slices.Clone(yardstick.Jobs)
	for i := range yardstick.Jobs {
		yardstick.Jobs[i].GroupID, yardstick.Jobs[i].RecentRestarts = "", nil
	}
	valued, _ := yardstick.Freeze(o.BadJobs == solver.BadJobsHold)
	o.Admission = solver.AdmissionPreemptive
	p := problem.NewProblemFor(valued, o)
	before, after := allocations(base), allocations(other)
	sum := 0.0
	for i := range p.Jobs {
		job := &p.Jobs[i]
		id := valued.Jobs[job.Index].ID
		a, b := before[id], after[id]
		if a == nil || b == nil {
			continue
		}
		from, to := valued.Option(a.NodeType, a.Nodes), valued.Option(b.NodeType, b.Nodes)
		if !slices.Contains(job.Options, from) || !slices.Contains(job.Options, to) {
			return nil
		}
		sum += job.Value([]solver.Option{to}) - job.Value([]solver.Option{from})
	}
	return &sum
}

// allocations returns the allocations of a decision by the ids of their jobs.
func allocations(d solver.Decision) map[string]*solver.Allocation {
	byID := make(map[string]*solver.Allocation, len(d.Allocations))
	for i := range d.Allocations {
		byID[d.Allocations[i].JobID] = &d.Allocations[i]
	}
	return byID
}

package whatif

import (
	"context"
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
	"github.com/elastalloc/elastalloc/solver/problem"
)

// yardsticks values allocations of the jobs of a snapshot.
type yardsticks struct {
	snapshot *solver.Snapshot // with its defaults
	options  solver.Options   // with their defaults
	// known has the rules by the nodes of the pool. Many scenarios share one.
	known map[string]*yardstick
}

// yardstick is a rule that values allocations: the model of a snapshot in which every job is free to wait.
type yardstick struct {
	snapshot *solver.Snapshot
	problem  *problem.Problem
}

// newYardsticks returns the rules for a snapshot, or nil if the objective looks ahead, because the allocations alone
// then have no value.
func newYardsticks(s *solver.Snapshot, o solver.Options) *yardsticks {
	o = o.WithDefaults()
	if !o.Spec().OneStep {
		return nil
	}
	return &yardsticks{snapshot: s.WithDefaults(), options: o, known: make(map[string]*yardstick)}
}

// benefit returns how much more the allocations of a scenario are worth than those of the base decision, to the jobs
// of both, in units of the objective. Both are valued by one rule: with the jobs of the snapshot and the larger of both
// numbers of nodes. The objectives of the two decisions have no common rule, because the value of work depends on the
// nodes and on the jobs. benefit returns nil if there is no rule or no time left, or if the snapshot does not have a
// size that a job gets in the scenario.
func (y *yardsticks) benefit(ctx context.Context, varied *solver.Snapshot, base, other solver.Decision) *float64 {
	if y == nil || ctx.Err() != nil {
		return nil
	}
	rule := y.of(varied.WithDefaults())
	before, after := allocations(base), allocations(other)
	sum := 0.0
	for i := range rule.problem.Jobs {
		job := &rule.problem.Jobs[i]
		id := rule.snapshot.Jobs[job.Index].ID
		a, b := before[id], after[id]
		if a == nil || b == nil {
			continue
		}
		from, to := rule.snapshot.Option(a.NodeType, a.Nodes), rule.snapshot.Option(b.NodeType, b.Nodes)
		if !slices.Contains(job.Options, from) || !slices.Contains(job.Options, to) {
			return nil
		}
		sum += job.Value([]solver.Option{to}) - job.Value([]solver.Option{from})
	}
	return &sum
}

// of returns the rule for a scenario: the jobs of the snapshot, without groups, size limits and restart budgets, on the
// larger of both pools.
func (y *yardsticks) of(varied *solver.Snapshot) *yardstick {
	s := *y.snapshot
	more := max(0, varied.TotalNodes-s.TotalNodes)
	if len(s.NodeTypes) > 0 {
		more = 0
	}
	s.NodeTypes = slices.Clone(s.NodeTypes)
	for t := range s.NodeTypes {
		if n := varied.TypeIndex(s.NodeTypes[t].ID); n >= 0 {
			added := max(0, varied.NodeTypes[n].Nodes-s.NodeTypes[t].Nodes)
			s.NodeTypes[t].Nodes += added
			more += added
		}
	}
	s.TotalNodes += more
	key := fmt.Sprint(s.TotalNodes, s.NodeTypes)
	if y.known[key] == nil {
		s.Groups, s.SizeLimits, s.Jobs = nil, nil, slices.Clone(s.Jobs)
		for i := range s.Jobs {
			s.Jobs[i].GroupID, s.Jobs[i].RecentRestarts = "", nil
		}
		valued, _ := s.Freeze(y.options.BadJobs == solver.BadJobsHold)
		o := y.options
		o.Admission = solver.AdmissionPreemptive
		y.known[key] = &yardstick{valued, problem.NewProblemFor(valued, o)}
	}
	return y.known[key]
}

// allocations returns the allocations of a decision by the ids of their jobs.
func allocations(d solver.Decision) map[string]*solver.Allocation {
	byID := make(map[string]*solver.Allocation, len(d.Allocations))
	for i := range d.Allocations {
		byID[d.Allocations[i].JobID] = &d.Allocations[i]
	}
	return byID
}

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Allocator makes decisions. *elastalloc.Allocator implements it.
type Allocator interface {
	Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	FillIdle(context.Context, *solver.Snapshot) (solver.Decision, error)
}

// Policy decides how many nodes every job has. A Request and a Rule are policies. A policy may wrap another one and
// modify its input. The settings of a run that belong to a policy are in Terms.
type Policy interface {
	// Decide returns the allocation of every job of the snapshot, in the order of its jobs. Each is a legal size or
	// no nodes, and together they fit the pool. Of the report, a run uses SolveTime, Reason and NodePrices. Decide
	// must not modify the snapshot.
	Decide(context.Context, Input) (solver.Decision, error)
}

// Input is the state of a run at a decision.
type Input struct {
	// Snapshot is the snapshot of the active jobs, in the order of submission.
	Snapshot *solver.Snapshot
	// Allocator is the Allocator of the run.
	Allocator Allocator
	// Config is the setting of the run.
	Config *Config
	// Job returns what is known of a job in addition to the snapshot. i is its index in the snapshot.
	Job func(i int) JobState
}

// JobState is the state of a job that a snapshot does not contain.
type JobState struct {
	// Job is the job in the workload.
	Job *WorkloadJob
	// Restarts is the number of resizes after the start, without those to no nodes.
	Restarts int
	// LargestNodes is the largest number of nodes that the job had so far.
	LargestNodes int
	// Restarting reports whether the job is restarting now.
	Restarting bool
}

// Rule is a policy that is a function. It returns the option of every job of a valid snapshot, in the order of its
// jobs. Its decisions have ReasonHeuristic.
type Rule func(*solver.Snapshot) []solver.Option

// Decide returns the decision of the rule.
func (r Rule) Decide(_ context.Context, in Input) (solver.Decision, error) {
	start := time.Now()
	options := r(in.Snapshot)
	decision := solver.Decision{Allocations: make([]solver.Allocation, len(options))}
	for i, option := range options {
		decision.Allocations[i] = solver.Allocation{Nodes: int(option.Nodes), NodeType: in.Snapshot.TypeOf(option)}
	}
	decision.Report.SolveTime, decision.Report.Reason = time.Since(start), solver.ReasonHeuristic
	return decision, nil
}

// Request is a policy that calls the Allocator of the run.
type Request struct {
	// Options are the options of the calls. A run replaces TimeBudget, and sets the cadence unless Terms.EveryEvent is
	// set.
	Options solver.Options
}

// Decide returns the decision of the Allocator.
func (r Request) Decide(ctx context.Context, in Input) (solver.Decision, error) {
	options := r.Options
	options.TimeBudget = in.Config.DecisionBudget
	if !in.Config.EveryEvent {
		options = options.WithCadence(in.Snapshot.Horizon.Step)
	}
	options.NoBound = true // A simulation does not use the bound of a greedy decision.
	decision, err := in.Allocator.Allocate(ctx, in.Snapshot, options)
	if err != nil {
		return solver.Decision{}, err
	}
	if in.Config.Observe != nil {
		in.Config.Observe(in.Snapshot, decision)
	}
	for _, attempt := range decision.Report.Attempts {
		// A fallback backend would make the results of this policy misleading.
		if attempt.Backend == r.Options.Backend && attempt.Outcome == solver.OutcomeUnavailable {
			return solver.Decision{}, fmt.Errorf("the backend is unavailable: %s", attempt.Detail)
		}
	}
	return decision, nil
}

// allocationsOf returns the checked allocations of a decision.
func allocationsOf(s *solver.Snapshot, d solver.Decision) ([]allocation, error) {
	allocations := make([]allocation, len(d.Allocations))
	for i, a := range d.Allocations {
		if a.Nodes != 0 {
			allocations[i] = allocation{a.Nodes, a.NodeType}
		}
	}
	return allocations, checkAllocations(s, allocations)
}

// checkAllocations returns an error if a size is not legal, or if the sizes exceed the pool, a node
// type or the limit of a group.
func checkAllocations(s *solver.Snapshot, allocations []allocation) error {
	if len(allocations) != len(s.Jobs) {
		return fmt.Errorf("decision has %d of %d jobs", len(allocations), len(s.Jobs))
	}
	types := s.NodeTypes
	if len(types) == 0 {
		types = []solver.NodeType{{Nodes: s.TotalNodes}}
	}
	given := make(map[string]int)
	used := make([]map[string]int, len(s.Groups)) // by node type
	for g := range used {
		used[g] = make(map[string]int)
	}
	for i, to := range allocations {
		job := &s.Jobs[i]
		if to.nodes != 0 && to != (allocation{job.CurrentNodes, job.CurrentNodeType}) && !to.legalFor(job, types) {
			return fmt.Errorf("decision gives job %q %d nodes%s, which is not a legal size", job.ID, to.nodes, to.ofType())
		}
		given[to.nodeType] += to.nodes
		for _, g := range GroupsAbove(s.Groups, job.GroupID) {
			group := &s.Groups[g]
			used[g][to.nodeType] += to.nodes
			if sum := total(used[g]); group.Limit != nil && sum > *group.Limit {
				return fmt.Errorf("decision gives group %q %d nodes or more; its limit is %d", group.ID, sum, *group.Limit)
			}
			for _, limit := range group.TypeLimits {
				if there := used[g][limit.NodeType]; there > limit.Limit {
					return fmt.Errorf("decision gives group %q %d nodes of %q or more; its limit is %d", group.ID, there, limit.NodeType, limit.Limit)
				}
			}
		}
	}
	for _, t := range types {
		if given[t.ID] > t.Nodes {
			return fmt.Errorf("decision gives %d of %d nodes%s", given[t.ID], t.Nodes, allocation{nodeType: t.ID}.ofType())
		}
	}
	return nil
}

// total returns the sum of nodes by type.
func total(nodes map[string]int) int {
	sum := 0
	for _, n := range nodes {
		sum += n
	}
	return sum
}

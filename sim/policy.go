package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/solver"
)

// Allocator makes decisions. *elastalloc.Allocator implements it.
type Allocator interface {
	Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	FillIdle(context.Context, *solver.Snapshot) (solver.Decision, error)
}

// Policy is a Decider with what modifies its input and its times. Policies returns all built-in ones.
type Policy struct {
	// Name identifies the policy in flags and results.
	Name string
	// Description describes the policy in one line.
	Description string
	// Decider makes the decisions. It is nil for RecordedPolicy only.
	Decider Decider
	// Prepare, if set, modifies a snapshot before each decision. It receives the teams of the pool.
	Prepare func(*solver.Snapshot, []solver.Group)
	// FixedSize makes the requested number of nodes the only legal size of every job.
	FixedSize bool
	// UserLimits replaces the remaining ETA of every job with what is left of its user limit. It requires
	// FixedSize.
	UserLimits bool
	// EveryEvent adds a decision one second after each submission and completion, in place of the
	// regular-time rule (FillIdle).
	EveryEvent bool
	// Teams adds the groups of the pool, with their limits, to snapshots.
	Teams bool
	// NeedsTeams rejects pools without teams.
	NeedsTeams bool
	// OverTime multiplies weights by the factors of teams.Usage.
	OverTime bool
	// KeepsType keeps every job on the node type on which it started.
	KeepsType bool
	// NeedsTypes rejects pools without node types.
	NeedsTypes bool
	// Rounds, if set, replaces Config.Frequency and Config.Round.
	Rounds time.Duration
	// Partitioned divides the pool among the teams and applies the policy to each partition.
	Partitioned bool
}

// Optimizes reports whether the policy computes optimal decisions.
func (p *Policy) Optimizes() bool {
	switch d := p.Decider.(type) {
	case Request:
		return d.Options.Backend != solver.BackendGreedy
	case typePools, typeRule:
		return true
	}
	return false
}

// Options returns the options of the calls of an Allocator, or none if the policy makes no such calls.
func (p *Policy) Options() solver.Options {
	switch d := p.Decider.(type) {
	case Request:
		return d.Options
	case typePools:
		return d.Options
	case Session:
		return d.Options
	}
	return solver.Options{}
}

// SetOptions replaces the options. It must not be called for a policy that makes no calls of an Allocator.
func (p *Policy) SetOptions(o solver.Options) {
	switch d := p.Decider.(type) {
	case typePools:
		d.Options = o
		p.Decider = d
	case Session:
		d.Options = o
		p.Decider = d
	default:
		p.Decider = Request{Options: o}
	}
}

// Optimizes reports whether the named policy computes optimal decisions. It returns false for an
// unknown name.
func Optimizes(name string) bool {
	p, err := FindPolicy(name)
	return err == nil && p.Optimizes()
}

// PassesSnapshots reports whether the policy passes snapshots to the Allocator without changes.
func (p *Policy) PassesSnapshots() bool {
	_, requests := p.Decider.(Request)
	return requests && p.Prepare == nil && !p.FixedSize && !p.Partitioned
}

// Policies returns all policies. Policies that need teams or node types are last.
func Policies() []Policy {
	const (
		exact = solver.BackendExact
		fifo  = solver.AdmissionFIFO
	)
	paper := func(backend solver.BackendName, admission solver.Admission) solver.Options {
		return solver.Options{Backend: backend, Objective: solver.ObjectiveProgress, Admission: admission}
	}
	steady := totalTime(fifo)
	steady.TotalTime.ResizePrice = new(15 * time.Second)
	policies := []Policy{
		{Name: "optimal", Decider: Request{paper(exact, fifo)}, Description: "the optimum of the paper's model, by the embedded exact backend"},
		{Name: "optimal-cbc", Decider: Request{paper(solver.BackendCBC, fifo)}, Description: "the same, by CBC"},
		{Name: "optimal-highs", Decider: Request{paper(solver.BackendHiGHS, fifo)}, Description: "the same, by HiGHS"},
		{Name: "optimal-optimized", Decider: Request{paper(exact, solver.AdmissionOptimized)}, Description: "the optimum if queued jobs may be left waiting"},
		{Name: "optimal-preemptive", Decider: Request{paper(exact, solver.AdmissionPreemptive)}, Description: "the optimum if running jobs may be preempted as well"},
		{Name: "optimal-event", Decider: Request{paper(exact, fifo)}, EveryEvent: true, Description: "optimal with an additional decision after every submission and completion"},
		{
			Name: "total-time", Decider: Request{totalTime(solver.AdmissionStartFirst)}, EveryEvent: true, Teams: true,
			Description: "the minimum mean JCT, with decisions after submissions and completions too; may pause jobs",
		},
		{
			Name: "total-time-waiting", Decider: Request{totalTime(solver.AdmissionOptimized)}, EveryEvent: true, Teams: true,
			Description: "total-time that never pauses jobs and may leave queued jobs waiting",
		},
		{Name: "total-time-steady", Decider: Request{steady}, Teams: true, Description: "the minimum mean JCT with a decision every 5 minutes, first in, first out"},
		{Name: "greedy", Decider: Request{paper(solver.BackendGreedy, fifo)}, Description: "the baseline of the paper; ranks by training time"},
		{Name: "greedy-eta", Decider: Request{paper(solver.BackendGreedy, fifo)}, Prepare: rankByETA, Description: "greedy that ranks by remaining ETA"},
		{Name: RecordedPolicy, Description: "the recorded schedule: start_s and duration_s of the trace, regardless of the pool"},
		{Name: "fifo", Decider: Rule(greedy.FillIdle), FixedSize: true, Description: "fixed sizes, in the order of submission"},
		{
			Name: BackfillPolicy, Decider: Rule(backfill), FixedSize: true, UserLimits: true, EveryEvent: true,
			Description: "fifo with EASY backfill by the user limits (limit_s, by default twice the duration), like Slurm",
		},
		{Name: "srpt", Decider: Rule(shortestRemaining), FixedSize: true, Description: "fixed sizes, shortest remaining processing time first, preemptive"},
		{Name: MaxMinPolicy, Decider: Rule(maxMin), Description: "max-min fair shares, rounded to legal sizes"},
		{Name: "hesrpt", Decider: heSRPT(fifo), Description: "heSRPT, optimal mean JCT for divisible nodes, rounded to legal sizes"},
		{
			Name: "hesrpt-event", Decider: heSRPT(solver.AdmissionStartFirst), EveryEvent: true,
			Description: "hesrpt with decisions after submissions and completions too; may pause jobs",
		},
	}
	return slices.Concat(policies, teamPolicies(), typePolicies())
}

// totalTime returns the options of the total-time policies.
func totalTime(admission solver.Admission) solver.Options {
	return solver.Options{Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: admission}
}

// rankByETA replaces a job's training time, by which greedy ranks, with its remaining ETA.
func rankByETA(s *solver.Snapshot, _ []solver.Group) {
	for i := range s.Jobs {
		s.Jobs[i].TrainingTime = s.Jobs[i].RemainingETA
	}
}

// FindPolicy returns the policy with the given name, or an error that lists the valid names.
func FindPolicy(name string) (Policy, error) {
	policies := Policies()
	if i := slices.IndexFunc(policies, func(p Policy) bool { return p.Name == name }); i >= 0 {
		return policies[i], nil
	}
	return Policy{}, fmt.Errorf("unknown policy %q (must be one of %s)", name, strings.Join(PolicyNames(policies), ", "))
}

// PolicyNames returns the names of policies.
func PolicyNames(policies []Policy) []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].Name
	}
	return names
}

// fillIdle returns the allocation of every job after the regular-time rule.
func fillIdle(ctx context.Context, allocator Allocator, s *solver.Snapshot) ([]allocation, error) {
	decision, err := allocator.FillIdle(ctx, s)
	if err != nil {
		return nil, err
	}
	allocations := allocationsOf(decision)
	return allocations, checkAllocations(s, allocations)
}

func allocationsOf(d solver.Decision) []allocation {
	allocations := make([]allocation, len(d.Allocations))
	for i, a := range d.Allocations {
		if a.Nodes != 0 {
			allocations[i] = allocation{a.Nodes, a.NodeType}
		}
	}
	return allocations
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
		for _, g := range groupsAbove(s.Groups, job.GroupID) {
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

// teamPolicies returns the policies that are compared with total-time in pools that teams share.
func teamPolicies() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	return []Policy{
		{
			Name: PartitionsPolicy, Decider: Request{options}, EveryEvent: true, NeedsTeams: true, Partitioned: true,
			Description: "total-time in a partition of the pool for every team, by quota",
		},
		{
			Name: "fifo-partitions", Decider: Rule(greedy.FillIdle), FixedSize: true, NeedsTeams: true, Partitioned: true,
			Description: "fixed sizes, in the order of submission, in a partition of the pool for every team",
		},
		{
			Name: "borrowing", Decider: Rule(borrowing), FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "fixed sizes, teams borrow unused quota until its owner reclaims it, like Kueue",
		},
		{
			Name: "borrowing-waiting", Decider: Rule(borrowingWaiting), FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "borrowing without preemption, so that teams may wait for their quotas",
		},
		{
			Name: "total-time-open", Decider: Request{options}, EveryEvent: true,
			Description: "total-time in one pool for all teams, without regard to teams",
		},
		{
			Name: "total-time-weights", Decider: Request{options}, EveryEvent: true, Prepare: weighTeams, NeedsTeams: true,
			Description: "total-time with a weight for each team instead of limits: its quota per active job",
		},
		{
			Name: "total-time-usage", Decider: Request{options}, EveryEvent: true, OverTime: true, NeedsTeams: true,
			Description: "total-time with higher weights for teams that used less than their quotas lately, instead of limits",
		},
	}
}

// weighTeams multiplies the weight of every job by the quota of its team, at least one node, divided
// by the number of the team's jobs.
func weighTeams(s *solver.Snapshot, groups []solver.Group) {
	jobs := make(map[string]float64)
	for i := range s.Jobs {
		jobs[s.Jobs[i].GroupID]++
	}
	weights := make(map[string]float64)
	for _, team := range teamsOf(groups) {
		weights[team.ID] = float64(max(1, team.Quota)) / max(1, jobs[team.ID])
	}
	for i := range s.Jobs {
		job := &s.Jobs[i]
		job.Weight = new(job.WeightOrDefault() * weights[job.GroupID])
	}
}

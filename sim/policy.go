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

// Policy decides how many nodes every job has. Policies returns all built-in ones. Without Open, a Policy has no
// state and depends on the snapshot only.
type Policy struct {
	// Name identifies the policy in flags and results.
	Name string
	// Description describes the policy in one line.
	Description string
	// Options are the options of calls of the Allocator. They are used if Decide is nil.
	Options solver.Options
	// Prepare, if set, modifies a snapshot before each decision. It receives the teams of the pool.
	Prepare func(*solver.Snapshot, []solver.Group)
	// Decide, if set, makes the decisions instead of the Allocator.
	Decide Rule
	// Open, if set, returns an Allocator that makes the decisions of one run, and a function that is called
	// after the run. Such a policy may have a state.
	Open func() (Allocator, func() error, error)
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

	// pin, if set, chooses the node type of a submitted job, given a snapshot of the active jobs.
	// Every node type is then a separate pool.
	pin func(*solver.Snapshot, solver.Job) string
	// decideTypes, if set, makes the decisions for node types instead of the Allocator.
	decideTypes func(context.Context, *solver.Snapshot, []jobHistory) ([]allocation, Decision, error)
}

// jobHistory is what Sia's rule needs to know of a job in addition to a snapshot.
type jobHistory struct {
	restarts   int  // resizes after the start
	maxNodes   int  // the largest number of nodes so far
	restarting bool // whether the job is restarting now
}

// Rule returns the option of every job of a valid snapshot, in the order of its jobs, which is the
// order of submission. Each option is a legal size or no nodes. Their sum fits the pool.
type Rule func(*solver.Snapshot) []solver.Option

// Optimizes reports whether the policy computes optimal decisions.
func (p *Policy) Optimizes() bool {
	return p.Name != RecordedPolicy && p.Decide == nil && p.Open == nil && p.Options.Backend != solver.BackendGreedy
}

// Optimizes reports whether the named policy computes optimal decisions. It returns false for an
// unknown name.
func Optimizes(name string) bool {
	p, err := FindPolicy(name)
	return err == nil && p.Optimizes()
}

// PassesSnapshots reports whether the policy passes snapshots to the Allocator without changes.
func (p *Policy) PassesSnapshots() bool {
	return p.Decide == nil && p.Open == nil && p.Prepare == nil && !p.FixedSize && !p.Partitioned && p.Name != RecordedPolicy
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
		{Name: "optimal", Options: paper(exact, fifo), Description: "the optimum of the paper's model, by the embedded exact backend"},
		{Name: "optimal-cbc", Options: paper(solver.BackendCBC, fifo), Description: "the same, by CBC"},
		{Name: "optimal-highs", Options: paper(solver.BackendHiGHS, fifo), Description: "the same, by HiGHS"},
		{Name: "optimal-optimized", Options: paper(exact, solver.AdmissionOptimized), Description: "the optimum if queued jobs may be left waiting"},
		{Name: "optimal-preemptive", Options: paper(exact, solver.AdmissionPreemptive), Description: "the optimum if running jobs may be preempted as well"},
		{Name: "optimal-event", Options: paper(exact, fifo), EveryEvent: true, Description: "optimal with an additional decision after every submission and completion"},
		{
			Name: "total-time", Options: totalTime(solver.AdmissionStartFirst), EveryEvent: true, Teams: true,
			Description: "the minimum mean JCT, with decisions after submissions and completions too; may pause jobs",
		},
		{
			Name: "total-time-waiting", Options: totalTime(solver.AdmissionOptimized), EveryEvent: true, Teams: true,
			Description: "total-time that never pauses jobs and may leave queued jobs waiting",
		},
		{Name: "total-time-steady", Options: steady, Teams: true, Description: "the minimum mean JCT with a decision every 5 minutes, first in, first out"},
		{Name: "greedy", Options: paper(solver.BackendGreedy, fifo), Description: "the baseline of the paper; ranks by training time"},
		{Name: "greedy-eta", Options: paper(solver.BackendGreedy, fifo), Prepare: rankByETA, Description: "greedy that ranks by remaining ETA"},
		{Name: RecordedPolicy, Description: "the recorded schedule: start_s and duration_s of the trace, regardless of the pool"},
		{Name: "fifo", Decide: greedy.FillIdle, FixedSize: true, Description: "fixed sizes, in the order of submission"},
		{
			Name: BackfillPolicy, Decide: backfill, FixedSize: true, UserLimits: true, EveryEvent: true,
			Description: "fifo with EASY backfill by the user limits (limit_s, by default twice the duration), like Slurm",
		},
		{Name: "srpt", Decide: shortestRemaining, FixedSize: true, Description: "fixed sizes, shortest remaining processing time first, preemptive"},
		{Name: MaxMinPolicy, Decide: maxMin, Description: "max-min fair shares, rounded to legal sizes"},
		{Name: "hesrpt", Decide: heSRPT(fifo), Description: "heSRPT, optimal mean JCT for divisible nodes, rounded to legal sizes"},
		{
			Name: "hesrpt-event", Decide: heSRPT(solver.AdmissionStartFirst), EveryEvent: true,
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

// decide returns the new allocation of every job and the facts of the decision. observe may be nil;
// otherwise it is called with a decision of the Allocator.
func (p *Policy) decide(
	ctx context.Context, allocator Allocator, s *solver.Snapshot, histories []jobHistory, budget time.Duration, observe Observer,
) (allocations []allocation, decision Decision, err error) {
	switch {
	case p.Decide != nil:
		start := time.Now()
		allocations = optionAllocations(s, p.Decide(s))
		decision = Decision{SolveTime: time.Since(start), Reason: solver.ReasonHeuristic}
	case p.decideTypes != nil:
		allocations, decision, err = p.decideTypes(ctx, s, histories)
	case p.pin != nil:
		allocations, decision, err = p.allocatePools(ctx, allocator, s, budget, observe)
	default:
		allocations, decision, err = p.allocate(ctx, allocator, s, budget, observe)
	}
	if err != nil {
		return nil, decision, err
	}
	decision.Jobs = len(s.Jobs)
	return allocations, decision, checkAllocations(s, allocations)
}

func (p *Policy) allocate(
	ctx context.Context, allocator Allocator, s *solver.Snapshot, budget time.Duration, observe Observer,
) ([]allocation, Decision, error) {
	options := p.Options
	options.TimeBudget = budget
	if !p.EveryEvent {
		options = options.WithCadence(s.Horizon.Step)
	}
	options.NoBound = true // A simulation does not use the bound of a greedy decision.
	decision, err := allocator.Allocate(ctx, s, options)
	if err != nil {
		return nil, Decision{}, err
	}
	if observe != nil && p.Open == nil {
		observe(s, decision)
	}
	report := decision.Report
	for _, attempt := range report.Attempts {
		// A fallback backend would make the results of this policy misleading.
		if attempt.Backend == p.Options.Backend && attempt.Outcome == solver.OutcomeUnavailable {
			return nil, Decision{}, fmt.Errorf("the backend is unavailable: %s", attempt.Detail)
		}
	}
	return allocationsOf(decision), Decision{SolveTime: report.SolveTime, Reason: report.Reason, Prices: report.NodePrices}, nil
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
	used := make([]int, len(s.Groups))
	for i, to := range allocations {
		job := &s.Jobs[i]
		if to.nodes != 0 && to != (allocation{job.CurrentNodes, job.CurrentNodeType}) && !to.legalFor(job, types) {
			return fmt.Errorf("decision gives job %q %d nodes%s, which is not a legal size", job.ID, to.nodes, to.ofType())
		}
		given[to.nodeType] += to.nodes
		for _, g := range groupsAbove(s.Groups, job.GroupID) {
			used[g] += to.nodes
			if limit := s.Groups[g].Limit; limit != nil && used[g] > *limit {
				return fmt.Errorf("decision gives group %q %d nodes or more; its limit is %d", s.Groups[g].ID, used[g], *limit)
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

// teamPolicies returns the policies that are compared with total-time in pools that teams share.
func teamPolicies() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	return []Policy{
		{
			Name: PartitionsPolicy, Options: options, EveryEvent: true, NeedsTeams: true, Partitioned: true,
			Description: "total-time in a partition of the pool for every team, by quota",
		},
		{
			Name: "fifo-partitions", Decide: greedy.FillIdle, FixedSize: true, NeedsTeams: true, Partitioned: true,
			Description: "fixed sizes, in the order of submission, in a partition of the pool for every team",
		},
		{
			Name: "borrowing", Decide: borrowing, FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "fixed sizes, teams borrow unused quota until its owner reclaims it, like Kueue",
		},
		{
			Name: "borrowing-waiting", Decide: borrowingWaiting, FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "borrowing without preemption, so that teams may wait for their quotas",
		},
		{
			Name: "total-time-open", Options: options, EveryEvent: true,
			Description: "total-time in one pool for all teams, without regard to teams",
		},
		{
			Name: "total-time-weights", Options: options, EveryEvent: true, Prepare: weighTeams, NeedsTeams: true,
			Description: "total-time with a weight for each team instead of limits: its quota per active job",
		},
		{
			Name: "total-time-usage", Options: options, EveryEvent: true, OverTime: true, NeedsTeams: true,
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

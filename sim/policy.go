package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/solver"
)

// Allocator makes decisions, as *elastalloc.Allocator does.
type Allocator interface {
	Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	FillIdle(context.Context, *solver.Snapshot) (solver.Decision, error)
}

// Policy decides at scaling moments how many nodes every job holds: by asking the
// Allocator or, for a comparator, by a rule of its own. It has no state, and knows
// of the jobs what a snapshot tells.
type Policy struct {
	// Name is what flags and results call it.
	Name string
	// Description says in a line what it does.
	Description string
	// Options are what the Allocator is asked with; not used where there is a Rule.
	Options solver.Options
	// Rule is the rule of a comparator.
	Rule Rule
	// FixedSize gives every job the nodes it asked for as its only legal size.
	FixedSize bool
	// RankByETA tells the Allocator a job's remaining ETA in the place of its
	// training time. The greedy allocator, which ranks by training time and looks
	// at no ETA, then ranks by remaining ETA.
	RankByETA bool
	// EveryEvent makes decisions also one second after a job was submitted or
	// ended, in the place of the regular-time rule.
	EveryEvent bool
	// Teams tells of the groups that share the pool, whose limits then hold. It needs some
	// where there is a Rule.
	Teams bool
	// Weighted gives every job a weight in the place of teams: its team's quota, at least
	// one node, by the number of the team's jobs.
	Weighted bool
	// Partitioned gives every team a partition of the pool of its own.
	Partitioned bool
	// Recorded replays what really happened to the jobs and decides nothing.
	Recorded bool
}

// Rule returns the nodes of every job of a valid snapshot, whose jobs are in the
// order of submission: each a legal size or 0, together within the pool.
type Rule func(*solver.Snapshot) []int

// Policies returns all policies: the paper's two, variants of them, and
// comparators. To add one is to add it here.
func Policies() []Policy {
	options := func(backend solver.BackendName, admission solver.Admission) solver.Options {
		return solver.Options{Backend: backend, Admission: admission}
	}
	const (
		exact  = solver.BackendExact
		cbc    = solver.BackendCBC
		highs  = solver.BackendHiGHS
		greedy = solver.BackendGreedy

		fifo       = solver.AdmissionFIFO
		optimized  = solver.AdmissionOptimized
		preemptive = solver.AdmissionPreemptive
		startFirst = solver.AdmissionStartFirst
	)
	totalTime := func(admission solver.Admission) solver.Options {
		return solver.Options{Backend: exact, Objective: solver.ObjectiveTotalTime, Admission: admission}
	}
	steady := totalTime(fifo)
	steady.TotalTime.RescalePrice = new(15 * time.Second)
	return []Policy{
		{
			Name: "optimal", Options: options(exact, fifo),
			Description: "the optimum of the paper's model, by the embedded exact backend",
		},
		{
			Name: "optimal-cbc", Options: options(cbc, fifo),
			Description: "the same, by CBC",
		},
		{
			Name: "optimal-highs", Options: options(highs, fifo),
			Description: "the same, by HiGHS",
		},
		{
			Name: "optimal-optimized", Options: options(exact, optimized),
			Description: "the optimum where queued jobs may be left waiting",
		},
		{
			Name: "optimal-preemptive", Options: options(exact, preemptive),
			Description: "the optimum where running jobs may be preempted as well",
		},
		{
			Name: "optimal-event", Options: options(exact, fifo), EveryEvent: true,
			Description: "optimal that decides at every submission and end of a job, too",
		},
		{
			Name: "total-time", Options: totalTime(startFirst), EveryEvent: true, Teams: true,
			Description: "the least total time, deciding at every submission and end, too; may pause jobs",
		},
		{
			Name: "total-time-waiting", Options: totalTime(optimized), EveryEvent: true, Teams: true,
			Description: "total-time that pauses no job and may leave queued ones waiting",
		},
		{
			Name: "total-time-steady", Options: steady, Teams: true,
			Description: "the least total time by a decision every 5 minutes, first in, first out",
		},
		{
			Name: "greedy", Options: options(greedy, fifo),
			Description: "the rules that the paper compares with; ranks by training time",
		},
		{
			Name: "greedy-eta", Options: options(greedy, fifo), RankByETA: true,
			Description: "greedy that ranks by remaining ETA",
		},
		{
			Name: PartitionsPolicy, Options: totalTime(startFirst), EveryEvent: true, Partitioned: true,
			Description: "total-time in a partition of the pool for every team, by quota",
		},
		{
			Name: "fifo-partitions", Rule: firstInFirstOut, FixedSize: true, Partitioned: true,
			Description: "fixed sizes, in the order of arrival, in those partitions",
		},
		{
			Name: "borrowing", Rule: borrowing, FixedSize: true, Teams: true, EveryEvent: true,
			Description: "fixed sizes, teams borrow what others leave of their quotas until they reclaim it, as Kueue",
		},
		{
			Name: "borrowing-waiting", Rule: borrowingWaiting, FixedSize: true, Teams: true, EveryEvent: true,
			Description: "borrowing where no job loses its nodes, so that teams wait for their quotas",
		},
		{
			Name: "total-time-open", Options: totalTime(startFirst), EveryEvent: true,
			Description: "total-time in one pool for all teams, that knows of none",
		},
		{
			Name: "total-time-weights", Options: totalTime(startFirst), EveryEvent: true, Weighted: true,
			Description: "total-time that knows of teams only by weights: quota by the jobs the team has now",
		},
		{
			Name: RecordedPolicy, Recorded: true,
			Description: "what really happened: the trace's start_s and duration_s, whatever the pool",
		},
		{
			Name: "fifo", Rule: firstInFirstOut, FixedSize: true,
			Description: "fixed sizes, in the order of arrival",
		},
		{
			Name: "srpt", Rule: shortestRemaining, FixedSize: true,
			Description: "fixed sizes, the shortest remaining first, preemptive",
		},
		{
			Name: MaxMinPolicy, Rule: maxMin,
			Description: "equal shares as far as sizes allow",
		},
		{
			Name: "hesrpt", Rule: heSRPT(solver.AdmissionFIFO),
			Description: "heSRPT, the best mean time for divisible nodes, rounded to sizes",
		},
		{
			Name: "hesrpt-event", Rule: heSRPT(startFirst), EveryEvent: true,
			Description: "hesrpt that decides at every submission and end, too, and may pause jobs",
		},
	}
}

// FindPolicy returns the policy of a name.
func FindPolicy(name string) (Policy, error) {
	policies := Policies()
	names := make([]string, len(policies))
	for i, policy := range policies {
		if policy.Name == name {
			return policy, nil
		}
		names[i] = policy.Name
	}
	return Policy{}, fmt.Errorf("unknown policy %q (want one of %s)", name, strings.Join(names, ", "))
}

// decide returns the nodes of every job at a scaling moment and what is known of the
// decision. observe, which may be nil, is shown an Allocator's decision.
func (p *Policy) decide(
	ctx context.Context, allocator Allocator, s *solver.Snapshot, budget time.Duration, observe Observer,
) ([]int, Decision, error) {
	decision := Decision{Jobs: len(s.Jobs)}
	if p.Rule != nil {
		start := time.Now()
		nodes := p.Rule(s)
		decision.SolveTime = time.Since(start)
		decision.Reason = solver.ReasonHeuristic
		return nodes, decision, checkNodes(s, nodes)
	}
	options := p.Options
	options.TimeBudget = budget
	if options.Objective == solver.ObjectiveTotalTime && !p.EveryEvent && options.TotalTime.Cadence == nil {
		options.TotalTime.Cadence = &s.Horizon.Step
	}
	options.NoBound = true // A simulation wants the nodes of greedy, not how good they are.
	answer, err := allocator.Allocate(ctx, s, options)
	if err != nil {
		return nil, decision, err
	}
	if observe != nil {
		observe(s, answer)
	}
	report := &answer.Report
	for _, attempt := range report.Attempts {
		// Another backend's decisions under this policy's name would mislead.
		if attempt.Backend == p.Options.Backend && attempt.Outcome == solver.OutcomeUnavailable {
			return nil, decision, fmt.Errorf("the backend is unavailable: %s", attempt.Detail)
		}
	}
	decision.SolveTime = report.SolveTime
	decision.Backend = report.Backend
	decision.Reason = report.Reason
	decision.RelativeGap = report.RelativeGap
	if len(report.NodePrices) > 0 {
		decision.NodePrice = &report.NodePrices[0]
	}
	nodes := nodesOf(answer)
	return nodes, decision, checkNodes(s, nodes)
}

// fillIdle returns the nodes of every job after the regular-time rule.
func fillIdle(ctx context.Context, allocator Allocator, s *solver.Snapshot) ([]int, error) {
	answer, err := allocator.FillIdle(ctx, s)
	if err != nil {
		return nil, err
	}
	nodes := nodesOf(answer)
	return nodes, checkNodes(s, nodes)
}

// nodesOf returns the nodes of every job.
func nodesOf(d solver.Decision) []int {
	nodes := make([]int, len(d.Allocations))
	for i := range d.Allocations {
		nodes[i] = d.Allocations[i].Nodes
	}
	return nodes
}

// checkNodes returns nil if nodes can be carried out: legal sizes, within the pool and the
// limits of the groups.
func checkNodes(s *solver.Snapshot, nodes []int) error {
	if len(nodes) != len(s.Jobs) {
		return fmt.Errorf("decision has %d of %d jobs", len(nodes), len(s.Jobs))
	}
	total := 0
	for i, n := range nodes {
		if n != 0 && n != s.Jobs[i].CurrentNodes && !slices.Contains(s.Jobs[i].LegalSizes(), n) {
			return fmt.Errorf("decision gives job %q %d nodes, which is not a legal size", s.Jobs[i].ID, n)
		}
		total += n
	}
	if total > s.TotalNodes {
		return fmt.Errorf("decision gives %d of %d nodes", total, s.TotalNodes)
	}
	used := make([]int, len(s.Groups))
	for i, n := range nodes {
		for _, g := range groupsAbove(s.Groups, s.Jobs[i].GroupID) {
			used[g] += n
			if limit := s.Groups[g].Limit; limit != nil && used[g] > *limit {
				return fmt.Errorf("decision gives group %q %d nodes or more; its limit is %d", s.Groups[g].ID, used[g], *limit)
			}
		}
	}
	return nil
}

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

// Policy decides at scaling moments how many nodes every job holds. It is a row of the table
// Policies and at most three functions: what is told (Prepare), how it decides (Decide) and
// where its jobs run (place). It has no state, and knows of the jobs what a snapshot tells.
type Policy struct {
	// Name is what flags and results call it.
	Name string
	// Description says in a line what it does.
	Description string
	// Options are those of the Allocator's calls if Decide is nil.
	Options solver.Options
	// Prepare, where set, changes what is told, given the teams that share the pool.
	Prepare func(*solver.Snapshot, []solver.Group)
	// Decide, where set, is the rule of a comparator, which asks no Allocator.
	Decide Rule
	// FixedSize gives every job the nodes it asked for as its only legal size.
	FixedSize bool
	// EveryEvent makes decisions also one second after a job was submitted or
	// ended, instead of the regular-time rule.
	EveryEvent bool
	// InsteadOfPauses, where set, is the admission that is asked for instead where a decision
	// would pause more than a quarter of the running jobs at once.
	InsteadOfPauses solver.Admission
	// Teams tells of the groups that share the pool, whose limits then hold, and NeedsTeams
	// refuses a pool without any.
	Teams, NeedsTeams bool

	place *place // nil is the one pool
}

// place is where the jobs of a policy run, if not in the one pool.
type place struct {
	// suits returns an error if a workload cannot run there.
	suits func(*Workload, *Policy, *Config) error
	run   func(context.Context, Workload, Policy, Config, Allocator) (*Result, error)
}

// Rule returns the nodes of every job of a valid snapshot, whose jobs are in the
// order of submission: each a legal size or 0, together within the pool.
type Rule func(*solver.Snapshot) []int

// Optimises reports whether the policy asks for an optimum: every other is a plain rule, as
// greedy is, or decides nothing.
func (p *Policy) Optimises() bool {
	return p.Name != RecordedPolicy && p.Decide == nil && p.Options.Backend != solver.BackendGreedy
}

// Optimises reports whether the policy of a name asks for an optimum.
func Optimises(name string) bool {
	p, err := FindPolicy(name)
	return err == nil && p.Optimises()
}

// AsksAsIs reports whether the policy asks the Allocator about snapshots as they are.
func (p *Policy) AsksAsIs() bool {
	return p.Decide == nil && p.Prepare == nil && !p.FixedSize && p.place == nil
}

// Policies returns all policies: the paper's two, variants of them, and comparators, those
// that need teams last. To add one is to add it here.
func Policies() []Policy {
	const (
		exact  = solver.BackendExact
		greedy = solver.BackendGreedy
		fifo   = solver.AdmissionFIFO
	)
	paper := func(backend solver.BackendName, admission solver.Admission) solver.Options {
		return solver.Options{Backend: backend, Admission: admission}
	}
	steady := totalTime(fifo)
	steady.TotalTime.RescalePrice = new(15 * time.Second)
	policies := []Policy{
		{Name: "optimal", Options: paper(exact, fifo), Description: "the optimum of the paper's model, by the embedded exact backend"},
		{Name: "optimal-cbc", Options: paper(solver.BackendCBC, fifo), Description: "the same, by CBC"},
		{Name: "optimal-highs", Options: paper(solver.BackendHiGHS, fifo), Description: "the same, by HiGHS"},
		{Name: "optimal-optimized", Options: paper(exact, solver.AdmissionOptimized), Description: "the optimum where queued jobs may be left waiting"},
		{Name: "optimal-preemptive", Options: paper(exact, solver.AdmissionPreemptive), Description: "the optimum where running jobs may be preempted as well"},
		{Name: "optimal-event", Options: paper(exact, fifo), EveryEvent: true, Description: "optimal that decides at every submission and end of a job, too"},
		{
			Name: "total-time", Options: totalTime(solver.AdmissionStartFirst), EveryEvent: true, Teams: true,
			Description: "the least total time, deciding at every submission and end, too; may pause jobs",
		},
		{
			Name: "total-time-waiting", Options: totalTime(solver.AdmissionOptimized), EveryEvent: true, Teams: true,
			Description: "total-time that pauses no job and may leave queued ones waiting",
		},
		{
			Name: "total-time-gentle", Options: totalTime(solver.AdmissionStartFirst), InsteadOfPauses: solver.AdmissionOptimized, EveryEvent: true, Teams: true,
			Description: "total-time that decides as total-time-waiting where it would pause over a quarter of the running jobs at once",
		},
		{Name: "total-time-steady", Options: steady, Teams: true, Description: "the least total time by a decision every 5 minutes, first in, first out"},
		{Name: "greedy", Options: paper(greedy, fifo), Description: "the rules that the paper compares with; ranks by training time"},
		{Name: "greedy-eta", Options: paper(greedy, fifo), Prepare: rankByETA, Description: "greedy that ranks by remaining ETA"},
		{Name: RecordedPolicy, place: recording(), Description: "what really happened: the trace's start_s and duration_s, whatever the pool"},
		{Name: "fifo", Decide: firstInFirstOut, FixedSize: true, Description: "fixed sizes, in the order of arrival"},
		{Name: "srpt", Decide: shortestRemaining, FixedSize: true, Description: "fixed sizes, the shortest remaining first, preemptive"},
		{Name: MaxMinPolicy, Decide: maxMin, Description: "equal shares as far as sizes allow"},
		{Name: "hesrpt", Decide: heSRPT(fifo), Description: "heSRPT, the best mean time for divisible nodes, rounded to sizes"},
		{
			Name: "hesrpt-event", Decide: heSRPT(solver.AdmissionStartFirst), EveryEvent: true,
			Description: "hesrpt that decides at every submission and end, too, and may pause jobs",
		},
	}
	return append(policies, teamPolicies()...)
}

// totalTime returns the options of the policies of total time.
func totalTime(admission solver.Admission) solver.Options {
	return solver.Options{Backend: solver.BackendExact, Objective: solver.ObjectiveTotalTime, Admission: admission}
}

// rankByETA replaces a job's training time, by which greedy ranks, with its remaining ETA.
func rankByETA(s *solver.Snapshot, _ []solver.Group) {
	for i := range s.Jobs {
		s.Jobs[i].TrainingTime = s.Jobs[i].RemainingETA
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
	if p.Decide != nil {
		start := time.Now()
		nodes := p.Decide(s)
		decision.SolveTime = time.Since(start)
		decision.Reason = solver.ReasonHeuristic
		return nodes, decision, checkNodes(s, nodes)
	}
	options := p.Options
	options.TimeBudget = budget
	if !p.EveryEvent {
		options = options.Paced(s.Horizon.Step)
	}
	options.NoBound = true // A simulation wants the nodes of greedy, not how good they are.
	answer, err := allocator.Allocate(ctx, s, options)
	if err == nil && p.InsteadOfPauses != "" && pausesMany(&answer) {
		options.Admission = p.InsteadOfPauses
		answer, err = allocator.Allocate(ctx, s, options)
	}
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

// pausesMany reports whether a decision pauses more than a quarter of the running jobs.
func pausesMany(d *solver.Decision) bool {
	return slices.ContainsFunc(d.Report.Warnings, func(w solver.Warning) bool { return w.Code == solver.WarningManyPauses })
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

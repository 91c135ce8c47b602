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

// Allocator makes decisions, as *elastalloc.Allocator does.
type Allocator interface {
	Allocate(context.Context, *solver.Snapshot, solver.Options) (solver.Decision, error)
	FillIdle(context.Context, *solver.Snapshot) (solver.Decision, error)
}

// Policy decides at scaling moments how many nodes every job holds. It is a row of the table
// Policies, has no state, and knows of the jobs what a snapshot tells.
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
	// KeepsType has a job hold nodes of the type that it first got alone, and NeedsTypes
	// refuses a pool without node types.
	KeepsType, NeedsTypes bool
	// Rounds, where set, is how often the policy decides, and it never does in between.
	Rounds time.Duration
	// Partitioned divides the pool among the teams, in each of which the policy then decides.
	Partitioned bool

	// pin, where set, chooses the node type of an arriving job, given the snapshot of those
	// that are there. Each type is then a pool of its own.
	pin func(*solver.Snapshot, solver.Job) string
	// decideTypes, where set, is the rule of a comparator that knows of node types.
	decideTypes func(context.Context, *solver.Snapshot, []past) ([]holding, Decision, error)
}

// past is what a comparator may know of a job beyond a snapshot: how often it has got other
// nodes since its start, the most that it ever held, and whether it restarts right now.
type past struct {
	restarts, mostHeld int
	restarting         bool
}

// Rule returns the option of every job of a valid snapshot, whose jobs are in the
// order of submission: each a legal size or no nodes, together within the pool.
type Rule func(*solver.Snapshot) []solver.Option

// Optimises reports whether the policy asks for an optimum.
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
	return p.Decide == nil && p.Prepare == nil && !p.FixedSize && !p.Partitioned && p.Name != RecordedPolicy
}

// Policies returns all policies, those that need teams or node types last.
func Policies() []Policy {
	const (
		exact = solver.BackendExact
		fifo  = solver.AdmissionFIFO
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
		{Name: "greedy", Options: paper(solver.BackendGreedy, fifo), Description: "the rules that the paper compares with; ranks by training time"},
		{Name: "greedy-eta", Options: paper(solver.BackendGreedy, fifo), Prepare: rankByETA, Description: "greedy that ranks by remaining ETA"},
		{Name: RecordedPolicy, Description: "what the cluster did: start_s and duration_s of the trace, whatever the pool"},
		{Name: "fifo", Decide: greedy.FillIdle, FixedSize: true, Description: "fixed sizes, in the order of arrival"},
		{Name: "srpt", Decide: shortestRemaining, FixedSize: true, Description: "fixed sizes, the shortest remaining first, preemptive"},
		{Name: MaxMinPolicy, Decide: maxMin, Description: "max-min fair shares as far as sizes allow"},
		{Name: "hesrpt", Decide: heSRPT(fifo), Description: "heSRPT, the best mean time for divisible nodes, rounded to sizes"},
		{
			Name: "hesrpt-event", Decide: heSRPT(solver.AdmissionStartFirst), EveryEvent: true,
			Description: "hesrpt that decides at every submission and end, too, and may pause jobs",
		},
	}
	return slices.Concat(policies, teamPolicies(), typePolicies())
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
	if i := slices.IndexFunc(policies, func(p Policy) bool { return p.Name == name }); i >= 0 {
		return policies[i], nil
	}
	return Policy{}, fmt.Errorf("unknown policy %q (want one of %s)", name, strings.Join(PolicyNames(policies), ", "))
}

// PolicyNames returns the names of policies.
func PolicyNames(policies []Policy) []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].Name
	}
	return names
}

// decide returns what every job holds after a scaling moment and what is known of the
// decision. observe, which may be nil, is shown an Allocator's decision.
func (p *Policy) decide(
	ctx context.Context, allocator Allocator, s *solver.Snapshot, pasts []past, budget time.Duration, observe Observer,
) (holdings []holding, decision Decision, err error) {
	switch {
	case p.Decide != nil:
		start := time.Now()
		holdings = holdOptions(s, p.Decide(s))
		decision = Decision{SolveTime: time.Since(start), Reason: solver.ReasonHeuristic}
	case p.decideTypes != nil:
		holdings, decision, err = p.decideTypes(ctx, s, pasts)
	case p.pin != nil:
		holdings, decision, err = p.askPools(ctx, allocator, s, budget, observe)
	default:
		holdings, decision, err = p.ask(ctx, allocator, s, budget, observe)
	}
	if err != nil {
		return nil, decision, err
	}
	decision.Jobs = len(s.Jobs)
	return holdings, decision, checkHoldings(s, holdings)
}

func (p *Policy) ask(
	ctx context.Context, allocator Allocator, s *solver.Snapshot, budget time.Duration, observe Observer,
) ([]holding, Decision, error) {
	options := p.Options
	options.TimeBudget = budget
	if !p.EveryEvent {
		options = options.WithCadence(s.Horizon.Step)
	}
	options.NoBound = true // A simulation wants the nodes of greedy, not how good they are.
	answer, err := allocator.Allocate(ctx, s, options)
	many := func(w solver.Warning) bool { return w.Code == solver.WarningManyPauses }
	if err == nil && p.InsteadOfPauses != "" && slices.ContainsFunc(answer.Report.Warnings, many) {
		options.Admission = p.InsteadOfPauses
		answer, err = allocator.Allocate(ctx, s, options)
	}
	if err != nil {
		return nil, Decision{}, err
	}
	if observe != nil {
		observe(s, answer)
	}
	report := answer.Report
	for _, attempt := range report.Attempts {
		// Another backend's decisions under this policy's name would mislead.
		if attempt.Backend == p.Options.Backend && attempt.Outcome == solver.OutcomeUnavailable {
			return nil, Decision{}, fmt.Errorf("the backend is unavailable: %s", attempt.Detail)
		}
	}
	return holdingsOf(answer), Decision{SolveTime: report.SolveTime, Reason: report.Reason, Prices: report.NodePrices}, nil
}

// fillIdle returns what every job holds after the regular-time rule.
func fillIdle(ctx context.Context, allocator Allocator, s *solver.Snapshot) ([]holding, error) {
	answer, err := allocator.FillIdle(ctx, s)
	if err != nil {
		return nil, err
	}
	holdings := holdingsOf(answer)
	return holdings, checkHoldings(s, holdings)
}

func holdingsOf(d solver.Decision) []holding {
	holdings := make([]holding, len(d.Allocations))
	for i, a := range d.Allocations {
		if a.Nodes != 0 {
			holdings[i] = holding{a.Nodes, a.NodeType}
		}
	}
	return holdings
}

// checkHoldings returns an error unless sizes are legal, and within the pool, its types and
// the limits of the groups.
func checkHoldings(s *solver.Snapshot, holdings []holding) error {
	if len(holdings) != len(s.Jobs) {
		return fmt.Errorf("decision has %d of %d jobs", len(holdings), len(s.Jobs))
	}
	types := s.NodeTypes
	if len(types) == 0 {
		types = []solver.NodeType{{Nodes: s.TotalNodes}}
	}
	given := make(map[string]int)
	used := make([]int, len(s.Groups))
	for i, to := range holdings {
		job := &s.Jobs[i]
		if to.nodes != 0 && to != (holding{job.CurrentNodes, job.CurrentNodeType}) && !to.legalFor(job, types) {
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
			return fmt.Errorf("decision gives %d of %d nodes%s", given[t.ID], t.Nodes, holding{nodeType: t.ID}.ofType())
		}
	}
	return nil
}

// teamPolicies are what the groups of this project are compared with where teams share a
// pool.
func teamPolicies() []Policy {
	options := totalTime(solver.AdmissionStartFirst)
	return []Policy{
		{
			Name: PartitionsPolicy, Options: options, EveryEvent: true, NeedsTeams: true, Partitioned: true,
			Description: "total-time in a partition of the pool for every team, by quota",
		},
		{
			Name: "fifo-partitions", Decide: greedy.FillIdle, FixedSize: true, NeedsTeams: true, Partitioned: true,
			Description: "fixed sizes, in the order of arrival, in those partitions",
		},
		{
			Name: "borrowing", Decide: borrowing, FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "fixed sizes, teams borrow what others leave of their quotas until they reclaim it, as Kueue",
		},
		{
			Name: "borrowing-waiting", Decide: borrowingWaiting, FixedSize: true, Teams: true, NeedsTeams: true, EveryEvent: true,
			Description: "borrowing where no job loses its nodes, so that teams wait for their quotas",
		},
		{
			Name: "total-time-open", Options: options, EveryEvent: true,
			Description: "total-time in one pool for all teams, that knows of none",
		},
		{
			Name: "total-time-weights", Options: options, EveryEvent: true, Prepare: weighTeams, NeedsTeams: true,
			Description: "total-time that knows of teams only by weights: quota by the jobs the team has now",
		},
	}
}

// weighTeams gives every job a weight for its team: the team's quota, at least one node, by
// the number of its jobs.
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

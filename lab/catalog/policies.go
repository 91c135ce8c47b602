// Package catalog contains the policies that elastalloc-lab compares.
package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/greedy"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Policy is a sim.Policy with its name and the settings of its runs. Find returns one.
type Policy struct {
	// Terms contain the name and the settings of its runs.
	sim.Terms
	// Description describes the policy in one line.
	Description string
	// Options are the options of its requests. Backend is empty if the policy does not use one.
	Options solver.Options
	// Pools are the pools that the policy supports.
	Pools Pools
	// Rounds, if set, replaces Config.Frequency and Config.Round.
	Rounds time.Duration
	// Open, if set, returns an Allocator of the policy's own for one run, and a function that is called after the run.
	// The run then does not call Config.Observe.
	Open func() (sim.Allocator, func() error, error)

	// decide returns the policy of a run with a config, which it may modify. If nil, it is a sim.Request with Options.
	decide func(solver.Options, *sim.Config) (sim.Policy, error)
	// run, if set, replaces sim.Run, and check, if set, sim.Workload.Check.
	run   func(context.Context, sim.Workload, sim.Policy, sim.Config, sim.Allocator) (*sim.Result, error)
	check func(*sim.Workload, *sim.Config) error
}

// Pools is a kind of pools.
type Pools int

// The kinds of pools.
const (
	// PlainPools have nodes of one type. Their teams are not required.
	PlainPools Pools = iota
	// AllPools are pools with and without teams or node types.
	AllPools
	// TeamPools have teams.
	TeamPools
	// TypedPools have node types.
	TypedPools
	// TypedTeamPools have teams and node types.
	TypedTeamPools
)

// The names of policies that results refer to.
const (
	// MaxMin is the policy of max-min fair shares.
	MaxMin = "max-min"
	// Recorded replays the recorded schedule of a trace.
	Recorded = "recorded"
	// Partitions has a partition of the pool for each team.
	Partitions = "static-partitions"
	// TypePartitions has a separate pool for each node type.
	TypePartitions = "type-partitions"
	// TeamTypePartitions has a separate pool for each team and node type.
	TeamTypePartitions = "team-type-partitions"
	// Backfill has fixed sizes with EASY backfill.
	Backfill = "fifo-backfill"
)

// Optimizes reports whether the policy computes optimal decisions.
func (p *Policy) Optimizes() bool {
	return p.Options.Backend != "" && p.Options.Backend != solver.BackendGreedy
}

// Optimizes reports whether the named policy computes optimal decisions. It returns false for an
// unknown name.
func Optimizes(name string) bool {
	p, err := Find(name)
	return err == nil && p.Optimizes()
}

// PassesSnapshots reports whether the policy passes snapshots to the Allocator without changes.
func (p *Policy) PassesSnapshots() bool { return p.decide == nil && p.run == nil && p.Open == nil }

// Check returns an error if the policy cannot run a workload with a config, because a job does not fit the pool or
// because data that the policy needs is missing.
func (p *Policy) Check(w *sim.Workload, config *sim.Config) error {
	switch {
	case (p.Pools == TeamPools || p.Pools == TypedTeamPools) && len(config.Groups) == 0:
		return fmt.Errorf("the policy %s needs teams", p.Name)
	case (p.Pools == TypedPools || p.Pools == TypedTeamPools) && len(config.NodeTypes) == 0:
		return fmt.Errorf("the policy %s needs node types", p.Name)
	case len(config.NodeTypes) > 0 && !p.supportsTypes() && p.Name != Recorded:
		typed := slices.DeleteFunc(All(), func(p Policy) bool { return !p.supportsTypes() })
		return fmt.Errorf("the policy %s does not support node types (must be one of %s)", p.Name, strings.Join(Names(typed), ", "))
	case len(config.SizeLimits) > 0 && p.Options.Objective == solver.ObjectiveProgress:
		return fmt.Errorf("the policy %s does not support size limits", p.Name)
	}
	own := *config
	own.Terms = p.Terms
	if p.check != nil {
		return p.check(w, &own)
	}
	return w.Check(&own)
}

// supportsTypes reports whether the policy supports node types.
func (p *Policy) supportsTypes() bool {
	return p.Pools == AllPools || p.Pools >= TypedPools || p.Options.Objective == solver.ObjectiveTotalTime && !p.FixedSize
}

// Run simulates a workload under the policy with a config whose Terms are replaced. See sim.Run. It returns an error
// if Check does.
func (p *Policy) Run(ctx context.Context, w sim.Workload, config sim.Config, allocator sim.Allocator) (*sim.Result, error) {
	if err := p.Check(&w, &config); err != nil {
		return nil, err
	}
	config.Terms = p.Terms
	if p.Rounds > 0 {
		config.Frequency, config.Round = p.Rounds, p.Rounds
	}
	policy, run := sim.Policy(sim.Request{Options: p.Options}), sim.Run
	if p.decide != nil {
		var err error
		if policy, err = p.decide(p.Options, &config); err != nil {
			return nil, err
		}
	}
	if p.run != nil {
		run = p.run
	}
	if p.Open == nil {
		return run(ctx, w, policy, config, allocator)
	}
	own, end, err := p.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	config.Observe = nil
	result, err := run(ctx, w, policy, config, own)
	return result, cmp.Or(err, end())
}

// Find returns the policy with the given name, or an error that lists the valid names.
func Find(name string) (Policy, error) {
	policies := All()
	if i := slices.IndexFunc(policies, func(p Policy) bool { return p.Name == name }); i >= 0 {
		return policies[i], nil
	}
	return Policy{}, fmt.Errorf("unknown policy %q (must be one of %s)", name, strings.Join(Names(policies), ", "))
}

// Names returns the names of policies.
func Names(policies []Policy) []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].Name
	}
	return names
}

// All returns all policies. Policies that need teams or node types are last.
func All() []Policy { return slices.Concat(general(), forTeams(), forTypes()) }

// ruled returns a policy that decides by a rule. Rules have no restart budget.
func ruled(t sim.Terms, rule sim.Rule, description string) Policy {
	t.NoRestartBudget = true
	return Policy{
		Terms: t, Description: description,
		decide: func(solver.Options, *sim.Config) (sim.Policy, error) { return rule, nil },
	}
}

// requesting returns a policy that passes snapshots to the Allocator.
func requesting(t sim.Terms, o solver.Options, description string) Policy {
	return Policy{Terms: t, Options: o, Description: description}
}

// on returns the policy for a kind of pools.
func (p Policy) on(pools Pools) Policy {
	p.Pools = pools
	return p
}

// prepared returns the policy with a function that modifies its snapshots. The function receives the groups of the
// pool.
func (p Policy) prepared(prepare func(*solver.Snapshot, []solver.Group)) Policy {
	p.decide = func(o solver.Options, config *sim.Config) (sim.Policy, error) {
		return preparing{sim.Request{Options: o}, func(s *solver.Snapshot) { prepare(s, config.Groups) }}, nil
	}
	return p
}

// preparing is a policy that decides on modified snapshots.
type preparing struct {
	sim.Policy
	// prepare modifies a snapshot and its jobs.
	prepare func(*solver.Snapshot)
}

// Decide returns the decision on the modified snapshot.
func (p preparing) Decide(ctx context.Context, in sim.Input) (solver.Decision, error) {
	s := *in.Snapshot
	s.Jobs = slices.Clone(s.Jobs)
	p.prepare(&s)
	in.Snapshot = &s
	return p.Policy.Decide(ctx, in)
}

// general returns the policies that need neither teams nor node types.
func general() []Policy {
	const (
		exact = solver.BackendExact
		fifo  = solver.AdmissionFIFO
	)
	paper := func(backend solver.BackendName, admission solver.Admission) solver.Options {
		return solver.Options{Backend: backend, Objective: solver.ObjectiveProgress, Admission: admission}
	}
	steady := totalTime(fifo)
	steady.TotalTime.ResizePrice = new(15 * time.Second)
	return []Policy{
		requesting(sim.Terms{Name: "optimal"}, paper(exact, fifo), "the optimum of the paper's model, by the embedded exact backend"),
		requesting(sim.Terms{Name: "optimal-cbc"}, paper(solver.BackendCBC, fifo), "the same, by CBC"),
		requesting(sim.Terms{Name: "optimal-highs"}, paper(solver.BackendHiGHS, fifo), "the same, by HiGHS"),
		requesting(sim.Terms{Name: "optimal-optimized"}, paper(exact, solver.AdmissionOptimized),
			"the optimum if queued jobs may be left waiting"),
		requesting(sim.Terms{Name: "optimal-preemptive"}, paper(exact, solver.AdmissionPreemptive),
			"the optimum if running jobs may be preempted as well"),
		requesting(sim.Terms{Name: "optimal-event", EveryEvent: true}, paper(exact, fifo),
			"optimal with an additional decision after every submission and completion"),
		requesting(sim.Terms{Name: "total-time", EveryEvent: true, GroupLimits: true}, totalTime(solver.AdmissionStartFirst),
			"the minimum mean JCT, with decisions after submissions and completions too; may pause jobs").on(AllPools),
		requesting(sim.Terms{Name: "total-time-waiting", EveryEvent: true, GroupLimits: true}, totalTime(solver.AdmissionOptimized),
			"total-time that never pauses jobs and may leave queued jobs waiting").on(AllPools),
		requesting(sim.Terms{Name: "total-time-steady", GroupLimits: true}, steady,
			"the minimum mean JCT with a decision every 5 minutes, first in, first out").on(AllPools),
		requesting(sim.Terms{Name: "greedy"}, paper(solver.BackendGreedy, fifo), "the baseline of the paper; ranks by training time"),
		requesting(sim.Terms{Name: "greedy-eta"}, paper(solver.BackendGreedy, fifo), "greedy that ranks by remaining ETA").prepared(rankByETA),
		{
			Terms: sim.Terms{Name: Recorded}, Description: "the recorded schedule: start_s and duration_s of the trace, regardless of the pool",
			check: (*sim.Workload).CheckRecorded,
			run: func(_ context.Context, w sim.Workload, _ sim.Policy, config sim.Config, _ sim.Allocator) (*sim.Result, error) {
				return sim.Recorded(w, config)
			},
		},
		ruled(sim.Terms{Name: "fifo", FixedSize: true}, greedy.FillIdle, "fixed sizes, in the order of submission"),
		{
			Terms:       sim.Terms{Name: Backfill, FixedSize: true, EveryEvent: true, NoRestartBudget: true},
			Description: "fifo with EASY backfill by the user limits (limit_s, by default twice the duration), like Slurm",
			decide:      func(solver.Options, *sim.Config) (sim.Policy, error) { return byUserLimits{sim.Rule(backfill)}, nil },
		},
		ruled(sim.Terms{Name: "srpt", FixedSize: true}, shortestRemaining, "fixed sizes, shortest remaining processing time first, preemptive"),
		ruled(sim.Terms{Name: MaxMin}, maxMin, "max-min fair shares, rounded to legal sizes"),
		ruled(sim.Terms{Name: "hesrpt"}, heSRPT(fifo), "heSRPT, optimal mean JCT for divisible nodes, rounded to legal sizes"),
		ruled(sim.Terms{Name: "hesrpt-event", EveryEvent: true}, heSRPT(solver.AdmissionStartFirst),
			"hesrpt with decisions after submissions and completions too; may pause jobs"),
	}
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

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/report"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// Values of --eta.
const (
	etaTold    = "told"
	etaUnknown = "unknown"
)

type simulateFlags struct {
	trace, synthetic string
	minDuration      time.Duration
	gpusPerNode      int
	nodes            []int
	policies         []string
	config           sim.Config
	disturbance      sim.Disturbance
	eta              string // etaTold or etaUnknown
	vary             []string
	maxGrowth        float64
	teams            teamFlags
	types            typeFlags
	machines         machineFlags
	totalTime        map[string]string
	seed             uint64
	workers          int
	out, unit        string
	programs         cli.Programs
}

func newSimulateCommand(env cli.LookupEnv) *cobra.Command {
	f := simulateFlags{config: sim.DefaultConfig(0), eta: etaTold}
	command := &cobra.Command{
		Use:   "simulate --trace FILE|--synthetic KIND --nodes N,... --out DIR",
		Short: "Simulate allocation policies on a trace",
		Long: `Simulate allocation policies on a trace or a synthetic workload, for the given
pool sizes, and write the results to a folder:

 summary.json  measures of every run, and comparisons with greedy, or with the
               first policy if greedy is not among them
 jobs.csv      every job of every run
 report.html   report with all figures, which are also written as SVG and PNG

Nothing is written before all runs are complete.

The verdict compares the best policy with what the cluster did (recorded) if the
trace has the start of every job, otherwise with FIFO and fixed sizes (with
backfill if it was simulated), and then with max-min fair shares. It leads with
the most careful of three scenarios in which the policy still gains: as assumed,
with one job in five elastic, and with no job above its request.

A trace is CSV with the columns job_id, submit_s, duration_s and gpus. Optional
columns are eligible_s, start_s, limit_s, min_nodes, max_nodes, weight, user,
doubling_efficiency, allowed_nodes, speeds, group, application, node_type,
restart_s, which replaces --restart-time for the job, and work_s, the run time
on one reference node. If work_s is set, duration_s may be
empty. allowed_nodes and speeds are lists separated by spaces: the sizes of the
job, and its training speed on each size relative to one node. By default, the
sizes are the powers of two up to 16 and the requested nodes. With
--gpus-per-node 1, a node is a GPU. Times count from eligible_s if it is later
than submit_s.

--vary replaces properties of the jobs by random ones, which policies know:
` + describeVariations() + `

The column group contains the teams. --teams assigns users to random teams
instead. --groups is a CSV file with the quotas of the teams, with the columns
id and quota, and optionally parent_id and limit, in nodes, and type_limits, a
list of TYPE=NODES separated by spaces. Without --groups, the pool is divided by
--quotas.

--node-types sets the node types of the pool. --speeds is a CSV file with the
columns application, node_type, nodes and speed (work_s per second), and
optionally until and restart_s. until is the share of the work up to which the
speed applies, and a later line contains the next speed. restart_s is the
restart time of the application. A job without an application has the speeds of
its own columns on every node type. Without --node-types, all speeds must be of
one node type, without until, and the columns of the job restrict its sizes.

--machine-units describes the machines of a pool whose nodes are GPUs, on which
--placement places the jobs. A job of less than a machine is on one machine, and
a larger job is on whole machines of one block, if it fits one. If a decision
has no placement, jobs that grow are reduced until it has. --size-limits
prevents such decisions (total-time policies only). With --node-types, every
machine has one type.

A simulation is exact to the second and uses the code of the server. The same
seed gives the same results, except decision times, as long as no decision takes
longer than its time budget, ` + sim.DefaultDecisionBudget.String() + `. Runs share all processors. For undisturbed
decision times, set --workers 1.

The policies:
` + describePolicies() + `

Policies of others are command:PROGRAM, a program with arguments that reads an
AllocateRequest in JSON per line and writes an AllocateResponse in JSON per
line, and grpc:HOST:PORT, a service with the method Allocate in plain text.`,
		Example: `  elastalloc-lab simulate --trace trace.csv --nodes 70,110,150 --out results
  elastalloc-lab simulate --synthetic baseline --nodes 110 --out results
  elastalloc-lab simulate --trace trace.csv --node-types a100=8:4,t4=48 --out o`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.simulate(cmd, env) },
	}
	flags := command.Flags()
	flags.IntSliceVar(&f.nodes, "nodes", nil, "sizes of the pool")
	// The policies of the paper, total-time, and simple rules.
	usual := []string{
		"greedy", "optimal", "total-time", "total-time-waiting", catalog.MaxMin, "hesrpt-event", "fifo", catalog.Backfill, "srpt",
	}
	flags.StringSliceVar(&f.policies, "policy", usual, "policies to run")
	flags.StringVar(&f.out, "out", "", "new or empty folder for the results")
	cli.AddUnit(flags, &f.unit)
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "number of concurrent runs")
	cli.OnePerCore(flags, "workers")
	flags.StringVar(&f.trace, "trace", "", "trace in CSV, - for standard input")
	flags.Var(syntheticFlag(&f.synthetic), "synthetic", "synthetic workload")
	flags.Var((*secondsFlag)(&f.minDuration), "min-duration", "minimum duration of jobs in the trace, such as 5m; shorter jobs are omitted")
	flags.IntVar(&f.gpusPerNode, "gpus-per-node", sim.DefaultGPUsPerNode, "GPUs of one node of the trace")
	flags.StringSliceVar(&f.vary, "vary", nil, "random properties of jobs: weights, efficiencies, minimums, rigid-half (see above)")
	flags.Float64Var(&f.maxGrowth, "max-growth", 0,
		"largest number of nodes of a job as a multiple of the nodes that it requested, at least 1 (default no limit)")
	flags.Float64Var(&f.disturbance.ETAError, "eta-error", 0, "largest relative error of the ETAs in snapshots, 0.1 for 10%")
	flags.Float64Var(&f.disturbance.ETASigma, "eta-sigma", 0,
		"standard deviation of the logarithm of the error of user estimates, 0.69 for a factor of 2; snapshots contain estimates of client/eta")
	flags.Var(cli.ChoiceFlag{Value: &f.eta, Choices: []string{etaTold, etaUnknown}}, "eta",
		"user estimates; with unknown, there are none, and snapshots contain "+
			"estimates of client/eta from completed jobs, with --eta-sigma as their error")
	flags.Float64Var(&f.disturbance.BugShare, "bug-share", 0, "share of jobs that hang within 5 minutes of training")
	flags.Float64Var(&f.disturbance.KillShare, "kill-share", 0, "share of jobs that users kill at a random time")
	flags.Var((*secondsFlag)(&f.config.ScalingDelay), "scaling-delay",
		"time for which a job that starts or grows trains on its previous number of nodes, such as 15s")
	flags.Var((*secondsFlag)(&f.config.RestartTime), "restart-time",
		"time without progress after the start and after every resize of a job, such as 3m")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all random numbers")
	flags.Var((*secondsFlag)(&f.config.Frequency), "frequency", "time between decisions")
	flags.Var((*secondsFlag)(&f.config.Round), "round",
		"interval of the decisions after submissions and completions, such as 60s (default 1s)")
	flags.IntVar(&f.config.Steps, "steps", f.config.Steps, "number of steps of the horizon, each as long as the frequency")
	flags.StringToStringVar(&f.totalTime, "total-time", nil,
		"parameters of the total-time policies as `name=value`, such as aging=0s,quota_price=1, with the names of the API")
	f.teams.add(flags)
	flags.Var((*secondsFlag)(&f.config.UsageHalfLife), "usage-half-life",
		"time after which the node time of a team counts half, for total-time-usage")
	f.types.add(flags)
	f.machines.add(flags)
	cli.AddProgramFlags(flags, &f.programs)
	command.MarkFlagsMutuallyExclusive("groups", "quotas")
	command.MarkFlagsMutuallyExclusive("groups", "team-limit")
	command.MarkFlagsMutuallyExclusive("eta-error", "eta-sigma")
	command.MarkFlagsMutuallyExclusive("eta-error", "eta")
	cli.MarkRequired(command, "out")
	command.MarkFlagsOneRequired("nodes", "node-types")
	command.MarkFlagsMutuallyExclusive("nodes", "node-types")
	command.MarkFlagsMutuallyExclusive("synthetic", "speeds")
	command.MarkFlagsOneRequired("trace", "synthetic")
	command.MarkFlagsMutuallyExclusive("trace", "synthetic")
	command.MarkFlagsMutuallyExclusive("gpus-per-node", "synthetic")
	cli.CompleteValues(command, "policy", catalog.Names(catalog.All())...)
	return command
}

func describeVariations() string {
	return listing([][2]string{
		{"weights", "weight 1, 2, 4 or 8"},
		{"weights-rising", "1, 2, 4 or 8 by demand, 1 for the smallest; weights-falling: the reverse"},
		{"efficiencies", "doubling efficiency from 0.6 to 0.95"},
		{"minimums", "20% of the jobs with a single size, 40% with a minimum of 2, 4 or 8 nodes"},
		{"rigid-half", "50% of the jobs with their requested size only; rigid-most: 80%"},
	})
}

func (f *simulateFlags) simulate(cmd *cobra.Command, env cli.LookupEnv) error {
	if len(f.types.clusters) > 0 && !cmd.Flags().Changed("policy") {
		f.policies = f.policiesOnTypes()
	}
	policies, err := f.check()
	if err != nil {
		return err
	}
	if err := f.types.read(cmd); err != nil {
		return err
	}
	trace, name, err := f.readTrace(cmd)
	if err != nil {
		return err
	}
	if err := workloads.CheckSpeeds(f.types.speeds, trace); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(f.types.clusters) == 0 {
		if trace, err = workloads.ApplySpeeds(f.types.speeds, trace); err != nil {
			return fmt.Errorf("--speeds %w", err)
		}
		f.types.speeds = nil
	}
	if len(f.vary) > 0 {
		name += "+" + strings.Join(f.vary, "+")
	}
	workload, err := f.workload(trace, name, f.variations(), f.maxGrowth)
	if err != nil {
		return err
	}
	configs, err := f.configs(cmd, &workload)
	if err != nil {
		return err
	}
	for i := range policies {
		for n := range configs {
			if err := policies[i].Check(&workload, &configs[n]); err != nil {
				return err
			}
		}
	}
	policies = f.withRecorded(policies, &workload, configs)
	allocator, err := newAllocator(policies, f.programs)
	if err != nil {
		return err
	}
	tasks := tasksOf(workload, policies, configs)
	return produce(cmd, env, f.out, func(ctx context.Context, bar *progress) (outcome, error) {
		runs, err := runTasks(ctx, tasks, allocator, f.workers, bar)
		if err != nil {
			return nil, err
		}
		found := &report.Simulated{
			Runs: runs, Summary: results.Summarize(runs, baselineOf(policies), f.seed, workload.Cut), Workload: workload,
			GPUsPerNode: f.gpusPerNode, MinDuration: f.minDuration, Disturbance: f.disturbance, RestartTime: f.config.RestartTime,
			Machines: f.machines.describe(configs), HasEligible: slices.ContainsFunc(trace, func(j sim.TraceJob) bool { return j.Eligible != nil }),
			External: slices.DeleteFunc(slices.Clone(policies), func(p catalog.Policy) bool { return p.Open == nil }),
		}
		for i := range workload.Jobs {
			if len(workload.Jobs[i].Recorded) == 0 {
				found.WithoutStart++
			}
		}
		found.Summary.Unit = f.unit
		found.Conclude()
		found.Summary.Origin = new(originOf(cmd))
		return found, f.addScenarios(ctx, found, trace, policies, configs, allocator, bar)
	})
}

// policiesOnTypes returns the default policies if there are node types.
func (f *simulateFlags) policiesOnTypes() []string {
	switch teams := f.teams.count > 0 || f.teams.file != "" || f.teams.quotas != ""; {
	case teams && !f.machines.units.set():
		return []string{catalog.TeamTypePartitions, catalog.Partitions, "total-time-open", "total-time"}
	case teams: // Partitions have no machines.
		return []string{catalog.TypePartitions, "total-time-open", "total-time"}
	}
	return []string{catalog.TypePartitions, "total-time", "type-kept", "sia", "sia-ramp"}
}

// withRecorded adds the policy recorded if the trace has the start of every job and no jobs hang or are
// killed.
func (f *simulateFlags) withRecorded(policies []catalog.Policy, workload *sim.Workload, configs []sim.Config) []catalog.Policy {
	recorded, err := catalog.Find(catalog.Recorded)
	named := func(p catalog.Policy) bool { return p.Name == catalog.Recorded }
	unknown := func(c sim.Config) bool { return recorded.Check(workload, &c) != nil }
	if err != nil || slices.ContainsFunc(policies, named) ||
		slices.ContainsFunc(configs, unknown) || f.disturbance.BugShare+f.disturbance.KillShare > 0 {
		return policies
	}
	return append(slices.Clone(policies), recorded)
}

// addScenarios adds the more careful scenarios to the verdict: one job in five elastic, unless --vary sets the sizes of jobs,
// and no job above its request.
func (f *simulateFlags) addScenarios(
	ctx context.Context, found *report.Simulated, trace sim.Trace,
	policies []catalog.Policy, configs []sim.Config, allocator sim.Allocator, bar *progress,
) error {
	verdict := found.Summary.Verdict
	if verdict == nil || len(f.types.pools) > 0 || !catalog.Optimizes(verdict.Policy) {
		return nil
	}
	references := verdict.References()
	policies = slices.DeleteFunc(slices.Clone(policies), func(p catalog.Policy) bool {
		return p.Name != verdict.Policy && !slices.Contains(references, p.Name)
	})
	add := func(name string, vary []workloads.Variation, growth float64) error {
		workload, err := f.workload(trace, found.Workload.Name, vary, growth)
		if err != nil {
			return err
		}
		possible := slices.DeleteFunc(slices.Clone(configs), func(c sim.Config) bool {
			return slices.ContainsFunc(policies, func(p catalog.Policy) bool { return p.Check(&workload, &c) != nil })
		})
		runs, err := runTasks(ctx, tasksOf(workload, policies, possible), allocator, f.workers, bar)
		if len(runs) > 0 {
			verdict.AddScenario(name, new(results.Summarize(runs, "", f.seed, workload.Cut)))
		}
		return err
	}
	if !slices.ContainsFunc(f.variations(), workloads.Variation.SetsSizes) {
		if err := add(results.FewElastic, append(f.variations(), workloads.VaryRigidMost), f.maxGrowth); err != nil {
			return err
		}
	}
	return add(results.NoGrowth, f.variations(), 1)
}

func syntheticFlag(kind *string) pflag.Value {
	return cli.ChoiceFlag{Value: kind, Choices: []string{string(workloads.Baseline), string(workloads.Heterogeneous)}}
}

func (f *simulateFlags) check() ([]catalog.Policy, error) {
	var bad []string
	addf := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	for i, nodes := range f.nodes {
		if nodes < 1 || nodes > math.MaxInt32 {
			addf("--nodes is %d; must be 1 to %d", nodes, math.MaxInt32)
		}
		if slices.Contains(f.nodes[:i], nodes) {
			addf("--nodes names %d twice", nodes)
		}
	}
	f.types.parse(addf)
	if len(f.nodes)+len(f.types.clusters) == 0 {
		addf("--nodes is empty")
	}
	policies := findPolicies(f.policies, addf)
	if f.minDuration < 0 {
		addf("--min-duration is %v; must be at least 0s", f.minDuration)
	}
	if f.gpusPerNode < 1 {
		addf("--gpus-per-node is %d; must be at least 1", f.gpusPerNode)
	}
	for _, pool := range append(f.types.pools, nil) {
		config := f.config
		config.Nodes, config.NodeTypes = max(1, nodesOf(pool)), pool // Those of --nodes are checked.
		for _, violation := range config.Validate() {
			if text := fmt.Sprintf("--%s %s", strings.ReplaceAll(violation.Path, "_", "-"), violation.Description); !slices.Contains(bad, text) {
				bad = append(bad, text)
			}
		}
	}
	if _, err := workloads.Vary(nil, f.variations(), f.seed, f.gpusPerNode); err != nil {
		addf("--vary: %v", err)
	}
	// The negated conditions also reject NaN.
	if !(f.maxGrowth == 0 || f.maxGrowth >= 1 && !math.IsInf(f.maxGrowth, 0)) {
		addf("--max-growth is %v; must be at least 1, or 0 for no limit", f.maxGrowth)
	}
	if !(f.disturbance.ETAError >= 0 && f.disturbance.ETAError < 1) {
		addf("--eta-error is %v; must be at least 0 and less than 1", f.disturbance.ETAError)
	}
	if !(f.disturbance.ETASigma >= 0 && f.disturbance.ETASigma <= solver.MaxETAError) {
		addf("--eta-sigma is %v; must be 0 to %v", f.disturbance.ETASigma, solver.MaxETAError)
	}
	f.disturbance.ETAUnknown = f.eta == etaUnknown
	bug, kill := f.disturbance.BugShare, f.disturbance.KillShare
	if !(bug >= 0 && kill >= 0 && bug+kill <= 1) {
		addf("--bug-share is %v and --kill-share %v; each must be at least 0, together at most 1", bug, kill)
	}
	f.teams.check(addf)
	if f.config.UsageHalfLife <= 0 {
		addf("--usage-half-life is %v; must be greater than 0s", f.config.UsageHalfLife)
	}
	f.machines.check(f.nodes, f.types.pools, addf)
	totalTimeFlag(f.totalTime).apply(policies, addf)
	if f.workers < 1 {
		addf("--workers is %d; must be at least 1", f.workers)
	}
	if len(bad) > 0 {
		return nil, errors.New(strings.Join(bad, "\n  "))
	}
	return policies, nil
}

// workload converts a trace into a workload with variations, a growth limit and the disturbance.
func (f *simulateFlags) workload(trace sim.Trace, name string, vary []workloads.Variation, growth float64) (sim.Workload, error) {
	trace, err := workloads.Vary(trace, vary, f.seed, f.gpusPerNode)
	if err != nil {
		return sim.Workload{}, err
	}
	workload := sim.NewWorkload(name, trace, sim.WorkloadOptions{
		GPUsPerNode: f.gpusPerNode, MinDuration: f.minDuration, Speeds: f.types.speeds, MaxGrowth: growth,
	})
	if len(workload.Jobs) == 0 {
		return sim.Workload{}, fmt.Errorf("%s has no job of at least %v", name, f.minDuration)
	}
	if f.teams.count > 0 {
		if workload, err = workloads.AssignTeams(workload, f.teams.count, f.seed); err != nil {
			return sim.Workload{}, err
		}
	}
	return workload.Disturb(f.disturbance, f.seed), nil
}

func (f *simulateFlags) variations() []workloads.Variation {
	return cli.Named[workloads.Variation](f.vary)
}

func (f *simulateFlags) readTrace(cmd *cobra.Command) (sim.Trace, string, error) {
	if f.synthetic != "" {
		trace, err := workloads.Synthetic(workloads.SyntheticKind(f.synthetic), f.seed)
		return trace, "synthetic-" + f.synthetic, err
	}
	return readTraceFile(cmd, f.trace)
}

// readTraceFile reads a trace from a file or standard input. It returns the trace and its name in results.
func readTraceFile(cmd *cobra.Command, file string) (sim.Trace, string, error) {
	trace, err := cli.ReadTrace(cmd, file)
	return trace, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), err
}

func (f *simulateFlags) configs(cmd *cobra.Command, workload *sim.Workload) ([]sim.Config, error) {
	groups, err := f.teams.read(cmd)
	if err != nil {
		return nil, err
	}
	var configs []sim.Config
	for _, nodes := range f.nodes {
		configs = append(configs, f.config)
		configs[len(configs)-1].Nodes = nodes
	}
	for _, pool := range f.types.pools {
		configs = append(configs, f.config)
		configs[len(configs)-1].Nodes, configs[len(configs)-1].NodeTypes = nodesOf(pool), pool
	}
	for i := range configs {
		config := &configs[i]
		if err := f.machines.configure(config, workload, f.seed); err != nil {
			return nil, err
		}
		if config.Groups, err = f.teams.of(workload, groups, config.Nodes-config.Unavailable); err != nil {
			return nil, err
		}
	}
	return configs, nil
}

func tasksOf(workload sim.Workload, policies []catalog.Policy, configs []sim.Config) []catalog.Task {
	var tasks []catalog.Task
	for _, config := range configs {
		for _, policy := range policies {
			tasks = append(tasks, catalog.Task{Workload: workload, Policy: policy, Config: config})
		}
	}
	return tasks
}

// baselineOf returns the baseline policy: greedy, or type-partitions with node types, or the first policy if
// it is not in the list.
func baselineOf(policies []catalog.Policy) string {
	for _, policy := range policies {
		if policy.Name == "greedy" || policy.Name == catalog.TypePartitions {
			return policy.Name
		}
	}
	return policies[0].Name
}

// Package experiments repeats the experiments of Hu et al., "An Optimal Resource Allocator of Elastic
// Training for Deep Learning Jobs on Cloud", on synthetic workloads and optionally on a trace. It compares
// the results with the paper.
package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/elastalloc/elastalloc/internal/hesrpt"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/results"
	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
)

// Source is the origin of a workload.
type Source string

// The sources.
const (
	Synthetic Source = "synthetic"
	Trace     Source = "trace"
)

// Config is the configuration of Run.
type Config struct {
	// Pools are the sizes of the pool in nodes, ascending.
	Pools []int
	// Seeds is the number of synthetic workloads, with seeds 1, 2, and so on, and of disturbances in
	// settings that have them. It is at least 1.
	Seeds int
	// Generate returns a synthetic workload for nodes with sim.DefaultGPUsPerNode.
	Generate func(kind workloads.SyntheticKind, seed uint64) (sim.Trace, error)
	// Trace, if not nil, is an additional workload with the name TraceName, for nodes with GPUsPerNode,
	// which is at least 1.
	Trace       sim.Trace
	TraceName   string
	GPUsPerNode int
	// Workers is the number of concurrent runs, at least 1.
	Workers int
	Origin  results.Origin
}

// Validate returns an error that names every invalid field.
func (c *Config) Validate() error {
	var bad []error
	if c.Seeds < 1 || c.Seeds > maxSeeds {
		bad = append(bad, fmt.Errorf("seeds is %d; must be 1 to %d", c.Seeds, maxSeeds))
	}
	if c.Workers < 1 {
		bad = append(bad, fmt.Errorf("workers is %d; must be at least 1", c.Workers))
	}
	if c.GPUsPerNode < 1 {
		bad = append(bad, fmt.Errorf("gpus-per-node is %d; must be at least 1", c.GPUsPerNode))
	}
	if len(c.Pools) == 0 {
		bad = append(bad, errors.New("pools is empty"))
	}
	for i, nodes := range c.Pools {
		if nodes < 1 || nodes > math.MaxInt32 || (i > 0 && nodes <= c.Pools[i-1]) {
			bad = append(bad, fmt.Errorf("pools has %d nodes; must be at least 1, ascending", nodes))
		}
	}
	if c.Trace != nil {
		for _, setting := range settings() {
			if len(setting.apply(c.TraceName, c.Trace, max(1, c.GPUsPerNode), 1).Jobs) == 0 {
				bad = append(bad, fmt.Errorf("%s has no job of at least %v", c.TraceName, setting.MinDuration))
				break
			}
		}
	}
	return errors.Join(bad...)
}

// maxSeeds keeps a typing error from running for days.
const maxSeeds = 100

// planned is a run to be made.
type planned struct {
	setting string
	source  Source
	seed    uint64
	bound   time.Duration // hesrpt.Bound; only in a batch
	task    catalog.Task
}

// Run makes all runs. Runs with reported decision times are first, one at a time. Other runs follow in
// config.Workers workers. Run calls progress, which may be nil, after each run.
func Run(ctx context.Context, config Config, allocator sim.Allocator, progress func(done, all int)) (*Results, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	var kept unprovenList
	timed, rest, err := plan(&config, &kept)
	if err != nil {
		return nil, err
	}
	done := 0
	report := func(*sim.Result) {
		done++
		if progress != nil {
			progress(done, len(timed)+len(rest))
		}
	}
	timedRuns, err := catalog.RunAll(ctx, tasksOf(timed), allocator, 1, report)
	if err != nil {
		return nil, err
	}
	runs, err := catalog.RunAll(ctx, tasksOf(rest), allocator, config.Workers, report)
	if err != nil {
		return nil, err
	}
	m := measure(&config, append(timed, rest...), append(timedRuns, runs...), len(timed))
	found := &Results{
		Origin: config.Origin, Seeds: config.Seeds, Pools: config.Pools,
		Experiments: m.experiments(),
		Proof:       Proof{Decisions: m.decisions, Proven: m.proven, Unproven: append([]Unproven{}, kept.sorted()...)},
		sources:     m.sources, summary: m.summary(),
	}
	if config.Trace != nil {
		found.Trace = config.TraceName
	}
	return found, nil
}

func tasksOf(list []planned) []catalog.Task {
	tasks := make([]catalog.Task, len(list))
	for i := range list {
		tasks[i] = list[i].task
	}
	return tasks
}

// plan returns all runs. timed are the runs with reported decision times: the policy optimal in the baseline
// on the smallest pool.
func plan(config *Config, kept *unprovenList) (timed, rest []planned, err error) {
	for _, setting := range settings() {
		all, err := config.workloads(&setting)
		if err != nil {
			return nil, nil, err
		}
		for _, w := range all {
			for _, nodes := range config.Pools {
				for _, name := range setting.Policies {
					policy, err := catalog.Find(name)
					if err != nil {
						return nil, nil, err
					}
					p := planned{setting: setting.Name, source: w.source, seed: w.seed}
					p.task = catalog.Task{Workload: w.workload, Policy: policy, Config: sim.DefaultConfig(nodes)}
					p.task.Config.ScalingDelay = setting.ScalingDelay
					p.task.Config.Observe = kept.observer(&p)
					if setting.Batch {
						p.bound = hesrpt.Bound(demandsOf(w.workload), nodes)
					}
					if setting.Name == baselineSetting && name == optimalPolicy && nodes == config.Pools[0] {
						timed = append(timed, p)
					} else {
						rest = append(rest, p)
					}
				}
			}
		}
	}
	return timed, rest, nil
}

type drawn struct {
	source   Source
	seed     uint64
	workload sim.Workload
}

// workloads returns the synthetic workload of every seed, and the trace, once per seed if the
// setting is random.
func (c *Config) workloads(setting *setting) ([]drawn, error) {
	var list []drawn
	for seed := uint64(1); seed <= uint64(c.Seeds); seed++ {
		trace, err := c.Generate(setting.Kind, seed)
		if err != nil {
			return nil, err
		}
		list = append(list, drawn{
			Synthetic, seed, setting.apply("synthetic-"+string(setting.Kind), trace, sim.DefaultGPUsPerNode, seed),
		})
		if c.Trace != nil && (seed == 1 || setting.random()) {
			list = append(list, drawn{Trace, seed, setting.apply(c.TraceName, c.Trace, c.GPUsPerNode, seed)})
		}
	}
	return list, nil
}

func demandsOf(workload sim.Workload) []time.Duration {
	demands := make([]time.Duration, len(workload.Jobs))
	for i := range workload.Jobs {
		demands[i] = workload.Jobs[i].Demand
	}
	return demands
}

// The names of settings.
const (
	baselineSetting      = "baseline"
	heterogeneousSetting = "heterogeneous"
	etaSetting           = "eta-disturbance"
	bugSetting           = "bugs-and-kills"
	delaySetting         = "scaling-delay"
	batchSetting         = "batch"
)

// The names of the policies of the paper.
const (
	greedyPolicy  = "greedy"
	optimalPolicy = "optimal"
)

// setting is the conditions of a set of runs.
type setting struct {
	Name string // in results
	Kind workloads.SyntheticKind
	// MinDuration is the shortest duration of a job, for traces and for synthetic workloads.
	MinDuration  time.Duration
	Disturbance  sim.Disturbance
	ScalingDelay time.Duration
	// Batch submits all jobs at time 0, as hesrpt.Bound requires.
	Batch bool
	// Policies are the names of the policies to run; greedy is one of them.
	Policies []string
}

// variantPolicies returns the policies that are compared with optimal beyond the paper.
func variantPolicies() []string {
	return []string{"optimal-event", "optimal-preemptive", "hesrpt", catalog.MaxMin, "total-time", "fifo", "srpt"}
}

// batchPolicies returns the policies that are compared with the heSRPT bound.
func batchPolicies() []string {
	return []string{optimalPolicy, "optimal-preemptive", "hesrpt", "total-time", greedyPolicy, catalog.MaxMin, "fifo", "srpt"}
}

// settings returns the settings of section "Simulation" of the paper, and a batch for the bound.
func settings() []setting {
	const long = 5 * time.Minute
	both := []string{greedyPolicy, optimalPolicy}
	return []setting{
		{Name: baselineSetting, Kind: workloads.Baseline, MinDuration: long, Policies: append(both, variantPolicies()...)},
		{Name: heterogeneousSetting, Kind: workloads.Heterogeneous, Policies: both},
		{Name: etaSetting, Kind: workloads.Baseline, MinDuration: long, Policies: both, Disturbance: sim.Disturbance{ETAError: 0.10}},
		{
			Name: bugSetting, Kind: workloads.Baseline, MinDuration: long, Policies: both,
			Disturbance: sim.Disturbance{ETAError: 0.10, BugShare: 0.15, KillShare: 0.10},
		},
		{Name: delaySetting, Kind: workloads.Baseline, MinDuration: long, Policies: both, ScalingDelay: 15 * time.Second},
		{Name: batchSetting, Kind: workloads.Baseline, MinDuration: long, Policies: batchPolicies(), Batch: true},
	}
}

// Pools returns the paper's sizes of the pool, in nodes.
func Pools() []int { return []int{70, 90, 110, 130, 150, 170, 190} }

// apply returns a trace as the workload of the setting.
func (s *setting) apply(name string, trace sim.Trace, gpusPerNode int, seed uint64) sim.Workload {
	workload := sim.NewWorkload(name, trace, sim.WorkloadOptions{
		GPUsPerNode: gpusPerNode, MinDuration: s.MinDuration,
	})
	if s.Batch {
		for i := range workload.Jobs {
			workload.Jobs[i].Submit = 0
		}
	}
	if s.random() {
		workload = workload.Disturb(s.Disturbance, seed)
	}
	return workload
}

// random reports whether the jobs of a trace depend on the seed.
func (s *setting) random() bool { return s.Disturbance != sim.Disturbance{} }

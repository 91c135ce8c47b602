package experiments

import (
	"time"

	"github.com/elastalloc/elastalloc/sim"
)

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
	Kind sim.SyntheticKind
	// MinDuration is that of the jobs of a trace; Kind is drawn with the same limit.
	MinDuration  time.Duration
	Disturbance  sim.Disturbance
	ScalingDelay time.Duration
	// Batch submits all jobs at time 0, as sim.TotalTimeBound requires.
	Batch bool
	// Policies are the names of the policies to run; greedy is one of them.
	Policies []string
}

// variantPolicies returns the policies that are compared with optimal beyond the paper.
func variantPolicies() []string {
	return []string{"optimal-event", "optimal-preemptive", "hesrpt", sim.MaxMinPolicy, "total-time", "fifo", "srpt"}
}

// batchPolicies returns the policies that are compared with the heSRPT bound.
func batchPolicies() []string {
	return []string{optimalPolicy, "optimal-preemptive", "hesrpt", "total-time", greedyPolicy, sim.MaxMinPolicy, "fifo", "srpt"}
}

// settings are those of the paper's section "Simulation" and, for the bound, a batch.
func settings() []setting {
	const long = 5 * time.Minute
	both := []string{greedyPolicy, optimalPolicy}
	return []setting{
		{Name: baselineSetting, Kind: sim.Baseline, MinDuration: long, Policies: append(both, variantPolicies()...)},
		{Name: heterogeneousSetting, Kind: sim.Heterogeneous, Policies: both},
		{Name: etaSetting, Kind: sim.Baseline, MinDuration: long, Policies: both, Disturbance: sim.Disturbance{ETAError: 0.10}},
		{
			Name: bugSetting, Kind: sim.Baseline, MinDuration: long, Policies: both,
			Disturbance: sim.Disturbance{ETAError: 0.10, BugShare: 0.15, KillShare: 0.10},
		},
		{Name: delaySetting, Kind: sim.Baseline, MinDuration: long, Policies: both, ScalingDelay: 15 * time.Second},
		{Name: batchSetting, Kind: sim.Baseline, MinDuration: long, Policies: batchPolicies(), Batch: true},
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

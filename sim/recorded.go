package sim

import "math"

// recorded returns what really became of the jobs of a workload whose trace says when
// each started. The pool plays no part in it.
func recorded(workload Workload, policy Policy, config Config) *Result {
	r := &Result{
		Workload: workload.Name, Policy: policy.Name, Nodes: config.Nodes, Groups: config.Groups,
		Utilization: math.NaN(), Jobs: make([]JobResult, len(workload.Jobs)),
	}
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		r.Jobs[i] = JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), Smallest: job.smallest(), Alone: job.alone(config.Nodes),
			Submit: job.Submit, Start: *job.Started, End: *job.Started + job.RanFor, Unserved: *job.Started - job.Submit,
			Outcome: OutcomeCompleted,
		}
	}
	return r
}

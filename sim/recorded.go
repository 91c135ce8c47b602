package sim

import "math"

// recorded returns what really became of the jobs, whatever the pool and the restart time.
func recorded(workload Workload, policy Policy, config Config) *Result {
	r := &Result{
		Workload: workload.Name, Policy: policy.Name, Nodes: config.Nodes, Groups: config.Groups, NodeTypes: config.NodeTypes,
		Utilization: math.NaN(), Jobs: make([]JobResult, len(workload.Jobs)),
	}
	for i := range workload.Jobs {
		job := &workload.Jobs[i]
		result := JobResult{
			ID: job.ID, Group: job.Group, Weight: job.weight(), Smallest: job.smallest(), Alone: job.alone(&config),
			Submit: job.Submit, Start: job.Recorded[0].At, End: job.Recorded[len(job.Recorded)-1].At,
			Nodes: job.Recorded, Rescales: len(job.Recorded) - 2, Outcome: OutcomeCompleted,
		}
		result.Unserved = result.Start - result.Submit
		for n, held := range job.Recorded[:len(job.Recorded)-1] {
			if held.Nodes == 0 {
				result.Unserved += job.Recorded[n+1].At - held.At
			}
		}
		result.Moves = max(0, len(result.NodeTypes())-1)
		r.Jobs[i] = result
	}
	return r
}

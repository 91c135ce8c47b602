package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// suitsPartitions returns an error if a partition is too small for a job.
func suitsPartitions(w *Workload, policy *Policy, config *Config) error {
	withQuota := 0
	for _, team := range teamsOf(config.Groups) {
		withQuota += min(team.Quota, 1)
	}
	if withQuota == 0 || withQuota > config.Nodes {
		return fmt.Errorf("%d teams have a quota; the policy %s wants at least one, and a node for each of the pool's %d",
			withQuota, policy.Name, config.Nodes)
	}
	for _, partition := range w.partitions(config) {
		for _, i := range partition.jobs {
			if job := &w.Jobs[i]; job.smallest() > partition.nodes {
				return fmt.Errorf("job %q of %s needs at least %d nodes; the partition of %s has %d",
					job.ID, w.Name, job.smallest(), partition.team, partition.nodes)
			}
		}
	}
	return nil
}

// runPartitions simulates a policy in a partition of the pool for every team: its share of
// all quotas, never lent. Where the pool changes they do in proportion, rounded down.
func runPartitions(
	ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator,
) (*Result, error) {
	partitions := workload.partitions(&config)
	whole := newSimulation(workload, policy, config, allocator)
	result := whole.result()
	for _, partition := range partitions {
		config := config
		config.Nodes, config.Groups = partition.nodes, nil
		config.Resized = slices.Clone(config.Resized)
		for n := range config.Resized {
			nodes := &config.Resized[n].Nodes
			*nodes = *nodes * partition.nodes / whole.config.Nodes
		}
		part := workload
		part.Jobs = make([]WorkloadJob, len(partition.jobs))
		for n, i := range partition.jobs {
			part.Jobs[n] = workload.Jobs[i]
		}
		s := newSimulation(part, policy, config, allocator)
		if err := s.run(ctx); err != nil {
			return nil, fmt.Errorf("partition of %s: %w", partition.team, err)
		}
		for n, job := range s.result().Jobs {
			i := partition.jobs[n]
			job.Alone = result.Jobs[i].Alone // in the whole pool, as under every policy
			result.Jobs[i] = job
		}
		result.Decisions = append(result.Decisions, s.decisions...)
	}
	slices.SortStableFunc(result.Decisions, func(a, b Decision) int { return cmp.Compare(a.At, b.At) })
	result.Utilization = result.use(result.Nodes, func(NodesAt) bool { return true })
	return result, nil
}

// partition is a team's part of the pool.
type partition struct {
	team  string
	nodes int
	jobs  []int // of the workload
}

func (w *Workload) partitions(config *Config) []partition {
	teams := teamsOf(config.Groups)
	all := make([]partition, len(teams))
	shares := make([]float64, len(teams))
	for i, team := range teams {
		shares[i] = float64(team.Quota)
	}
	for i, nodes := range apportion(config.Nodes, shares) {
		all[i] = partition{team: teams[i].ID, nodes: nodes}
		for n := range w.Jobs {
			if w.Jobs[n].Group == teams[i].ID {
				all[i].jobs = append(all[i].jobs, n)
			}
		}
	}
	return slices.DeleteFunc(all, func(p partition) bool { return len(p.jobs) == 0 })
}

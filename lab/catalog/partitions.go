package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/lab/workloads"
	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// checkPartitions returns an error if a partition is too small for a job.
func checkPartitions(w *sim.Workload, config *sim.Config) error {
	if err := w.Check(config); err != nil {
		return err
	}
	withQuota := 0
	for _, team := range sim.Teams(config.Groups) {
		withQuota += min(team.Quota, 1)
	}
	switch {
	case config.Placer != nil || len(config.SizeLimits) > 0 || config.Unavailable > 0:
		return fmt.Errorf("the policy %s does not support machines", config.Name)
	case withQuota == 0 || withQuota > config.Nodes:
		return fmt.Errorf("%d teams have a quota; the policy %s needs at least one, and a node for each of the pool's %d",
			withQuota, config.Name, config.Nodes)
	}
	for _, t := range config.NodeTypes {
		if withQuota > t.Nodes {
			return fmt.Errorf("%d teams have a quota; the policy %s needs a node of type %q for each, of %d", withQuota, config.Name, t.ID, t.Nodes)
		}
	}
	for _, partition := range partitionsOf(w, config) {
		for _, i := range partition.jobs {
			job := &w.Jobs[i]
			if len(config.NodeTypes) > 0 {
				if !job.FitsTypes(partition.types) {
					return fmt.Errorf("job %q of %s has no size that fits a node type of the partition of %s", job.ID, w.Name, partition.team)
				}
				continue
			}
			if spec := job.SnapshotJob(); spec.LegalSizes()[0] > partition.nodes {
				return fmt.Errorf("job %q of %s needs at least %d nodes; the partition of %s has %d",
					job.ID, w.Name, spec.LegalSizes()[0], partition.team, partition.nodes)
			}
		}
	}
	return nil
}

// runPartitions simulates a policy in a separate partition for every team, in proportion to the quotas. If
// the size of the pool changes, partitions change in proportion, rounded down.
func runPartitions(
	ctx context.Context, workload sim.Workload, policy sim.Policy, config sim.Config, allocator sim.Allocator,
) (*sim.Result, error) {
	result := &sim.Result{
		Workload: workload.Name, Policy: config.Name, Nodes: config.Nodes, Groups: config.Groups, Jobs: make([]sim.JobResult, len(workload.Jobs)),
	}
	for _, partition := range partitionsOf(&workload, &config) {
		own := config
		own.Nodes, own.NodeTypes, own.Groups = partition.nodes, partition.types, nil
		own.Resized = slices.Clone(config.Resized)
		for n := range own.Resized {
			nodes := &own.Resized[n].Nodes
			*nodes = *nodes * partition.nodes / config.Nodes
		}
		part := workload
		part.Jobs = make([]sim.WorkloadJob, len(partition.jobs))
		for n, i := range partition.jobs {
			part.Jobs[n] = workload.Jobs[i]
		}
		of, err := sim.Run(ctx, part, policy, own, allocator)
		if err != nil {
			return nil, fmt.Errorf("partition of %s: %w", partition.team, err)
		}
		for n, i := range partition.jobs {
			result.Jobs[i] = of.Jobs[n]
		}
		result.Decisions = append(result.Decisions, of.Decisions...)
	}
	slices.SortStableFunc(result.Decisions, func(a, b sim.Decision) int { return cmp.Compare(a.At, b.At) })
	result.SetReferences(&workload, &config) // The references are times in the whole pool, as for other policies.
	return result, nil
}

// partition is the part of the pool of a team.
type partition struct {
	team  string
	nodes int
	types []solver.NodeType // empty in a pool without node types
	jobs  []int             // of the workload
}

func partitionsOf(w *sim.Workload, config *sim.Config) []partition {
	teams := sim.Teams(config.Groups)
	all := make([]partition, len(teams))
	shares := make([]float64, len(teams))
	for i, team := range teams {
		shares[i] = float64(team.Quota)
	}
	for i, nodes := range workloads.Apportion(config.Nodes, shares) {
		all[i] = partition{team: teams[i].ID, nodes: nodes}
		for _, t := range config.NodeTypes {
			t.Nodes = workloads.Apportion(t.Nodes, shares)[i]
			all[i].types = append(all[i].types, t)
		}
		if len(config.NodeTypes) > 0 {
			all[i].nodes = 0
			for _, t := range all[i].types {
				all[i].nodes += t.Nodes
			}
		}
		for n := range w.Jobs {
			if w.Jobs[n].Group == teams[i].ID {
				all[i].jobs = append(all[i].jobs, n)
			}
		}
	}
	return slices.DeleteFunc(all, func(p partition) bool { return len(p.jobs) == 0 })
}

package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/elastalloc/elastalloc/solver"
)

// AssignTeams returns the workload with its jobs assigned to teams team-1, team-2 and so on. It shuffles
// the users with the seed and assigns them to the teams in rotation. A job without a user counts as a
// separate user. AssignTeams returns an error if there are fewer users than teams. teams is at least 1.
func (w Workload) AssignTeams(teams int, seed uint64) (Workload, error) {
	team := make(map[string]string)
	users := make([]string, len(w.Jobs)) // of every job
	var all []string
	for i := range w.Jobs {
		users[i] = "user " + w.Jobs[i].User
		if w.Jobs[i].User == "" {
			users[i] = "job " + w.Jobs[i].ID
		}
		if _, seen := team[users[i]]; !seen {
			team[users[i]] = ""
			all = append(all, users[i])
		}
	}
	if teams > len(all) {
		return Workload{}, fmt.Errorf("%s has %d users; must be at least one for each of %d teams", w.Name, len(all), teams)
	}
	random := rand.New(rand.NewPCG(seed, streamTeams))
	random.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	digits := len(strconv.Itoa(teams))
	for n, user := range all {
		team[user] = fmt.Sprintf("team-%0*d", digits, n%teams+1)
	}
	w.Jobs = slices.Clone(w.Jobs)
	for i := range w.Jobs {
		w.Jobs[i].Group = team[users[i]]
	}
	return w, nil
}

// QuotaRule is a rule for dividing a pool into quotas.
type QuotaRule string

// The rules.
const (
	// QuotaByDemand makes quotas proportional to the demand of the jobs of a team, which is known only
	// in hindsight.
	QuotaByDemand QuotaRule = "demand"
	// QuotaEqual makes all quotas equal.
	QuotaEqual QuotaRule = "equal"
)

// Quotas returns the teams of the jobs in order of their names. Each has a quota of at least one node, and
// the quotas add up to nodes. Quotas returns an error if a job has no team or if there are more teams than
// nodes.
func (w *Workload) Quotas(rule QuotaRule, nodes int) ([]solver.Group, error) {
	share := make(map[string]float64)
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if job.Group == "" {
			return nil, fmt.Errorf("job %q of %s has no %s", job.ID, w.Name, columnGroup)
		}
		switch rule {
		case QuotaByDemand:
			share[job.Group] += job.Demand.Seconds()
		case QuotaEqual:
			share[job.Group] = 1
		default:
			return nil, fmt.Errorf("unknown rule %q for quotas", rule)
		}
	}
	if len(share) > nodes {
		return nil, fmt.Errorf("%s has %d teams; must be at most the %d nodes of the pool", w.Name, len(share), nodes)
	}
	groups, shares := make([]solver.Group, 0, len(share)), make([]float64, 0, len(share))
	for _, id := range slices.Sorted(maps.Keys(share)) {
		groups, shares = append(groups, solver.Group{ID: id}), append(shares, share[id])
	}
	for i, quota := range apportion(nodes, shares) {
		groups[i].Quota = quota
	}
	return groups, nil
}

// apportion divides nodes in proportion to shares by the largest remainder method. Shares are at least 0
// and not all 0. A positive share gets at least one node. There are at least as many nodes as positive
// shares.
func apportion(nodes int, shares []float64) []int {
	sum := 0.0
	for _, share := range shares {
		sum += share
	}
	parts, left := make([]int, len(shares)), nodes
	above := func(i int) float64 { return float64(parts[i]) - shares[i]/sum*float64(nodes) }
	for i, share := range shares {
		parts[i] = int(share / sum * float64(nodes))
		if share > 0 {
			parts[i] = max(parts[i], 1)
		}
		left -= parts[i]
	}
	for ; left != 0; left -= cmp.Compare(left, 0) {
		chosen := -1
		for i := range parts {
			switch {
			case left > 0 && shares[i] > 0 && (chosen < 0 || above(i) < above(chosen)):
				chosen = i
			case left < 0 && parts[i] > 1 && (chosen < 0 || above(i) > above(chosen)):
				chosen = i
			}
		}
		parts[chosen] += cmp.Compare(left, 0)
	}
	return parts
}

// teamsOf returns the teams, which are the leaves of the tree of groups, in their order.
func teamsOf(groups []solver.Group) []solver.Group {
	var teams []solver.Group
	for _, group := range groups {
		if !slices.ContainsFunc(groups, func(other solver.Group) bool { return other.ParentID == group.ID }) {
			teams = append(teams, group)
		}
	}
	return teams
}

// groupsAbove returns the indices of a group and of all its ancestors.
func groupsAbove(groups []solver.Group, id string) []int {
	if len(groups) == 0 {
		return nil
	}
	var list []int
	for id != "" {
		at := slices.IndexFunc(groups, func(group solver.Group) bool { return group.ID == id })
		list = append(list, at)
		id = groups[at].ParentID
	}
	return list
}

// nodeLimit returns the largest number of nodes that a job of a group can have in a pool.
func nodeLimit(pool int, groups []solver.Group, id string) int {
	for _, g := range groupsAbove(groups, id) {
		if limit := groups[g].Limit; limit != nil {
			pool = min(pool, *limit)
		}
	}
	return pool
}

// checkTeams returns an error if a job has no valid team or does not fit the limits.
func (w *Workload) checkTeams(policy *Policy, config *Config) error {
	if len(config.Groups) == 0 {
		if policy.NeedsTeams {
			return fmt.Errorf("the policy %s needs teams", policy.Name)
		}
		return nil
	}
	for g := range config.Groups {
		for _, limit := range config.Groups[g].TypeLimits {
			if !slices.ContainsFunc(config.NodeTypes, func(t solver.NodeType) bool { return t.ID == limit.NodeType }) {
				return fmt.Errorf("group %q has a limit for %q; must be one of the node types of the cluster", config.Groups[g].ID, limit.NodeType)
			}
		}
	}
	teams := teamsOf(config.Groups)
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if !slices.ContainsFunc(teams, func(team solver.Group) bool { return team.ID == job.Group }) {
			return fmt.Errorf("job %q of %s has the %s %q, which is none of the teams", job.ID, w.Name, columnGroup, job.Group)
		}
		smallest := job.smallestOnTypes(config.NodeTypes)
		allowed := func(to allocation) bool { return config.teamAllows(job.Group, to) }
		switch limit := nodeLimit(config.Nodes, config.Groups, job.Group); {
		case !policy.Teams:
		case len(smallest) > 0 && !slices.ContainsFunc(smallest, allowed):
			return fmt.Errorf("job %q of %s has no size that fits a node type within the limits of %s", job.ID, w.Name, job.Group)
		case len(config.NodeTypes) == 0 && job.minSize() > limit:
			return fmt.Errorf("job %q of %s needs at least %d nodes; the limits of %s allow %d", job.ID, w.Name, job.minSize(), job.Group, limit)
		}
	}
	return nil
}

// teamAllows reports whether the limits of a team and of the groups above it allow an allocation.
func (c *Config) teamAllows(team string, to allocation) bool {
	for _, g := range groupsAbove(c.Groups, team) {
		for _, limit := range c.Groups[g].TypeLimits {
			if limit.NodeType == to.nodeType && limit.Limit < to.nodes {
				return false
			}
		}
	}
	return to.nodes <= nodeLimit(c.Nodes, c.Groups, team)
}

// MaxTeamLimit is the largest factor for Limited.
const MaxTeamLimit = 1e6

// Limited returns the groups with limits of times their quotas, rounded.
func Limited(groups []solver.Group, times float64) []solver.Group {
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Limit = new(int(min(math.Round(times*float64(groups[i].Quota)), math.MaxInt32)))
	}
	return groups
}

// checkPartitions returns an error if a partition is too small for a job.
func checkPartitions(w *Workload, policy *Policy, config *Config) error {
	withQuota := 0
	for _, team := range teamsOf(config.Groups) {
		withQuota += min(team.Quota, 1)
	}
	if withQuota == 0 || withQuota > config.Nodes {
		return fmt.Errorf("%d teams have a quota; the policy %s needs at least one, and a node for each of the pool's %d",
			withQuota, policy.Name, config.Nodes)
	}
	for _, t := range config.NodeTypes {
		if withQuota > t.Nodes {
			return fmt.Errorf("%d teams have a quota; the policy %s needs a node of type %q for each, of %d", withQuota, policy.Name, t.ID, t.Nodes)
		}
	}
	for _, partition := range w.partitions(config) {
		for _, i := range partition.jobs {
			job := &w.Jobs[i]
			if len(config.NodeTypes) > 0 {
				if len(job.smallestOnTypes(partition.types)) == 0 {
					return fmt.Errorf("job %q of %s has no size that fits a node type of the partition of %s", job.ID, w.Name, partition.team)
				}
				continue
			}
			if job.minSize() > partition.nodes {
				return fmt.Errorf("job %q of %s needs at least %d nodes; the partition of %s has %d",
					job.ID, w.Name, job.minSize(), partition.team, partition.nodes)
			}
		}
	}
	return nil
}

// runPartitions simulates a policy in a separate partition for every team, in proportion to the quotas. If
// the size of the pool changes, partitions change in proportion, rounded down.
func runPartitions(
	ctx context.Context, workload Workload, policy Policy, config Config, allocator Allocator,
) (*Result, error) {
	partitions := workload.partitions(&config)
	whole := newSimulation(workload, policy, config, allocator)
	result := whole.result()
	for _, partition := range partitions {
		config := config
		config.Nodes, config.NodeTypes, config.Groups = partition.nodes, partition.types, nil
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
			job.Alone = result.Jobs[i].Alone // Alone in the whole pool, as for other policies.
			result.Jobs[i] = job
		}
		result.Decisions = append(result.Decisions, s.decisions...)
	}
	slices.SortStableFunc(result.Decisions, func(a, b Decision) int { return cmp.Compare(a.At, b.At) })
	result.Utilization = result.meanUtilization(result.Nodes, func(NodesAt) bool { return true })
	return result, nil
}

// partition is the part of the pool of a team.
type partition struct {
	team  string
	nodes int
	types []solver.NodeType // empty in a pool without node types
	jobs  []int             // of the workload
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
		for _, t := range config.NodeTypes {
			t.Nodes = apportion(t.Nodes, shares)[i]
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

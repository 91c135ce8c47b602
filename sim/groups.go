package sim

import (
	"fmt"
	"slices"

	"github.com/elastalloc/elastalloc/solver"
)

// Teams returns the teams, which are the leaves of the tree of groups, in their order.
func Teams(groups []solver.Group) []solver.Group {
	var teams []solver.Group
	for _, group := range groups {
		if !slices.ContainsFunc(groups, func(other solver.Group) bool { return other.ParentID == group.ID }) {
			teams = append(teams, group)
		}
	}
	return teams
}

// GroupsAbove returns the indices of a group and of all its ancestors.
func GroupsAbove(groups []solver.Group, id string) []int {
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
	for _, g := range GroupsAbove(groups, id) {
		if limit := groups[g].Limit; limit != nil {
			pool = min(pool, *limit)
		}
	}
	return pool
}

// checkGroups returns an error if a job has no valid team or does not fit the limits.
func (w *Workload) checkGroups(config *Config) error {
	if len(config.Groups) == 0 {
		return nil
	}
	for g := range config.Groups {
		for _, limit := range config.Groups[g].TypeLimits {
			if !slices.ContainsFunc(config.NodeTypes, func(t solver.NodeType) bool { return t.ID == limit.NodeType }) {
				return fmt.Errorf("group %q has a limit for %q; must be one of the node types of the cluster", config.Groups[g].ID, limit.NodeType)
			}
		}
	}
	teams := Teams(config.Groups)
	for i := range w.Jobs {
		job := &w.Jobs[i]
		if !slices.ContainsFunc(teams, func(team solver.Group) bool { return team.ID == job.Group }) {
			return fmt.Errorf("job %q of %s has the %s %q, which is none of the teams", job.ID, w.Name, columnGroup, job.Group)
		}
		smallest := job.smallestOnTypes(config.NodeTypes)
		allowed := func(to allocation) bool { return config.teamAllows(job.Group, to) }
		switch limit := nodeLimit(config.Nodes, config.Groups, job.Group); {
		case !config.GroupLimits:
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
	for _, g := range GroupsAbove(c.Groups, team) {
		for _, limit := range c.Groups[g].TypeLimits {
			if limit.NodeType == to.nodeType && limit.Limit < to.nodes {
				return false
			}
		}
	}
	return to.nodes <= nodeLimit(c.Nodes, c.Groups, team)
}

package snapshot

import (
	"iter"
	"slices"
)

// FrozenJobs are the jobs of a snapshot that keep their nodes because they have invalid fields.
type FrozenJobs struct {
	snapshot *Snapshot
	groups   GroupTree
	// bad has the invalid fields of each frozen job, by its position in the snapshot.
	bad map[int][]Violation
}

// FreezeBadJobs removes the jobs with invalid fields and the nodes that they occupy from a snapshot,
// which has its defaults, and from its limits. It returns s itself if all jobs are valid. It also returns s if an id is too
// long for a response. Validate then rejects the snapshot.
func (s *Snapshot) FreezeBadJobs() (*Snapshot, FrozenJobs) {
	tree := s.GroupTree()
	frozen := FrozenJobs{snapshot: s, groups: tree, bad: make(map[int][]Violation)}
	if s.validateIDs(new(Violations)) {
		return s, frozen
	}
	first := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		var bad Violations
		if s.validateJob(i, first, tree, &bad); len(bad) > 0 {
			frozen.bad[i] = bad
		}
	}
	if len(frozen.bad) == 0 {
		return s, frozen
	}
	rest := *s
	rest.Groups, rest.NodeTypes, rest.SizeLimits = slices.Clone(s.Groups), slices.Clone(s.NodeTypes), slices.Clone(s.SizeLimits)
	rest.Jobs = make([]Job, 0, len(s.Jobs)-len(frozen.bad))
	for i := range s.Jobs {
		if frozen.bad[i] == nil {
			rest.Jobs = append(rest.Jobs, s.Jobs[i])
			continue
		}
		nodes := max(0, s.Jobs[i].CurrentNodes)
		rest.reserve(nodes, s.Jobs[i].CurrentNodeType)
		for n := range rest.SizeLimits {
			limit := &rest.SizeLimits[n]
			if counted := s.CountedNodes(limit, i, s.Jobs[i].CurrentNodeType, nodes); limit.Nodes > 0 {
				limit.Nodes = max(0, limit.Nodes-counted)
			}
		}
		for g := range tree.Ancestors(s.Jobs[i].GroupID) {
			rest.Groups[g].reserve(nodes)
		}
	}
	return &rest, frozen
}

// reserve subtracts the nodes of a frozen job from the pool and from their node type, if it is known.
// An invalid number of nodes stays invalid.
func (s *Snapshot) reserve(nodes int, nodeType string) {
	if g := s.TypeIndex(nodeType); g >= 0 {
		nodes = min(nodes, max(0, s.NodeTypes[g].Nodes))
		s.NodeTypes[g].Nodes -= nodes
	} else if len(s.NodeTypes) > 0 {
		return
	}
	if s.TotalNodes > 0 {
		s.TotalNodes = max(0, s.TotalNodes-nodes)
	}
}

// reserve subtracts the nodes of a frozen job from the limit and the quota of a group. An invalid limit
// or quota stays invalid.
func (g *Group) reserve(nodes int) {
	if g.Limit != nil && *g.Limit > 0 {
		g.Limit = new(max(0, *g.Limit-nodes))
	}
	if g.Quota > 0 {
		g.Quota = max(0, g.Quota-nodes)
	}
}

// Contains reports whether job i of the snapshot is frozen.
func (h FrozenJobs) Contains(i int) bool { return h.bad[i] != nil }

// Any reports whether any job is frozen.
func (h FrozenJobs) Any() bool { return len(h.bad) > 0 }

// Violations returns the invalid fields of job i of the snapshot, nil if it is not frozen.
func (h FrozenJobs) Violations(i int) []Violation { return h.bad[i] }

// Snapshot returns the snapshot including the frozen jobs.
func (h FrozenJobs) Snapshot() *Snapshot { return h.snapshot }

// GroupAncestors yields the positions of the group with the given id and of its ancestors.
func (h FrozenJobs) GroupAncestors(id string) iter.Seq[int] { return h.groups.Ancestors(id) }

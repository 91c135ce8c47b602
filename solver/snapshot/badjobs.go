package snapshot

import (
	"iter"
	"slices"
)

// FrozenJobs are the jobs of a snapshot that keep their nodes because they have bad fields.
type FrozenJobs struct {
	snapshot *Snapshot
	groups   GroupTree
	// bad are the bad fields by the job's position in the snapshot.
	bad map[int][]Violation
}

// FreezeBadJobs takes the jobs with bad fields, and the nodes they hold, out of a snapshot that
// has its defaults. It returns s itself where all jobs are good, and where an id is too long
// to be named in an answer, so that Validate refuses it.
func (s *Snapshot) FreezeBadJobs() (*Snapshot, FrozenJobs) {
	tree := s.GroupTree()
	held := FrozenJobs{snapshot: s, groups: tree, bad: make(map[int][]Violation)}
	if s.validateIDs(new(Violations)) {
		return s, held
	}
	first := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		var bad Violations
		if s.validateJob(i, first, tree, &bad); len(bad) > 0 {
			held.bad[i] = bad
		}
	}
	if len(held.bad) == 0 {
		return s, held
	}
	rest := *s
	rest.Groups, rest.NodeTypes = slices.Clone(s.Groups), slices.Clone(s.NodeTypes)
	rest.Jobs = make([]Job, 0, len(s.Jobs)-len(held.bad))
	for i := range s.Jobs {
		if held.bad[i] == nil {
			rest.Jobs = append(rest.Jobs, s.Jobs[i])
			continue
		}
		nodes := max(0, s.Jobs[i].CurrentNodes)
		rest.reserve(nodes, s.Jobs[i].CurrentNodeType)
		for g := range tree.Ancestors(s.Jobs[i].GroupID) {
			rest.Groups[g].reserve(nodes)
		}
	}
	return &rest, held
}

// reserve takes the nodes that a held job keeps out of the pool, and those of a known type out of
// that. What is not valid stays so.
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

// reserve takes the nodes that a held job keeps out of the limit and the quota of a group.
// What is not valid stays so.
func (g *Group) reserve(nodes int) {
	if g.Limit != nil && *g.Limit > 0 {
		g.Limit = new(max(0, *g.Limit-nodes))
	}
	if g.Quota > 0 {
		g.Quota = max(0, g.Quota-nodes)
	}
}

// Contains reports whether job i of the snapshot is held.
func (h FrozenJobs) Contains(i int) bool { return h.bad[i] != nil }

// Any reports whether any job is held.
func (h FrozenJobs) Any() bool { return len(h.bad) > 0 }

// Violations returns the bad fields of job i of the snapshot, nil if it is not held.
func (h FrozenJobs) Violations(i int) []Violation { return h.bad[i] }

// Snapshot returns the snapshot with the held jobs.
func (h FrozenJobs) Snapshot() *Snapshot { return h.snapshot }

// GroupAncestors yields the positions of the group of an id and of those that it is part of.
func (h FrozenJobs) GroupAncestors(id string) iter.Seq[int] { return h.groups.Ancestors(id) }

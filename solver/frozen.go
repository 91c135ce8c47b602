package solver

import (
	"fmt"
	"iter"
	"slices"
)

// FrozenJobs are the jobs of a snapshot that keep their nodes and are not decided: jobs with Keep, and
// jobs with invalid fields if they do not invalidate the snapshot.
type FrozenJobs struct {
	snapshot *Snapshot
	groups   GroupTree
	// frozen has the invalid fields of each frozen job, by its position in the snapshot. They are empty,
	// not nil, for a job with Keep.
	frozen map[int]Violations
}

// Freeze removes the frozen jobs and the nodes that they occupy from a snapshot, which has its defaults,
// and from its limits. If badJobs is set, several jobs with one id are one frozen job: the one with the most
// CurrentNodes, at the position of the first. FrozenJobs.Snapshot has one job per id then. It returns s
// itself if no job is frozen. It also returns s if Validate rejects the snapshot because of a job, unless
// badJobs freezes such jobs, or because of an id that is too long for a response. A pool whose sum of node
// types is wrong stays as it is.
func (s *Snapshot) Freeze(badJobs bool) (*Snapshot, FrozenJobs) {
	tree := s.GroupTree()
	none := FrozenJobs{snapshot: s, groups: tree}
	if !badJobs && !s.keepsJobs() || s.validateIDs(new(Violations)) {
		return s, none
	}
	if badJobs {
		s = s.mergeDuplicates()
		none.snapshot = s
	}
	frozen := make(map[int]Violations)
	first := make(map[string]int, len(s.Jobs))
	for i := range s.Jobs {
		bad := Violations{}
		s.validateJob(i, first, tree, &bad)
		if len(bad) > 0 && !badJobs {
			return s, none
		}
		if len(bad) > 0 || s.Jobs[i].Keep {
			frozen[i] = bad
		}
	}
	if len(frozen) == 0 {
		return s, none
	}
	rest, wrong := *s, s.wrongTotal() // A wrong sum might become right.
	rest.Groups, rest.NodeTypes, rest.SizeLimits = slices.Clone(s.Groups), slices.Clone(s.NodeTypes), slices.Clone(s.SizeLimits)
	rest.Jobs = make([]Job, 0, len(s.Jobs)-len(frozen))
	for i := range s.Jobs {
		if frozen[i] == nil {
			rest.Jobs = append(rest.Jobs, s.Jobs[i])
			continue
		}
		nodes := max(0, s.Jobs[i].CurrentNodes)
		if !wrong {
			rest.reserve(nodes, s.Jobs[i].CurrentNodeType)
		}
		for n := range rest.SizeLimits {
			limit := &rest.SizeLimits[n]
			if counted := s.CountedNodes(limit, i, s.Jobs[i].CurrentNodeType, nodes); limit.Nodes > 0 {
				limit.Nodes = max(0, limit.Nodes-counted)
			}
		}
		for g := range tree.Ancestors(s.Jobs[i].GroupID) {
			rest.Groups[g].reserve(nodes, s.Jobs[i].CurrentNodeType)
		}
	}
	return &rest, FrozenJobs{snapshot: s, groups: tree, frozen: frozen}
}

// keepsJobs reports whether a job has Keep. slices.ContainsFunc would copy every job.
func (s *Snapshot) keepsJobs() bool {
	for i := range s.Jobs {
		if s.Jobs[i].Keep {
			return true
		}
	}
	return false
}

// MergedJobs returns the positions of the jobs that stand for all jobs of their id, see Freeze: of several
// jobs with one id, the one with the most nodes, at the place of the first. id and nodes return those of the
// job at a position. An empty id is no id.
func MergedJobs(jobs int, id func(i int) string, nodes func(i int) int) []int {
	first := make(map[string]int, jobs) // places in merged by id
	merged := make([]int, 0, jobs)
	for i := range jobs {
		place, seen := first[id(i)]
		switch {
		case !seen || id(i) == "":
			first[id(i)] = len(merged)
			merged = append(merged, i)
		case nodes(i) > nodes(merged[place]):
			merged[place] = i
		}
	}
	return merged
}

// mergeDuplicates returns the snapshot with one job per id, see Freeze. The Bad of such a job states the
// positions of the others. It returns s itself if all ids differ.
func (s *Snapshot) mergeDuplicates() *Snapshot {
	positions := MergedJobs(len(s.Jobs), func(i int) string { return s.Jobs[i].ID }, func(i int) int { return s.Jobs[i].CurrentNodes })
	if len(positions) == len(s.Jobs) {
		return s
	}
	merged := *s
	merged.Jobs = make([]Job, len(positions))
	place := make(map[string]int, len(positions))
	for n, i := range positions {
		merged.Jobs[n], place[s.Jobs[i].ID] = s.Jobs[i], n
	}
	for i := range s.Jobs {
		n := place[s.Jobs[i].ID]
		if job := &merged.Jobs[n]; job.ID != "" && positions[n] != i {
			job.Bad = append(slices.Clone(job.Bad), Violation{
				Path: "id", Description: fmt.Sprintf("is %q like jobs[%d].id; ids must be unique", job.ID, i),
			})
		}
	}
	return &merged
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

// reserve subtracts the nodes of a frozen job from the limits and the quota of a group. An invalid limit
// or quota stays invalid.
func (g *Group) reserve(nodes int, nodeType string) {
	for n, limit := range g.TypeLimits {
		if limit.NodeType == nodeType && limit.Limit > 0 {
			g.TypeLimits = slices.Clone(g.TypeLimits)
			g.TypeLimits[n].Limit = max(0, limit.Limit-nodes)
		}
	}
	if g.Limit != nil && *g.Limit > 0 {
		g.Limit = new(max(0, *g.Limit-nodes))
	}
	if g.Quota > 0 {
		g.Quota = max(0, g.Quota-nodes)
	}
}

// Contains reports whether job i of the snapshot is frozen.
func (h FrozenJobs) Contains(i int) bool { return h.frozen[i] != nil }

// Any reports whether any job is frozen.
func (h FrozenJobs) Any() bool { return len(h.frozen) > 0 }

// Violations returns the invalid fields of job i of the snapshot. They are empty if it is not frozen, or
// frozen because of Keep alone.
func (h FrozenJobs) Violations(i int) []Violation { return h.frozen[i] }

// Snapshot returns the snapshot including the frozen jobs.
func (h FrozenJobs) Snapshot() *Snapshot { return h.snapshot }

// GroupAncestors yields the positions of the group with the given id and of its ancestors.
func (h FrozenJobs) GroupAncestors(id string) iter.Seq[int] { return h.groups.Ancestors(id) }

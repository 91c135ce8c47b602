package solver

import (
	"fmt"
	"slices"
	"strings"
)

// FrozenJobs are the jobs of a snapshot that keep their nodes and are not decided: jobs with Keep, and
// jobs with invalid fields if they do not invalidate the snapshot.
type FrozenJobs struct {
	snapshot *Snapshot
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
	none := FrozenJobs{snapshot: s}
	if !badJobs && !s.keepsJobs() || s.validateIDs(new(Violations)) {
		return s, none
	}
	var positions []int
	if badJobs {
		s, positions = s.mergeDuplicates()
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
		for n := range bad { // The paths are those of the request.
			rest := strings.TrimPrefix(bad[n].Path, fmt.Sprintf("jobs[%d]", i))
			bad[n].Path = fmt.Sprintf("jobs[%d]%s", positions[i], rest)
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
	return &rest, FrozenJobs{snapshot: s, frozen: frozen}
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

// mergeDuplicates returns the snapshot with one job per id, see Freeze, and the positions of these jobs in s. The
// Bad of such a job states the positions of the others. It returns s itself if all ids differ. An empty id is no id.
func (s *Snapshot) mergeDuplicates() (*Snapshot, []int) {
	place := make(map[string]int, len(s.Jobs)) // in positions, by id
	positions := make([]int, 0, len(s.Jobs))
	for i := range s.Jobs {
		job := &s.Jobs[i]
		if n, seen := place[job.ID]; !seen || job.ID == "" {
			place[job.ID] = len(positions)
			positions = append(positions, i)
		} else if job.CurrentNodes > s.Jobs[positions[n]].CurrentNodes {
			positions[n] = i
		}
	}
	if len(positions) == len(s.Jobs) {
		return s, positions
	}
	merged := *s
	merged.Jobs = make([]Job, len(positions))
	for n, i := range positions {
		merged.Jobs[n] = s.Jobs[i]
	}
	for i := range s.Jobs {
		n := place[s.Jobs[i].ID]
		if job := &merged.Jobs[n]; job.ID != "" && positions[n] != i {
			job.Bad = append(slices.Clone(job.Bad), Violation{
				Path: "id", Description: fmt.Sprintf("is %q like jobs[%d].id; ids must be unique", job.ID, i),
			})
		}
	}
	return &merged, positions
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

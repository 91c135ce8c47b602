package solver

import (
	"fmt"
	"iter"
	"slices"
)

// Groups are teams that share one pool. They form a forest. A job belongs to a leaf group and counts
// towards that group and all of its ancestors. The jobs of a group never get more nodes than its limit.
// Its quota is a soft minimum: each node below it has a price. So other groups can use the nodes while
// the group does not need them, and return them when the price exceeds the value of keeping them.

// Group is a team, or a department that consists of other groups.
type Group struct {
	// ID is unique among the groups and not empty.
	ID string
	// ParentID is the id of the parent group. "" means none.
	ParentID string
	// Limit is the maximum number of nodes that the jobs of the group and its descendants occupy
	// together. Nil means no limit. Their current nodes may exceed it.
	Limit *int
	// Quota is the number of nodes that these jobs are entitled to if they can use them. The sum of
	// all quotas may exceed the pool.
	Quota int
	// TypeLimits are limits on the nodes of single types, in addition to Limit. Nil means none.
	TypeLimits []GroupTypeLimit
}

// GroupTypeLimit is the limit of a group on the nodes of one type.
type GroupTypeLimit struct {
	// NodeType is one of Snapshot.NodeTypes.
	NodeType string
	// Limit is the maximum number of nodes of the type that the jobs of the group and its descendants occupy
	// together. At least 0.
	Limit int
}

// GroupTree has the parent relation of the groups of a snapshot. Groups are identified by position.
type GroupTree struct {
	groups []Group
	// Parents are the positions of the parents, -1 for a group without a known parent.
	Parents []int
	// inner reports for each group whether it has children.
	inner []bool
	// byID is the position of the first group with each id.
	byID map[string]int
}

// GroupTree returns the group tree of a snapshot, which need not be valid.
func (s *Snapshot) GroupTree() GroupTree {
	tree := GroupTree{groups: s.Groups}
	if len(s.Groups) == 0 {
		return tree
	}
	tree.Parents, tree.inner = make([]int, len(s.Groups)), make([]bool, len(s.Groups))
	tree.byID = make(map[string]int, len(s.Groups))
	for i := range s.Groups {
		if _, seen := tree.byID[s.Groups[i].ID]; !seen {
			tree.byID[s.Groups[i].ID] = i
		}
	}
	for i := range s.Groups {
		tree.Parents[i] = tree.Find(s.Groups[i].ParentID)
		if parent := tree.Parents[i]; parent >= 0 {
			tree.inner[parent] = true
		}
	}
	return tree
}

// Find returns the position of the group with the given id, -1 if there is none.
func (tree *GroupTree) Find(id string) int {
	if i, known := tree.byID[id]; known && id != "" {
		return i
	}
	return -1
}

// Ancestors yields the positions of the group with the given id and of its known ancestors. The tree
// need not be valid.
func (tree *GroupTree) Ancestors(id string) iter.Seq[int] {
	return func(yield func(int) bool) {
		depth := 0
		for g := tree.Find(id); g >= 0 && depth < MaxGroupDepth; g = tree.Parents[g] {
			if !yield(g) {
				return
			}
			depth++
		}
	}
}

// cyclic is the depth of a group whose ancestors form a cycle.
const cyclic = -1

// depth returns the number of groups on the path from the root to a group, including both. known caches
// the depths, 0 for unknown depths.
func (tree *GroupTree) depth(group int, known []int) int {
	if known[group] != 0 {
		return known[group]
	}
	depth := 1
	if parent := tree.Parents[group]; parent >= 0 {
		known[group] = cyclic // It stays so if the path leads back here.
		if depth = tree.depth(parent, known); depth != cyclic {
			depth++
		}
	}
	known[group] = depth
	return depth
}

func (s *Snapshot) validateGroups(tree GroupTree, bad *Violations) {
	depths := make([]int, len(s.Groups))
	for i := range s.Groups {
		if bad.full() {
			return
		}
		group, path := &s.Groups[i], fmt.Sprintf("groups[%d]", i)
		if group.ID == "" {
			bad.Addf(path+".id", "is empty; every group needs an id")
		} else if other := tree.byID[group.ID]; other != i {
			bad.Addf(path+".id", "is %q like groups[%d].id; ids must be unique", group.ID, other)
		}
		if group.Limit != nil {
			bad.checkNodes(path+".limit", *group.Limit, 0)
		}
		bad.checkNodes(path+".quota", group.Quota, 0)
		s.validateTypeLimits(group, path, bad)
		if group.ParentID != "" && tree.Parents[i] < 0 {
			bad.Addf(path+".parent_id", "is %q; must be the id of a group", group.ParentID)
			continue
		}
		switch depth := tree.depth(i, depths); {
		case depth == cyclic:
			bad.Addf(path+".parent_id", "is %q, whose parents form a cycle; groups must form a tree", group.ParentID)
		case depth > MaxGroupDepth:
			bad.Addf(path+".parent_id", "is %q, which puts the group at depth %d; must be at most %d", group.ParentID, depth, MaxGroupDepth)
		}
	}
}

// validateTypeLimits reports the bad limits of a group on nodes of single types.
func (s *Snapshot) validateTypeLimits(group *Group, path string, bad *Violations) {
	if len(group.TypeLimits) > 0 && len(s.NodeTypes) == 0 {
		bad.Addf(path+".type_limits", "is set; must be empty, because the snapshot has no node types")
		return
	}
	if len(group.TypeLimits) > MaxNodeTypes {
		bad.Addf(path+".type_limits", "has %d entries; must have at most one per node type", len(group.TypeLimits))
		return
	}
	for n, limit := range group.TypeLimits {
		path := fmt.Sprintf("%s.type_limits[%d]", path, n)
		s.checkNodeType(path+".node_type", limit.NodeType, bad)
		same := func(other GroupTypeLimit) bool { return other.NodeType == limit.NodeType }
		if first := slices.IndexFunc(group.TypeLimits, same); first != n {
			bad.Addf(path+".node_type", "is %q like type_limits[%d].node_type; must be unique", limit.NodeType, first)
		}
		bad.checkNodes(path+".limit", limit.Limit, 0)
	}
}

// validateJob reports a job whose group is not a leaf group.
func (tree *GroupTree) validateJob(job *Job, bad *Violations) {
	if len(tree.groups) == 0 {
		return
	}
	switch group := tree.Find(job.GroupID); {
	case job.GroupID == "":
		bad.Addf(".group_id", "is empty; every job needs a group if there are groups")
	case group < 0:
		bad.Addf(".group_id", "is %q; must be the id of a group", job.GroupID)
	case tree.inner[group]:
		bad.Addf(".group_id", "is %q, which has child groups; must be a group without children", job.GroupID)
	}
}

package snapshot

import (
	"fmt"
	"iter"
)

// Groups are teams that share one pool. They form a forest: a job belongs to a group that
// no other is part of, and counts towards that group and all above it. The jobs of a
// group never hold more nodes than its limit. Its quota is a soft floor: each node short
// of it costs a price, so that others use the nodes while they are not needed, and give
// them back one by one as that pays.

// Group is a team, or a department of several.
type Group struct {
	// ID is unique among the groups and not empty.
	ID string
	// ParentID is the group that this one is part of; "" means none.
	ParentID string
	// Limit is the most nodes that the jobs of the group and of all groups within it hold
	// together; nil means no limit. Their present nodes may exceed it.
	Limit *int
	// Quota is the number of nodes that they have a claim to while they can use them; all
	// quotas together may exceed the pool.
	Quota int
}

// GroupTree is the groups of a snapshot by their position in it.
type GroupTree struct {
	groups []Group
	// Parents are the positions of the groups that groups are part of, -1 for a group that is
	// part of none, or of none that is known.
	Parents []int
	// inner says of a group that others are part of it.
	inner []bool
	// byID has the first group of each id.
	byID map[string]int
}

// GroupTree returns the groups of a snapshot, which need not be valid.
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

// Find returns the group of an id, -1 where there is none.
func (tree *GroupTree) Find(id string) int {
	if i, known := tree.byID[id]; known && id != "" {
		return i
	}
	return -1
}

// Ancestors yields the group of an id and those it is part of, as far as they are known. The
// tree need not be valid.
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

// cyclic is the depth of a group whose parents lead round in a circle.
const cyclic = -1

// depth returns the number of groups from one up to one without a parent, itself included.
// known has those that were asked for before, 0 for the others.
func (tree *GroupTree) depth(group int, known []int) int {
	if known[group] != 0 {
		return known[group]
	}
	depth := 1
	if parent := tree.Parents[group]; parent >= 0 {
		known[group] = cyclic // So it is if the way up comes back here.
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
		if group.ParentID != "" && tree.Parents[i] < 0 {
			bad.Addf(path+".parent_id", "is %q, which no group has for an id", group.ParentID)
			continue
		}
		switch depth := tree.depth(i, depths); {
		case depth == cyclic:
			bad.Addf(path+".parent_id", "is %q, whose parents lead round in a circle; want a tree", group.ParentID)
		case depth > MaxGroupDepth:
			bad.Addf(path+".parent_id", "is %q, which puts the group at depth %d; want at most %d", group.ParentID, depth, MaxGroupDepth)
		}
	}
}

// validateJob reports a job that names no group that jobs can belong to.
func (tree *GroupTree) validateJob(job *Job, bad *Violations) {
	if len(tree.groups) == 0 {
		return
	}
	switch group := tree.Find(job.GroupID); {
	case job.GroupID == "":
		bad.Addf(".group_id", "is empty; every job needs a group where there are groups")
	case group < 0:
		bad.Addf(".group_id", "is %q, which no group has for an id", job.GroupID)
	case tree.inner[group]:
		bad.Addf(".group_id", "is %q, which other groups are part of; jobs belong to one that none is part of", job.GroupID)
	}
}

package solver

import "fmt"

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
	// Quota is the number of nodes that they have a claim to while they can use them. The
	// quotas of all groups may exceed the pool.
	Quota int
}

// GroupReport is what a decision means for a group.
type GroupReport struct {
	// ID is that of the group.
	ID string
	// Nodes are what its jobs and those of all groups within it hold from now on.
	Nodes int
	// Short is how many nodes that is below the quota, or below what the admission lets
	// them hold at most if that is less.
	Short int
	// Price is what one more node of the group's limit is worth, in units of the objective;
	// 0 where the limit does not bind and where no search was made.
	Price float64
}

// groupTree is the groups of a snapshot by their position in it.
type groupTree struct {
	groups []Group
	// parents are -1 where a group has none, or none that is known.
	parents []int
	// inner says of a group that others are part of it.
	inner []bool
	// byID has the first group of each id.
	byID map[string]int
}

// groupTree returns the groups of a snapshot, which need not be valid.
func (s *Snapshot) groupTree() groupTree {
	tree := groupTree{groups: s.Groups}
	if len(s.Groups) == 0 {
		return tree
	}
	tree.parents, tree.inner = make([]int, len(s.Groups)), make([]bool, len(s.Groups))
	tree.byID = make(map[string]int, len(s.Groups))
	for i := range s.Groups {
		if _, seen := tree.byID[s.Groups[i].ID]; !seen {
			tree.byID[s.Groups[i].ID] = i
		}
	}
	for i := range s.Groups {
		tree.parents[i] = tree.find(s.Groups[i].ParentID)
		if parent := tree.parents[i]; parent >= 0 {
			tree.inner[parent] = true
		}
	}
	return tree
}

// find returns the group of an id, -1 where there is none.
func (tree *groupTree) find(id string) int {
	if i, known := tree.byID[id]; known && id != "" {
		return i
	}
	return -1
}

// cyclic is the depth of a group whose parents lead round in a circle.
const cyclic = -1

// depths returns the number of groups from each one up to one without a parent, itself
// included.
func (tree *groupTree) depths() []int {
	const onTheWay = -2
	depths := make([]int, len(tree.groups))
	var way []int
	for i := range depths {
		way = way[:0]
		at := i
		for at >= 0 && depths[at] == 0 {
			depths[at] = onTheWay
			way = append(way, at)
			at = tree.parents[at]
		}
		above := 0
		if at >= 0 {
			above = depths[at]
		}
		for n := len(way) - 1; n >= 0; n-- {
			if above < 0 {
				above = cyclic
			} else {
				above++
			}
			depths[way[n]] = above
		}
	}
	return depths
}

// validateGroups reports the bad fields of the groups of a snapshot.
func (s *Snapshot) validateGroups(tree groupTree, bad *violations) {
	depths := tree.depths()
	for i := range s.Groups {
		if bad.full() {
			return
		}
		group, path := &s.Groups[i], fmt.Sprintf("groups[%d]", i)
		if group.ID == "" {
			bad.addf(path+".id", "is empty; every group needs an id")
		} else if other := tree.byID[group.ID]; other != i {
			bad.addf(path+".id", "is %q like groups[%d].id; ids must be unique", group.ID, other)
		}
		if group.Limit != nil {
			bad.checkNodes(path+".limit", *group.Limit, 0)
		}
		bad.checkNodes(path+".quota", group.Quota, 0)
		if group.ParentID != "" && tree.parents[i] < 0 {
			bad.addf(path+".parent_id", "is %q, which no group has for an id", group.ParentID)
			continue
		}
		switch depth := depths[i]; {
		case depth == cyclic:
			bad.addf(path+".parent_id", "is %q, whose parents lead round in a circle; want a tree", group.ParentID)
		case depth > MaxGroupDepth:
			bad.addf(path+".parent_id", "is %q, which puts the group at depth %d; want at most %d", group.ParentID, depth, MaxGroupDepth)
		}
	}
}

// validateJob reports a job that names no group that jobs can belong to.
func (tree *groupTree) validateJob(job *Job, path string, bad *violations) {
	if len(tree.groups) == 0 {
		return
	}
	switch group := tree.find(job.GroupID); {
	case job.GroupID == "":
		bad.addf(path+".group_id", "is empty; every job needs a group where there are groups")
	case group < 0:
		bad.addf(path+".group_id", "is %q, which no group has for an id", job.GroupID)
	case tree.inner[group]:
		bad.addf(path+".group_id", "is %q, which other groups are part of; jobs belong to one that none is part of", job.GroupID)
	}
}

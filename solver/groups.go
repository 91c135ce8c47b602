package solver

import (
	"fmt"
	"iter"
	"math"
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

// GroupReport is what a decision means for a group.
type GroupReport struct {
	// ID is that of the group.
	ID string
	// Nodes are what its jobs and those of all groups within it hold from now on.
	Nodes int
	// Short is how many nodes that is below AdmittedGroup.Floor.
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

// above yields the group of an id and those it is part of, as far as they are known. The
// tree need not be valid.
func (tree *groupTree) above(id string) iter.Seq[int] {
	return func(yield func(int) bool) {
		depth := 0
		for g := tree.find(id); g >= 0 && depth < MaxGroupDepth; g = tree.parents[g] {
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
func (tree *groupTree) depth(group int, known []int) int {
	if known[group] != 0 {
		return known[group]
	}
	depth := 1
	if parent := tree.parents[group]; parent >= 0 {
		known[group] = cyclic // So it is if the way up comes back here.
		if depth = tree.depth(parent, known); depth != cyclic {
			depth++
		}
	}
	known[group] = depth
	return depth
}

func (s *Snapshot) validateGroups(tree groupTree, bad *violations) {
	depths := make([]int, len(s.Groups))
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
		switch depth := tree.depth(i, depths); {
		case depth == cyclic:
			bad.addf(path+".parent_id", "is %q, whose parents lead round in a circle; want a tree", group.ParentID)
		case depth > MaxGroupDepth:
			bad.addf(path+".parent_id", "is %q, which puts the group at depth %d; want at most %d", group.ParentID, depth, MaxGroupDepth)
		}
	}
}

// validateJob reports a job that names no group that jobs can belong to.
func (tree *groupTree) validateJob(job *Job, bad *violations) {
	if len(tree.groups) == 0 {
		return
	}
	switch group := tree.find(job.GroupID); {
	case job.GroupID == "":
		bad.addf(".group_id", "is empty; every job needs a group where there are groups")
	case group < 0:
		bad.addf(".group_id", "is %q, which no group has for an id", job.GroupID)
	case tree.inner[group]:
		bad.addf(".group_id", "is %q, which other groups are part of; jobs belong to one that none is part of", job.GroupID)
	}
}

// NoLimit is the limit of a group that has none.
const NoLimit = math.MaxInt

// AdmittedGroup is a group of the model.
type AdmittedGroup struct {
	// Parent is the position in Problem.Groups of the group that this one is part of, -1
	// where it is part of none.
	Parent int
	// Limit is the most nodes that the jobs of the group and of all groups within it hold
	// together in a step, NoLimit where it has none.
	Limit int
	// Floor is the number of nodes below which each one short costs Problem.QuotaPrice: the
	// quota, or the sum of the largest sizes of the admitted jobs if that is less, without
	// those jobs whose smallest size exceeds the pool or a limit.
	Floor int
}

// groupsOf returns a problem without jobs that has the groups of a valid snapshot, whose
// floors are the quotas. All that a decision asks of groups it asks of this.
func groupsOf(s *Snapshot) *Problem {
	p := new(Problem)
	if len(s.Groups) == 0 {
		return p
	}
	tree := s.groupTree()
	p.Groups, p.GroupOf = make([]AdmittedGroup, len(s.Groups)), make([]int, len(s.Jobs))
	for g := range s.Groups {
		p.Groups[g] = AdmittedGroup{Parent: tree.parents[g], Limit: valueOr(s.Groups[g].Limit, NoLimit), Floor: s.Groups[g].Quota}
	}
	for i := range s.Jobs {
		p.GroupOf[i] = tree.find(s.Jobs[i].GroupID)
	}
	return p
}

// group returns the group of job i of the snapshot, -1 where there are no groups.
func (p *Problem) group(i int) int {
	if p.GroupOf == nil {
		return -1
	}
	return p.GroupOf[i]
}

// admitGroups gives the admitted jobs of p their groups, and the groups their floors.
func (p *Problem) admitGroups() {
	if len(p.Groups) == 0 {
		return
	}
	largest, room := make([]int, len(p.Groups)), p.Room()
	for n := range p.Jobs {
		job := &p.Jobs[n]
		job.Group = p.GroupOf[job.Index]
		if job.Sizes[0].IsZero() && int(job.Sizes[1].Nodes) > room.For(job.Group, 0) {
			continue
		}
		for g := job.Group; g >= 0; g = p.Groups[g].Parent {
			largest[g] += int(job.Sizes[len(job.Sizes)-1].Nodes)
		}
	}
	for g := range p.Groups {
		p.Groups[g].Floor = min(p.Groups[g].Floor, largest[g])
	}
}

// GroupNodes returns the nodes of every group of p under a plan in the first step.
func (p *Problem) GroupNodes(plan Plan) []int {
	nodes := make([]int, len(p.Groups))
	if len(nodes) == 0 {
		return nodes // What the jobs have for a group is not looked at.
	}
	for i := range plan {
		for g := p.Jobs[i].Group; g >= 0; g = p.Groups[g].Parent {
			nodes[g] += int(plan[i][0].Nodes)
		}
	}
	return nodes
}

// shortfall returns what the nodes that groups are short of their floors cost in all, in
// the first step.
func (p *Problem) shortfall(plan Plan) float64 {
	short := 0
	for g, nodes := range p.GroupNodes(plan) {
		short += max(0, p.Groups[g].Floor-nodes)
	}
	return p.QuotaPrice * float64(short)
}

// reportGroups returns the reports of the groups of p under a plan, prices aside.
func (p *Problem) reportGroups(s *Snapshot, plan Plan) []GroupReport {
	if len(p.Groups) == 0 {
		return nil
	}
	reports := make([]GroupReport, len(p.Groups))
	for g, nodes := range p.GroupNodes(plan) {
		reports[g] = GroupReport{ID: s.Groups[g].ID, Nodes: nodes, Short: max(0, p.Groups[g].Floor-nodes)}
	}
	return reports
}

// quotas returns the number of nodes that the groups of a snapshot have a claim to together:
// of a group and those within it the larger of its quota and theirs.
func (p *Problem) quotas(s *Snapshot) (total int) {
	claims := make([]int, len(p.Groups)) // known of one more level from the bottom in each turn
	for range MaxGroupDepth {
		within := make([]int, len(p.Groups))
		total = 0
		for g := range p.Groups {
			if parent := p.Groups[g].Parent; parent >= 0 {
				within[parent] += max(claims[g], s.Groups[g].Quota)
			} else {
				total += max(claims[g], s.Groups[g].Quota)
			}
		}
		claims = within
	}
	return total
}

package problem

import (
	"math"

	"github.com/elastalloc/elastalloc/solver/snapshot"
)

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

// GroupsOf returns a problem without jobs that has the groups of a valid snapshot, whose
// floors are the quotas. All that a decision asks of groups it asks of this.
func GroupsOf(s *snapshot.Snapshot) *Problem {
	p := new(Problem)
	if len(s.Groups) == 0 {
		return p
	}
	tree := s.GroupTree()
	p.Groups, p.GroupOf = make([]AdmittedGroup, len(s.Groups)), make([]int, len(s.Jobs))
	for g := range s.Groups {
		p.Groups[g] = AdmittedGroup{Parent: tree.Parents[g], Limit: valueOr(s.Groups[g].Limit, NoLimit), Floor: s.Groups[g].Quota}
	}
	for i := range s.Jobs {
		p.GroupOf[i] = tree.Find(s.Jobs[i].GroupID)
	}
	return p
}

// JobGroup returns the group of job i of the snapshot, -1 where there are no groups.
func (p *Problem) JobGroup(i int) int {
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
	largest, room := make([]int, len(p.Groups)), p.Headroom()
	for n := range p.Jobs {
		job := &p.Jobs[n]
		job.Group = p.GroupOf[job.Index]
		if job.Options[0].IsZero() && int(job.Options[1].Nodes) > room.MaxNodes(job.Group, 0) {
			continue
		}
		for g := job.Group; g >= 0; g = p.Groups[g].Parent {
			largest[g] += int(job.Options[len(job.Options)-1].Nodes)
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

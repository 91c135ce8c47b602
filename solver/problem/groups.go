package problem

import (
	"math"

	"github.com/elastalloc/elastalloc/solver"
)

// NoLimit is the limit of a group without a limit.
const NoLimit = math.MaxInt

// AdmittedGroup is a group of the model.
type AdmittedGroup struct {
	// Parent is the position of the parent group in Problem.Groups, -1 if there is none.
	Parent int
	// Limit is the maximum number of nodes that the jobs of the group and its descendants occupy
	// together in a step. NoLimit means that there is no limit.
	Limit int
	// Floor is a soft minimum in nodes: each node below it costs Problem.QuotaPrice. It is the
	// smaller of the quota and the sum of the largest sizes of the admitted jobs. Jobs whose
	// smallest size exceeds the pool or a limit do not count.
	Floor int
}

// GroupsOf returns a problem without jobs that has the groups of a valid snapshot. Their floors are
// the quotas.
func GroupsOf(s *solver.Snapshot) *Problem {
	p := new(Problem)
	if len(s.Groups) == 0 {
		return p
	}
	tree := s.GroupTree()
	p.Groups, p.GroupOf = make([]AdmittedGroup, len(s.Groups)), make([]int, len(s.Jobs))
	for g := range s.Groups {
		p.Groups[g] = AdmittedGroup{Parent: tree.Parents[g], Limit: solver.ValueOr(s.Groups[g].Limit, NoLimit), Floor: s.Groups[g].Quota}
	}
	for i := range s.Jobs {
		p.GroupOf[i] = tree.Find(s.Jobs[i].GroupID)
	}
	return p
}

// JobGroup returns the position of the group of job i of the snapshot, -1 if there are no groups.
func (p *Problem) JobGroup(i int) int {
	if p.GroupOf == nil {
		return -1
	}
	return p.GroupOf[i]
}

// Member returns the bounds of job i of the snapshot of p.
func (p *Problem) Member(s *solver.Snapshot, i int) Member {
	return Member{Group: p.JobGroup(i), PieceNodes: s.Jobs[i].PieceNodes}
}

// admitGroups sets the floors of the groups.
func (p *Problem) admitGroups() {
	if len(p.Groups) == 0 {
		return
	}
	largest, headroom := make([]int, len(p.Groups)), p.Headroom()
	for n := range p.Jobs {
		job := &p.Jobs[n]
		if job.Options[0].IsZero() && !headroom.Fits(job.Member, job.Options[1]) {
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

// GroupNodes returns the number of nodes that each group of p occupies in the first step of a plan.
func (p *Problem) GroupNodes(plan Plan) []int {
	nodes := make([]int, len(p.Groups))
	if len(nodes) == 0 {
		return nodes // Without groups, AdmittedJob.Group is not set.
	}
	for i := range plan {
		for g := p.Jobs[i].Group; g >= 0; g = p.Groups[g].Parent {
			nodes[g] += int(plan[i][0].Nodes)
		}
	}
	return nodes
}

// shortfall returns the total cost of the nodes that groups are below their floors in the first step.
func (p *Problem) shortfall(plan Plan) float64 {
	short := 0
	for g, nodes := range p.GroupNodes(plan) {
		short += max(0, p.Groups[g].Floor-nodes)
	}
	return p.QuotaPrice * float64(short)
}

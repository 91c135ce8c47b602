package problem

import (
	"math"
	"slices"

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
	// TypeLimits are the limits of nodes of each node type, NoLimit for none. Nil means that there is none.
	TypeLimits []int
	// Floor is a soft minimum in nodes: each node below it costs Problem.QuotaPrice. It is the
	// smallest of the quota, the sum of the largest sizes of the admitted jobs that fit the pool and the size
	// limits, and the number of nodes of the types that these jobs can use. Jobs that fit on no type or exceed a
	// limit do not count.
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
		group := &s.Groups[g]
		p.Groups[g] = AdmittedGroup{Parent: tree.Parents[g], Limit: solver.ValueOr(group.Limit, NoLimit), Floor: group.Quota}
		for _, limit := range group.TypeLimits {
			p.Groups[g].limitType(s, limit)
		}
	}
	for i := range s.Jobs {
		p.GroupOf[i] = tree.Find(s.Jobs[i].GroupID)
	}
	return p
}

// limitType adds the limit of a node type. If there is one type, it limits the group.
func (g *AdmittedGroup) limitType(s *solver.Snapshot, limit solver.GroupTypeLimit) {
	if !s.Typed() {
		g.Limit = min(g.Limit, limit.Limit)
		return
	}
	if g.TypeLimits == nil {
		g.TypeLimits = slices.Repeat([]int{NoLimit}, len(s.NodeTypes))
	}
	g.TypeLimits[s.TypeIndex(limit.NodeType)] = limit.Limit
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
	rows, headroom := p.Rows, p.Headroom()
	if rows == nil {
		rows = solver.PoolRow(p.Capacity[0])
	}
	largest, usable := make([]int, len(p.Groups)), make([]map[int]int, len(p.Groups)) // usable: nodes by type
	for n := range p.Jobs {
		job := &p.Jobs[n]
		fits := func(o solver.Option) bool { return !o.IsZero() && headroom.Fits(job.Member, o) }
		if job.Options[0].IsZero() && !slices.ContainsFunc(job.Options, fits) {
			continue
		}
		// Without rows, the options include sizes that exceed the pool.
		options := slices.DeleteFunc(slices.Clone(job.Options), func(o solver.Option) bool {
			return o.IsZero() || !rows.Fit(o, job.PieceNodes)
		})
		for g := job.Group; g >= 0; g = p.Groups[g].Parent {
			if largest[g] += LargestNodes(options); usable[g] == nil {
				usable[g] = make(map[int]int)
			}
			for _, o := range options {
				usable[g][int(o.Type)] = rows.Of(int(o.Type))[0].Nodes
			}
		}
	}
	for g := range p.Groups {
		nodes := 0
		for _, n := range usable[g] {
			nodes += n
		}
		p.Groups[g].Floor = min(p.Groups[g].Floor, largest[g], nodes)
	}
}

// LargestNodes returns the largest number of nodes of any option.
func LargestNodes(options []solver.Option) int {
	most := 0
	for _, o := range options {
		most = max(most, int(o.Nodes))
	}
	return most
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
